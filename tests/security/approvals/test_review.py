"""Rules that another program wrote into the approvals hold only once the owner has looked."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from openclaw.cli.security import approvals_command
from openclaw.core.errors import StateError
from openclaw.protocol.connect_request import CallFailed
from openclaw.security.approvals import ApprovalFile
from openclaw.testing import ScriptedModel, TemporaryHome
from tests.runs.commands.house import chat_window
from tests.security.labels.world import Owner, world

pytestmark = pytest.mark.anyio


def forged(path: Path) -> None:
    path.write_text(json.dumps({"agents": {"main": {"allowlist": [{"id": "z", "pattern": "*"}]}}}))


def patterns(file: ApprovalFile) -> list[str]:
    return [entry["pattern"] for agent in file.read().agents.values() for entry in agent.allowlist]


def test_a_home_that_has_rules_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "exec-approvals.json"
    forged(path)
    assert patterns(ApprovalFile(path)) == ["*"]


def test_rules_that_came_from_behind_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "exec-approvals.json"
    file = ApprovalFile(path)
    assert patterns(file) == []
    forged(path)
    assert file.is_changed() and patterns(file) == []
    with pytest.raises(StateError, match="openclaw approvals review"):
        file.allow("main", [{"id": "x", "pattern": "git"}], 1)
    file.accept()
    assert not file.is_changed() and patterns(file) == ["*"]


def test_what_is_taken_away_from_behind_is_gone_at_once(tmp_path: Path) -> None:
    path = tmp_path / "exec-approvals.json"
    file = ApprovalFile(path)
    file.allow("main", [{"id": "x", "pattern": "git"}], 1)
    assert patterns(file) == ["git"] and not file.is_changed()
    path.unlink()
    assert file.is_changed() and patterns(file) == []
    file.reject()
    assert not file.is_changed() and patterns(file) == ["git"]


async def test_a_forged_rule_runs_nothing_until_the_owner_accepts_it(openclaw_home: TemporaryHome, monkeypatch) -> None:
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(openclaw_home.state))
    command = "ln -s a b"
    async with world(openclaw_home, policy="default") as it:
        await it.says("run `ln -s x y`", "first")
        forged(openclaw_home.state / "exec-approvals.json")
        await it.says(f"run `{command}`", "second")
        assert [each.command for each in it.owner.asked] == ["ln -s x y", command]
        assert "openclaw approvals review" in it.owner.asked[-1].why and not it.owner.asked[-1].standing
        shown = CliRunner().invoke(approvals_command, ["review", "--accept"])
        assert shown.exit_code == 0 and '"pattern": "*"' in shown.output and "accepted" in shown.output
        await it.says(f"run `{command}`", "third")
        assert len(it.owner.asked) == 2 and (it.workspace / "b").is_symlink()


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (".openclaw/exec-approvals.json", "the list of what may run without a question"),
        (".openclaw/openclaw.json", "the configuration of the assistant"),
        (".openclaw/credentials/telegram-allowFrom.json", "credentials, and who was let in"),
        (".openclaw/agents/main/sessions/x.jsonl", "transcripts of conversations"),
        (".openclaw/hooks/x/HOOK.md", "hooks, which run by themselves"),
        (".openclaw/extensions/x/openclaw.plugin.json", "plugins, which run by themselves"),
        (".openclaw/skills/x/SKILL.md", "skills, which the assistant follows"),
        (".openclaw/skills-trust.json", "skills, which the assistant follows"),
        (".openclaw/labels/files.jsonl", "the assistant's own state"),
        (".bashrc", "what your shell runs at its start"),
        (".ssh/authorized_keys", "keys and settings of ssh"),
        (".config/autostart/x.desktop", "what starts with the desktop"),
        (".config/systemd/user/x.service", "services that start by themselves"),
        (".local/bin/git", "a program on the PATH"),
        (".config/chromium/Default/Preferences", "a profile of a browser"),
        (".gitconfig", "settings that make a program run something"),
        (".openclaw/workspace/.git/hooks/pre-commit", "what git runs by itself"),
    ],
)
@pytest.mark.parametrize("policy", ["default", "full"])
async def test_protected_places_are_asked_about_and_named(
    openclaw_home: TemporaryHome, place: str, name: str, policy
) -> None:
    """By the file tool, by a patch and by a command, without any text from elsewhere; never for good."""
    path = openclaw_home.root / place
    async with world(openclaw_home, owner=Owner("deny"), policy=policy) as it:
        before = path.read_bytes() if path.exists() else None
        await it.says(f"write `x` to `{path}`", "tool")
        await it.says(f"run `echo x >> {path}`", "command")
        patch = json.dumps({"input": f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"})
        await it.says(f"call `apply_patch` with `{patch}`", "patch")
        assert len(it.owner.asked) >= 2
        for asked in it.owner.asked:
            assert name in asked.why and not asked.standing, asked
        assert (path.read_bytes() if path.exists() else None) == before


async def test_the_first_document_can_be_set_with_the_hash_of_none(openclaw_home: TemporaryHome) -> None:
    async with chat_window(openclaw_home, ScriptedModel()) as chat:
        before = await chat.client.call("exec.approvals.get", {})
        assert before["hash"] == "" and not before["exists"]
        document = {"version": 1, "defaults": {"ask": "always"}}
        put = {"file": document, "baseHash": ""}
        after = await chat.client.call("exec.approvals.set", put)
        assert after["file"]["defaults"] == {"ask": "always"} and after["hash"]
        with pytest.raises(CallFailed, match="changed by somebody else"):
            await chat.client.call("exec.approvals.set", put)
