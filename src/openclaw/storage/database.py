"""The database seam: one interface for the file on one machine and for a team's server.

SQL is one text where the engines agree: named parameters (`:key`), one statement a call, `TEXT`, `BIGINT`,
`DOUBLE PRECISION`, and `INSERT … ON CONFLICT … DO UPDATE`. What they spell differently is not used.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from openclaw.core.errors import InvalidRequest, NotFound, StateError

Row = Mapping[str, Any]
Params = Mapping[str, Any]
T = TypeVar("T")
AWAY_SECONDS = 60.0
"""How long work waits for a server that went away, before it fails."""


class Migration(Struct, frozen=True):
    """One step from `version - 1` to `version`; all missing steps run in one transaction."""

    version: int
    statements: tuple[str, ...]


class LeaseLost(StateError):
    """Another process has taken over what this one was about to write; nothing was changed."""


class TransactionBroken(StateError):
    """The server undid a transaction: it went away, or two waited for each other. Nothing was changed."""


class Lease(Protocol):
    """The right of one process to something that must be in one place at a time."""

    name: str
    epoch: int
    """Grows with each holder; a write under a lease is refused when a later holder has it."""
    lost: asyncio.Event
    """Set when it is over: released, or taken from a process that went silent."""

    async def release(self) -> None: ...


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
    def owners(self) -> Owners | None:
        """Whoever works on rows of it; None for the processes of this machine."""
        ...

    async def read(self, sql: str, params: Params | None = None) -> Sequence[Row]: ...

    async def look(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        """A `read` of a few rows by key: so short that no thread is worth it."""
        ...

    async def write(self, sql: str, params: Params | None = None, *, lease: Lease | None = None) -> int: ...

    async def write_all(self, *statements: tuple[str, Params], lease: Lease | None = None) -> tuple[int, ...]:
        """Several statements in one transaction and one trip; gives the rows each changed.

        Under a `lease` nothing is written, and `LeaseLost` is raised, when somebody else has it now.
        """
        ...

    async def soon(self, *statements: tuple[str, Params]) -> None:
        """Writes statements with the next write, or alone a moment later; whoever reads their tables sees them done.

        For what nobody is told of before that next write. It does not wait for anything itself.
        """
        ...

    async def sync(self) -> None:
        """Makes what was committed survive a power cut, too; the end of the process it survives without."""
        ...

    def transaction(self, on: str = "", *, lease: Lease | None = None) -> AbstractAsyncContextManager[Transaction]:
        """Committed when the block ends well, else undone. Inside it, write through it: `write` beside it is a bug.

        A block cannot be begun again when a server goes away in the middle: what can is handed to `transact`.
        Of the transactions `on` the same thing one runs at a time, so that what it has read stays true; those on other
        things, and single writes, may run beside it.
        """
        ...

    async def lease(self, name: str, holder: str = "") -> Lease | None:
        """Takes the lease called `name`; None while somebody else has it. `holder` is what others see."""
        ...

    async def notify(self, topic: str, payload: str = "") -> None:
        """Tells every listener of `topic`; delivered at most once, so it only ever means "look again"."""
        ...

    def listen(self, topic: str) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """Hears `topic` from the moment the block is entered: enter, look, then wait."""
        ...

    async def close(self) -> None: ...


class TransactionOver(RuntimeError):
    """A transaction was used after its block."""

    def __init__(self) -> None:
        super().__init__("this transaction is over: start another one")


class TransactionNested(RuntimeError):
    """A task would wait for its own transaction."""

    def __init__(self) -> None:
        super().__init__("this task has a transaction open: write through it")


async def transact(
    db: Database, work: Callable[[Transaction], Awaitable[T]], on: str = "", *, lease: Lease | None = None
) -> T:
    """Does `work` in a `transaction`, and again when the server went away in the middle and is back.

    So `work` changes nothing but what it writes through the transaction.
    """
    broken_at: float | None = None
    while True:
        try:
            async with db.transaction(on, lease=lease) as transaction:
                return await work(transaction)
        except TransactionBroken:
            broken_at = broken_at or time.monotonic()
            if time.monotonic() - broken_at > AWAY_SECONDS:
                raise


async def each(queue: asyncio.Queue[str]) -> AsyncIterator[str]:
    """What arrives in `queue`, for ever."""
    while True:
        yield await queue.get()


async def find_run(db: Database, table: str, wanted: str, none: str) -> str:
    """The id of the run in `table` that `wanted` is, or is the unique beginning of; `none` ends the error otherwise."""
    rows = await db.read(
        f"SELECT DISTINCT run_id FROM {table} "  # noqa: S608
        "WHERE substr(run_id, 1, CAST(:size AS INTEGER)) = :start ORDER BY run_id LIMIT 2",
        {"start": wanted, "size": len(wanted)},
    )
    if not rows:
        raise NotFound(f"no run {wanted!r} {none}")
    if len(rows) > 1 and rows[0]["run_id"] != wanted:
        raise InvalidRequest(f"{wanted!r} fits several runs: give more of the id")
    return str(rows[0]["run_id"])
