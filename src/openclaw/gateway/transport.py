"""One WebSocket, as the protocol sees it: messages in, frames out, and how much the other side has not taken yet."""

import struct
from typing import Any, Protocol

from openclaw.wire.frames import close_reason
from openclaw.wire.peer import Peer

_TEXT = 0x81
"""A text message in one frame."""


class Disconnected(Exception):
    """The other side is gone; nothing can be sent any more."""

    def __init__(self, code: int = 1006, reason: str = "") -> None:
        super().__init__(f"{code} {reason}".strip())
        self.code = code
        self.reason = reason


class SocketLine(Protocol):
    """What the web server gives for one socket."""

    @property
    def waiting(self) -> int:
        """Bytes that were written and are not sent yet."""

    async def receive(self) -> Any:
        """The next message, as ASGI has it."""

    def write(self, frames: bytes) -> bool:
        """Sends whole frames, or keeps them until the other side takes them; False when there is nobody."""

    async def drained(self) -> bool:
        """Waits until the other side has taken most of it; False when it left instead."""

    def say_goodbye(self, code: int, reason: str) -> None:
        """Sends a close frame, never waiting for a client that does not read, and hangs up a little later."""


class Transport:
    """A socket that is open until one side closes it."""

    def __init__(self, peer: Peer, path: str, line: SocketLine) -> None:
        self.peer = peer
        self.path = path
        self.closed = False
        self._line = line

    @property
    def buffered(self) -> int:
        """How many bytes wait to be taken by the other side."""
        return self._line.waiting

    async def receive(self) -> str | bytes:
        """The next message; raises `Disconnected` when there will be none."""
        message = await self._line.receive()
        if message["type"] != "websocket.receive":
            self.closed = True
            raise Disconnected(message.get("code") or 1006, message.get("reason") or "")
        text = message.get("text")
        found: str | bytes = text if text is not None else message["bytes"]
        return found

    async def send(self, data: str | bytes) -> None:
        """Sends one text message; waits while the client is slower than we are."""
        self.post(framed(data.encode() if isinstance(data, str) else data))
        if not await self._line.drained():
            raise self._gone()

    def post(self, frames: bytes) -> None:
        """Sends whole frames without waiting; whoever calls watches `buffered`."""
        if self.closed or not self._line.write(frames):
            raise self._gone()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Says goodbye; harmless when the client is gone."""
        if not self.closed:
            self.closed = True
            self._line.say_goodbye(code, close_reason(reason))

    def _gone(self) -> Disconnected:
        self.closed = True
        return Disconnected()


def framed(message: bytes) -> bytes:
    """A text message as the frame a server sends: not masked, not compressed."""
    size = len(message)
    if size < 126:
        return struct.pack("!BB", _TEXT, size) + message
    if size < 65_536:
        return struct.pack("!BBH", _TEXT, 126, size) + message
    return struct.pack("!BBQ", _TEXT, 127, size) + message
