"""Transcripts as files: one JSON object a line, only ever appended to.

A line is one `write`, so a killed process leaves at most one torn line at the end. Whoever opens the file to write
next sets the torn piece aside (`<file>.torn-<n>`) and says so; nobody rewrites what was complete.
"""

import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from openclaw.core.errors import NotFound, StateError
from openclaw.core.messages import Message
from openclaw.sessions.transcript import AnyEntry, Entry, Header, MessageEntry, Problem, decode_line

MAX_LINE_BYTES = 64 * 1024 * 1024
E = TypeVar("E", bound=Entry)


class Loaded(Struct, frozen=True, kw_only=True):
    """A transcript as read from disk."""

    header: Header
    entries: tuple[AnyEntry, ...]
    problems: tuple[Problem, ...] = ()
    good_bytes: int = 0
    """How far the file is whole; anything behind is a torn line."""


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def load(path: Path) -> Loaded:
    """Reads a transcript without changing it; what could not be read is in `problems`."""
    header: Header | None = None
    entries: list[AnyEntry] = []
    problems: list[Problem] = []
    good = 0
    try:
        for number, line, size, whole in _lines(path):
            if not whole:
                problems.append(Problem("torn", f"line {number}: {size} bytes without an end"))
                break
            good += size
            if not line.strip():
                continue
            value = decode_line(line)
            if value is None:
                problems.append(Problem("unreadable", f"line {number}: {line[:60].decode(errors='replace')!r}"))
            elif isinstance(value, Header):
                header = header or value
            else:
                entries.append(value)
    except FileNotFoundError as error:
        raise NotFound(f"no transcript at {path}") from error
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}") from error
    if header is None:
        header = Header(id=path.name.split(".")[0], timestamp="")
    return Loaded(header=header, entries=tuple(entries), problems=tuple(problems), good_bytes=good)


def _lines(path: Path) -> Iterator[tuple[int, bytes, int, bool]]:
    """Each line with its number, its size on disk, and whether it has an end; an absurdly long one comes as a stub."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES):
            number += 1
            size = len(line)
            piece = line
            while not piece.endswith(b"\n") and (piece := file.readline(MAX_LINE_BYTES)):
                size += len(piece)
            yield number, line if size == len(line) else b"too long", size, piece.endswith(b"\n")


class Transcript:
    """A transcript open for appending; the caller holds the session's write lock."""

    def __init__(self, path: Path, fd: int, header: Header, leaf: str | None, ids: set[str]) -> None:
        self.path = path
        self.header = header
        self.leaf = leaf
        self._fd: int | None = fd
        self._ids = ids

    @classmethod
    def create(cls, path: Path, header: Header) -> "Transcript":
        """A new file with only its header; fails when the file is already there."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        transcript = cls(path, _open(path, os.O_CREAT | os.O_EXCL), header, None, set())
        transcript._write(header)
        return transcript

    @classmethod
    def reopen(cls, path: Path) -> tuple["Transcript", Loaded]:
        """An existing file, ready to be appended to; a torn end is set aside first."""
        loaded = load(path)
        fd = _open(path, 0)
        if any(problem.kind == "torn" for problem in loaded.problems):
            _set_aside(path, fd, loaded.good_bytes)
        last = loaded.entries[-1].id if loaded.entries else None
        ids = {entry.id for entry in loaded.entries}
        return cls(path, fd, loaded.header, last or None, ids), loaded

    def append(self, entry: E, now: float) -> E:
        """Writes `entry` behind the current leaf and gives it back with its id, parent and time."""
        placed = structs.replace(entry, id=self._new_id(), parent_id=self.leaf, timestamp=iso(now))
        self._write(placed)
        self._ids.add(placed.id)
        self.leaf = placed.id
        return placed

    def say(self, message: Message, now: float) -> MessageEntry:
        return self.append(MessageEntry(message=message), now)

    def sync(self) -> None:
        """Makes what was written survive a power cut too."""
        if self._fd is not None:
            os.fsync(self._fd)

    def close(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def _new_id(self) -> str:
        while (fresh := secrets.token_hex(4)) in self._ids:
            pass
        return fresh

    def _write(self, value: Header | Entry) -> None:
        if self._fd is None:
            raise RuntimeError(f"{self.path} is closed")
        line = msgspec.json.encode(value) + b"\n"
        start = os.lseek(self._fd, 0, os.SEEK_END)
        try:
            written = 0
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError as error:
            os.ftruncate(self._fd, start)
            raise StateError(
                f"cannot write {self.path}: {error.strerror}. Nothing was changed; free some space and try again."
            ) from error


def _open(path: Path, flags: int) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | flags, 0o600)
    except OSError as error:
        raise StateError(f"cannot open {path}: {error.strerror}. Check its owner and permissions.") from error


def _set_aside(path: Path, fd: int, good_bytes: int) -> None:
    """Moves the torn end of the file beside it, in an order that loses nothing if we die in between."""
    size = os.fstat(fd).st_size
    torn = os.pread(fd, size - good_bytes, good_bytes)
    number = 1
    while (aside := path.with_name(f"{path.name}.torn-{number}")).exists():
        number += 1
    copy = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(copy, torn)
        os.fsync(copy)
    finally:
        os.close(copy)
    os.ftruncate(fd, good_bytes)
