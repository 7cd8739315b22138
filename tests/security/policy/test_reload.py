"""What policy keeps from one turn to the next does not outlive the configuration it was made from."""

from pathlib import Path
from typing import Any

import msgspec

from openclaw.agent.settings import AgentsSettings
from openclaw.channels.settings import ChannelSettings
from openclaw.core.keys import parse_session_key
from openclaw.core.settings import Fixed
from openclaw.security.sandboxes.service import SandboxService
from openclaw.security.settings import CommandsSettings
from openclaw.security.tool_policy import ToolPolicy, ToolRequest, apply_layers
from openclaw.sessions.lifecycle import SessionPreferences
from openclaw.tools.settings import ToolsSettings

MINUTE = 60_000
KEY = parse_session_key("main")
UNSAID = SessionPreferences()


def test_a_rule_that_was_added_takes_the_tool_away_in_the_next_turn() -> None:
    policy, asked = ToolPolicy(), ToolRequest(agent="a")
    channels: dict[str, ChannelSettings] = {}
    agents, tools = AgentsSettings(), ToolsSettings()

    def remain() -> tuple[str, ...]:
        return apply_layers(("read", "exec"), policy.layers(tools, agents, asked, channels))[0]

    assert remain() == remain() == ("read", "exec")
    tools = ToolsSettings(deny=("exec",))
    assert remain() == ("read",)
    tools = ToolsSettings()
    assert remain() == ("read", "exec")
    agents = msgspec.convert({"list": [{"id": "a", "tools": {"deny": ["read"]}}]}, AgentsSettings)
    assert remain() == ("exec",)


def test_each_request_has_its_own_layers() -> None:
    policy = ToolPolicy()
    tools = msgspec.convert({"byProvider": {"openai": {"deny": ["exec"]}}}, ToolsSettings)
    for _ in range(2):
        asked = [ToolRequest(agent="a", model=model) for model in ("openai/gpt-5", "anthropic/claude")]
        found = [apply_layers(("exec",), policy.layers(tools, AgentsSettings(), each, {}))[0] for each in asked]
        assert found == [(), ("exec",)]


class Elevations:
    """The elevation of the main session, under a configuration that changes."""

    def __init__(self, tmp_path: Path) -> None:
        self.agents, self.tools = Fixed(AgentsSettings()), Fixed(ToolsSettings())
        self.service = SandboxService(
            self.agents,
            self.tools,
            Fixed(CommandsSettings()),
            Fixed({}),
            home=tmp_path,
            state=tmp_path,
            workspace=lambda agent_id: tmp_path,
            skills=lambda agent_id, workspace: (),
        )

    def level(self, said: SessionPreferences = UNSAID, now: int = 0) -> str:
        return self.service.elevation(KEY, said, now).level


def settings(kind: Any, **given: Any) -> Any:
    return msgspec.convert(given, kind)


def test_elevation_follows_the_configuration(tmp_path: Path) -> None:
    here = Elevations(tmp_path)
    assert here.level() == here.level() == "off"
    here.agents.current = settings(
        AgentsSettings, defaults={"elevatedDefault": "full", "acknowledgeElevatedDefault": True}
    )
    here.tools.current = settings(ToolsSettings, elevated={"allowFrom": {"telegram": ["7"]}})
    assert here.level() == "full"
    here.tools.current = settings(ToolsSettings, elevated={"enabled": False})
    assert here.level() == "off"


def test_what_a_person_said_goes_before_what_is_kept_and_expires(tmp_path: Path) -> None:
    here = Elevations(tmp_path)
    assert here.level() == "off"
    said = SessionPreferences(elevated_level="on", elevated_at=MINUTE)
    assert here.level(said, 2 * MINUTE) == "on"
    here.tools.current = settings(ToolsSettings, elevated={"expiresMinutes": 5})
    assert here.level(said, 5 * MINUTE) == "on"
    assert here.level(said, 6 * MINUTE) == "off"
    assert here.level() == "off"
