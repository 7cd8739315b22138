"""Carrying out the steps back; the way back is itself on record, so that it can be undone."""

import difflib
from collections.abc import Sequence
from pathlib import Path

from openclaw.core.errors import StateError
from openclaw.store import atomic
from openclaw.undo.journal import Journal
from openclaw.undo.plan import GONE, Story, UndoStep, plan

DIFF_LINES = 60


def steps(journal: Journal, told: Story) -> list[UndoStep]:
    """What undoing a run would do now."""
    return plan(told, journal.state, lambda path: journal.left_by(told.run.run_id, path))


def carry_out(journal: Journal, told: Story, chosen: Sequence[UndoStep], run_id: str) -> list[str]:
    """Puts files back as they were; gives the paths."""
    done: list[str] = []
    for step in chosen:
        kept = journal.keep(run_id, told.run.session_key, "undo", (step.path,))
        try:
            if step.digest == GONE:
                Path(step.path).unlink(missing_ok=True)
            else:
                Path(step.path).parent.mkdir(parents=True, exist_ok=True)
                atomic.replace(Path(step.path), journal.content(step.digest))
                Path(step.path).chmod(step.mode)
        except OSError as error:
            raise StateError(
                f"cannot put {step.path} back: {error.strerror}. Undone so far: {len(done)} files."
            ) from error
        if step.path in kept:
            journal.settled(run_id, kept[step.path])
        done.append(step.path)
    return done


def difference(journal: Journal, step: UndoStep) -> str:
    """From the file as it is to the file as it would be."""
    try:
        now = Path(step.path).read_bytes()
    except OSError:
        now = b""
    then = journal.content(step.digest) if step.digest != GONE else b""
    if b"\0" in now or b"\0" in then:
        return f"{step.path}: {len(now)} bytes now, {len(then)} bytes before (not text)"
    lines = difflib.unified_diff(
        now.decode(errors="replace").splitlines(),
        then.decode(errors="replace").splitlines(),
        f"{step.path} (now)",
        f"{step.path} (as it was)",
        lineterm="",
    )
    shown = list(lines)
    more = [f"… {len(shown) - DIFF_LINES} more lines"] if len(shown) > DIFF_LINES else []
    return "\n".join([*shown[:DIFF_LINES], *more])
