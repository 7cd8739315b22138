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


class Owners(Protocol):
    """Whoever may have rows of a database in work: this process, and others that are there or gone."""

    @property
    def me(self) -> str:
        """The name under which this process has rows."""
        ...

    async def gone(self, tx: Transaction, names: set[str]) -> set[str]:
        """Which of `names` are not there any more, nobody included."""
        ...

    def is_alive(self, name: str) -> bool:
        """Whether `name` was there when we last looked."""
        ...

    def ended_in_order(self, name: str) -> bool:
        """Whether what `name` had in work was put down, and did not end it."""
        ...


class Database(Protocol):
    """Reads see what was committed; a write is a transaction of its own; `transaction` groups several."""

    @property
    def owners(self) -> Owners: ...

    async def read(self, sql: str, params: Params | None = None) -> Sequence[Row]: ...

    async def look(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        """A `read` of a few rows by key: so short that no thread is worth it."""
        ...

    async def write(self, sql: str, params: Params | None = None) -> int: ...

    async def write_all(self, *statements: tuple[str, Params]) -> tuple[int, ...]:
        """Several statements in one transaction and one trip; gives the rows each changed."""
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
