"""Connected clients: `WebSocketServer` answers their requests, `Connections` fans events out to those that subscribed.

One task reads the bus for all connections. An event is encoded once; events that came together leave in one write.
A client that does not read is not waited for: its backlog is bounded, and past the bound it is disconnected.
"""

import asyncio
import logging
import os
import platform
import socket
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from openclaw.core.clock import Clock, millis
from openclaw.protocol.auth import AuthLimiter, AuthPolicy, Verify
from openclaw.protocol.connect import HelloSnapshot, ServerFeatures
from openclaw.protocol.connection import AccessChange, Close, Connection, Disconnected, Send
from openclaw.protocol.events import BusEvent, EventBus
from openclaw.protocol.frames import (
    CLOSE_INTERNAL,
    CLOSE_NORMAL,
    MAX_WAITING_BYTES,
    MAX_WAITING_REQUESTS,
    TICK_INTERVAL_MS,
    UNAVAILABLE,
    ErrorShape,
    RequestFrame,
    StateVersion,
    failure,
)
from openclaw.protocol.handshake import DeviceDirectory, Established, Handshake, Refused
from openclaw.protocol.peer import Peer
from openclaw.protocol.rpc import Caller, FindsMethods, dispatch
from openclaw.version import __version__

UNLISTED = ("cli", "backend", "probe")
KEPT_AFTER_LEAVING = 20

log = logging.getLogger("openclaw.gateway")


# Presence.


class Presence:
    """The presence list: the gateway itself and its clients; short-lived ones are not listed."""

    def __init__(self, clock: Clock) -> None:
        self.node = ""
        """The name of this gateway among several."""
        self._elsewhere: dict[str, Sequence[dict[str, Any]]] = {}
        """What the others have in their lists."""
        self._clock = clock
        self._rows: dict[str, dict[str, Any]] = {}
        self._gone: list[dict[str, Any]] = []
        self.version = 1
        self._own = {
            "host": socket.gethostname(),
            "version": __version__,
            "platform": platform.system().lower(),
            "mode": "gateway",
            "reason": "self",
            "instanceId": str(os.getpid()),
            "text": f"Gateway: {socket.gethostname()}",
        }

    def list(self) -> "list[dict[str, Any]]":
        return [*self.here(), *(row for rows in self._elsewhere.values() for row in rows)]

    def here(self) -> Sequence[dict[str, Any]]:
        """This gateway and its clients."""
        rows = ({"ts": millis(self._clock), **self._own}, *self._rows.values(), *self._gone)
        return [{**row, **({"node": self.node} if self.node else {})} for row in rows]

    def set_elsewhere(self, node: str, rows: Sequence[dict[str, Any]]) -> None:
        """Takes the list of another gateway, which is empty when that is gone."""
        self._elsewhere[node] = rows
        if not rows:
            del self._elsewhere[node]
        self.version += 1

    def joined(self, caller: Caller) -> bool:
        """Adds a client; whether the list changed."""
        if caller.client_mode in UNLISTED:
            return False
        now = millis(self._clock)
        row = {
            "ts": now,
            "onlineSince": now,
            "clientId": caller.client_id,
            "mode": caller.client_mode,
            "version": caller.version,
            "platform": caller.platform,
            "ip": caller.remote_ip,
            "host": caller.display_name or caller.client_id,
            "roles": [caller.role],
            "scopes": list(caller.scopes),
            "reason": "connect",
            **({"deviceId": caller.device_id} if caller.device_id else {}),
            **({"instanceId": caller.instance_id} if caller.instance_id else {}),
        }
        self._rows[caller.conn_id] = row
        self.version += 1
        return True

    def left(self, caller: Caller) -> bool:
        row = self._rows.pop(caller.conn_id, None)
        if row is None:
            return False
        self._gone = [{**row, "reason": "disconnect", "ts": millis(self._clock)}, *self._gone][:KEPT_AFTER_LEAVING]
        self.version += 1
        return True


class Transport(Protocol):
    """A socket that is open until one side closes it."""

    @property
    def peer(self) -> Peer: ...

    @property
    def closed(self) -> bool: ...

    @property
    def buffered(self) -> int:
        """How many bytes wait to be taken by the client."""
        ...

    def established(self) -> None:
        """The client has authenticated: it is not closed to make room for others any more."""

    async def receive(self) -> str | bytes:
        """The next message; raises `Disconnected` when there will be none."""
        ...

    async def send(self, data: bytes) -> None:
        """Sends one text message; waits while the client is slower than we are."""

    def post(self, messages: Sequence[bytes]) -> None:
        """Sends text messages without waiting; whoever calls watches `buffered`."""

    def close(self, code: int = CLOSE_NORMAL, reason: str = "") -> None:
        """Closes the socket; harmless when the client is gone."""


