"""Serves WebSocket clients: handshake, then requests and answers, until one side leaves."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

from openclaw.core.clock import Clock, millis
from openclaw.gateway.connections import ConnectedClient, Connections, Disconnected, Transport
from openclaw.protocol.auth import AuthPolicy, Verify
from openclaw.protocol.connect import HelloSnapshot, ServerFeatures
from openclaw.protocol.connection import TOO_MANY, Close, RequestIntake, RequestSlot, Send
from openclaw.protocol.frames import RequestFrame, failure
from openclaw.protocol.handshake import Action, Established, Handshake, HandshakeLimiter, resolve_actions
from openclaw.protocol.handshake import DeviceDirectory as DeviceDesk
from openclaw.protocol.rpc import FindsMethods, dispatch


class WebSocketServer:
    """Accepts WebSocket clients."""

    def __init__(
        self,
        *,
        policy: Callable[[], AuthPolicy],
        registry: FindsMethods,
        offer: Callable[[], ServerFeatures],
        snapshot: Callable[[], Awaitable[HelloSnapshot]],
        audience: Connections,
        devices: DeviceDesk,
        limiter: HandshakeLimiter,
        verify: Verify,
        clock: Clock,
    ) -> None:
        self._policy = policy
        self._registry = registry
        self._offer = offer
        self._snapshot = snapshot
        self._audience = audience
        self._devices = devices
        self._limiter = limiter
        self._verify = verify
        self._clock = clock
        self._intake = RequestIntake()

    async def serve(self, transport: Transport) -> None:
        """Serves one client, from its first byte to its last."""
        established = await self._greet(transport)
        if established is None:
            return
        connection = established.connection
        member = ConnectedClient(connection, transport)
        with self._audience.joined(member):
            await member.do(connection.hello(established.request_id, self._offer(), await self._snapshot()))
            self._audience.greeted(member)
            await self._converse(member, established.waiting)

    async def _greet(self, transport: Transport) -> Established | None:
        """Performs the handshake; None when it ended the socket."""
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
                        transport.close(code, reason)
                        return None
        return None

    async def _settled(
        self, handshake: Handshake, actions: Sequence[Action], transport: Transport
    ) -> Sequence[Send | Close | Established]:
        """The next actions, once pairing has answered; frames that arrive meanwhile are counted and kept."""
        if all(isinstance(action, Send | Close | Established) for action in actions):
            return [action for action in actions if isinstance(action, Send | Close | Established)]
        settling = asyncio.create_task(resolve_actions(handshake, actions, self._devices, millis(self._clock)))
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

    async def _converse(self, member: ConnectedClient, waiting: tuple[bytes | str, ...]) -> None:
        """Handles requests until the socket ends; cancels what is being answered then."""
        async with asyncio.TaskGroup() as group:
            requests: set[asyncio.Task[None]] = set()
            try:
                for data in waiting:
                    await self._take(member, data, group, requests)
                while True:
                    await self._take(member, await member.transport.receive(), group, requests)
            except Disconnected:
                pass
            finally:
                for task in requests:
                    task.cancel()

    async def _take(
        self, member: ConnectedClient, data: bytes | str, group: asyncio.TaskGroup, requests: "set[asyncio.Task[None]]"
    ) -> None:
        connection = member.connection
        match connection.receive(data):
            case RequestFrame() as request:
                place = self._intake.offer(len(data))
                if place is None:
                    for action in connection.answer(failure(request.id, TOO_MANY), member.transport.buffered):
                        await member.do(action)
                    return
                task = group.create_task(self._answer(member, request, place), name=f"rpc:{request.method}")
                requests.add(task)
                task.add_done_callback(requests.discard)
                # One that is cancelled before its first step releases its place too.
                task.add_done_callback(lambda _: place.leave())
            case action:
                await member.do(action)

    async def _answer(self, member: ConnectedClient, request: RequestFrame, place: RequestSlot) -> None:
        place.leave()
        try:
            async with aclosing(dispatch(self._registry, request, member.connection.caller)) as responses:
                async for response in responses:
                    for action in member.connection.answer(response, member.transport.buffered):
                        await member.do(action)
        except Disconnected:
            return
