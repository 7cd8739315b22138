"""The one connection of a process that is more than a way to send statements: it holds leases and hears notifications.

Leases are advisory locks of this connection, so they end with the process. A process that is stopped keeps its
connection: others see that it has been silent for a while, and end it. What it writes when it wakes up is fenced by the
epoch.
"""

import asyncio
import contextlib
import hashlib
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from openclaw.core.errors import StateError
from openclaw.storage.database import AWAY_SECONDS, each
from openclaw.storage.postgres_server import (
    CLOSE_SECONDS,
    LOST,
    RETRY_SECONDS,
    PgConnection,
    ServerConnector,
    lock_number,
)

log = logging.getLogger(__name__)
SEEN_SECONDS = 2.0
"""How often a process says that it is there."""
STALE_SECONDS = 15.0
"""After which silence its leases may be taken."""
LONGEST_PAYLOAD = 7_000
"""Bytes of a notification; the server's limit is 8,000. More goes by way of a row."""
MESSAGE_SECONDS = 60

_TAKE = """
    WITH lock AS MATERIALIZED (SELECT pg_try_advisory_lock($1) AS got)
    INSERT INTO store_leases (name, epoch, connection, holder, taken_at) SELECT $2, 1, $3, $4, now() FROM lock WHERE got
    ON CONFLICT (name) DO UPDATE SET epoch = store_leases.epoch + 1, connection = excluded.connection,
        holder = excluded.holder, taken_at = excluded.taken_at
    RETURNING epoch
"""
# All connections of the process, not only the one with the lease: stopped between two messages of one statement, it
# keeps a transaction open that the server takes for at work and ends by no timeout, with locks others wait for.
_END_SILENT = """
    SELECT pg_terminate_backend(a.pid) FROM store_leases AS l JOIN store_connections AS c ON c.id = l.connection
    JOIN store_connections AS all_of_it ON all_of_it.id = c.id OR (all_of_it.process = c.process AND c.process <> '')
    JOIN pg_stat_activity AS a ON a.pid = all_of_it.pid AND a.backend_start = all_of_it.started
    WHERE l.name = $1 AND c.seen_at < now() - make_interval(secs => $2)
"""
_RELEASE = """
    WITH gone AS (UPDATE store_leases SET connection = '', holder = '' WHERE name = $2 AND epoch = $3)
    SELECT pg_advisory_unlock($1)
"""
_SEEN = "UPDATE store_connections SET seen_at = now() WHERE id = $1"
_SEND = "SELECT pg_notify(channel, payload) FROM unnest($1::text[], $2::text[]) AS m (channel, payload)"
_STORE = """
    WITH old AS (DELETE FROM store_messages WHERE at < now() - make_interval(secs => $3))
    INSERT INTO store_messages (id, body) VALUES ($1, $2)
"""


class SessionLease:
    """A lease of this process; `lost` is set when it is over, whatever ended it."""

    def __init__(self, session: "ServerSession", name: str, epoch: int) -> None:
        self.name = name
        self.epoch = epoch
        self.lost = asyncio.Event()
        self._session = session

    async def release(self) -> None:
        await self._session.release(self)


