"""The database as one node writes to it: nothing of a node that was declared gone is written any more."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from openclaw.storage.database import Database, Lease, LeaseLost, Owners, Params, Row, Transaction
from openclaw.storage.write_behind import Statement, WriteBehind

if TYPE_CHECKING:
    from openclaw.gateway.cluster.member import ClusterMember


class Fence(Protocol):
    """The lease under which a node writes."""

    async def current(self) -> Lease:
        """The lease that is valid now; waits while a connection that broke is made again. Raises `LeaseLost`."""
        ...


class FencedDatabase:
    """A `Database` whose every write is made under the lease of this node."""

    def __init__(self, db: Database, owners: Owners, fence: Fence, cluster: "ClusterMember") -> None:
        self.plain = db
        """Writes without the lease."""
        self.owners = owners
        self.cluster = cluster
        self._fence = fence
        self._soon = WriteBehind(self._write_now)
        self._open: set[asyncio.Task[Any] | None] = set()
        """Tasks with a transaction open: what waits cannot be written beside it."""

    @property
    def trips(self) -> int:
        return getattr(self.plain, "trips", 0)

    async def read(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        if self._soon.concerns(sql) and asyncio.current_task() not in self._open:
            await self._soon.flush()
        return await self.plain.read(sql, params)

    look = read

    async def write(self, sql: str, params: Params | None = None, *, lease: Lease | None = None) -> int:
        return (await self.write_all((sql, params or {}), lease=lease))[0]

    async def write_all(self, *statements: tuple[str, Params], lease: Lease | None = None) -> tuple[int, ...]:
        return await self._soon.along(statements, partial(self._write_now, lease=lease))

    async def _write_now(self, statements: Sequence[Statement], lease: Lease | None = None) -> tuple[int, ...]:
        async def write(under: Lease) -> tuple[int, ...]:
            return await self.plain.write_all(*((sql, params or {}) for sql, params in statements), lease=under)

        written: tuple[int, ...] = await (write(lease) if lease is not None else self._under_fence(write))
        return written

    async def soon(self, *statements: tuple[str, Params]) -> None:
        self._soon.add(*statements)

    async def sync(self) -> None:
        await self._soon.flush()

    async def _under_fence(self, write: Callable[[Lease], Awaitable[Any]]) -> Any:
        while True:
            lease = await self._fence.current()
            try:
                return await write(lease)
            except LeaseLost:
                # Our own connection broke and was made again meanwhile: then we have the lease under another epoch.
                if await self._fence.current() is lease:
                    raise

    @asynccontextmanager
    async def transaction(self, on: str = "", *, lease: Lease | None = None) -> AsyncIterator[Transaction]:
        async def begin(under: Lease) -> tuple[AbstractAsyncContextManager[Transaction], Transaction]:
            opened = self.plain.transaction(on, lease=under)
            return opened, await opened.__aenter__()

        me = asyncio.current_task()
        if me not in self._open:
            await self._soon.flush()
        opened, transaction = await (begin(lease) if lease is not None else self._under_fence(begin))
        self._open.add(me)
        try:
            yield transaction
        except BaseException as error:
            if not await opened.__aexit__(type(error), error, error.__traceback__):
                raise
        else:
            await opened.__aexit__(None, None, None)
        finally:
            self._open.discard(me)

    async def lease(self, name: str, holder: str = "") -> Lease | None:
        return await self.plain.lease(name, holder)

    async def notify(self, topic: str, payload: str = "") -> None:
        await self.plain.notify(topic, payload)

    def listen(self, topic: str) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        return self.plain.listen(topic)

    async def close(self) -> None:
        await self._soon.flush()
        await self.plain.close()
