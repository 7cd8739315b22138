"""The first run, and every run after it."""

import json
import os
import re
import shutil
import stat
from pathlib import Path

import pytest

from openclaw.automation.heartbeat import is_empty
from openclaw.config.schema import BUILT_IN_CHANNELS
from openclaw.core.errors import StateError
from openclaw.workspace.files import AgentIdentity, parse
from openclaw.workspace.seed import STATE, create, ensure, template

NOW = 1_760_000_000.5
STARTERS = ["AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md"]


def state(workspace: Path) -> dict[str, object]:
    kept: dict[str, object] = json.loads((workspace / STATE).read_text())
    return kept


def test_a_new_workspace_gets_its_files_and_a_ritual(tmp_path):
    seeded = ensure(tmp_path / "a" / "w", NOW, git=None)
    assert seeded.brand_new and list(seeded.created) == ["BOOTSTRAP.md", *STARTERS] and not seeded.setup_complete
    assert sorted(path.name for path in (tmp_path / "a" / "w").iterdir()) == sorted(
        [".openclaw", "BOOTSTRAP.md", *STARTERS]
    )
    assert state(tmp_path / "a" / "w") == {"version": 1, "bootstrapSeededAt": "2025-10-09T08:53:20.500Z"}


def test_a_second_start_changes_nothing(tmp_path):
    ensure(tmp_path, NOW, git=None)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    seeded = ensure(tmp_path, NOW + 9, git=None)
    assert seeded.created == () and not seeded.brand_new
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_what_a_person_wrote_is_never_overwritten(tmp_path):
    (tmp_path / "SOUL.md").write_text("mine")
    seeded = ensure(tmp_path, NOW, git=None)
    assert (tmp_path / "SOUL.md").read_text() == "mine"
    assert not seeded.brand_new and "BOOTSTRAP.md" not in seeded.created and "USER.md" in seeded.created


def test_once_deleted_the_ritual_does_not_come_back(tmp_path):
    ensure(tmp_path, NOW, git=None)
    (tmp_path / "BOOTSTRAP.md").unlink()
    assert ensure(tmp_path, NOW + 60, git=None).setup_complete
    assert state(tmp_path)["setupCompletedAt"] == "2025-10-09T08:54:20.500Z"
    for name in STARTERS:
        (tmp_path / name).unlink()
    seeded = ensure(tmp_path, NOW + 120, git=None)
    assert seeded.brand_new and "BOOTSTRAP.md" not in seeded.created
    assert state(tmp_path)["setupCompletedAt"] == "2025-10-09T08:54:20.500Z"


def test_a_first_run_cut_short_is_finished_by_the_next(tmp_path):
    create(tmp_path / "BOOTSTRAP.md", template("BOOTSTRAP.md"))
    create(tmp_path / "AGENTS.md", template("AGENTS.md"))
    seeded = ensure(tmp_path, NOW, git=None)
    assert (tmp_path / "BOOTSTRAP.md").exists() and list(seeded.created) == STARTERS[1:]
    assert "bootstrapSeededAt" in state(tmp_path)


@pytest.mark.parametrize("lived_in", ["memory/", "skills/x/SKILL.md", "MEMORY.md"])
def test_a_place_someone_lives_in_is_not_new(tmp_path, lived_in):
    path = tmp_path / lived_in
    if lived_in.endswith("/"):
        path.mkdir(parents=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert "BOOTSTRAP.md" not in ensure(tmp_path, NOW, git=None).created


def test_a_state_file_with_empty_times_is_read(tmp_path):
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / STATE).write_text('{"version": 1, "bootstrapSeededAt": null, "setupCompletedAt": null}')
    assert "BOOTSTRAP.md" in ensure(tmp_path, NOW, git=None).created


