"""WebSocket clients: one handshake, then requests in and answers and events out, until one side leaves."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

from openclaw.core.clock import Clock, millis
from openclaw.gateway.bus import Bus, Notice
from openclaw.gateway.presence import Presence
from openclaw.gateway.server import Disconnected, Transport
from openclaw.wire.actions import Close, Send
from openclaw.wire.auth import Policy
from openclaw.wire.connection import (
    TOO_MANY,
    Broadcast,
    Connection,
    Intake,
    Withdrawal,
    broadcast,
)
from openclaw.wire.frames import TICK_INTERVAL_MS, Request, StateVersion, failure
from openclaw.wire.handshake import Action, Established, Handshake, Limiter, settle
from openclaw.wire.handshake import Desk as DeviceDesk
from openclaw.wire.hello import Offer, Snapshot
from openclaw.wire.proof import Verify
from openclaw.wire.rpc import Registry, dispatch


class _Client:
    """One connection and its socket; frames leave in the order they were decided."""

    def __init__(self, connection: Connection, transport: Transport) -> None:
        self.connection = connection
        self.transport = transport
        self._turn = asyncio.Lock()

    async def do(self, action: Send | Close | None) -> None:
        if action is None:
            return
        async with self._turn:
            if isinstance(action, Send):
                await self.transport.send(action.data)
            else:
                await self.transport.close(action.code, action.reason)
                raise Disconnected(action.code, action.reason)


class Sockets:
    """Every connected client."""

    def __init__(
        self,
        *,
        policy: Callable[[], Policy],
        registry: Registry,
        offer: Callable[[], Offer],
        snapshot: Callable[[], Awaitable[Snapshot]],
        bus: Bus,
        presence: Presence,
        devices: DeviceDesk,
        limiter: Limiter,
        verify: Verify,
        clock: Clock,
    ) -> None:
        self._policy = policy
        self._registry = registry
        self._offer = offer
        self._snapshot = snapshot
        self._bus = bus
        self._presence = presence
        self._devices = devices
        self._limiter = limiter
        self._verify = verify
        self._clock = clock
        self._intake = Intake()
        self._clients: dict[str, _Client] = {}

    def connection(self, conn_id: str) -> Connection | None:
        client = self._clients.get(conn_id)
        return client.connection if client else None

    @property
    def count(self) -> int:
        return len(self._clients)

    def is_connected(self, device_id: str) -> bool:
        return any(client.connection.caller.device_id == device_id for client in self._clients.values())

    async def serve(self, transport: Transport) -> None:
        """One client, from its first byte to its last."""
        established = await self._greet(transport)
        if established is None:
            return
        connection = established.connection
        client = self._clients[connection.caller.conn_id] = _Client(connection, transport)
        try:
            await client.do(connection.hello(established.request_id, self._offer(), await self._snapshot()))
            self._announce(self._presence.joined(connection.caller))
            await self._converse(client, established.waiting)
        finally:
            del self._clients[connection.caller.conn_id]
            self._announce(self._presence.left(connection.caller))

    async def withdraw(self, change: Withdrawal) -> int:
        """Ends the connections that a change of authority concerns; gives how many."""
        ended = 0
        for client in list(self._clients.values()):
            close = client.connection.withdrawn(change)
            if close is not None:
                ended += 1
                await client.transport.close(close.code, close.reason)
        return ended

    async def _greet(self, transport: Transport) -> Established | None:
        """The handshake; None when it ended the socket."""
        now = millis(self._clock)
        handshake = Handshake(
            self._policy(),
            transport.peer,
            conn_id=str(uuid.uuid4()),
            nonce=str(uuid.uuid4()),
            now=now,
            limiter=self._limiter,
            verify=self._verify,
        )
        await transport.send(handshake.open().data)
        while not handshake.over:
            left = (handshake.deadline - millis(self._clock)) / 1000
            try:
                async with asyncio.timeout(max(0.0, left)):
                    data = await transport.receive()
                actions = handshake.feed(data, millis(self._clock))
            except TimeoutError:
                actions = handshake.expire()
            for action in await self._settled(handshake, actions, transport):
                match action:
                    case Established():
                        return action
                    case Send(data):
                        await transport.send(data)
                    case Close(code, reason):
                        await transport.close(code, reason)
                        return None
        return None

    async def _settled(
        self, handshake: Handshake, actions: Sequence[Action], transport: Transport
    ) -> Sequence[Send | Close | Established]:
        """What to do, once the pairing book has answered; frames that come in the meantime are counted and kept."""
        if all(isinstance(action, Send | Close | Established) for action in actions):
            return [action for action in actions if isinstance(action, Send | Close | Established)]
        settling = asyncio.create_task(settle(handshake, actions, self._devices, millis(self._clock)))
        try:
            while not settling.done():
                reading = asyncio.create_task(transport.receive())
                both: set[asyncio.Task[Any]] = {settling, reading}
                try:
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not reading.done():
                        reading.cancel()
                        await asyncio.gather(reading, return_exceptions=True)
                if not reading.cancelled():
                    ended = handshake.feed(reading.result(), millis(self._clock))
                    if ended:
                        return [action for action in ended if isinstance(action, Send | Close)]
            return settling.result()
        finally:
            settling.cancel()
            await asyncio.gather(settling, return_exceptions=True)

    async def _converse(self, client: _Client, waiting: tuple[bytes | str, ...]) -> None:
        """Reads requests and hears events side by side; the first end of either ends both."""
        with self._bus.listening() as listener:
            async with asyncio.TaskGroup() as group:
                pump = group.create_task(self._pump(client, listener.__aiter__()), name="events")
                ticks = group.create_task(self._tick(client), name="ticks")
                requests: set[asyncio.Task[None]] = set()
                try:
                    for data in waiting:
                        await self._take(client, data, group, requests)
                    while True:
                        await self._take(client, await client.transport.receive(), group, requests)
                except Disconnected:
                    pass
                finally:
                    for task in (pump, ticks, *requests):
                        task.cancel()

    async def _take(
        self, client: _Client, data: bytes | str, group: asyncio.TaskGroup, requests: "set[asyncio.Task[None]]"
    ) -> None:
        connection = client.connection
        match connection.receive(data):
            case Request() as request:
                size = len(data)
                if not self._intake.offer(size):
                    for action in connection.answer(failure(request.id, TOO_MANY), client.transport.buffered()):
                        await client.do(action)
                    return
                task = group.create_task(self._answer(client, request, size), name=f"rpc:{request.method}")
                requests.add(task)
                task.add_done_callback(requests.discard)
            case action:
                await client.do(action)

    async def _answer(self, client: _Client, request: Request, size: int) -> None:
        self._intake.started(size)
        try:
            async with aclosing(dispatch(self._registry, request, client.connection.caller)) as responses:
                async for response in responses:
                    for action in client.connection.answer(response, client.transport.buffered()):
                        await client.do(action)
        except Disconnected:
            return

    async def _pump(self, client: _Client, notices: Any) -> None:
        try:
            async for notice in notices:
                news = _news(notice, self._presence.version)
                await client.do(client.connection.hear(news, client.transport.buffered()))
        except Disconnected:
            return

    async def _tick(self, client: _Client) -> None:
        try:
            while True:
                await self._clock.sleep(TICK_INTERVAL_MS / 1000)
                await client.do(client.connection.tick(millis(self._clock), client.transport.buffered()))
        except Disconnected:
            return

    def _announce(self, changed: bool) -> None:
        if changed:
            self._bus.publish("presence", {"presence": self._presence.list()})


def _news(notice: Notice, presence_version: int) -> Broadcast:
    state = StateVersion(presence=presence_version, health=1) if notice.event in ("presence", "health") else None
    return broadcast(
        notice.event,
        notice.payload,
        session_key=notice.session_key or None,
        stream=notice.payload.get("stream") if notice.event == "agent" else None,
        state_version=state,
    )
