"""The undo journal: file contents by digest, and for each run a list of what it changed.

Everything is written before the change it can undo, so a killed process leaves nothing that cannot be undone.
"""

import hashlib
import os
import secrets
import stat
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct

from openclaw.core.clock import Clock, millis
from openclaw.core.deferred import difflib
from openclaw.core.errors import InvalidRequest, NotFound, StateError
from openclaw.security.undo_plan import (
    ABSENT,
    CommandRan,
    FileAfter,
    FileBefore,
    Record,
    Run,
    RunChanges,
    UndoStep,
    assemble_changes,
    plan_steps,
)
from openclaw.storage import atomic

MB = 1 << 20
GRACE_NS = 3_600 * 1_000_000_000
PRUNE_SECONDS = 3_600.0
STORED_UNPRUNED = 1 / 16
"""Of the budget, what may be stored before the next pruning."""
CUT_SHORT_NS = 60 * 1_000_000_000
_LINE = msgspec.json.Decoder(Record)


class JournalBudget(Struct, frozen=True, kw_only=True):
    enabled: bool = True
    total: int = 256 * MB
    file: int = 32 * MB
    days: int = 14


STANDARD = JournalBudget()


class UndoJournal:
    """The records of all runs below one directory."""

    def __init__(self, root: Path, clock: Clock, budget: JournalBudget = STANDARD) -> None:
        self._objects = root / "objects"
        self._runs = root / "runs"
        self._clock = clock
        self._budget = budget
        self._numbers: dict[str, int] = {}
        self._prune_at = 0.0
        self._stored = 0
        """Bytes since the last pruning, which reads the lists of all runs."""
        self._numbering = threading.Lock()
        """Calls that run beside each other snapshot their files in threads."""

    # During a run.

    def keep(self, run_id: str, session_key: str, tool: str, paths: Sequence[str]) -> dict[str, FileBefore]:
        """Snapshots files; pass each result to `settled`."""
        if not self._budget.enabled or not run_id:
            return {}
        with self._numbering:
            self._open(run_id, session_key)
            first = self._numbers[run_id] + 1
            self._numbers[run_id] += len(paths)
        kept = {path: self._snapshot(number, tool, path) for number, path in enumerate(paths, first)}
        self._append(run_id, *kept.values())
        return kept

    def settled(self, run_id: str, before: FileBefore) -> bool:
        """Records a file's state after the call; whether it changed."""
        now = self.state(before.path)
        self._append(run_id, FileAfter(before.number, now))
        return now != before.digest or bool(before.lost)

    def ran(self, run_id: str, session_key: str, command: str) -> None:
        if self._budget.enabled and run_id:
            with self._numbering:
                self._open(run_id, session_key)
            self._append(run_id, CommandRan(command[:500]))

    def _open(self, run_id: str, session_key: str) -> None:
        if run_id in self._numbers:
            return
        file = self._file(run_id)
        if file.exists():  # started by an earlier process
            self._numbers[run_id] = max(
                (each.number for each in self._read(file) if isinstance(each, FileBefore)), default=0
            )
            return
        now = self._clock.now()
        if now >= self._prune_at or self._stored > self._budget.total * STORED_UNPRUNED:
            self.prune()
            self._prune_at, self._stored = now + PRUNE_SECONDS, 0
        self._numbers[run_id] = 0
        self._append(run_id, Run(run_id, session_key, millis(self._clock)))

    def _snapshot(self, number: int, tool: str, path: str) -> FileBefore:
        try:
            info = Path(path).stat()
        except (OSError, ValueError):
            return FileBefore(number, tool, path)
        mode = stat.S_IMODE(info.st_mode)
        if not stat.S_ISREG(info.st_mode):
            return FileBefore(number, tool, path, "?", mode, "it is not a regular file")
        if info.st_size > self._budget.file:
            return FileBefore(number, tool, path, "?", mode, f"it is larger than {self._budget.file // MB} MB")
        try:
            return FileBefore(number, tool, path, self._put(Path(path).read_bytes()), mode)
        except OSError as error:
            return FileBefore(number, tool, path, "?", mode, f"it could not be kept: {error.strerror}")

    def _put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        place = self._object(digest)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = place.with_name(f"{digest}.{secrets.token_hex(4)}")
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            fresh.replace(place)
            self._stored += len(data)
        return digest

    # After a run.

    def stories(self) -> list[RunChanges]:
        """The runs that changed files, the latest first."""
        told = [assemble_changes(self._read(file)) for file in self._files()]
        return [each for each in reversed(told) if each.changes]

    def find(self, wanted: str) -> RunChanges:
        """The run with an id, an id prefix, or `last`."""
        told = self.stories()
        if wanted == "last" and told:
            return told[0]
        found = [each for each in told if each.run.run_id == wanted] or [
            each for each in told if wanted and each.run.run_id.startswith(wanted)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidRequest(f"{wanted!r} fits {len(found)} runs: give more of the id")
        raise NotFound(
            f"no run {wanted!r} changed files that can be undone: `openclaw undo --list` shows those that did"
        )

    def content(self, digest: str) -> bytes:
        try:
            return self._object(digest).read_bytes()
        except OSError as error:
            raise NotFound(
                "the file as it was is not kept any more (security.undo.maxMb): nothing was changed"
            ) from error

    def text_before(self, before: FileBefore | None) -> str:
        """The text of a file as it was; empty when it was absent or is not kept."""
        if before is None or before.digest in (ABSENT, "?"):
            return ""
        try:
            return self.content(before.digest).decode("utf-8", "replace")
        except NotFound:
            return ""

    def state(self, path: str) -> str:
        """The current digest of a file."""
        try:
            with Path(path).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return ABSENT
        except OSError:
            return "?"

    def left_by(self, run_id: str, path: str) -> bool:
        """Whether a file of an interrupted run looks as if that run changed it last."""
        try:
            written, noted = Path(path).stat().st_mtime_ns, self._file(run_id).stat().st_mtime_ns
        except FileNotFoundError:
            return True  # it was deleted, or never created
        return written <= noted + CUT_SHORT_NS

    def prune(self) -> None:
        """Deletes the oldest runs beyond the budget, and contents nothing refers to."""
        files = self._files()
        oldest = millis(self._clock) - self._budget.days * 86_400_000
        sizes: dict[str, int] = {}
        kept: list[Path] = []
        for file in reversed(files):
            told = assemble_changes(self._read(file))
            digests = [before.digest for before, _ in told.changes.values() if before.digest not in (ABSENT, "?")]
            new = {digest: self._size(digest) for digest in digests if digest not in sizes}
            if told.run.at < oldest or sum(sizes.values()) + sum(new.values()) > self._budget.total:
                file.unlink(missing_ok=True)
                continue
            sizes |= new
            kept.append(file)
        newest = max((file.stat().st_mtime_ns for file in kept), default=0)
        for place in self._objects.glob("*/*"):
            # Another process may have stored it for a record that it has not written yet.
            if place.name not in sizes and place.stat().st_mtime_ns < newest - GRACE_NS:
                place.unlink(missing_ok=True)

    def _size(self, digest: str) -> int:
        try:
            return self._object(digest).stat().st_size
        except OSError:
            return 0

    def _object(self, digest: str) -> Path:
        return self._objects / digest[:2] / digest

    def _file(self, run_id: str) -> Path:
        name = quote(run_id, safe="")
        if len(name) > 180:
            name = f"{name[:100]}-{hashlib.sha256(run_id.encode()).hexdigest()[:16]}"
        return self._runs / f"{name}.jsonl"

    def _files(self) -> list[Path]:
        """The lists of all runs, the oldest first."""
        return sorted(self._runs.glob("*.jsonl"), key=lambda file: (file.stat().st_mtime_ns, file.name))

    def _read(self, file: Path) -> list[Record]:
        found: list[Record] = []
        for line in filter(None, file.read_bytes().split(b"\n")):
            with suppress(msgspec.DecodeError):  # truncated by a kill
                found.append(_LINE.decode(line))
        return found

    def _append(self, run_id: str, *records: Record) -> None:
        """Lines start with their newline, so that a line truncated by a kill does not corrupt the next one."""
        if not records:
            return
        self._runs.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self._file(run_id), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, b"".join(b"\n" + msgspec.json.encode(each) for each in records))
        finally:
            os.close(fd)


