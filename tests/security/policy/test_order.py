"""Every layer of tool policy takes tools away and is named with its setting."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.channels.settings import ChannelSettings
from openclaw.core.errors import ConfigError
from openclaw.core.keys import parse_session_key
from openclaw.security import settings
from openclaw.security.sandboxes import policy
from openclaw.security.settings import AgentElevated, AgentToolSettings, ElevatedSettings
from openclaw.security.tool_policy import (
    ElevationRequest,
    RequestSender,
    Speaker,
    ToolLayer,
    ToolRequest,
    apply_layers,
    build_layers,
    find_empty_allowlist,
    find_unknown_entries,
    identify_speaker,
    resolve_elevation,
)
from openclaw.tools.settings import ToolsSettings

TOOLS = ("read", "write", "apply_patch", "exec", "process", "web_fetch", "cron", "gateway", "session_status", "message")


def removed(shared: dict[str, Any], own: dict[str, Any], **asked: Any) -> dict[str, str]:
    settings = msgspec.convert(shared, ToolsSettings)
    mine = msgspec.convert(own, AgentToolSettings)
    _, gone = apply_layers(TOOLS, build_layers(settings, mine, ToolRequest(agent="a", **asked)))
    return {each.tool: each.key for each in gone}


GPT = {"model": "openai/gpt-5"}
ANN = {"sender": RequestSender(channel="telegram", id="7", username="ann", name="Ann", e164="+491")}


@pytest.mark.parametrize(
    ("shared", "own", "asked", "tool", "key"),
    [
        ({"profile": "messaging"}, {}, {}, "exec", "tools.profile"),
        ({"profile": "full"}, {"profile": "minimal"}, {}, "exec", "agents.list[a].tools.profile"),
        ({"deny": ["exec"]}, {}, {}, "exec", "tools.deny"),
        ({"deny": ["bash"]}, {}, {}, "exec", "tools.deny"),
        ({"deny": ["group:runtime"]}, {}, {}, "process", "tools.deny"),
        ({"allow": ["read"]}, {}, {}, "write", "tools.allow"),
        ({"byProvider": {"openai": {"deny": ["exec"]}}}, {}, GPT, "exec", "tools.byProvider.openai.deny"),
        (
            {"byProvider": {"OpenAI/GPT-5": {"profile": "minimal"}}},
            {},
            GPT,
            "exec",
            "tools.byProvider.OpenAI/GPT-5.profile",
        ),
        ({}, {"deny": ["ex*"]}, {}, "exec", "agents.list[a].tools.deny"),
        ({}, {"allow": ["read"]}, {}, "exec", "agents.list[a].tools.allow"),
        (
            {},
            {"byProvider": {"openai": {"allow": ["read"]}}},
            GPT,
            "exec",
            "agents.list[a].tools.byProvider.openai.allow",
        ),
        ({"toolsBySender": {"id:7": {"deny": ["exec"]}}}, {}, ANN, "exec", "tools.toolsBySender[id:7].deny"),
        ({}, {"toolsBySender": {"*": {"allow": ["read"]}}}, ANN, "exec", "agents.list[a].tools.toolsBySender[*].allow"),
        ({}, {}, {"boxed": True}, "web_fetch", "tools.sandbox.tools.allow"),
        ({}, {}, {"boxed": True}, "gateway", "tools.sandbox.tools.deny"),
        (
            {},
            {"sandbox": {"tools": {"deny": ["exec"]}}},
            {"boxed": True},
            "exec",
            "agents.list[a].tools.sandbox.tools.deny",
        ),
        ({}, {}, {"boxed": True, "read_only": True}, "write", "sandbox.workspaceAccess"),
        ({"web": {"fetch": {"enabled": False}}}, {}, {}, "web_fetch", "tools.web.fetch.enabled"),
    ],
)
def test_each_layer_names_its_setting(
    shared: dict[str, Any], own: dict[str, Any], asked: dict[str, Any], tool: str, key: str
) -> None:
    assert removed(shared, own, **asked)[tool] == key


@pytest.mark.parametrize(
    ("shared", "own", "asked", "tool"),
    [
        ({"profile": "minimal", "alsoAllow": ["exec"]}, {}, {}, "exec"),
        ({"profile": "minimal"}, {"alsoAllow": ["exec"]}, {}, "exec"),
        ({"byProvider": {"anthropic": {"deny": ["exec"]}}}, {}, GPT, "exec"),
        ({"byProvider": {"openai": {"deny": ["exec"]}}}, {}, {}, "exec"),
        ({"toolsBySender": {"*": {"deny": ["exec"]}, "id:7": {"deny": ["cron"]}}}, {}, ANN, "exec"),
        ({"toolsBySender": {"channel:telegram:7": {}, "id:7": {"deny": ["exec"]}}}, {}, ANN, "exec"),
        ({"toolsBySender": {"*": {"deny": ["exec"]}}}, {}, {}, "exec"),
        ({"sandbox": {"tools": {"alsoAllow": ["web_fetch"]}}}, {}, {"boxed": True}, "web_fetch"),
        ({"sandbox": {"tools": {"alsoAllow": ["cron"]}}}, {}, {"boxed": True}, "cron"),
        ({"allow": ["write"]}, {}, {}, "apply_patch"),
    ],
)
def test_what_is_not_meant_stays(shared: dict[str, Any], own: dict[str, Any], asked: dict[str, Any], tool: str) -> None:
    assert tool not in removed(shared, own, **asked)


NAMES = st.lists(st.sampled_from([*TOOLS, "group:fs", "*", "ex*"]), max_size=3)


@given(NAMES, NAMES, NAMES, NAMES)
def test_a_child_never_has_more_than_its_starter(
    allow: list[str], deny: list[str], more: list[str], less: list[str]
) -> None:
    rules = build_layers(
        ToolsSettings(allow=tuple(allow), deny=tuple(deny)), AgentToolSettings(), ToolRequest(agent="a")
    )
    parent, _ = apply_layers(TOOLS, rules)
    inherited = ToolLayer(name="starter", allow=parent or ("none",))
    child, _ = apply_layers(
        TOOLS, [*rules, ToolLayer(name="own", allow=tuple(more) or None, deny=tuple(less)), inherited]
    )
    assert set(child) <= set(parent)


def test_a_list_that_leaves_nothing_is_named() -> None:
    rules = build_layers(
        msgspec.convert({"allow": ["no_such_tool"]}, ToolsSettings), AgentToolSettings(), ToolRequest(agent="a")
    )
    assert find_empty_allowlist(TOOLS, rules) == "tools.allow"
    assert find_unknown_entries(TOOLS, rules) == ("tools: no_such_tool",)
    fine = build_layers(
        msgspec.convert({"allow": ["read"], "deny": ["group:plugins"]}, ToolsSettings),
        AgentToolSettings(),
        ToolRequest(),
    )
    assert find_empty_allowlist(TOOLS, fine) == ""
    assert find_unknown_entries(TOOLS, fine) == ()


OWNER, STRANGER, ANN_DM = Speaker(owner=True), Speaker(), Speaker(channel="telegram", id="7")
ON = ElevatedSettings(allow_from={"telegram": (7,)})
NO = AgentElevated()


@pytest.mark.parametrize(
    ("who", "shared", "own", "default", "acknowledged", "said", "level"),
    [
        (OWNER, ElevatedSettings(), NO, None, False, None, "off"),
        (OWNER, ElevatedSettings(), NO, None, False, ElevationRequest("on", 0), "on"),
        (OWNER, ElevatedSettings(), NO, None, False, ElevationRequest("full", 0), "full"),
        (OWNER, ElevatedSettings(expires_minutes=0.01), NO, None, False, ElevationRequest("full", 0), "off"),
        (OWNER, ElevatedSettings(enabled=False), NO, "full", True, ElevationRequest("full", 0), "off"),
        (OWNER, ON, AgentElevated(enabled=False), None, False, ElevationRequest("on", 0), "off"),
        (STRANGER, ON, NO, "full", True, ElevationRequest("full", 0), "off"),
        (ANN_DM, ON, NO, None, False, ElevationRequest("on", 0), "on"),
        (ANN_DM, ElevatedSettings(), NO, None, False, ElevationRequest("on", 0), "off"),
        (ANN_DM, ON, AgentElevated(allow_from={"telegram": ("8",)}), None, False, ElevationRequest("on", 0), "off"),
        (OWNER, ON, NO, "full", True, None, "full"),
        (OWNER, ON, NO, True, True, None, "on"),
        (OWNER, ON, NO, "full", False, None, "ask"),
        (OWNER, ElevatedSettings(), NO, "full", True, None, "ask"),
        (OWNER, ElevatedSettings(allow_from={"telegram": ("*",)}), NO, "full", True, None, "ask"),
        (OWNER, ON, NO, "full", True, ElevationRequest("off", 0), "off"),
    ],
)
def test_who_may_leave_the_sandbox_and_how_far(
    who: Speaker, shared: Any, own: Any, default: Any, acknowledged: bool, said: Any, level: str
) -> None:
    assert resolve_elevation(who, shared, own, default, acknowledged, said, 1_000).level == level


@pytest.mark.parametrize(
    ("key", "owner"),
    [
        ("main", True),
        ("cron:x:run:1", False),
        ("hook:mail", False),
        ("subagent:1", False),
        ("telegram:direct:7", True),
        ("telegram:direct:8", False),
        ("telegram:group:7", False),
    ],
)
def test_only_the_owner_speaks_as_the_owner(key: str, owner: bool) -> None:
    assert identify_speaker(parse_session_key(key), ("telegram:7", "*")).owner is owner


def test_an_agents_sandbox_goes_before_the_defaults() -> None:
    defaults = msgspec.convert(
        {"mode": "all", "scope": "session", "docker": {"memory": "1g", "env": {"A": "1"}}}, settings.SandboxSettings
    )
    own = msgspec.convert(
        {"mode": "non-main", "docker": {"network": "bridge", "env": {"B": "2"}, "pidsLimit": 9}},
        settings.SandboxSettings,
    )
    rules = policy.resolve(defaults, own)
    assert (rules.mode, rules.scope, rules.network, dict(rules.env)) == (
        "non-main",
        "session",
        "bridge",
        {"A": "1", "B": "2"},
    )
    assert (rules.limits.memory, rules.limits.processes) == (1 << 30, 9)
    assert policy.resolve(settings.SandboxSettings(), None).mode == "off"
    with pytest.raises(ConfigError, match="memory"):
        policy.parse_size("much")


GROUPS = {
    "telegram": {
        "groups": {
            "-100": {
                "tools": {"deny": ["exec", "process"]},
                "toolsBySender": {"id:7": {"deny": ["cron"]}, "*": {"allow": ["group:fs", "session_status"]}},
            },
            "*": {"tools": {"allow": ["session_status"]}},
        }
    }
}


@pytest.mark.parametrize(
    ("channel", "group", "sender", "gone", "key"),
    [
        ("telegram", "-100", "7", {"exec", "process", "cron"}, "channels.telegram.groups[-100].tools.deny"),
        ("Telegram", "-100", "", set(TOOLS) - {"read", "write", "apply_patch", "session_status"}, None),
        ("telegram", "-200", "7", set(TOOLS) - {"session_status"}, "channels.telegram.groups[*].tools.allow"),
        ("signal", "-100", "7", set(), None),
        ("telegram", "", "7", set(), None),
    ],
)
def test_a_group_has_its_own_rules_and_others_by_who_speaks_in_it(channel, group, sender, gone, key):
    channels = msgspec.convert(GROUPS, dict[str, ChannelSettings])
    asked = ToolRequest(agent="a", sender=RequestSender(channel=channel, id=sender), group=group)
    _, taken = apply_layers(TOOLS, build_layers(ToolsSettings(), AgentToolSettings(), asked, channels))
    assert {each.tool for each in taken} == gone
    if key:
        assert {each.key for each in taken if each.tool == "exec"} == {key}


def test_a_group_cannot_give_back_what_the_owner_took():
    channels = msgspec.convert({"x": {"groups": {"g": {"tools": {"allow": ["exec"]}}}}}, dict[str, ChannelSettings])
    asked = ToolRequest(agent="a", sender=RequestSender(channel="x"), group="g")
    remain, _ = apply_layers(TOOLS, build_layers(ToolsSettings(deny=("exec",)), AgentToolSettings(), asked, channels))
    assert remain == ()
