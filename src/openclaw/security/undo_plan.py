"""Plans the undo of a run, for each file it changed. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

ABSENT = ""
"""The digest of a file that does not exist."""


class FileBefore(Struct, frozen=True, tag_field="kind", tag="before", omit_defaults=True):
    """A file before a call: the digest of its content, or `GONE`."""

    number: int
    tool: str
    path: str
    digest: str = ABSENT
    mode: int = 0o644
    lost: str = ""
    """Why its content was not stored."""


class FileAfter(Struct, frozen=True, tag_field="kind", tag="after", omit_defaults=True):
    number: int
    digest: str = ABSENT


class CommandRan(Struct, frozen=True, tag_field="kind", tag="ran"):
    """A command: its changes are unknown, so it is listed and not undone."""

    command: str


class Run(Struct, frozen=True, tag_field="kind", tag="run", omit_defaults=True):
    run_id: str
    session_key: str = ""
    at: int = 0


Record = FileBefore | FileAfter | CommandRan | Run


class UndoStep(Struct, frozen=True, kw_only=True):
    """The action for one file."""

    path: str
    does: Literal["restore", "remove", "nothing", "conflict", "lost"]
    digest: str = ABSENT
    mode: int = 0o644
    why: str = ""


class RunChanges(Struct, frozen=True, kw_only=True):
    """The file changes of a run."""

    run: Run
    changes: Mapping[str, tuple[FileBefore, str | None]] = {}
    """For each path: its first state, and its last digest; None when the run was interrupted in between."""
    commands: Sequence[str] = ()


def assemble_changes(records: Sequence[Record]) -> RunChanges:
    """Assembles the records of a run; calls that changed nothing are left out."""
    run = next((each for each in records if isinstance(each, Run)), Run("?"))
    after = {each.number: each.digest for each in records if isinstance(each, FileAfter)}
    changes: dict[str, tuple[FileBefore, str | None]] = {}
    for each in records:
        if not isinstance(each, FileBefore) or after.get(each.number) == each.digest:
            continue
        first = changes[each.path][0] if each.path in changes else each
        changes[each.path] = (first, after.get(each.number))
    commands = [each.command for each in records if isinstance(each, CommandRan)]
    return RunChanges(run=run, changes=changes, commands=commands)


def plan_steps(told: RunChanges, state: Callable[[str], str], cut_short: Callable[[str], bool]) -> list[UndoStep]:
    """The undo steps. `state` gives a file's current digest; `cut_short`, whether it looks as the run left it."""
    steps = []
    for path, (first, last) in told.changes.items():
        now = state(path)
        if now == first.digest and not first.lost:
            steps.append(UndoStep(path=path, does="nothing", why="it is as it was"))
        elif first.lost:
            steps.append(UndoStep(path=path, does="lost", why=first.lost))
        elif now == last or (last is None and cut_short(path)):
            does: Literal["restore", "remove"] = "remove" if first.digest == ABSENT else "restore"
            steps.append(UndoStep(path=path, does=does, digest=first.digest, mode=first.mode))
        else:
            why = "it was changed since by somebody else"
            steps.append(UndoStep(path=path, does="conflict", digest=first.digest, mode=first.mode, why=why))
    return steps