class ServerSession:
    """Connects at the first use, and again whenever the connection ends."""

    def __init__(self, server: ServerConnector) -> None:
        self._server = server
        self._id = secrets.token_hex(8)
        self._connection: PgConnection | None = None
        self._connected = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._closed = False
        self._using = asyncio.Lock()
        self._wake = asyncio.Event()
        self._leases: dict[str, SessionLease] = {}
        self._listeners: dict[str, set[asyncio.Queue[str]]] = {}
        self._topics: dict[str, str] = {}
        """The topics that the server tells us about, by their channels."""
        self._outgoing: list[tuple[str, str]] = []
        self._incoming: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def notify(self, topic: str, payload: str) -> None:
        """Tells the listeners of this process at once, those of others with the next message to the server."""
        self._deliver(topic, payload)
        self._outgoing.append((topic, payload))
        self._wake.set()
        self._start()

    @asynccontextmanager
    async def listen(self, topic: str) -> AsyncIterator[AsyncIterator[str]]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._listeners.setdefault(topic, set()).add(queue)
        try:
            if self._channel(topic) not in self._topics:
                async with self._use() as connection:
                    await self._hear(connection, topic)
            yield each(queue)
        finally:
            self._listeners[topic].discard(queue)
            if not self._listeners[topic]:
                del self._listeners[topic]
                self._wake.set()

    async def lease(self, name: str, holder: str) -> SessionLease | None:
        """The lease called `name`, unless somebody has it who was seen lately."""
        number = lock_number(self._server.schema, "lease", name)
        async with self._use() as connection:
            if name in self._leases:
                return None  # an advisory lock is given twice to the same connection
            try:
                epoch = await connection.fetchval(_TAKE, number, name, connection.id, holder)
            except BaseException:
                # The lock may be ours, but not the row: the end of the connection releases it.
                connection.terminate()
                raise
            if epoch is None:
                await connection.fetch(_END_SILENT, name, STALE_SECONDS)
                return None
            lease = self._leases[name] = SessionLease(self, name, epoch)
            return lease

    async def release(self, lease: SessionLease) -> None:
        """Gives a lease back; harmless when it was lost."""
        if self._leases.get(lease.name) is not lease:
            return
        async with self._use() as connection:
            if self._leases.get(lease.name) is lease:
                del self._leases[lease.name]
                lease.lost.set()
                number = lock_number(self._server.schema, "lease", lease.name)
                await connection.execute(_RELEASE, number, lease.name, lease.epoch)

    async def close(self) -> None:
        if self._running is None:
            return
        self._closed = True  # a connection that breaks while we end must not begin again
        if self._outgoing:
            with contextlib.suppress(TimeoutError, StateError, *LOST):
                async with asyncio.timeout(CLOSE_SECONDS), self._use() as connection:
                    await self._send(connection)
        self._running.cancel()
        await asyncio.wait([self._running])

    def _start(self) -> None:
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(), name="database session")

    @asynccontextmanager
    async def _use(self) -> AsyncIterator[PgConnection]:
        """The connection, alone; waits for one, and says what is wrong when the server stays away."""
        self._start()
        try:
            async with asyncio.timeout(AWAY_SECONDS):
                await self._connected.wait()
        except TimeoutError as error:
            raise self._server.state_error(error) from error
        async with self._using:
            if self._connection is None:
                raise self._server.away("it went away just now; nothing was changed")
            try:
                yield self._connection
            except LOST as error:
                raise self._server.state_error(error) from error
            except asyncpg.PostgresError as error:
                raise self._server.state_error(error) from error

    async def _run(self) -> None:
        while not self._closed:
            try:
                connection = await self._server.connect_writer("openclaw session")
            except (*LOST, asyncpg.PostgresError) as error:
                log.debug("no session with the database: %s", self._server.state_error(error))
                await asyncio.sleep(RETRY_SECONDS)
                continue
            try:
                connection.add_termination_listener(self._end)
                for topic in self._listeners:
                    await self._hear(connection, topic)
                self._connection = connection
                self._connected.set()
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._keep(connection), name="database session: keep")
                    group.create_task(self._receive(), name="database session: receive")
            except* (*LOST, asyncpg.PostgresError, asyncpg.InterfaceError, StateError) as errors:
                log.warning("the session with the database ended, leases are lost: %s", errors.exceptions[0])
            finally:
                self._connected.clear()
                self._connection = None
                self._topics.clear()
                lost, self._leases = self._leases, {}
                for lease in lost.values():
                    lease.lost.set()
                connection.terminate()

    def _end(self, connection: object) -> None:
        self._wake.set()

    async def _keep(self, connection: PgConnection) -> None:
        """Sends what is to be sent, and says every now and then that this process is there."""
        loop = asyncio.get_running_loop()
        seen = loop.time()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, seen + SEEN_SECONDS - loop.time())):
                    await self._wake.wait()
            self._wake.clear()
            if connection.is_closed():
                raise ConnectionError("the server ended it")
            async with self._using:
                if self._outgoing:
                    await self._send(connection)
                for channel, topic in list(self._topics.items()):
                    if topic not in self._listeners:
                        del self._topics[channel]
                        await connection.remove_listener(channel, self._on_message)
                if loop.time() >= seen + SEEN_SECONDS:
                    seen = loop.time()
                    await connection.execute(_SEEN, connection.id, timeout=STALE_SECONDS)

    async def _send(self, connection: PgConnection) -> None:
        sending, self._outgoing = self._outgoing, []
        payloads = []
        for _, payload in sending:
            if len(payload.encode()) > LONGEST_PAYLOAD:
                name = secrets.token_hex(8)
                await connection.execute(_STORE, name, payload, MESSAGE_SECONDS)
                payloads.append(f"{self._id}@{name}")
            else:
                payloads.append(f"{self._id}={payload}")
        await connection.execute(_SEND, [self._channel(topic) for topic, _ in sending], payloads)

    async def _hear(self, connection: PgConnection, topic: str) -> None:
        channel = self._channel(topic)
        await connection.add_listener(channel, self._on_message)
        self._topics[channel] = topic

    def _on_message(self, connection: object, pid: int, channel: str, text: object) -> None:
        sender, kind, payload = str(text)[: len(self._id)], str(text)[len(self._id)], str(text)[len(self._id) + 1 :]
        if sender != self._id:
            self._incoming.put_nowait((self._topics.get(channel, ""), kind + payload))

    async def _receive(self) -> None:
        """Delivers what other processes told, in their order."""
        while True:
            topic, text = await self._incoming.get()
            payload = text[1:]
            if text[0] == "@":
                async with self._use() as connection:
                    payload = await connection.fetchval("SELECT body FROM store_messages WHERE id = $1", payload)
                if payload is None:
                    continue  # too late: a notification is delivered at most once
            self._deliver(topic, payload)

    def _deliver(self, topic: str, payload: str) -> None:
        for queue in self._listeners.get(topic, ()):
            queue.put_nowait(payload)

    def _channel(self, topic: str) -> str:
        """The server's name for a topic: it allows 63 bytes, and it is of the whole database."""
        return "openclaw_" + hashlib.blake2b(f"{self._server.schema}\0{topic}".encode(), digest_size=20).hexdigest()
