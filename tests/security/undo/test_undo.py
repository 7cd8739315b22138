"""Files go back as they were: after a run, after a kill, not over somebody else's work."""

import json
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.security.undo import JournalBudget, UndoJournal, apply_undo, diff_step, plan_undo
from openclaw.security.undo_plan import CommandRan, FileAfter, FileBefore, Run, assemble_changes, plan_steps
from openclaw.testing import FakeClock, ScriptedModel, TemporaryHome, ask, calls, says
from tests.commandline import openclaw

pytestmark = pytest.mark.anyio


class Desk:
    """A journal, and files that somebody changes under its eyes."""

    def __init__(self, root: Path, **budget: Any) -> None:
        self.root = root
        self.clock = FakeClock()
        self.journal = UndoJournal(root / "undo", self.clock, JournalBudget(**budget))

    def change(self, run: str, name: str, text: str | None) -> None:
        path = self.root / name
        kept = self.journal.keep(run, "agent:main:main", "write", (str(path),))
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.journal.settled(run, kept[str(path)])

    def undo(self, run: str, *, force: bool = False) -> dict[str, str]:
        told = self.journal.find(run)
        found = plan_undo(self.journal, told)
        wanted = ("restore", "remove", *(("conflict",) if force else ()))
        apply_undo(self.journal, told, [step for step in found if step.does in wanted], f"undo-{run}")
        return {Path(step.path).name: step.does for step in found}


def test_a_changed_a_new_and_a_deleted_file_are_as_they_were(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "a").write_text("one")
    (tmp_path / "a").chmod(0o640)
    (tmp_path / "gone").write_text("dear")
    desk.change("r1", "a", "two")
    desk.change("r1", "a", "three")
    desk.change("r1", "deep/new", "x")
    desk.change("r1", "gone", None)
    assert desk.undo("r1") == {"a": "restore", "new": "remove", "gone": "restore"}
    assert (tmp_path / "a").read_text() == "one" and stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert not (tmp_path / "deep" / "new").exists() and (tmp_path / "gone").read_text() == "dear"
    assert set(desk.undo("r1").values()) == {"nothing"}


def test_an_undo_can_be_undone(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "a").write_text("one")
    desk.change("r1", "a", "two")
    desk.undo("r1")
    desk.undo("undo-r1")
    assert (tmp_path / "a").read_text() == "two"


def test_what_somebody_changed_since_is_left_alone_and_shown(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "a").write_text("one\n")
    desk.change("r1", "a", "two\n")
    (tmp_path / "a").write_text("two\nand mine\n")
    assert desk.undo("r1") == {"a": "conflict"}
    assert (tmp_path / "a").read_text() == "two\nand mine\n"
    (step,) = plan_undo(desk.journal, desk.journal.find("r1"))
    assert "-and mine" in diff_step(desk.journal, step) and "+one" in diff_step(desk.journal, step)
    desk.undo("r1", force=True)
    assert (tmp_path / "a").read_text() == "one\n"