async def attend(serve: Callable[[Transport], Awaitable[None]], transport: Transport) -> None:
    """Serves one client to its end. A connection is where a bug ends: the client is told, the others never notice."""
    try:
        await serve(transport)
    except Disconnected:
        pass
    except Exception:
        log.exception("a connection from %s failed", transport.peer.remote_ip)
        transport.close(CLOSE_INTERNAL, "internal error")
    finally:
        transport.close()


MOST_AT_ONCE = 32
"""Events sent to everyone before other tasks get their turn: a thousand clients take a while."""


# The fan-out.


class ConnectedClient(Struct, frozen=True, eq=False):
    """One connection and its socket."""

    connection: Connection
    transport: Transport

    async def do(self, action: Send | Close | None) -> None:
        """Carries out what the connection decided, and waits for a client that is slower than we are."""
        match action:
            case Send(data):
                await self.transport.send(data)
            case Close(code, reason):
                self.transport.close(code, reason)
                raise Disconnected(code, reason)


class Connections:
    """The clients that have completed the handshake."""

    def __init__(self, bus: EventBus, presence: Presence, clock: Clock) -> None:
        self._bus = bus
        self._presence = presence
        self._clock = clock
        self._members: dict[str, ConnectedClient] = {}
        self._hearing: set[ConnectedClient] = set()
        self.delivered = 0
        self.cut = 0
        """Clients shown out because they did not read."""
        self._dropped_before = 0

    def __len__(self) -> int:
        return len(self._members)

    @property
    def dropped(self) -> int:
        """Events that clients missed because they did not read."""
        return self._dropped_before + sum(member.connection.dropped for member in self._members.values())

    def has(self, scope: str) -> bool:
        """Whether a client is connected that may do what needs `scope`."""
        return any(member.connection.caller.may(scope) for member in self._members.values())

    def connection(self, conn_id: str) -> Connection | None:
        member = self._members.get(conn_id)
        return member.connection if member else None

    def is_connected(self, device_id: str) -> bool:
        return any(member.connection.caller.device_id == device_id for member in self._members.values())

    @contextmanager
    def joined(self, member: ConnectedClient) -> Iterator[None]:
        """Registers a client for as long as the block lasts: from here on a change of authority reaches it."""
        caller = member.connection.caller
        self._members[caller.conn_id] = member
        try:
            yield
        finally:
            del self._members[caller.conn_id]
            self._hearing.discard(member)
            self._dropped_before += member.connection.dropped
            self._announce(self._presence.left(caller))

    def greeted(self, member: ConnectedClient) -> None:
        """Starts sending events to a client that has its hello."""
        self._hearing.add(member)
        self._announce(self._presence.joined(member.connection.caller))

    def withdraw(self, change: AccessChange) -> int:
        """Ends the connections that a change of authority concerns; gives how many."""
        ended = 0
        for member in self._members.values():
            close = member.connection.withdrawn(change)
            if close is not None:
                ended += 1
                member.transport.close(close.code, close.reason)
        return ended

    async def keep(self) -> None:
        """Sends events to their subscribers, and ticks, until it is cancelled."""
        loop = asyncio.get_running_loop()

        def send() -> None:
            """Sends what arrived in one step of the loop; a task that waits for it would take several."""
            notices = listener.take(MOST_AT_ONCE)
            if listener.waiting:
                loop.call_soon(send)
            if listener.missed:
                for member in self._hearing:
                    member.connection.seq += listener.missed  # a gap in the numbers tells clients to reload
                listener.missed = 0
            self._fan_out(notices)

        with self._bus.listening(everywhere=True, arrived=partial(loop.call_soon, send)) as listener:
            while True:
                await self._clock.sleep(TICK_INTERVAL_MS / 1000)
                self._fan_out([BusEvent("tick", {"ts": millis(self._clock)})])

    def _fan_out(self, news: Sequence[BusEvent]) -> None:
        for member in self._hearing:
            transport = member.transport
            if transport.closed:
                continue
            waiting = transport.buffered
            messages: list[bytes] = []
            for item in news:
                action = member.connection.hear(item, waiting)
                if isinstance(action, Close):
                    self.cut += 1
                    name = member.connection.caller.client_id
                    log.warning("a client (%s) does not read and is cut: %d bytes wait", name, waiting)
                    transport.close(action.code, action.reason)
                    break
                if action is not None:
                    messages.append(action.data)
                    waiting += len(action.data)
            if messages and not transport.closed:
                self.delivered += len(messages)
                with suppress(Disconnected):  # the task that reads this socket notices, and unregisters the client
                    transport.post(messages)

    def hear_presence(self, node: str, rows: Sequence[dict[str, Any]]) -> None:
        """Takes the presence list of another gateway, and tells the clients of this one."""
        self._presence.set_elsewhere(node, rows)
        self._announce(True, here=False)

    def _announce(self, changed: bool, *, here: bool = True) -> None:
        if changed:
            version = StateVersion(presence=self._presence.version, health=1)
            self._bus.publish("presence", {"presence": self._presence.list()}, state_version=version, here=here)


# Serving one client: handshake, then requests and answers, until one side leaves.

