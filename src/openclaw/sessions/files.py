"""Transcript files: append-only JSON lines, and the write locks of sessions.

A line is one `write`, so a killed process leaves at most one torn line at the end. The next writer moves the torn
piece to `<file>.torn-<n>` and reports it; complete lines are never rewritten.
"""

import asyncio
import json
import os
import secrets
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar, get_args

import msgspec
from msgspec import Struct, structs

from openclaw.core.clock import Backoff, Clock, millis
from openclaw.core.errors import InvalidRequest, NotFound, SessionBusy, StateError
from openclaw.core.messages import Image, Message, Text, Thinking, ToolCall, Usage
from openclaw.sessions.transcript import (
    VERSION,
    AnyEntry,
    Compaction,
    Entry,
    Leaf,
    MessageEntry,
    TranscriptHeader,
    TranscriptProblem,
    UnknownEntry,
    path_to_leaf,
)
from openclaw.storage.atomic import private_directory, sync_directory
from openclaw.storage.locks import Holder, KernelLock, read_holder

MAX_LINE_BYTES = 64 * 1024 * 1024
AT_ONCE_BYTES = 8 * 1024 * 1024
"""Files up to this size are decoded at once, which is faster than line by line."""
_BINARY = getattr(os, "O_BINARY", 0)
E = TypeVar("E", bound=Entry)

_decoder: msgspec.json.Decoder[TranscriptHeader | Entry] = msgspec.json.Decoder(TranscriptHeader | Entry)
_KINDS = frozenset(kind.__struct_config__.tag for kind in (TranscriptHeader, *get_args(Entry)))
_BLOCKS: Mapping[str, Any] = {"user": Text | Image, "assistant": Text | Thinking | ToolCall, "toolResult": Text | Image}
_BLOCK_TYPES = frozenset(("text", "image", "thinking", "toolCall"))
# Fields the format always writes, even when they have their default value.
_ALWAYS: Mapping[str, Mapping[str, Any]] = {
    "user": {"timestamp": 0},
    "assistant": {
        "content": (),
        "api": "",
        "provider": "",
        "model": "",
        "usage": Usage(),
        "stopReason": "stop",
        "timestamp": 0,
    },
    "toolResult": {"content": (), "isError": False, "timestamp": 0},
}
# Required fields of a message; anything else may be missing.
_ESSENTIAL = ("role", "content", "toolCallId", "toolName", "isError", "provider", "model")


class LoadedTranscript(Struct, frozen=True, kw_only=True):
    """A transcript as read from disk."""

    header: TranscriptHeader | None
    entries: tuple[AnyEntry, ...]
    problems: tuple[TranscriptProblem, ...] = ()
    good_bytes: int = 0
    """Bytes up to the last complete line; the rest is torn."""
    ends_line: bool = True
    """False when only the line end of the last line is missing."""


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def load(path: Path) -> LoadedTranscript:
    """Reads a transcript without changing it; unreadable lines are in `problems`."""
    header: TranscriptHeader | None = None
    entries: list[AnyEntry] = []
    problems: list[TranscriptProblem] = []
    good, ends_line = 0, True
    try:
        if (flawless := _load_at_once(path)) is not None:
            return flawless
        for number, line, size, ended in _lines(path):
            value, trouble = decode_line(line)
            if value is None and not ended:
                problems.append(TranscriptProblem("torn", f"line {number}: {size} bytes without an end"))
                break
            good, ends_line = good + size, ended
            if value is None and line.strip():
                trouble = repr(line[:60].decode(errors="replace"))
            if trouble:
                problems.append(TranscriptProblem("unreadable", f"line {number}: {trouble}"))
            if isinstance(value, TranscriptHeader):
                header = header or value
            elif value is not None:
                entries.append(_with_id(value, number, entries))
    except FileNotFoundError as error:
        raise NotFound(f"no transcript at {path}") from error
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}") from error
    return LoadedTranscript(
        header=header, entries=tuple(entries), problems=tuple(problems), good_bytes=good, ends_line=ends_line
    )


