"""A sandbox as a person meets it: which sessions are in one, what they see, who gets out."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.errors import ConfigError
from openclaw.core.keys import parse_session_key
from openclaw.core.messages import ToolResult
from openclaw.process.tasks import SystemClock
from openclaw.testing import ScriptedApprover, ScriptedModel, TemporaryHome, ask, calls, says
from tests.runs.subagents.house import Cast, Owner, house

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap (bwrap) is not installed"),
]


def configure(
    home: TemporaryHome, sandbox: dict[str, Any], agents: list[dict[str, Any]] | None = None, **more: Any
) -> None:
    home.use_model(**more)
    import json

    settings = json.loads(home.config_path.read_text())
    settings["agents"]["defaults"]["sandbox"] = sandbox
    settings["agents"]["list"] = agents or []
    home.configure(settings)


async def said(home: TemporaryHome, *commands: str, key: str = "main", **more: Any) -> list[str]:
    """What commands answer in a session, and the system prompt last."""
    model = ScriptedModel([calls("exec", command=command) for command in commands], says("ok"))
    async with home.assistant(model, clock=SystemClock(), **more) as app:
        await ask(app, "go", session=key)
    texts = [message.text for message in model.requests[-1].messages if isinstance(message, ToolResult)]
    return [*texts, model.requests[-1].system.text]


@pytest.mark.parametrize(
    ("mode", "key", "boxed"),
    [("off", "main", False), ("non-main", "main", False), ("non-main", "other", True), ("all", "main", True)],
)
async def test_the_mode_says_which_sessions_are_in_a_box(
    openclaw_home: TemporaryHome, mode: str, key: str, boxed: bool
) -> None:
    configure(openclaw_home, {"mode": mode}, tools={"exec": {"security": "full", "ask": "off"}})
    host, prompt = await said(openclaw_home, "hostname", key=key)
    assert (host == "sandbox") is boxed
    assert ("## Sandbox" in prompt) is boxed
    assert ("Your working directory is: /workspace" in prompt) is boxed


async def test_a_command_in_a_box_needs_nobodys_word(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, {"mode": "all"})
    approver = ScriptedApprover("deny")
    text, _ = await said(openclaw_home, "echo $(hostname) > f; cat f", approver=approver)
    assert text == "sandbox"
    assert approver.asked == []


@pytest.mark.parametrize("access", ["none", "rw"])
async def test_files_of_the_box_are_no_strangers_words(openclaw_home: TemporaryHome, access: str) -> None:
    configure(openclaw_home, {"mode": "all", "workspaceAccess": access})
    approver = ScriptedApprover("deny")
    model = ScriptedModel(
        calls("exec", command="ls /; echo made > made.txt"),
        calls("read", path="/workspace/made.txt"),
        calls("exec", command="cat made.txt /tmp/none; ls /usr /etc"),
        calls("write", path="script.sh", content="echo ran"),
        calls("exec", command="sh script.sh"),
        says("ok"),
    )
    async with openclaw_home.assistant(model, approver=approver, clock=SystemClock()) as app:
        await ask(app, "go")
    texts = [message.text for message in model.requests[-1].messages if isinstance(message, ToolResult)]
    assert approver.asked == []
    assert texts[-1] == "ran"


@pytest.mark.parametrize(
    ("access", "seen", "written"),
    [("none", "ls: cannot access '/agent'", False), ("ro", "AGENTS.md", False), ("rw", "AGENTS.md", True)],
)
async def test_access_to_the_workspace_is_as_set(
    openclaw_home: TemporaryHome, access: str, seen: str, written: bool
) -> None:
    configure(openclaw_home, {"mode": "all", "workspaceAccess": access})
    listing, _ = await said(openclaw_home, f"ls {'/workspace' if access == 'rw' else '/agent'}; touch /workspace/new")
    assert seen in listing
    assert (openclaw_home.workspace / "new").exists() is written
    assert (openclaw_home.state / "sandboxes" / "openclaw-sbx-agent-main").is_dir()


async def test_read_only_access_takes_the_writing_tools_away(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, {"mode": "all", "workspaceAccess": "ro"})
    async with openclaw_home.assistant(ScriptedModel()) as app:
        names = {tool.spec.name for tool in app.toolset().of()}
    assert {"read", "exec", "ls"} <= names
    assert not names & {"write", "edit", "apply_patch", "web_fetch", "gateway", "cron"}


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        ("shared", {"openclaw-sbx-shared"}),
        ("agent", {"openclaw-sbx-agent-main", "openclaw-sbx-agent-work"}),
        ("session", {"openclaw-sbx-main-a-", "openclaw-sbx-main-b-", "openclaw-sbx-work-a-"}),
    ],
)
async def test_the_scope_says_who_shares_a_box(openclaw_home: TemporaryHome, scope: str, names: set[str]) -> None:
    configure(openclaw_home, {"mode": "all", "scope": scope}, [{"id": "main"}, {"id": "work"}])
    async with openclaw_home.assistant(ScriptedModel()) as app:
        found = set()
        for key in ("agent:main:a", "agent:main:b", "agent:work:a"):
            boxed = app.sandboxes.of(parse_session_key(key))
            assert boxed is not None
            found.add(boxed.box.name)
    assert len(found) == len(names)
    assert all(any(name.startswith(begin) for name in found) for begin in names)


async def test_skills_are_where_the_prompt_says_they_are(openclaw_home: TemporaryHome) -> None:
    place = openclaw_home.workspace / "skills" / "greet"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text("---\nname: greet\ndescription: Says hello.\n---\nSay hello.\n")
    configure(openclaw_home, {"mode": "all"}, skills={"trust": "off"})
    text, prompt = await said(openclaw_home, "cat ~/.openclaw/workspace/skills/greet/SKILL.md")
    assert "~/.openclaw/workspace/skills/greet/SKILL.md" in prompt
    assert "Say hello." in text


@pytest.mark.parametrize(
    ("bind", "why"),
    [
        ("/:/host", "belongs to the system"),
        ("/etc:/x:ro", "belongs to the system"),
        ("/var/run/docker.sock:/d", "socket of an engine"),
        ("~:/x", "whole home"),
        ("~/.ssh:/x", "credentials"),
        ("~/.openclaw/credentials:/x", "own state"),
        ("~/data:/workspace", "taken inside"),
        ("data:/x", "absolute"),
        ("~/link:/x", "leads to"),
        ("nonsense", "is not HOST:INSIDE"),
    ],
)
async def test_what_must_not_be_mounted_is_refused(openclaw_home: TemporaryHome, bind: str, why: str) -> None:
    (openclaw_home.root / ".ssh").mkdir()
    (openclaw_home.root / "link").symlink_to(openclaw_home.root / ".ssh")
    configure(openclaw_home, {"mode": "all", "docker": {"binds": [bind]}})
    async with openclaw_home.assistant(ScriptedModel()) as app:
        with pytest.raises(ConfigError, match=why):
            app.toolset().of()


@pytest.mark.parametrize(
    "settings", [{"backend": "ssh"}, {"docker": {"network": "host"}}, {"docker": {"workdir": "/etc"}}]
)
async def test_settings_that_would_not_hold_are_refused(openclaw_home: TemporaryHome, settings: dict[str, Any]) -> None:
    configure(openclaw_home, {"mode": "all", **settings})
    async with openclaw_home.assistant(ScriptedModel()) as app:
        with pytest.raises(ConfigError, match="sandbox"):
            app.toolset().of()


async def test_a_directory_of_the_owners_is_mounted(openclaw_home: TemporaryHome) -> None:
    (openclaw_home.root / "data").mkdir()
    (openclaw_home.root / "data" / "x").write_text("mine")
    configure(openclaw_home, {"mode": "all", "docker": {"binds": ["~/data:/data:ro"], "env": {"A": "b"}}})
    text, _ = await said(openclaw_home, "cat /data/x; echo $A; touch /data/y")
    assert "mineb" in text
    assert not (openclaw_home.root / "data" / "y").exists()


async def test_without_an_engine_a_boxed_session_runs_nothing(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, {"mode": "all", "backend": "podman"})
    if shutil.which("podman"):
        pytest.skip("podman is installed here")
    text, _ = await said(openclaw_home, "touch ran")
    assert "podman" in text
    assert "install" in text
    assert not list(Path(openclaw_home.root).rglob("ran"))


async def test_elevated_commands_leave_the_box_with_the_owners_word(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, {"mode": "all"}, tools={"exec": {"security": "full", "ask": "off"}})
    approver = ScriptedApprover("allow-once")
    model = ScriptedModel(
        calls("exec", command="hostname"),
        calls("exec", command="hostname", elevated=True),
        says("ok"),
        calls("exec", command="hostname", elevated=True),
        says("ok"),
    )
    async with openclaw_home.assistant(model, approver=approver) as app:
        await ask(app, "go")
        first = [message.text for message in model.requests[-1].messages if isinstance(message, ToolResult)]
        assert first[0] == "sandbox"
        assert "elevated is off" in first[1]
        await app.lifecycle.prefer(
            parse_session_key("main"), {"elevated_level": "on", "elevated_at": int(app.clock.now() * 1000)}
        )
        await ask(app, "again")
    last = [message.text for message in model.requests[-1].messages if isinstance(message, ToolResult)][-1]
    assert last != "sandbox"
    assert [request.command for request in approver.asked] == ["hostname"]


async def test_a_sub_agent_stays_in_its_starters_box(openclaw_home: TemporaryHome) -> None:
    agents = [
        {"id": "main", "subagents": {"allowAgents": ["*"]}, "sandbox": {"mode": "all"}},
        {"id": "free", "sandbox": {"mode": "off"}},
        {"id": "wide", "sandbox": {"mode": "all", "workspaceAccess": "rw"}},
    ]
    configure(openclaw_home, {}, agents)
    model = Cast(
        hatch=ScriptedModel(
            [
                calls("sessions_spawn", task="leave", agentId="free"),
                calls("sessions_spawn", task="widen", agentId="wide"),
                calls("sessions_spawn", task="burrow"),
            ],
            says("waiting"),
            says("done"),
        ),
        burrow=ScriptedModel(calls("exec", command="hostname"), says("in")),
    )
    async with house(openclaw_home, model, Owner()) as home:
        await home.say("r1", "hatch")
        await home.outcome("r1")
        refused, wider, accepted = [result.text for result in await home.results("sessions_spawn")]
        assert "starter is in a sandbox" in refused
        assert "workspaceAccess rw" in wider
        assert '"accepted"' in accepted
        (child,) = await home.until(lambda: [each for each in home.roster.all() if each.status == "ok"])
        assert [result.text for result in await home.results("exec", child.key)] == ["sandbox"]


@pytest.mark.parametrize(("visibility", "seen"), [("spawned", False), ("all", True)])
async def test_from_a_box_other_sessions_are_not_seen(
    openclaw_home: TemporaryHome, visibility: str, seen: bool
) -> None:
    sandbox = {"mode": "non-main", "sessionToolsVisibility": visibility}
    configure(openclaw_home, sandbox, tools={"sessions": {"visibility": "agent"}})
    model = Cast(
        first=ScriptedModel(says("secret plans")),
        peek=ScriptedModel(calls("sessions_history", sessionKey="main"), says("ok")),
    )
    async with house(openclaw_home, model, Owner()) as home:
        await home.say("r1", "first")
        await home.outcome("r1")
        await home.say("r2", "peek", key="agent:main:other")
        await home.outcome("r2")
        (answer,) = await home.results("sessions_history", "agent:main:other")
        assert ("secret plans" in answer.text) is seen


async def test_a_sandbox_can_be_demanded_for_a_sub_agent(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, {"mode": "off"})
    model = Cast(hatch=ScriptedModel(calls("sessions_spawn", task="x", sandbox="require"), says("ok")))
    async with house(openclaw_home, model, Owner()) as home:
        await home.say("r1", "hatch")
        await home.outcome("r1")
        assert "works in no sandbox" in (await home.results("sessions_spawn"))[0].text