TOO_MANY = ErrorShape(code=UNAVAILABLE, message="too many requests are waiting; try again", retryable=True)


class WebSocketServer:
    """Accepts WebSocket clients."""

    def __init__(
        self,
        *,
        policy: Callable[[], AuthPolicy],
        registry: FindsMethods,
        offer: Callable[[], ServerFeatures],
        snapshot: Callable[[], Awaitable[HelloSnapshot]],
        connections: Connections,
        devices: DeviceDirectory,
        limiter: AuthLimiter,
        verify: Verify,
        clock: Clock,
    ) -> None:
        self._policy = policy
        self._registry = registry
        self._offer = offer
        self._snapshot = snapshot
        self._connections = connections
        self._devices = devices
        self._limiter = limiter
        self._verify = verify
        self._clock = clock
        self._unstarted: dict[object, int] = {}
        """The tasks of requests, of all clients, that wait for their first step, with the sizes of the requests."""

    async def serve(self, transport: Transport) -> None:
        """Serves one client, from its first byte to its last; cancels what is being answered then."""
        established = await self._greet(transport)
        if established is None:
            return
        transport.established()
        connection = established.connection
        member = ConnectedClient(connection, transport)
        with self._connections.joined(member):
            await member.do(connection.hello(established.request_id, self._offer(), await self._snapshot()))
            self._connections.greeted(member)
            async with asyncio.TaskGroup() as group:
                requests: set[asyncio.Task[None]] = set()
                try:
                    for data in established.waiting:
                        await self._accept(member, data, group, requests)
                    while True:
                        await self._accept(member, await transport.receive(), group, requests)
                except Disconnected:
                    pass
                finally:
                    for task in requests:
                        task.cancel()

    async def _greet(self, transport: Transport) -> Established | None:
        """Performs the handshake; None when it ended the socket."""
        handshake = Handshake(
            self._policy(),
            transport.peer,
            conn_id=str(uuid.uuid4()),
            nonce=str(uuid.uuid4()),
            now=millis(self._clock),
            limiter=self._limiter,
            directory=self._devices,
            verify=self._verify,
        )
        await transport.send(handshake.open().data)
        while True:
            left = (handshake.deadline - millis(self._clock)) / 1000
            try:
                async with asyncio.timeout(max(0.0, left)):
                    data = await transport.receive()
            except TimeoutError:
                transport.close(CLOSE_NORMAL)
                return None
            match handshake.feed(data):
                case RequestFrame() as request:
                    return await self._judge(handshake, request, transport)
                case Send(data):
                    await transport.send(data)
                case Close(code, reason):
                    transport.close(code, reason)
                    return None

    async def _judge(self, handshake: Handshake, request: RequestFrame, transport: Transport) -> Established | None:
        """Decides about the first request; frames that arrive meanwhile are counted and kept."""
        judging = asyncio.create_task(handshake.judge(request, millis(self._clock)))
        try:
            while not judging.done():
                reading = asyncio.create_task(transport.receive())
                both: set[asyncio.Task[Any]] = {judging, reading}
                try:
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not reading.done():
                        reading.cancel()
                        await asyncio.gather(reading, return_exceptions=True)
                if not reading.cancelled() and isinstance(close := handshake.feed(reading.result()), Close):
                    transport.close(close.code, close.reason)
                    return None
            outcome = judging.result()
        finally:
            judging.cancel()
            await asyncio.gather(judging, return_exceptions=True)
        if isinstance(outcome, Refused):
            await transport.send(outcome.answer.data)
            transport.close(outcome.close.code, outcome.close.reason)
            return None
        return outcome

    async def _accept(
        self, member: ConnectedClient, data: bytes | str, group: asyncio.TaskGroup, requests: "set[asyncio.Task[None]]"
    ) -> None:
        """Starts to answer the request in one frame."""
        connection = member.connection
        match connection.receive(data):
            case RequestFrame() as request:
                waiting = self._unstarted
                if len(waiting) >= MAX_WAITING_REQUESTS or sum(waiting.values()) + len(data) > MAX_WAITING_BYTES:
                    for action in connection.answer(failure(request.id, TOO_MANY), member.transport.buffered):
                        await member.do(action)
                    return

                def ended(task: asyncio.Task[None]) -> None:
                    requests.discard(task)
                    waiting.pop(task, None)  # cancelled before its first step

                task = group.create_task(self._answer(member, request), name=f"rpc:{request.method}")
                requests.add(task)
                waiting[task] = len(data)
                task.add_done_callback(ended)
            case action:
                await member.do(action)

    async def _answer(self, member: ConnectedClient, request: RequestFrame) -> None:
        self._unstarted.pop(asyncio.current_task(), None)
        try:
            async with aclosing(dispatch(self._registry, request, member.connection.caller)) as responses:
                async for response in responses:
                    for action in member.connection.answer(response, member.transport.buffered):
                        await member.do(action)
        except Disconnected:
            return
