"""Where transcripts are kept: in files of this machine, or in the database of many.

A transcript is always a file here while it is read or written. On one machine that file is all there is. With a server
its lines are in the database, and the file is a copy: it is brought up to date before it is read or written, and `save`
adds the lines that were appended. A line is there for everybody when `save` has returned. It is added only where the
transcript ends as the writer has seen it, so two writers cannot both continue a conversation; the running digest over
all lines tells whether a copy is the conversation.
"""

import asyncio
import base64
import hashlib
import os
from pathlib import Path

from msgspec import Struct, structs

from openclaw.core.errors import StateError
from openclaw.process.tasks import run_shielded
from openclaw.sessions.files import lock_path
from openclaw.storage.atomic import replace_file
from openclaw.storage.database import Database
from openclaw.storage.locks import Holder, KernelLock

FETCH_LINES = 500
"""Lines that are asked for at once."""
SAVE_LINES = 200
"""Lines that are kept at once."""


class TranscriptState(Struct, frozen=True):
    """How far a transcript goes."""

    file_id: str
    lines: int = 0
    size: int = 0
    digest: str = ""

    def plus(self, line: bytes) -> "TranscriptState":
        digest = hashlib.sha256(self.digest.encode() + line).hexdigest()
        return TranscriptState(self.file_id, self.lines + 1, self.size + len(line), digest)


_FILE = "SELECT file_id, lines, size, digest FROM transcript_files WHERE agent_id = :agent AND name = :name"
_GROW = (
    "UPDATE transcript_files SET lines = :lines, size = :size, digest = :digest "
    "WHERE file_id = :file_id AND lines = :was AND digest = :before"
)
_CREATE = (
    "INSERT INTO transcript_files (file_id, agent_id, name, lines, size, digest) "
    "VALUES (:file_id, :agent, :name, :lines, :size, :digest)"
)
_LINE = (
    "INSERT INTO transcript_lines (file_id, seq, line) "
    "SELECT file_id, :seq, :line FROM transcript_files WHERE file_id = :file_id AND digest = :digest"
)


