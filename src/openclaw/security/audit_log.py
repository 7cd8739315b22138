"""The audit on disk: one file of JSON lines per day below `audit/`, written before the change takes effect.

An entry is on disk when `append` returns. A kill can truncate at most the last line; the next writer ends that line and
continues from the last complete entry.
"""

import asyncio
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import msgspec

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import StateError
from openclaw.security.audit import (
    AuditChange,
    AuditCheck,
    AuditEntry,
    AuditHead,
    chain_entry,
    parse_entry,
    verify_chain,
)
from openclaw.storage import atomic
from openclaw.storage.locks import Holder, KernelLock, shared

KEEP_DAYS = 30
LOCK_SECONDS = 10.0


class AuditLog:
    """The audit of one state directory; several processes may write to it."""

    def __init__(self, state: Path, clock: Clock) -> None:
        self.directory = state / "audit"
        self._head_file = self.directory / "head.json"
        self._clock = clock
        self._mine = threading.Lock()
        self._end: tuple[Path, int, AuditHead] | None = None
        """The end of the chain after our last write: the file, its size, and the head."""

    async def record(
        self, changes: Sequence[AuditChange], *, run_id: str = "", session_key: str = ""
    ) -> tuple[AuditEntry, ...]:
        """`append` from the event loop."""
        return await asyncio.to_thread(self.append, changes, run_id=run_id, session_key=session_key) if changes else ()

    def append(
        self, changes: Sequence[AuditChange], *, run_id: str = "", session_key: str = ""
    ) -> tuple[AuditEntry, ...]:
        """Records changes; they are on disk when this returns."""
        if not changes:
            return ()
        with self._mine, self._writing():
            now = millis(self._clock)
            path, head = self._place(datetime.fromtimestamp(now / 1000, UTC).date())
            entries: list[AuditEntry] = []
            for change in changes:
                last = entries[-1] if entries else None
                entries.append(
                    chain_entry(
                        change,
                        seq=(last.seq if last else head.seq) + 1,
                        previous=last.hash if last else head.hash,
                        at=now,
                        run_id=run_id,
                        session_key=session_key,
                    )
                )
            size = self._write(path, b"".join(entry.line for entry in entries))
            head = AuditHead(entries[-1].seq, entries[-1].hash, head.first)
            atomic.replace_file(self._head_file, msgspec.json.encode(head))
            self._end = (path, size, head)
        return tuple(entries)

    def entries(self, run_id: str | None = None, limit: int | None = None, plugin: str = "") -> list[AuditEntry]:
        """The entries, the latest first; of one run (given by its id or a prefix of it), of one plugin, or all."""
        found: list[AuditEntry] = []
        for path in reversed(self._files()):
            for line in reversed(_lines(path)):
                entry = parse_entry(line)
                if entry is None or (plugin and entry.plugin != plugin):
                    continue
                if run_id is None or entry.run_id.startswith(run_id):
                    found.append(entry)
                    if limit is not None and len(found) >= limit:
                        return found
        return found

    def verify(self, witnessed: Sequence[tuple[int, str]] = ()) -> AuditCheck:
        """Verifies the chain; see `audit.check`."""
        with self._mine, self._writing():
            lines = [line for path in self._files() for line in _lines(path)]
            return verify_chain(lines, self._head(), witnessed)

    def _files(self) -> list[Path]:
        return sorted(path for path in self.directory.glob("*.jsonl") if _day(path) is not None)

    def _head(self) -> AuditHead | None:
        try:
            return msgspec.json.decode(self._head_file.read_bytes(), type=AuditHead)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise StateError(
                f"{self._head_file} cannot be read ({error}): if it was damaged, move it away; the chain itself tells"
                " what is missing from its middle, but not from its end"
            ) from error

    def _place(self, today: date) -> tuple[Path, AuditHead]:
        """The file to write to and the end of the chain; deletes files that are too old when a new day begins."""
        files = self._files()
        latest = files[-1] if files else None
        # File names never go back, even when the clock does: their order is the order of the chain.
        day = max(today, _day(latest) or today) if latest else today
        path = self.directory / f"{day.isoformat()}.jsonl"
        if self._end is not None and latest == path == self._end[0] and path.stat().st_size == self._end[1]:
            return path, self._end[2]
        head = self._chain_end(files)
        if path != latest:
            head = self._forget(files, day, head)
        return path, head

    def _chain_end(self, files: Sequence[Path]) -> AuditHead:
        """The last complete entry, which the head file may lag behind after a kill.

        Where the head is ahead of the files or contradicts them, someone changed them: continuing from the head keeps
        that visible.
        """
        kept = self._head() or AuditHead()
        lines = (line for path in reversed(files) for line in reversed(_lines(path)))
        last = next((entry for line in lines if (entry := parse_entry(line))), None)
        return kept if last is None or last.seq <= kept.seq else AuditHead(last.seq, last.hash, kept.first)

    def _forget(self, files: Sequence[Path], today: date, head: AuditHead) -> AuditHead:
        old = [path for path in files if (_day(path) or today) < today - timedelta(days=KEEP_DAYS)]
        if not old:
            return head
        left = [path for path in files if path not in old]
        following = next((entry for path in left for line in _lines(path) if (entry := parse_entry(line))), None)
        head = AuditHead(head.seq, head.hash, following.seq if following else head.seq + 1)
        # The head first: a kill in between leaves surplus entries, not missing ones.
        atomic.replace_file(self._head_file, msgspec.json.encode(head))
        for path in old:
            path.unlink(missing_ok=True)
        return head

    def _write(self, path: Path, data: bytes) -> int:
        try:
            atomic.private_directory(self.directory)
            new = not path.exists()
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                size = os.fstat(fd).st_size
                # End a line that a kill truncated.
                if size and os.pread(fd, 1, size - 1) != b"\n":
                    data = b"\n" + data
                whole = os.write(fd, data) == len(data)
                if not whole:
                    os.ftruncate(fd, size)
                    raise StateError(f"the disk is full: nothing was added to {path}. Free some space and try again.")
                os.fsync(fd)
            finally:
                os.close(fd)
            if new:
                atomic.sync_directory(self.directory)
        except OSError as error:
            raise StateError(f"cannot write {path}: {error.strerror}. Check its owner and permissions.") from error
        return size + len(data)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with KernelLock(self.directory / ".lock") as lock:
            if not lock.wait(Holder(pid=os.getpid(), created_at=millis(self._clock), owner="audit"), LOCK_SECONDS):
                raise StateError(f"{self.directory} is busy: another process has been writing to it for too long")
            with shared(self.directory):
                yield


def _lines(path: Path) -> list[bytes]:
    try:
        return [line for line in path.read_bytes().split(b"\n") if line]
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}") from error


def _day(path: Path) -> date | None:
    try:
        return date.fromisoformat(path.stem)
    except ValueError:
        return None
