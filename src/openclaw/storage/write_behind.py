"""Writes that nobody waits for, sent along with the next one that somebody does."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache

from openclaw.core.errors import StateError
from openclaw.storage.database import LeaseLost, Params

log = logging.getLogger(__name__)
SOON_SECONDS = 0.02
MOST_WAITING = 200
"""Statements after which they are sent at once."""

_TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+(\w+)")
Statement = tuple[str, Params | None]
WriteNow = Callable[[Sequence[Statement]], Awaitable[tuple[int, ...]]]


class WriteBehind:
    """Statements in their order, until the next write takes them along or a moment has passed."""

    def __init__(self, write: WriteNow) -> None:
        self._write = write
        self._waiting: list[Statement] = []
        self._tables: frozenset[str] = frozenset()
        """The tables of what waits or is on its way."""
        self._order = asyncio.Lock()
        """Held while some are on their way: on another connection the next ones would overtake them."""
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    def concerns(self, sql: str) -> bool:
        """Whether a statement may be about something that waits or is on its way."""
        return any(table in sql for table in self._tables)

    def add(self, *statements: Statement) -> None:
        self._waiting.extend(statements)
        self._tables = self._tables.union(*(_tables_in(sql) for sql, _ in statements))
        if self._timer is None:
            seconds = SOON_SECONDS if len(self._waiting) < MOST_WAITING else 0.0
            self._timer = asyncio.get_running_loop().call_later(seconds, self._start)

    async def along(self, statements: Sequence[Statement], write: WriteNow) -> tuple[int, ...]:
        """Writes `statements` after those that wait; gives the rows that `statements` changed."""
        if not self._waiting and not any(self.concerns(sql) for sql, _ in statements):
            return await write(statements)
        async with self._order:
            waiting = self._take()
            try:
                return (await write((*waiting, *statements)))[len(waiting) :]
            except LeaseLost:
                raise
            except StateError:
                if not waiting:
                    raise
                # Whose fault it was is found by sending them apart.
                await self._send(waiting)
                return await write(statements)
            finally:
                self._forget()

    async def flush(self) -> None:
        """Writes what waits, and returns when nothing is on its way any more."""
        if self._tables:
            async with self._order:
                await self._send(self._take())
                self._forget()

    def _take(self) -> list[Statement]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        return waiting

    def _start(self) -> None:
        self._timer = None
        task = asyncio.get_running_loop().create_task(self.flush(), name="database: write behind")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, waiting: Sequence[Statement]) -> None:
        if not waiting:
            return
        try:
            await self._write(waiting)
        except StateError as error:
            log.warning("records were not written: %s", error.message)

    def _forget(self) -> None:
        self._tables = frozenset().union(*(_tables_in(sql) for sql, _ in self._waiting))


@lru_cache(maxsize=512)
def _tables_in(sql: str) -> frozenset[str]:
    """The tables that a write names."""
    return frozenset(_TABLE.findall(sql))