class DatabaseTranscripts:
    """Transcripts in the database, with copies in files of this machine."""

    def __init__(self, db: Database, state: Path) -> None:
        self._db = db
        self._state = state
        self._copies: dict[Path, TranscriptState] = {}
        """What the files were when they were last read or written here."""

    async def fetch(self, path: Path) -> None:
        kept = await self._kept(path)
        if kept is None or (self._copies.get(path) == kept and _size_of(path) == kept.size):
            return
        with KernelLock(lock_path(path)) as lock:
            if lock.take(Holder(pid=os.getpid(), created_at=0, owner="a reader")):
                await self._bring(path, kept)

    async def begin(self, path: Path) -> None:
        kept = await self._kept(path)
        if kept is not None:
            await self._bring(path, kept)
            return
        self._copies.pop(path, None)
        if path.exists():
            # A process died before its first lines were kept; nobody has seen them.
            await asyncio.to_thread(path.replace, path.with_name(f"{path.name}.unsaved"))

    async def _kept(self, path: Path) -> TranscriptState | None:
        rows = await self._db.look(_FILE, _name(path))
        return TranscriptState(**rows[0]) if rows else None

    async def _bring(self, path: Path, kept: TranscriptState) -> None:
        size = _size_of(path)
        if self._copies.get(path) != kept or size != kept.size:
            copy = await asyncio.to_thread(_measure, path, kept)
            if copy.digest != kept.digest:
                await self._copy_lines(path, copy, kept)
            elif size != kept.size:
                await asyncio.to_thread(os.truncate, path, kept.size)
            self._copies[path] = kept

    async def _copy_lines(self, path: Path, copy: TranscriptState, kept: TranscriptState) -> None:
        """Makes the file what the database has, from the last line on that both have."""
        prefix = await asyncio.to_thread(_head, path, copy.size) if copy.lines else b""
        data, at = [prefix], copy
        while at.lines < kept.lines:
            rows = await self._db.read(
                "SELECT seq, line FROM transcript_lines WHERE file_id = :id AND seq > :after AND seq <= :last "
                "ORDER BY seq LIMIT :most",
                {"id": kept.file_id, "after": at.lines, "last": kept.lines, "most": FETCH_LINES},
            )
            if not rows:
                break
            for row in rows:
                data.append(line := decode_stored(row["line"]))
                at = at.plus(line)
        if at != kept:
            if copy.lines:
                await self._copy_lines(path, TranscriptState(kept.file_id), kept)
                return
            raise StateError(
                f"the transcript {path.stem} in the database is not what was written there: {at.lines} of {kept.lines}"
                " lines, and another digest. Restore it from a backup."
            )
        await asyncio.to_thread(replace_file, path, b"".join(data))

    async def save(self, path: Path) -> None:
        await run_shielded(self._save(path))

    async def _save(self, path: Path) -> None:
        before = self._copies.get(path)
        if _size_of(path) <= (before.size if before is not None else 0):
            return
        lines = await asyncio.to_thread(_lines_after, path, before.size if before is not None else 0)
        for start in range(0, len(lines), SAVE_LINES):
            before = await self._add(path, before, lines[start : start + SAVE_LINES])

    async def _add(self, path: Path, before: TranscriptState | None, added_lines: list[bytes]) -> TranscriptState:
        after = before or TranscriptState(os.urandom(16).hex())
        lines = []
        for line in added_lines:
            after = after.plus(line)
            lines.append((after.lines, encode_stored(line)))
        about = structs.asdict(after)
        added = [(_LINE, {**about, "seq": number, "line": text}) for number, text in lines]
        if before is None:
            await self._db.write_all((_CREATE, about | _name(path)), *added)
        else:
            grown = about | {"was": before.lines, "before": before.digest}
            if not (await self._db.write_all((_GROW, grown), *added))[0]:
                self._copies.pop(path, None)
                raise StateError(f"another gateway has written to {path.stem}: what was added here is not kept")
        self._copies[path] = after
        return after

    async def upload(self, path: Path) -> None:
        """Keeps a file that nothing is kept of yet, or only its beginning."""
        if (kept := await self._kept(path)) is not None:
            if await asyncio.to_thread(_measure, path, kept) != kept:
                raise StateError(f"the database has another transcript called {path.name}: nothing was changed")
            self._copies[path] = kept
        await self.save(path)

    async def is_copy(self, path: Path) -> bool:
        """Whether the file is what is kept."""
        kept = await self._kept(path)
        if kept is None or _size_of(path) != kept.size:
            return False
        return await asyncio.to_thread(_measure, path, kept) == kept

    async def rename(self, path: Path, new: Path) -> None:
        await self._db.write(
            "UPDATE transcript_files SET name = :new WHERE agent_id = :agent AND name = :name",
            {**_name(path), "new": new.name},
        )
        path.rename(new)
        if (copy := self._copies.pop(path, None)) is not None:
            self._copies[new] = copy

    async def remove(self, path: Path) -> None:
        await self._db.write_all(
            (
                "DELETE FROM transcript_lines WHERE file_id IN "
                "(SELECT file_id FROM transcript_files WHERE agent_id = :agent AND name = :name)",
                _name(path),
            ),
            ("DELETE FROM transcript_files WHERE agent_id = :agent AND name = :name", _name(path)),
        )
        self._copies.pop(path, None)
        await asyncio.to_thread(path.unlink, missing_ok=True)

    async def sizes(self) -> dict[Path, int]:
        rows = await self._db.read("SELECT agent_id, name, size FROM transcript_files")
        return {self._state / "agents" / row["agent_id"] / "sessions" / row["name"]: row["size"] for row in rows}


def encode_stored(line: bytes) -> str:
    """A line as text. What is no text, or has no end, is kept in another form: the file comes back byte for byte."""
    if line.endswith(b"\n") and line.startswith(b"{") and b"\0" not in line:
        try:
            return line[:-1].decode()
        except UnicodeDecodeError:
            pass
    return "=" + base64.b64encode(line).decode()


def decode_stored(text: str) -> bytes:
    return base64.b64decode(text[1:]) if text.startswith("=") else text.encode() + b"\n"


def _name(path: Path) -> dict[str, str]:
    return {"agent": path.parent.parent.name, "name": path.name}


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def _measure(path: Path, kept: TranscriptState) -> TranscriptState:
    """How far the file is a copy of what is kept: at most as many lines as that has."""
    found = TranscriptState(kept.file_id)
    if _size_of(path) < 0:
        return found
    with path.open("rb") as file:
        for line in file:
            if found.lines == kept.lines:
                break
            found = found.plus(line)
    return found


def _head(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size)


def _lines_after(path: Path, size: int) -> list[bytes]:
    with path.open("rb") as file:
        file.seek(size)
        return list(file)
