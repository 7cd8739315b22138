"""`openclaw sandbox` and `openclaw agents capabilities` as a person types them."""

import json
import shutil

import pytest

from openclaw.testing import ScriptedModel, TemporaryHome, ask, calls, says
from tests.commandline import Typed, typed


@pytest.fixture
def cli(openclaw_home: TemporaryHome) -> Typed:
    return typed(openclaw_home)


def test_explain_says_which_setting_is_behind_each_fact(cli: Typed, openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"agents": {"defaults": {"sandbox": {"mode": "non-main", "workspaceAccess": "ro"}}}})
    main = json.loads(cli("sandbox", "explain", "--json").out)
    assert main["sandboxed"] == "no: it is the main session and the mode is non-main"
    other = json.loads(cli("sandbox", "explain", "--session", "hook:x", "--json").out)
    assert other["sandboxed"].startswith("yes")
    assert other["box"] == "openclaw-sbx-agent-main"
    assert any(line.startswith("/agent = ") and line.endswith("(ro)") for line in other["sees"])
    assert other["network"].startswith("none")
    assert "write, edit, apply_patch (sandbox.workspaceAccess)" in other["never"]


def test_an_engine_that_is_missing_is_said_before_anything_runs(cli: Typed, openclaw_home: TemporaryHome) -> None:
    if shutil.which("podman"):
        pytest.skip("podman is installed here")
    openclaw_home.configure({"agents": {"defaults": {"sandbox": {"mode": "all", "backend": "podman"}}}})
    assert "install" in json.loads(cli("sandbox", "explain", "--json").out)["works"]
    assert "FROM debian" in cli("sandbox", "build", "--print").out


@pytest.mark.anyio
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap (bwrap) is not installed")
async def test_a_box_that_was_used_is_listed_and_can_be_made_new(cli: Typed, openclaw_home: TemporaryHome) -> None:
    assert "No box was used yet" in cli("sandbox", "list").out
    openclaw_home.use_model()
    settings = json.loads(openclaw_home.config_path.read_text())
    settings["agents"]["defaults"]["sandbox"] = {"mode": "all"}
    openclaw_home.configure(settings)
    model = ScriptedModel(calls("exec", command="touch ~/a /tmp/b /workspace/c"), says("ok"))
    async with openclaw_home.assistant(model) as app:
        await ask(app, "go")
    (row,) = json.loads(cli("sandbox", "list", "--json").out)
    assert row["name"] == "openclaw-sbx-agent-main"
    assert "name a box" in cli("sandbox", "recreate").err
    assert "openclaw sandbox list" in cli("sandbox", "recreate", "nothing", "--yes").err
    assert cli("sandbox", "recreate", row["name"], "--yes").code == 0
    box = openclaw_home.state / "sandboxes" / row["name"]
    assert (box / "workspace" / "c").exists()
    assert not (box / "home" / "a").exists()
    assert not (box / "tmp" / "b").exists()


def test_capabilities_are_the_same_until_something_changes(cli: Typed, openclaw_home: TemporaryHome) -> None:
    settings = {
        "agents": {
            "list": [
                {"id": "main"},
                {"id": "closed", "tools": {"profile": "minimal", "exec": {"mode": "deny"}}, "sandbox": {"mode": "all"}},
                {"id": "reader", "tools": {"allow": ["read", "ls"]}},
            ]
        },
        "hooks": {"enabled": True, "token": "canary-token-canary-token"},
        "channels": {"telegram": {"botToken": "canary", "dmPolicy": "allowlist", "allowFrom": ["123", "456"]}},
    }
    openclaw_home.configure(settings)
    shown = cli("agents", "capabilities", "--json").out
    assert "canary" not in shown
    assert "123" not in json.dumps(json.loads(shown)[0]["reachable"])
    main, closed, reader = json.loads(shown)
    assert main["reachable"]["channels"]["telegram"]["allowFrom"] == 2
    assert main["reachable"]["hooks"] == "/hooks"
    assert reader["tools"]["main"]["available"] == ["ls", "read"]
    assert reader["tools"]["main"]["removed"]["exec"] == "agent reader (agents.list[reader].tools.allow)"
    assert closed["exec"]["security"] == "deny"
    assert closed["tools"]["main"]["removed"]["web_fetch"] == "profile minimal (agents.list[closed].tools.profile)"
    assert closed["sandbox"]["mainSession"] is True
    assert "nothing was saved" in cli("agents", "capabilities", "--check").err
    cli("agents", "capabilities", "--save")
    assert cli("agents", "capabilities", "--check").code == 0
    settings["agents"]["list"][2]["tools"]["allow"].append("exec")  # type: ignore[index]
    openclaw_home.configure(settings)
    changed = cli("agents", "capabilities", "--check")
    assert changed.code == 1
    assert "+tools.main.available: exec" in changed.out
    assert "main: as it was saved" in changed.out
