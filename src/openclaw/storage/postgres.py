"""PostgreSQL implementation of `Database`: many gateways on one server.

A trip to the server costs many times what a statement costs, so what belongs together goes in one trip: a write is one
call of `store_write`, also with several statements and with the check of a lease. Each connection has a row that names
the last thing it wrote. When a connection breaks in the middle, that row tells whether the write was committed: none is
lost and none is made twice.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import lru_cache, partial
from typing import Any, TypeVar

import asyncpg
from msgspec import Struct

from openclaw.core.errors import StateError
from openclaw.core.progress import Report, no_report, reported
from openclaw.core.secret import Secret
from openclaw.storage.database import (
    AWAY_SECONDS,
    Lease,
    Migration,
    Params,
    Row,
    TransactionBroken,
    TransactionNested,
    TransactionOver,
)
from openclaw.storage.postgres_server import (
    CONNECT_SECONDS,
    LOST,
    RETRY_SECONDS,
    PgConnection,
    ServerConnector,
    lock_number,
)
from openclaw.storage.postgres_session import ServerSession
from openclaw.storage.postgres_sql import ENGINE_SCHEMA, ENGINE_VERSION, GIVE_UP, VERSIONS, quote
from openclaw.storage.write_behind import WriteBehind

T = TypeVar("T")
POOL_SIZE = 10
LATENCY_TRIPS = 5
_FACTS = """
    SELECT current_setting('server_version_num')::bigint AS version, current_schema()::text AS schema,
        has_schema_privilege(current_schema(), 'CREATE') AS may_create, pg_is_in_recovery() AS read_only,
        current_setting('max_connections')::bigint AS max_connections,
        (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
        pg_database_size(current_database()) AS size
"""


class ServerFacts(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a server says of itself."""

    place: str
    version: int
    schema: str
    may_create: bool
    read_only: bool
    connections: int
    max_connections: int
    size: int
    latency_ms: float

    @property
    def release(self) -> str:
        return f"{self.version // 10_000}.{self.version % 10_000}"


class Postgres:
    """`Database` on a server. Open it with `Postgres.open`."""

    owners = None

    def __init__(self, server: ServerConnector, pool: int) -> None:
        self.trips = 0
        """Trips to the server so far, for those who count them."""
        self._server = server
        self._pool = _Pool(server, pool)
        self._transactions = asyncio.Semaphore(max(1, pool // 2))
        self._turns: dict[str, _Turn] = {}
        self._open: set[asyncio.Task[Any] | None] = set()
        self._session = ServerSession(server)
        self._soon = WriteBehind(partial(self._write_now, lease=None))

    @property
    def schema(self) -> str:
        return self._server.schema

    @classmethod
    async def open(
        cls,
        url: Secret,
        migrations: Sequence[Migration],
        report: Report = no_report,
        pool: int = POOL_SIZE,
        patience: float = 0.0,
    ) -> "Postgres":
        """Connects and migrates. What is wrong with the address or the server is said at once; only for a server that
        cannot be reached we wait so many seconds."""
        server = ServerConnector(url)
        deadline = time.monotonic() + patience
        while True:
            try:
                await _prepare(server, migrations, report)
                return cls(server, pool)
            except (*LOST, asyncpg.PostgresError, ValueError) as error:
                if not isinstance(error, LOST) or time.monotonic() >= deadline:
                    raise server.state_error(error) from error
                await asyncio.sleep(RETRY_SECONDS)

    async def read(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        if self._soon.concerns(sql) and asyncio.current_task() not in self._open:
            await self._soon.flush()
        text, values = _bind(sql, params)

        async def fetch(connection: PgConnection) -> list[Row]:
            return [dict(row) for row in await connection.fetch(text, *values)]

        while True:
            try:
                return await self._use(fetch)
            except _Broken:
                pass  # reading twice harms nobody; `_use` waits for the server and ends with an error

    look = read

    async def write(self, sql: str, params: Params | None = None, *, lease: Lease | None = None) -> int:
        return (await self.write_all((sql, params), lease=lease))[0]

    async def soon(self, *statements: tuple[str, Params]) -> None:
        self._soon.add(*statements)

    async def sync(self) -> None:
        """What the server has committed, it has on its disk."""
        await self._soon.flush()

    async def write_all(self, *statements: tuple[str, Params | None], lease: Lease | None = None) -> tuple[int, ...]:
        if asyncio.current_task() in self._open:
            raise TransactionNested
        return await self._soon.along(statements, partial(self._write_now, lease=lease))

    async def _write_now(self, statements: Sequence[tuple[str, Params | None]], lease: Lease | None) -> tuple[int, ...]:
        texts, values = _embed(statements)
        fence = (lease.name, lease.epoch) if lease is not None else ("", 0)

        async def call(connection: PgConnection) -> tuple[int, ...]:
            connection.written += 1
            changed = await connection.fetchval(
                "SELECT store_write($1, $2, $3, $4, $5, $6)",
                connection.id,
                connection.written,
                *fence,
                texts,
                values,
            )
            return tuple(changed)

        while True:
            try:
                return await self._use(call)
            except TransactionBroken:
                pass  # the server undid this one so that the others could go on
            except _Broken as broken:
                if (changed := await self._settle(broken)) is not None:
                    return changed

    @asynccontextmanager
    async def transaction(self, on: str = "", *, lease: Lease | None = None) -> AsyncIterator["_Transaction"]:
        me = asyncio.current_task()
        if me in self._open:
            raise TransactionNested
        await self._soon.flush()
        async with AsyncExitStack() as stack:
            # One of this process at a time waits at the server: the others would keep connections that it needs.
            turn = self._turns.setdefault(on, _Turn())
            turn.waiting += 1
            stack.callback(self._leave, on, turn)
            await stack.enter_async_context(turn.lock)
            await stack.enter_async_context(self._transactions)
            connection = await self._begin(on, lease)
            transaction = _Transaction(self, connection)
            self._open.add(me)
            try:
                yield transaction
                await self._commit(connection)
            except Exception:
                await self._roll_back(connection)
                raise
            finally:
                transaction.connection = None
                self._open.discard(me)
                self._pool.release(connection)

    def _leave(self, on: str, turn: "_Turn") -> None:
        turn.waiting -= 1
        if not turn.waiting:
            self._turns.pop(on, None)

    async def _begin(self, on: str, lease: Lease | None) -> PgConnection:
        """A connection with a transaction that has its turn; waits for a server that is away."""
        begin = f"BEGIN; SELECT pg_advisory_xact_lock({lock_number(self._server.schema, 'transaction', on)})"
        if lease is not None:
            begin += f"; SELECT store_fence({quote(lease.name)}, {lease.epoch})"

        async def start(connection: PgConnection) -> None:
            await connection.execute(begin)

        while True:
            connection = await self._acquire()
            try:
                await self._on(connection, start)
                return connection
            except _Broken:
                self._pool.release(connection)
            except BaseException:
                connection.terminate()
                self._pool.release(connection)
                raise

    async def _commit(self, connection: PgConnection) -> None:
        connection.written += 1
        text = f"SELECT store_written({quote(connection.id)}, {connection.written}, '{{}}'); COMMIT"

        async def commit(connection: PgConnection) -> None:
            await connection.execute(text)

        # A commit that has left is not taken back: whoever is cancelled meanwhile finds it done.
        sending = asyncio.ensure_future(self._on(connection, commit))
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:
            await asyncio.wait([sending])
            raise
        except _Broken as broken:
            if await self._settle(broken) is None:
                raise self._undone("it went away before this was committed; nothing was changed") from broken

    async def _roll_back(self, connection: PgConnection) -> None:
        try:
            if not connection.is_closed() and connection.is_in_transaction():
                await connection.execute("ROLLBACK", timeout=CONNECT_SECONDS)
        except (asyncio.CancelledError, *LOST, asyncpg.PostgresError, asyncpg.InterfaceError):
            connection.terminate()  # which undoes it too

    async def _settle(self, broken: "_Broken") -> tuple[int, ...] | None:
        """What the write of a broken connection changed; None when it was not committed, and never will be."""

        async def ask(connection: PgConnection) -> Any:
            # This waits for a write that is still at work, and prevents one that has not begun.
            return await connection.fetchrow(GIVE_UP, broken.connection)

        while True:
            with suppress(_Broken):  # asking again is harmless
                row = await self._use(ask)
                break
        return tuple(row["changed"]) if row is not None and row["written"] == broken.number else None

    async def _use(self, work: Callable[[PgConnection], Awaitable[T]]) -> T:
        """`work` on a connection of the pool; waits while the server is away."""
        connection = await self._acquire()
        try:
            return await self._on(connection, work)
        finally:
            self._pool.release(connection)

    async def _acquire(self) -> PgConnection:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + AWAY_SECONDS
        while True:
            try:
                return await self._pool.acquire()
            except (*LOST, asyncpg.TooManyConnectionsError) as error:
                if loop.time() > deadline:
                    raise self._server.state_error(error) from error
                await asyncio.sleep(RETRY_SECONDS)
            except asyncpg.PostgresError as error:
                raise self._server.state_error(error) from error

    async def on(self, connection: "PgConnection | None", work: Callable[[PgConnection], Awaitable[T]]) -> T:
        """`work` inside a transaction; a connection that breaks undoes it."""
        if connection is None:
            raise TransactionOver
        try:
            return await self._on(connection, work)
        except _Broken as broken:
            raise self._undone("it went away in the middle; nothing of this was changed") from broken

    def _undone(self, why: str) -> TransactionBroken:
        return TransactionBroken(self._server.away(why).message)

    async def _on(self, connection: PgConnection, work: Callable[[PgConnection], Awaitable[T]]) -> T:
        self.trips += 1
        try:
            return await work(connection)
        except asyncio.CancelledError:
            # What it is doing now is unknown; the server undoes what was not committed.
            connection.terminate()
            raise
        except LOST as error:
            connection.terminate()
            raise _Broken(connection.id, connection.written) from error
        except asyncpg.InterfaceError as error:
            if not connection.is_closed():
                raise
            raise _Broken(connection.id, connection.written) from error
        except asyncpg.DeadlockDetectedError as error:
            raise self._undone("another gateway and this one waited for each other; nothing was changed") from error
        except asyncpg.PostgresError as error:
            if connection.is_closed():
                raise _Broken(connection.id, connection.written) from error
            raise self._server.state_error(error) from error

    async def notify(self, topic: str, payload: str = "") -> None:
        self._session.notify(topic, payload)

    @asynccontextmanager
    async def listen(self, topic: str) -> AsyncIterator[AsyncIterator[str]]:
        async with self._session.listen(topic) as heard:
            yield heard

    async def lease(self, name: str, holder: str = "") -> Lease | None:
        return await self._session.lease(name, holder)

    async def inspect(self) -> ServerFacts:
        """What one would ask about the server: its version, its room, how far away it is."""
        await self.read("SELECT 1")
        began = time.perf_counter()
        for _ in range(LATENCY_TRIPS):
            await self.read("SELECT 1")
        latency = (time.perf_counter() - began) / LATENCY_TRIPS
        (row,) = await self.read(_FACTS)
        return ServerFacts(place=self._server.place, latency_ms=latency * 1000, **row)

    async def close(self) -> None:
        await self._soon.flush()
        await self._session.close()
        await self._pool.close()


class _Pool:
    """Connections that write, made when they are needed; the one that was used last is used first."""

    def __init__(self, server: ServerConnector, size: int) -> None:
        self._server = server
        self._free = asyncio.Semaphore(size)
        self._idle: list[PgConnection] = []
        self._closed = False

    async def acquire(self) -> PgConnection:
        if self._closed:
            raise StateError("the database is closed")
        await self._free.acquire()
        try:
            while self._idle:
                if not (connection := self._idle.pop()).is_closed():
                    return connection
            return await self._server.connect_writer()
        except BaseException:
            self._free.release()
            raise

    def release(self, connection: PgConnection) -> None:
        """Takes a connection back, unless it is in the middle of something."""
        if self._closed or connection.is_closed() or connection.is_in_transaction():
            connection.terminate()
        else:
            self._idle.append(connection)
        self._free.release()

    async def close(self) -> None:
        self._closed = True
        for connection in self._idle:
            with suppress(*LOST, asyncpg.PostgresError, asyncpg.InterfaceError):
                await self._server.end(connection)


class _Turn:
    """Transactions of this process that exclude each other."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0


class _Broken(Exception):
    """A connection broke while something was on its way."""

    def __init__(self, connection: str, number: int) -> None:
        super().__init__("the connection to the database broke")
        self.connection = connection
        self.number = number


class _Transaction(Struct):
    db: Postgres
    connection: PgConnection | None
    """None once the transaction is over."""

    async def read(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        text, values = _bind(sql, params)

        async def fetch(connection: PgConnection) -> list[Row]:
            return [dict(row) for row in await connection.fetch(text, *values)]

        return await self.db.on(self.connection, fetch)

    async def write(self, sql: str, params: Params | None = None) -> int:
        text, values = _bind(sql, params)

        async def execute(connection: PgConnection) -> int:
            done: str = await connection.execute(text, *values)
            last = done.rpartition(" ")[2]
            return int(last) if last.isdecimal() else 0

        return await self.db.on(self.connection, execute)


async def _prepare(server: ServerConnector, migrations: Sequence[Migration], report: Report) -> None:
    connection = await server.connect()
    try:
        server.schema = await _prepare_schema(connection)
        await _migrate(connection, server, migrations, report)
    finally:
        connection.terminate()


async def _prepare_schema(connection: PgConnection) -> str:
    """The schema that is used; makes the one that `search_path` in the address names."""
    if (found := await connection.fetchval("SELECT current_schema()")) is None:
        wanted = str(await connection.fetchval("SHOW search_path")).split(",")[0].strip(' "')
        await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{wanted.replace(chr(34), chr(34) * 2)}"')
        found = await connection.fetchval("SELECT current_schema()")
    return str(found)


async def _migrate(
    connection: PgConnection, server: ServerConnector, migrations: Sequence[Migration], report: Report
) -> None:
    known = migrations[-1].version if migrations else 0
    async with connection.transaction():
        await connection.execute(f"SELECT pg_advisory_xact_lock({lock_number(server.schema, 'migrate', '')})")
        await connection.execute(VERSIONS)
        rows = await connection.fetch("SELECT part, version FROM store_version")
        versions = {row["part"]: row["version"] for row in rows}
        found, engine = versions.get("state", 0), versions.get("engine", 0)
        if found > known or engine > ENGINE_VERSION:
            raise StateError(
                f"{server.away('')}it was written by a newer OpenClaw (schema {found}; this program knows {known}). "
                "Upgrade this program, or give another database in store.url."
            )
        for statement in ENGINE_SCHEMA[engine:]:
            await connection.execute(statement)
        missing = [migration for migration in migrations if migration.version > found]
        for migration in reported(missing, "bringing the database up to date", report if found else no_report):
            for statement in migration.statements:
                await connection.execute(statement)
        for part, version in (("state", known), ("engine", ENGINE_VERSION)):
            await connection.execute(
                "INSERT INTO store_version VALUES ($1, $2) ON CONFLICT (part) DO UPDATE SET version = excluded.version",
                part,
                version,
            )
    # Rows of connections that ended long ago: nobody asks about them any more.
    await connection.execute(
        "DELETE FROM store_connections AS c WHERE c.seen_at < now() - interval '1 day' AND NOT EXISTS "
        "(SELECT 1 FROM pg_stat_activity AS a WHERE a.pid = c.pid AND a.backend_start = c.started)"
    )


_PARAMETER = re.compile(r"'(?:[^']|'')*'|::|:([A-Za-z_]\w*)")


@lru_cache(maxsize=2048)
def _prepared(sql: str, casts: tuple[tuple[str, str], ...]) -> tuple[str, tuple[str, ...]]:
    """`sql` with numbered parameters of the types that the values have, and their order."""
    used: dict[str, int] = {}
    types = dict(casts)

    def number(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0]
        return f"${used.setdefault(name, len(used) + 1)}{types[name]}"

    return _PARAMETER.sub(number, sql), tuple(used)


def _cast(value: Any) -> str:
    """The type of a value. Numbers are typed as they would be if they stood in the text: functions want small ones."""
    match value:
        case int():
            return "::integer" if -(1 << 31) <= value < 1 << 31 else "::bigint"
        case float():
            return "::float8"
        case str():
            return "::text"
        case _:
            return ""


def _bind(sql: str, params: Params | None) -> tuple[str, list[Any]]:
    """Text and values as the server's protocol wants them."""
    params = params or {}
    text, order = _prepared(sql, tuple((name, _cast(value)) for name, value in params.items()))
    return text, [_plain(params[name]) for name in order]


def _embed(statements: Sequence[tuple[str, Params | None]]) -> tuple[list[str], list[str | None]]:
    """Templates for the server's `format`, which quotes the values, and the values of all of them."""
    texts: list[str] = []
    values: list[str | None] = []
    for sql, params in statements:
        places: dict[str, str] = {}
        for name, value in (params or {}).items():
            value = _plain(value)
            values.append(None if value is None else str(int(value)) if isinstance(value, bool) else str(value))
            # Numbers stand as numbers: a quoted one would be taken for a 32-bit integer in sums.
            places[name] = f"%{len(values)}$s" if isinstance(value, int | float) else f"%{len(values)}$L"
            if isinstance(value, int | float):
                places[name] = f"({places[name]})"

        def place(match: re.Match[str], places: dict[str, str] = places) -> str:
            return match[0] if match[1] is None else places[match[1]]

        texts.append(_PARAMETER.sub(place, sql.replace("%", "%%")))
    return texts, values


def _plain(value: Any) -> Any:
    # PostgreSQL has no text with a NUL in it.
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) and "\0" in value else value