def test_a_later_run_is_undone_first(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.change("r1", "a", "one")
    desk.change("r2", "a", "two")
    assert desk.undo("r1") == {"a": "conflict"}
    desk.undo("r2")
    assert desk.undo("r1") == {"a": "remove"} and not (tmp_path / "a").exists()


def test_runs_are_found_by_the_start_of_their_id(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.change("abc-1", "a", "x")
    desk.change("abd-2", "b", "x")
    assert desk.journal.find("abc").run.run_id == "abc-1" and desk.journal.find("last").run.run_id == "abd-2"
    with pytest.raises(InvalidRequest, match="fits 2 runs"):
        desk.journal.find("ab")
    with pytest.raises(NotFound, match="undo --list"):
        desk.journal.find("zzz")


def test_the_oldest_runs_go_when_there_is_too_much(tmp_path: Path) -> None:
    desk = Desk(tmp_path, total=3_000, file=10_000)
    for number in range(6):
        (tmp_path / "a").write_text(str(number) * 1_000)
        desk.change(f"r{number}", "a", "x")
        os.utime(tmp_path / "undo" / "runs" / f"r{number}.jsonl", (number + 1, number + 1))
    desk.journal.prune()
    assert [told.run.run_id for told in desk.journal.stories()] == ["r5", "r4", "r3"]


async def test_the_lists_of_other_runs_are_read_once_an_hour(tmp_path: Path) -> None:
    desk = Desk(tmp_path, days=1)
    desk.change("old", "a", "1")
    await desk.clock.advance(86_390)
    desk.change("r1", "b", "1")
    await desk.clock.advance(60)
    desk.change("r2", "c", "1")
    assert desk.journal.find("old")  # a minute beyond its day
    await desk.clock.advance(3_600)
    desk.change("r3", "d", "1")
    assert [each.run.run_id for each in desk.journal.stories()] == ["r3", "r2", "r1"]


def test_a_file_that_is_too_large_is_named_and_not_undone(tmp_path: Path) -> None:
    desk = Desk(tmp_path, file=10)
    (tmp_path / "a").write_text("x" * 11)
    desk.change("r1", "a", "y")
    assert desk.undo("r1") == {"a": "lost"} and (tmp_path / "a").read_text() == "y"


def test_half_a_line_does_not_hide_the_others(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.change("r1", "a", "x")
    with (tmp_path / "undo" / "runs" / "r1.jsonl").open("ab") as file:
        file.write(b'\n{"kind":"before","num')
    desk.change("r1", "b", "x")
    assert desk.undo("r1") == {"a": "remove", "b": "remove"}


def test_commands_are_told_and_not_undone() -> None:
    told = assemble_changes([Run("r"), CommandRan("rm -rf x"), FileBefore(1, "write", "/a", "d1"), FileAfter(1, "d1")])
    assert told.commands == ["rm -rf x"] and told.changes == {}
    cut = assemble_changes([Run("r"), FileBefore(1, "write", "/a", "d1")])
    assert [step.does for step in plan_steps(cut, lambda path: "d2", lambda path: True)] == ["restore"]
    assert [step.does for step in plan_steps(cut, lambda path: "d2", lambda path: False)] == ["conflict"]


KILLED = """
import os, signal, sys
from pathlib import Path
from openclaw.testing import FakeClock
from openclaw.security.undo import UndoJournal as Journal
root = Path(sys.argv[1])
journal = Journal(root / "undo", FakeClock())
journal.keep("r1", "agent:main:main", "write", (str(root / "a"), str(root / "b")))
(root / "a").write_text("half done")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_was_killed_in_the_middle_can_be_undone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("whole")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL and (tmp_path / "a").read_text() == "half done"
    desk = Desk(tmp_path)
    assert desk.undo("r1") == {"a": "restore", "b": "nothing"} or desk.undo("r1")["a"] in ("restore", "nothing")
    assert (tmp_path / "a").read_text() == "whole" and not (tmp_path / "b").exists()


def undo(home: TemporaryHome, *words: str) -> subprocess.CompletedProcess[str]:
    return openclaw("undo", *words, env=home.environ, cwd=home.root)


async def test_the_command_undoes_what_tools_did(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(tools={"exec": {"security": "full", "ask": "off"}})
    (openclaw_home.workspace / "a.txt").write_text("one\n")
    model = ScriptedModel(
        [
            calls("edit", path="a.txt", oldText="one", newText="two"),
            calls("write", path="b.txt", content="new"),
            calls("exec", command="echo hi"),
        ],
        says("done"),
        calls("write", path="a.txt", content="three"),
        says("done"),
    )
    async with openclaw_home.assistant(model) as app:
        await ask(app, "change things")
        await ask(app, "change more")
    listed = json.loads(undo(openclaw_home, "--list", "--json").stdout)
    assert [len(each["files"]) for each in listed] == [1, 2]
    refused = undo(openclaw_home, listed[1]["runId"])
    assert refused.returncode != 0 and "CHANGED SINCE" in refused.stdout and "--force" in refused.stderr
    assert "not undone: the command echo hi" in refused.stdout
    assert not (openclaw_home.workspace / "b.txt").exists()
    assert undo(openclaw_home, "last", "--dry-run").returncode == 0
    assert (openclaw_home.workspace / "a.txt").read_text() == "three"
    found = undo(openclaw_home, listed[0]["runId"][:8], "--yes")
    assert found.returncode == 0, found.stderr
    assert (openclaw_home.workspace / "a.txt").read_text() == "two\n"
    assert undo(openclaw_home, listed[1]["runId"], "--yes").returncode == 0
    assert (openclaw_home.workspace / "a.txt").read_text() == "one\n"
    assert undo(openclaw_home).returncode != 0 and undo(openclaw_home, "nothing").returncode != 0


def test_calls_that_run_beside_each_other_have_numbers_of_their_own(tmp_path: Path) -> None:
    journal = UndoJournal(tmp_path / "undo", FakeClock(), JournalBudget())
    paths = [str(tmp_path / f"{number}.txt") for number in range(200)]
    for path in paths:
        Path(path).write_text(path)
    with ThreadPoolExecutor(16) as threads:
        kept = list(threads.map(lambda path: journal.keep("run", "main", "write", (path,))[path], paths))
    assert sorted(each.number for each in kept) == list(range(1, 201))
