"""A connection inside one process: what a client and the gateway need of a socket, without one.

    async with connect(serve, introduction) as client:      # `serve` is given the gateway's end
        health = await client.call("health")

The frames and the handshake are those of a websocket. What waits to be read is bounded the same way: a client that
sends waits for the gateway to read, and the gateway sees how much a client has not taken. Closing one end ends the
other.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from openclaw.protocol.client import ConnectionLost, ConnectOptions, GatewayClient, greeted
from openclaw.protocol.frames import CLOSE_NORMAL
from openclaw.protocol.peer import Peer

PEER = Peer(remote_ip="127.0.0.1", host="127.0.0.1")
"""Whoever is in this process is on this machine."""
MAX_UNREAD_BYTES = 65_536
"""A sender waits while more than this is not read yet; one message may be larger."""


class CloseReason(Struct, frozen=True):
    """Why a connection ended."""

    code: int
    reason: str = ""


class _Pipe:
    """Messages on their way in one direction, and then the end."""

    def __init__(self) -> None:
        self.unread = 0
        self._messages: deque[bytes] = deque()
        self._end: CloseReason | None = None
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def end(self) -> CloseReason | None:
        return self._end

    def put(self, message: bytes) -> None:
        self._messages.append(message)
        self.unread += len(message)
        self._readable.set()
        if self.unread > MAX_UNREAD_BYTES:
            self._writable.clear()

    async def drained(self) -> None:
        """Waits until most is read, or nobody will read it."""
        await self._writable.wait()

    async def get(self) -> bytes | CloseReason:
        """The next message; once all are read, the end."""
        await self._readable.wait()
        if not self._messages:
            assert self._end is not None
            return self._end
        message = self._messages.popleft()
        self.unread -= len(message)
        if self.unread <= MAX_UNREAD_BYTES:
            self._writable.set()
        if not self._messages and self._end is None:
            self._readable.clear()
        return message

    def close(self, end: CloseReason) -> None:
        """No more messages; what is here can still be read."""
        self._end = self._end or end
        self._readable.set()
        self._writable.set()


class MemorySocket:
    """The client's end."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def send(self, data: str | bytes) -> None:
        if self._outgoing.end is None:
            self._outgoing.put(data.encode() if isinstance(data, str) else data)
            await self._outgoing.drained()
        if self._outgoing.end is not None:
            raise _lost(self._outgoing.end)

    async def receive(self) -> bytes:
        found = await self._incoming.get()
        if isinstance(found, CloseReason):
            raise _lost(found)
        return found

    async def close(self, code: int = CLOSE_NORMAL, reason: str = "") -> None:
        for pipe in (self._outgoing, self._incoming):
            pipe.close(CloseReason(code, reason))


class MemoryLine:
    """The gateway's end: what its `Transport` needs of a socket."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    @property
    def waiting(self) -> int:
        return self._outgoing.unread

    async def receive(self) -> dict[str, Any]:
        found = await self._incoming.get()
        if isinstance(found, CloseReason):
            return {"type": "websocket.disconnect", "code": found.code, "reason": found.reason}
        return {"type": "websocket.receive", "bytes": found}

    def write(self, messages: Sequence[bytes]) -> bool:
        if self._outgoing.end is not None:
            return False
        for message in messages:
            self._outgoing.put(message)
        return True

    async def drained(self) -> bool:
        await self._outgoing.drained()
        return self._outgoing.end is None

    def say_goodbye(self, code: int, reason: str) -> None:
        for pipe in (self._outgoing, self._incoming):
            pipe.close(CloseReason(code, reason))


def pair() -> tuple[MemorySocket, MemoryLine]:
    """Both ends of one connection."""
    up, down = _Pipe(), _Pipe()
    return MemorySocket(down, up), MemoryLine(up, down)


@asynccontextmanager
async def connect(
    serve: Callable[[MemoryLine], Awaitable[None]], introduction: ConnectOptions
) -> AsyncIterator[GatewayClient]:
    """A greeted client of `serve` for the length of the block; both ends have ended when the block has."""
    socket, line = pair()
    serving = asyncio.ensure_future(serve(line))
    try:
        # No ticks: a gateway in this process is as silent as we are, also after Ctrl-Z and fg.
        async with greeted(GatewayClient(socket, ticks=False), introduction) as client:
            yield client
    finally:
        await socket.close()
        await serving


def _lost(end: CloseReason) -> ConnectionLost:
    return ConnectionLost(f"the gateway closed the connection: {end.reason or end.code}", close_code=end.code)