def _load_at_once(path: Path) -> LoadedTranscript | None:
    """The transcript when it is as we write it; None when its lines must be looked at one by one."""
    with path.open("rb") as file:
        data = file.read() if os.fstat(file.fileno()).st_size <= AT_ONCE_BYTES else b""
    if not data.endswith(b"\n"):
        return None
    try:
        header, *entries = _decoder.decode_lines(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(header, TranscriptHeader) or header.version != VERSION or 1 + len(entries) != data.count(b"\n"):
        return None
    placed = [entry for entry in entries if not isinstance(entry, TranscriptHeader) and entry.id]
    if len(placed) != len(entries):
        return None
    return LoadedTranscript(header=header, entries=tuple(placed), good_bytes=len(data))


def _lines(path: Path) -> Iterator[tuple[int, bytes, int, bool]]:
    """Yields each line with number, size on disk, and whether it has a line end; an oversized one as a stub."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES):
            number += 1
            size = len(line)
            piece = line
            while not piece.endswith(b"\n") and (piece := file.readline(MAX_LINE_BYTES)):
                size += len(piece)
            yield number, line if size == len(line) else b"too long", size, piece.endswith(b"\n")


def _with_id(entry: AnyEntry, number: int, before: list[AnyEntry]) -> AnyEntry:
    """Fills in ids and parents for format version 1, whose entries have none and follow one another."""
    if isinstance(entry, Compaction) and isinstance(entry.first_kept_entry_index, int):
        kept = before[entry.first_kept_entry_index - 1 : entry.first_kept_entry_index]
        entry = structs.replace(entry, first_kept_entry_id=kept[0].id if kept else "")
    if not entry.id:
        # The line number never changes, so it can be the id that later entries refer to.
        entry = structs.replace(entry, id=f"{number:08x}", parent_id=before[-1].id if before else None)
    return entry


def decode_line(line: bytes) -> tuple[TranscriptHeader | AnyEntry | None, str]:
    """Decodes a line; None when it is unreadable; and a note on what was left out."""
    try:
        return _decoder.decode(line), ""
    except (ValueError, RecursionError):
        pass
    try:
        raw = json.loads(line.decode(errors="replace"))
        # A lone surrogate (an emoji cut in two) is valid JSON, but msgspec rejects it.
        raw = msgspec.json.decode(json.dumps(raw, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        return None, ""
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        return None, ""
    return _salvage(raw)


def _salvage(raw: dict[str, Any]) -> tuple[TranscriptHeader | AnyEntry, str]:
    """Decodes an entry of another program: drops unknown blocks, keeps unknown kinds as `UnknownEntry`."""
    parent = raw.get("parentId")
    unknown = UnknownEntry(
        type=raw["type"], id=str(raw.get("id") or ""), parent_id=parent if isinstance(parent, str) else None
    )
    message = raw.get("message")
    if not isinstance(message, dict):
        message = None
    if raw["type"] not in _KINDS or (message is not None and message.get("role") not in _BLOCKS):
        return unknown, ""
    if message and isinstance(content := message.get("content"), list):
        known = [block for block in content if isinstance(block, dict) and block.get("type") in _BLOCK_TYPES]
        raw = raw | {"message": message | {"content": known}}
    try:
        return msgspec.convert(raw, TranscriptHeader | Entry, strict=False), ""
    except msgspec.ValidationError as error:
        trouble = str(error)
    if message:
        bare = {"type": "message", "id": unknown.id, "parentId": unknown.parent_id, "message": _bare(message)}
        with suppress(msgspec.ValidationError):
            return msgspec.convert(bare, TranscriptHeader | Entry, strict=False), trouble
    return unknown, trouble


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    """The required fields of a message, without unreadable blocks."""
    bare = {name: message[name] for name in _ESSENTIAL if name in message}
    content = message.get("content")
    if isinstance(content, str) and message["role"] != "user":
        bare["content"] = [{"type": "text", "text": content}]
    elif isinstance(content, list):
        bare["content"] = readable = []
        for block in content:
            with suppress(msgspec.ValidationError):
                msgspec.convert(block, _BLOCKS[message["role"]])
                readable.append(block)
    return bare


class TranscriptFile:
    """A transcript open for appending; the caller holds the session's write lock.

    The constructor opens a file known to be unchanged since its last writer, without reading it.
    """

    def __init__(self, path: Path, leaf: str | None, ids: set[str], flags: int = 0) -> None:
        self.path = path
        self.leaf = leaf
        self.ids = ids
        self.added: list[Entry] = []
        """The entries written since the file was opened."""
        try:
            self._fd: int | None = os.open(path, os.O_RDWR | os.O_APPEND | _BINARY | flags, 0o600)
        except OSError as error:
            raise StateError(f"cannot open {path}: {error.strerror}. Check its owner and permissions.") from error

    @classmethod
    def create(cls, path: Path, header: TranscriptHeader) -> "TranscriptFile":
        """Creates a file with its header; fails when it exists."""
        try:
            private_directory(path.parent)
        except OSError as error:
            raise StateError(f"cannot create {path.parent}: {error.strerror}. Check its permissions.") from error
        transcript = cls(path, None, set(), os.O_CREAT | os.O_EXCL)
        try:
            transcript._write(header)
        except BaseException:
            transcript.close()
            path.unlink()
            raise
        sync_directory(path.parent)
        return transcript

    @classmethod
    def reopen(cls, path: Path, header: TranscriptHeader) -> tuple["TranscriptFile", LoadedTranscript]:
        """Opens an existing file for appending; moves a torn end aside first.

        Writes `header` when the file has none: its writer died before, or the line is unreadable.
        """
        loaded = load(path)
        branch = path_to_leaf(loaded.entries)
        transcript = cls(path, branch[-1].id if branch else None, {entry.id for entry in loaded.entries})
        try:
            if any(problem.kind == "torn" for problem in loaded.problems):
                transcript._set_aside(loaded.good_bytes)
            if not loaded.ends_line:
                transcript._append(b"\n")
            if loaded.header is None:
                transcript._write(header)
        except BaseException:
            transcript.close()
            raise
        return transcript, loaded

    def append(self, entry: E, now: float) -> E:
        """Appends `entry` after the current leaf; returns it with its id, parent and time."""
        while (fresh := secrets.token_hex(4)) in self.ids:
            pass
        placed = structs.replace(entry, id=fresh, parent_id=self.leaf, timestamp=iso(now))
        self._write(placed)
        self.ids.add(fresh)
        self.added.append(placed)
        self.leaf = placed.target_id if isinstance(placed, Leaf) else fresh
        return placed

    def say(self, message: Message, now: float) -> MessageEntry:
        return self.append(MessageEntry(message=message), now)

    def sync(self) -> None:
        """Flushes to disk, against power loss."""
        if self._fd is not None:
            os.fsync(self._fd)

    def close(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def _write(self, value: TranscriptHeader | Entry) -> None:
        raw: Any = value
        if isinstance(value, TranscriptHeader):
            raw = structs.replace(value, version=VERSION)
        elif isinstance(value, MessageEntry):
            raw = msgspec.to_builtins(value)
            raw["message"] = {**_ALWAYS[raw["message"]["role"]], **raw["message"]}
        try:
            line = msgspec.json.encode(raw) + b"\n"
        except UnicodeEncodeError as error:
            raise InvalidRequest("the text holds half a character (a lone surrogate): send it as UTF-8") from error
        if len(line) > MAX_LINE_BYTES:
            raise InvalidRequest(f"a message of {len(line) >> 20} MB is too large for a transcript: send less at once")
        self._append(line)

    def _append(self, data: bytes) -> None:
        """Writes all of `data` or nothing."""
        if self._fd is None:
            raise RuntimeError(f"{self.path} is closed")
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, data[done:] if done else data)
        except OSError as error:
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - done)
            raise StateError(
                f"cannot write {self.path}: {error.strerror}. Nothing was changed; free some space and try again."
            ) from error

    def _set_aside(self, good_bytes: int) -> None:
        """Copies the torn end to a file beside it, then truncates: in this order a crash loses nothing."""
        with self.path.open("rb") as file:
            file.seek(good_bytes)
            torn = file.read()
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.torn-{number}")).exists():
            number += 1
        try:
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600), "wb") as copy:
                copy.write(torn)
                copy.flush()
                os.fsync(copy.fileno())
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise StateError(
                f"cannot set the torn end of {self.path} aside: {error.strerror}. Nothing was changed."
            ) from error
        os.truncate(self.path, good_bytes)


# Where they are kept.


class TranscriptStore(Protocol):
    """Keeps transcripts, each under the path of its file."""

    async def fetch(self, path: Path) -> None:
        """Makes the file what the transcript is, for reading; one that is being written is left as it is."""
        ...

    async def rename(self, path: Path, new: Path) -> None: ...

    async def remove(self, path: Path) -> None: ...

    async def sizes(self) -> dict[Path, int]:
        """All transcripts, also those that were set aside, with their sizes."""
        ...


class KeepsLines(Protocol):
    """A store beside the files: lines are brought here before a session is written, and kept there afterwards."""

    async def begin(self, path: Path) -> None:
        """Makes the file what the transcript is, for writing. The caller holds the write lock of the session."""
        ...

    async def save(self, path: Path) -> None:
        """Keeps what was appended to the file. The caller holds the write lock of the session."""
        ...


class FileTranscripts:
    """Transcripts in files of this machine."""

    def __init__(self, state: Path) -> None:
        self._state = state

    async def fetch(self, path: Path) -> None:
        pass

    async def rename(self, path: Path, new: Path) -> None:
        path.rename(new)

    async def remove(self, path: Path) -> None:
        await asyncio.to_thread(path.unlink, missing_ok=True)

    async def sizes(self) -> dict[Path, int]:
        return await asyncio.to_thread(_sizes, self._state)


def _sizes(state: Path) -> dict[Path, int]:
    found = (path for path in state.glob("agents/*/sessions/*.jsonl*") if path.suffix != ".lock")
    return {path: path.stat().st_size for path in found if path.is_file()}


# Write locks.

WAITS = Backoff(0.01, 0.25)
MOST_PAUSED = 16
"""How many lock files stay open after a turn: making and removing one takes longer than all the rest of locking."""


def lock_path(transcript: Path) -> Path:
    return transcript.with_name(transcript.name + ".lock")


class WriteLocks:
    """The session write locks of this process."""

    def __init__(self, clock: Clock, acquire_timeout: float = 60.0, store: KeepsLines | None = None) -> None:
        self.store = store
        """Where transcripts are kept beside their files, if anywhere."""
        self._clock = clock
        self._timeout = acquire_timeout
        self._host = socket.gethostname()
        self._writers: dict[Path, str] = {}
        """The writers that hold a lock, by its path."""
        self._paused: dict[Path, KernelLock] = {}
        """Locks of sessions that had a turn, free for everybody, the latest last."""

    def close(self) -> None:
        """Removes the lock files that turns left open."""
        while self._paused:
            self._paused.popitem()[1].release()

    @asynccontextmanager
    async def writing(self, transcript: Path, writer: str, *, again: bool = False) -> AsyncIterator[None]:
        """Holds the lock of `transcript` for `writer`; raises `SessionBusy` when it is not free in time.

        The file is up to date inside the block, and what was appended is kept at its end. With `again` the lock is
        likely to be taken again soon.
        """
        path = lock_path(transcript)
        if self._writers.get(path) == writer:
            raise SessionBusy(
                f"{writer} already holds the write lock of {transcript.name} and asked for it again", holder=writer
            )
        deadline = self._clock.now() + self._timeout
        tried = 0
        while path in self._writers or not (lock := self._paused.pop(path, None) or KernelLock(path)).take(
            Holder(pid=os.getpid(), created_at=millis(self._clock), host=self._host, owner=writer)
        ):
            if self._clock.now() >= deadline:
                who = read_holder(path)
                raise SessionBusy(
                    f"session busy: {transcript.stem} is being written by {who or 'another process'}. "
                    "Wait for that run to end, or stop it, and try again.",
                    holder=str(who or ""),
                )
            tried += 1
            await self._clock.sleep(min(WAITS.after(tried), max(0.0, deadline - self._clock.now())))
        self._writers[path] = writer
        try:
            if self.store is None:
                yield
                return
            await self.store.begin(transcript)
            try:
                yield
            finally:
                await self.store.save(transcript)
        finally:
            del self._writers[path]
            if again:
                lock.pause()
                self._paused[path] = lock
                if len(self._paused) > MOST_PAUSED:
                    self._paused.pop(next(iter(self._paused))).release()
            else:
                lock.release()
