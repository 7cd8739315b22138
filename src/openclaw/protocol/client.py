"""An asyncio client of a gateway; `websocket.connect` and `memory.connect` make one.

    async with connect("ws://127.0.0.1:18789", ConnectOptions(…, token=token, scopes=(READ,))) as client:
        health = await client.call("health")
        async for event in client.events(): …

It never reconnects: a lost connection ends every call and every reader with `ConnectionLost`, and the caller decides.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol

from msgspec import UNSET, Raw, Struct

from openclaw.core.errors import InvalidRequest
from openclaw.protocol import frames
from openclaw.protocol.connect_request import (
    CALL_TIMEOUT,
    CallTimeout,
    ConnectionLost,
    ConnectOptions,
    Signer,
    call_failed,
    connect_request,
    read_challenge,
)
from openclaw.protocol.frames import EventFrame, RequestFrame, Response, encode, parse_from_server

MAX_UNREAD_EVENTS = 10_000


class ClientSocket(Protocol):
    """The client's end of a connection: whole text messages both ways, in order. Once it has ended, sending and
    receiving raise `ConnectionLost`; what arrived before the end is received first."""

    async def send(self, data: str | bytes) -> None: ...

    async def receive(self) -> str | bytes: ...

    async def close(self, code: int = frames.CLOSE_NORMAL, reason: str = "") -> None: ...


class EventGap(Struct, frozen=True):
    """Events were lost between two sequence numbers: reload what you show."""

    expected: int
    got: int


class GatewayClient:
    """An open connection. Made by `websocket.connect`, or by `memory.connect` inside one process.

    With `ticks` a gateway that sends nothing for two of its intervals is given up.
    """

    def __init__(self, socket: ClientSocket, *, ticks: bool = True) -> None:
        self._socket = socket
        self._ticks = ticks
        # A lost connection is the last item of every queue.
        self._calls: dict[str, asyncio.Queue[Response | ConnectionLost]] = {}
        self._events: asyncio.Queue[EventFrame | EventGap | ConnectionLost] = asyncio.Queue()
        self._lost: ConnectionLost | None = None
        self._seq: int | None = None
        self._next_id = 0
        self.hello: dict[str, Any] = {}

    async def call(
        self, method: str, params: Any = None, *, timeout: float | None = CALL_TIMEOUT, final: bool = False
    ) -> Any:
        """The payload of the answer. With `final` it waits past an `accepted` answer; a run may take hours, so pass
        `timeout=None` then."""
        try:
            async with asyncio.timeout(timeout), aclosing(self.answers(method, params)) as answers:
                async for payload in answers:
                    if not (final and isinstance(payload, dict) and payload.get("status") == "accepted"):
                        return payload
        except TimeoutError:
            raise CallTimeout(f"no answer to {method} within {timeout:g} seconds") from None

    async def answers(self, method: str, params: Any = None) -> AsyncGenerator[Any, None]:
        """Yields every answer to one request until the reader stops. Ends with `ConnectionLost`."""
        if self._lost is not None:
            raise self._lost
        self._next_id += 1
        request_id = f"{self._next_id}:{method}"
        queue = self._calls[request_id] = asyncio.Queue()
        try:
            given = Raw(encode({} if params is None else params))
            await self._socket.send(encode(RequestFrame(id=request_id, method=method, params=given)))
            while True:
                response = await queue.get()
                if isinstance(response, ConnectionLost):
                    raise response
                if not response.ok:
                    raise call_failed(response)
                yield None if response.payload is UNSET else response.payload
        finally:
            del self._calls[request_id]

    async def events(self) -> AsyncGenerator[EventFrame | EventGap, None]:
        """Yields events without ticks, and an `EventGap` where some were lost. Ends with `ConnectionLost`."""
        while True:
            event = await self._events.get()
            if isinstance(event, ConnectionLost):
                self._events.put_nowait(event)  # for the next reader
                raise event
            yield event

    async def close(self) -> None:
        await self._socket.close()

    async def greet(self, introduction: ConnectOptions, signer: Signer | None) -> None:
        """Answers the challenge and reads hello; a rejection raises `CallFailed`."""
        try:
            async with asyncio.timeout(frames.HANDSHAKE_TIMEOUT_MS / 1000):
                first = parse_from_server(await self._socket.receive())
                if not isinstance(first, EventFrame):
                    raise InvalidRequest("the gateway sent no challenge: is this really an OpenClaw gateway?")
                await self._socket.send(encode(connect_request(introduction, read_challenge(first), "connect", signer)))
                while not isinstance(answer := parse_from_server(await self._socket.receive()), Response):
                    pass
        except TimeoutError:
            raise CallTimeout("the gateway did not finish the handshake in time") from None
        if not answer.ok:
            raise call_failed(answer)
        self.hello = answer.payload if isinstance(answer.payload, dict) else {}

    async def read(self) -> None:
        """Reads until the connection ends, and hands out what comes."""
        policy = self.hello.get("policy")
        interval = policy.get("tickIntervalMs") if isinstance(policy, dict) else None
        if not isinstance(interval, int) or interval <= 0:
            interval = frames.TICK_INTERVAL_MS
        silence = 2 * interval / 1000 if self._ticks else None
        lost = ConnectionLost("the connection to the gateway is closed")
        try:
            while True:
                try:
                    async with asyncio.timeout(silence):
                        data = await self._socket.receive()
                except TimeoutError:
                    await self._socket.close(frames.CLOSE_TICK_TIMEOUT, "tick timeout")
                    raise ConnectionLost("the gateway went silent", close_code=frames.CLOSE_TICK_TIMEOUT) from None
                self._hand_out(parse_from_server(data))
        except ConnectionLost as error:
            lost = error
        finally:
            self._lost = lost
            self._events.put_nowait(lost)
            for queue in self._calls.values():
                queue.put_nowait(lost)

    def _hand_out(self, frame: Response | EventFrame | None) -> None:
        if isinstance(frame, Response):
            if queue := self._calls.get(frame.id):
                queue.put_nowait(frame)
        elif isinstance(frame, EventFrame):
            if isinstance(frame.seq, int):
                if self._seq is not None and frame.seq != self._seq + 1:
                    self._events.put_nowait(EventGap(self._seq + 1, frame.seq))
                self._seq = frame.seq
            if frame.event != "tick":
                self._events.put_nowait(frame)
            if self._events.qsize() > MAX_UNREAD_EVENTS:
                self._forget_events()

    def _forget_events(self) -> None:
        """A consumer that stopped reading must not fill the memory; it finds a gap when it comes back."""
        newest = None
        while not self._events.empty():
            newest = self._events.get_nowait()
        self._events.put_nowait(EventGap(0, self._seq or 0))
        if newest is not None:
            self._events.put_nowait(newest)


@asynccontextmanager
async def greeted(
    client: GatewayClient, introduction: ConnectOptions, signer: Signer | None = None
) -> AsyncIterator[GatewayClient]:
    """Lets `client` introduce itself, and read for the length of the block."""
    await client.greet(introduction, signer)
    reading = asyncio.create_task(client.read(), name="gateway client")
    try:
        yield client
    finally:
        reading.cancel()
        await asyncio.wait((reading,))
