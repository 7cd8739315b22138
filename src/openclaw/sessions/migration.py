"""Moves the state of an installation to a PostgreSQL server and back: tables, transcripts, shared documents.

Nothing is removed at the source, and every step may be repeated: rows that are there already are left, a transcript
goes on where it ended. At the end both sides are compared by digest.
"""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import apsw
import msgspec
from msgspec import Struct

from openclaw.core.errors import Conflict, StateError
from openclaw.core.progress import Report, no_report
from openclaw.sessions.transcript_store import DatabaseTranscripts
from openclaw.storage.atomic import replace_file
from openclaw.storage.database import Database, Row
from openclaw.storage.documents import PATTERNS, decode_body, put_document
from openclaw.storage.migrations import STATE_MIGRATIONS

BATCH = 200
ELSEWHERE = ("transcript_files", "transcript_lines", "documents")
"""Tables whose content is files on one machine."""


class TableShape(Struct, frozen=True):
    """The columns of a table, and those of its key."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


class MovedPart(Struct, frozen=True, kw_only=True, rename="camel"):
    """One part of the state on both sides."""

    name: str
    source: int
    """Rows, lines or documents there."""
    target: int
    same: bool
    """Whether both sides are equal, by their digests."""


def table_shapes() -> tuple[TableShape, ...]:
    """The tables of the state, as the migrations make them."""
    connection = apsw.Connection(":memory:")
    try:
        for migration in STATE_MIGRATIONS:
            for statement in migration.statements:
                connection.execute(statement)
        names = [str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = []
        for name in sorted(name for name in names if name not in ELSEWHERE and not name.startswith("sqlite_")):
            about = list(connection.execute(f"PRAGMA table_info({name})"))
            key = sorted((int(column[5]), str(column[1])) for column in about if column[5])
            found.append(TableShape(name, tuple(str(column[1]) for column in about), tuple(part for _, part in key)))
        return tuple(found)
    finally:
        connection.close()


class StoreMigration:
    """One move: from the database of this machine to a server, or back."""

    def __init__(self, state: Path, source: Database, target: Database, *, to_server: bool) -> None:
        self._state = state
        self._source = source
        self._target = target
        self._to_server = to_server
        self._server = target if to_server else source
        self._transcripts = DatabaseTranscripts(self._server, state)

    async def run(self, report: Report = no_report) -> tuple[MovedPart, ...]:
        """Copies what the target lacks; raises when it has something else, before or in the end."""
        before = await self.compare(report)
        for part in before:
            if part.target > part.source:
                raise Conflict(
                    f"the target has {part.target:,} {part.name} and the source {part.source:,}: it holds another"
                    " installation, or a later state of this one. Nothing was changed; move to an empty one."
                )
        waiting = {part.name for part in before if not part.same}
        shapes = [shape for shape in table_shapes() if shape.name in waiting]
        for place, shape in enumerate(shapes):
            report(f"copying {shape.name}", place, len(shapes))
            async for rows in _pages(self._source, shape):
                await self._target.write_all(*((_insert(shape), dict(row)) for row in rows))
        await self._copy_transcripts(report)
        await self._copy_documents()
        after = await self.compare(report)
        if wrong := [part.name for part in after if not part.same]:
            raise StateError(
                f"the copy of {', '.join(wrong)} is not the same as the original: the source is untouched and still in"
                " use. Run it again; if it stays so, the target held other data: use an empty one."
            )
        return after

    async def compare(self, report: Report = no_report) -> tuple[MovedPart, ...]:
        """Both sides, part by part; changes nothing."""
        shapes = table_shapes()
        parts = []
        for place, shape in enumerate(shapes):
            report("comparing", place, len(shapes) + 2)
            one, other = await _digest(self._source, shape), await _digest(self._target, shape)
            parts.append(MovedPart(name=shape.name, source=one[0], target=other[0], same=one == other))
        parts.append(await self._compare_transcripts())
        parts.append(await self._compare_documents())
        report("comparing", len(shapes) + 2, len(shapes) + 2)
        return tuple(parts)

    # Transcripts.

    def _files(self) -> list[Path]:
        found = self._state.glob("agents/*/sessions/*.jsonl*")
        return sorted(path for path in found if path.is_file() and not path.name.endswith((".lock", ".unsaved")))

    async def _copy_transcripts(self, report: Report) -> None:
        places = self._files() if self._to_server else sorted(await self._transcripts.sizes())
        for done, path in enumerate(places):
            report("copying transcripts", done, len(places))
            await (self._transcripts.upload(path) if self._to_server else self._transcripts.fetch(path))
        for path in () if self._to_server else set(self._files()) - set(places):
            path.replace(path.with_name(f"{path.name}.unsaved"))  # old copies: the server has none of that name

    async def _compare_transcripts(self) -> MovedPart:
        kept = await self._transcripts.sizes()
        equal = [path for path in kept if await self._transcripts.is_copy(path)]
        here = self._files()
        source, target = (len(here), len(kept)) if self._to_server else (len(kept), len(equal))
        same = set(here) == set(kept) == set(equal) if self._to_server else len(equal) == len(kept)
        return MovedPart(name="transcripts", source=source, target=target, same=same)

    # Documents.

    def _documents(self) -> dict[str, bytes]:
        paths = (path for pattern in PATTERNS for path in self._state.glob(pattern))
        return {path.relative_to(self._state).as_posix(): path.read_bytes() for path in paths}

    async def _stored(self) -> dict[str, bytes]:
        rows = await self._server.read("SELECT name, body FROM documents")
        return {row["name"]: decode_body(row["body"]) for row in rows}

    async def _copy_documents(self) -> None:
        here, there = self._documents(), await self._stored()
        if self._to_server:
            for name, body in here.items():
                if name not in there:
                    await put_document(self._server, name, body)
        else:
            for name, body in there.items():
                if here.get(name) != body:
                    replace_file(self._state / name, body)

    async def _compare_documents(self) -> MovedPart:
        here, there = self._documents(), await self._stored()
        if self._to_server:
            return MovedPart(name="documents", source=len(here), target=len(there), same=here == there)
        equal = sum(here.get(name) == body for name, body in there.items())
        return MovedPart(name="documents", source=len(there), target=equal, same=equal == len(there))


def _insert(shape: TableShape) -> str:
    columns, values = ", ".join(shape.columns), ", ".join(f":{name}" for name in shape.columns)
    return f"INSERT INTO {shape.name} ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING"  # noqa: S608


async def _pages(db: Database, shape: TableShape) -> AsyncIterator[Sequence[Row]]:
    """The rows of a table, some at a time, in the order of its key."""
    key, columns = ", ".join(shape.key), ", ".join(shape.columns)
    after: Mapping[str, object] = {}
    while True:
        where = f"WHERE ({key}) > ({', '.join(f':{name}' for name in shape.key)})" if after else ""
        rows = await db.read(f"SELECT {columns} FROM {shape.name} {where} ORDER BY {key} LIMIT {BATCH}", after)  # noqa: S608
        if rows:
            yield rows
        if len(rows) < BATCH:
            return
        after = {name: rows[-1][name] for name in shape.key}


async def _digest(db: Database, shape: TableShape) -> tuple[int, int]:
    """How many rows a table has, and a digest that does not depend on their order: engines sort text differently."""
    count = total = 0
    async for rows in _pages(db, shape):
        for row in rows:
            data = msgspec.json.encode([row[name] for name in shape.columns])
            total = (total + int.from_bytes(hashlib.sha256(data).digest())) % (1 << 256)
        count += len(rows)
    return count, total