# Undoing a run.

DIFF_LINES = 60


def plan_undo(journal: UndoJournal, told: RunChanges) -> list[UndoStep]:
    """What undoing a run would do now."""
    return plan_steps(told, journal.state, partial(journal.left_by, told.run.run_id))


def apply_undo(journal: UndoJournal, told: RunChanges, chosen: Sequence[UndoStep], run_id: str) -> list[str]:
    """Restores files; returns the paths."""
    done: list[str] = []
    for step in chosen:
        kept = journal.keep(run_id, told.run.session_key, "undo", (step.path,))
        try:
            if step.digest == ABSENT:
                Path(step.path).unlink(missing_ok=True)
            else:
                Path(step.path).parent.mkdir(parents=True, exist_ok=True)
                atomic.replace_file(Path(step.path), journal.content(step.digest))
                Path(step.path).chmod(step.mode)
        except OSError as error:
            raise StateError(
                f"cannot put {step.path} back: {error.strerror}. Undone so far: {len(done)} files."
            ) from error
        if step.path in kept:
            journal.settled(run_id, kept[step.path])
        done.append(step.path)
    return done


def diff_step(journal: UndoJournal, step: UndoStep) -> str:
    """The diff from the current file to the restored one."""
    try:
        now = Path(step.path).read_bytes()
    except OSError:
        now = b""
    then = journal.content(step.digest) if step.digest != ABSENT else b""
    if b"\0" in now or b"\0" in then:
        return f"{step.path}: {len(now)} bytes now, {len(then)} bytes before (not text)"
    old, new = (text.decode(errors="replace").splitlines() for text in (now, then))
    shown = list(difflib.unified_diff(old, new, f"{step.path} (now)", f"{step.path} (as it was)", lineterm=""))
    more = [f"… {len(shown) - DIFF_LINES} more lines"] if len(shown) > DIFF_LINES else []
    return "\n".join([*shown[:DIFF_LINES], *more])
