"""Serves WebSocket clients: handshake, then requests and answers, until one side leaves."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from openclaw.core.clock import Clock, millis
from openclaw.gateway.connections import ConnectedClient, Connections, Transport
from openclaw.protocol import frames
from openclaw.protocol.auth import AuthLimiter, AuthPolicy, Verify
from openclaw.protocol.connect import HelloSnapshot, ServerFeatures
from openclaw.protocol.connection import Close, Disconnected, Send
from openclaw.protocol.frames import (
    MAX_WAITING_BYTES,
    MAX_WAITING_REQUESTS,
    UNAVAILABLE,
    ErrorShape,
    RequestFrame,
    failure,
)
from openclaw.protocol.handshake import DeviceDirectory, Established, Handshake, Refused
from openclaw.protocol.rpc import FindsMethods, dispatch

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
                transport.close(frames.CLOSE_NORMAL)
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