def test_a_broken_state_file_is_left_alone_and_named(tmp_path):
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / STATE).write_text("{broken")
    seeded = ensure(tmp_path, NOW, git=None)
    assert (tmp_path / STATE).read_text() == "{broken" and "BOOTSTRAP.md" not in seeded.created
    assert "delete it to record the setup again" in seeded.notes[0]


def test_a_state_directory_that_points_elsewhere_is_not_written(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".openclaw").symlink_to("../outside")
    assert "is a link" in ensure(tmp_path / "w", NOW, git=None).notes[0]
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_dangling_link_is_not_written_through(tmp_path):
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "SOUL.md").symlink_to("../soul-elsewhere")
    ensure(tmp_path / "w", NOW, git=None)
    assert not (tmp_path / "soul-elsewhere").exists()


def test_no_drafts_stay_behind(tmp_path):
    ensure(tmp_path, NOW, git=None)
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".tmp")]


def test_a_file_in_the_way_is_a_clear_error(tmp_path):
    (tmp_path / "w").write_text("x")
    with pytest.raises(StateError, match="is not a directory: move that file away"):
        ensure(tmp_path / "w", NOW, git=None)


def test_a_workspace_that_cannot_be_written_is_a_clear_error(tmp_path):
    workspace = tmp_path / "w"
    workspace.mkdir()
    workspace.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if os.access(workspace, os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(StateError, match="cannot prepare the workspace"):
        ensure(workspace, NOW, git=None)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_new_workspace_becomes_a_repository_once(tmp_path):
    assert ensure(tmp_path, NOW).git and (tmp_path / ".git").is_dir()
    assert not ensure(tmp_path, NOW).git


def test_without_git_there_is_no_repository_and_no_complaint(tmp_path):
    seeded = ensure(tmp_path, NOW, git="no-such-git-program")
    assert not seeded.git and seeded.notes == ()


def test_a_failing_git_is_noted_and_the_workspace_still_works(tmp_path):
    program = tmp_path / "badgit"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    seeded = ensure(tmp_path / "w", NOW, git=str(program))
    assert "git init failed with code 3" in seeded.notes[0] and (tmp_path / "w" / "AGENTS.md").exists()


def test_templates_say_what_they_must():
    agents = template("AGENTS.md")
    headings = [line for line in agents.splitlines() if line.startswith("## ")]
    assert headings == [
        f"## {name}"
        for name in (
            "First Run",
            "Session Startup",
            "Memory",
            "Red Lines",
            "External vs Internal",
            "Group Chats",
            "Tools",
            "Heartbeats",
            "Make It Yours",
        )
    ]
    assert "HEARTBEAT_OK" in agents and "`memory/heartbeat-state.json`" in template("HEARTBEAT.md")
    (times,) = re.findall(r"heartbeat-state.json`: (.*)$", template("HEARTBEAT.md"), re.MULTILINE)
    assert set(json.loads(times)) == {"lastChecks"}
    assert is_empty(template("HEARTBEAT.md"))  # ideas cost nothing until somebody takes one up
    assert [line[3:] for line in template("SOUL.md").splitlines() if line.startswith("## ")] == [
        "Core Truths",
        "Boundaries",
        "Vibe",
        "Continuity",
    ]
    assert all(line.startswith("#") for line in template("HEARTBEAT.md").splitlines())
    assert "delete this file" in template("BOOTSTRAP.md")
    named = re.findall(r"`openclaw channels add (\w+)`", template("BOOTSTRAP.md"))
    assert named and set(named) <= set(BUILT_IN_CHANNELS), "a channel that cannot be added is not offered"
    assert parse(template("IDENTITY.md")) == AgentIdentity()


def test_an_identity_is_read_from_its_lines():
    text = "# Me\n- Name: Lark\n- **Creature:** heron\n* vibe : calm\n- Emoji: 🦢\n- Avatar: (none yet)\n- name: Second"
    assert parse(text) == AgentIdentity(name="Lark", creature="heron", vibe="calm", emoji="🦢")
