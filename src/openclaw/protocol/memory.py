"""A connection inside one process, with the frames, the handshake and the bounds of a websocket.

A client that sends waits for the gateway to read, and the gateway sees how much a client has not taken.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from openclaw.protocol.client import GatewayClient, greeted
from openclaw.protocol.connect_request import ConnectionLost, ConnectOptions
from openclaw.protocol.connection import Close, Disconnected
from openclaw.protocol.frames import CLOSE_NORMAL
from openclaw.protocol.peer import Peer

PEER = Peer(remote_ip="127.0.0.1", host="127.0.0.1")
"""Whoever is in this process is on this machine."""
MAX_UNREAD_BYTES = 65_536
"""A sender waits while more than this is not read yet; one message may be larger."""


class _Pipe:
    """Messages on their way in one direction, and then the end."""

    def __init__(self) -> None:
        self.unread = 0
        self.end: Close | None = None
        self.writable = asyncio.Event()
        """Set while little waits to be read, and when nobody will read it."""
        self.writable.set()
        self._messages: deque[bytes] = deque()
        self._readable = asyncio.Event()

    def put(self, *messages: bytes) -> None:
        self._messages += messages
        self.unread += sum(map(len, messages))
        self._readable.set()
        if self.unread > MAX_UNREAD_BYTES:
            self.writable.clear()

    async def get(self) -> bytes | Close:
        """The next message; once all are read, the end."""
        await self._readable.wait()
        if not self._messages:
            assert self.end is not None
            return self.end
        message = self._messages.popleft()
        self.unread -= len(message)
        if self.unread <= MAX_UNREAD_BYTES:
            self.writable.set()
        if not self._messages and self.end is None:
            self._readable.clear()
        return message

    def close(self, end: Close) -> None:
        """No more messages; what is here can still be read."""
        self.end = self.end or end
        self._readable.set()
        self.writable.set()


class MemorySocket:
    """The client's end."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def send(self, data: str | bytes) -> None:
        if self._outgoing.end is None:
            self._outgoing.put(data.encode() if isinstance(data, str) else data)
            await self._outgoing.writable.wait()
        if self._outgoing.end is not None:
            raise _lost(self._outgoing.end)

    async def receive(self) -> bytes:
        found = await self._incoming.get()
        if isinstance(found, Close):
            raise _lost(found)
        return found

    async def close(self, code: int = CLOSE_NORMAL, reason: str = "") -> None:
        for pipe in (self._outgoing, self._incoming):
            pipe.close(Close(code, reason))


class MemoryTransport:
    """The gateway's end."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self.peer = PEER
        self.closed = False
        self._incoming = incoming
        self._outgoing = outgoing

    @property
    def buffered(self) -> int:
        return self._outgoing.unread

    def established(self) -> None:
        """Nothing to do: one client needs no room."""

    async def receive(self) -> bytes:
        found = await self._incoming.get()
        if isinstance(found, Close):
            self.closed = True
            raise Disconnected(found.code, found.reason)
        return found

    async def send(self, data: bytes) -> None:
        self.post((data,))
        await self._outgoing.writable.wait()
        if self._outgoing.end is not None:
            self.closed = True
            raise Disconnected

    def post(self, messages: Sequence[bytes]) -> None:
        if self._outgoing.end is not None:
            self.closed = True
            raise Disconnected
        self._outgoing.put(*messages)

    def close(self, code: int = CLOSE_NORMAL, reason: str = "") -> None:
        self.closed = True
        for pipe in (self._outgoing, self._incoming):
            pipe.close(Close(code, reason))


def pair() -> tuple[MemorySocket, MemoryTransport]:
    """Both ends of one connection."""
    up, down = _Pipe(), _Pipe()
    return MemorySocket(down, up), MemoryTransport(up, down)


@asynccontextmanager
async def connect(
    serve: Callable[[MemoryTransport], Coroutine[Any, Any, None]], introduction: ConnectOptions
) -> AsyncIterator[GatewayClient]:
    """A greeted client of `serve` for the length of the block; both ends have ended when the block has."""
    socket, transport = pair()
    serving = asyncio.create_task(serve(transport))
    try:
        # No ticks: a gateway in this process is as silent as we are, also after Ctrl-Z and fg.
        async with greeted(GatewayClient(socket, ticks=False), introduction) as client:
            yield client
    finally:
        await socket.close()
        await serving


def _lost(end: Close) -> ConnectionLost:
    return ConnectionLost(f"the gateway closed the connection: {end.reason or end.code}", close_code=end.code)
