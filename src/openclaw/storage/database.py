"""The database seam: one interface for the file on one machine and for a team's server.

SQL is one text where the engines agree: named parameters (`:key`), one statement a call, `TEXT`, `BIGINT`,
`DOUBLE PRECISION`, and `INSERT … ON CONFLICT … DO UPDATE`. What they spell differently is not used.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from msgspec import Struct

from openclaw.core.errors import InvalidRequest, NotFound

Row = Mapping[str, Any]
Params = Mapping[str, Any]


class Migration(Struct, frozen=True):
    """One step from `version - 1` to `version`; all missing steps run in one transaction."""

    version: int
    statements: tuple[str, ...]


class Transaction(Protocol):
    async def read(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        """Sees what this transaction wrote."""
        ...

    async def write(self, sql: str, params: Params | None = None) -> int:
        """Runs a statement; gives the number of rows it changed."""
        ...


class Database(Protocol):
    """Reads see what was committed; a write is a transaction of its own; `transaction` groups several."""

    async def read(self, sql: str, params: Params | None = None) -> Sequence[Row]: ...

    async def look(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        """A `read` of a few rows by key: so short that no thread is worth it."""
        ...

    async def write(self, sql: str, params: Params | None = None) -> int: ...

    async def write_all(self, *statements: tuple[str, Params]) -> tuple[int, ...]:
        """Several statements in one transaction and one trip; gives the rows each changed."""
        ...

    async def soon(self, *statements: tuple[str, Params]) -> None:
        """Writes statements with the next write, or alone a moment later; whoever reads their tables sees them done.

        For what nobody is told of before that next write.
        """
        ...

    async def sync(self) -> None:
        """Makes what was committed survive a power cut, too; the end of the process it survives without."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Committed when the block ends well, else undone. Inside it, write through it: `write` beside it is a bug."""
        ...

    async def notify(self, topic: str, payload: str = "") -> None:
        """Tells every listener of `topic`; delivered at most once, so it only ever means "look again"."""
        ...

    def listen(self, topic: str) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """Hears `topic` from the moment the block is entered: enter, look, then wait."""
        ...

    async def close(self) -> None: ...


async def find_run(db: Database, table: str, wanted: str, none: str) -> str:
    """The id of the run in `table` that `wanted` is, or is the unique beginning of; `none` ends the error otherwise."""
    rows = await db.read(
        f"SELECT DISTINCT run_id FROM {table} WHERE substr(run_id, 1, :size) = :start ORDER BY run_id LIMIT 2",  # noqa: S608
        {"start": wanted, "size": len(wanted)},
    )
    if not rows:
        raise NotFound(f"no run {wanted!r} {none}")
    if len(rows) > 1 and rows[0]["run_id"] != wanted:
        raise InvalidRequest(f"{wanted!r} fits several runs: give more of the id")
    return str(rows[0]["run_id"])
