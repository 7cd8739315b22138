"""A client's WebSocket, the server's side of it: `WebSocketConnection` is a `Transport`."""

import asyncio
import binascii
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from openclaw.protocol.connection import Disconnected
from openclaw.protocol.frames import CLOSE_INTERNAL, CLOSE_NORMAL, close_reason
from openclaw.protocol.framing import (
    CLOSE,
    NO_CODE,
    NOT_TEXT,
    PING,
    PONG,
    TEXT,
    BrokenFrame,
    FrameReader,
    accept_key,
    encode_close,
    encode_frame,
    parse_close,
)
from openclaw.protocol.peer import Peer

LOST = 1006
"""The code of a connection that ended without one."""
_PING = encode_frame(PING, b"", masked=False)


def handshake(scope: Mapping[str, Any]) -> bytes | str:
    """The answer to a request for a WebSocket, or what is wrong with it."""
    headers = {name: value.decode("latin-1").strip() for name, value in scope["headers"]}
    key = headers.get(b"sec-websocket-key", "")
    try:
        whole = len(binascii.a2b_base64(key, strict_mode=True)) == 16
    except ValueError:
        whole = False
    if scope["method"] != "GET" or scope["http_version"] != "1.1" or not whole:
        return "this is no handshake of a WebSocket"
    if headers.get(b"sec-websocket-version") != "13":
        return "only version 13 of the WebSocket protocol is spoken here"
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept_key(key)}\r\n\r\n"
    ).encode("ascii")


class SocketOwner(Protocol):
    """Who has to know how far a WebSocket has got."""

    def establish(self) -> None:
        """The client has authenticated."""

    def leaves(self, connection: "WebSocketConnection") -> None:
        """The connection is gone."""


class WebSocketConnection(asyncio.Protocol):
    """One WebSocket after its handshake. Events go to many of them, and none may wait for another."""

    # A thousand clients may be connected, and most of them only listen.
    __slots__ = (
        "_end",
        "_frames",
        "_goodbye",
        "_heard",
        "_messages",
        "_owner",
        "_paused",
        "_timer",
        "_waiter",
        "_writable",
        "closed",
        "peer",
        "transport",
    )

    def __init__(
        self, transport: asyncio.Transport, peer: Peer, owner: SocketOwner, limit: int, goodbye: float
    ) -> None:
        self.peer = peer
        self.closed = False
        self.transport = transport
        self._owner = owner
        self._goodbye = goodbye
        self._frames = FrameReader(masked=True, limit=limit)
        self._messages: deque[str | bytes] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._end: tuple[int, str] | None = None
        self._paused = False
        self._heard = True
        self._writable: asyncio.Event | None = None
        """While the client does not read: set when it does again."""
        self._timer: asyncio.TimerHandle | None = None

    # The transport's side.

    def data_received(self, data: bytes) -> None:
        self._heard = True
        try:
            for kind, payload in self._frames.feed(data):
                if kind == CLOSE:
                    self._leave(*parse_close(payload))
                    return
                if kind == PING:
                    self.transport.write(encode_frame(PONG, payload, masked=False))
                elif kind != PONG:
                    self._take(payload.decode() if kind == TEXT else payload)
        except BrokenFrame as error:
            self.close(error.code, str(error))
        except UnicodeDecodeError:
            self.close(NOT_TEXT, "a text that is not UTF-8")

    def _take(self, message: str | bytes) -> None:
        if self.closed:
            return
        if self._messages is None:
            self._messages = deque()
        self._messages.append(message)
        if self._waiter is not None:
            self._wake()
        elif not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def _leave(self, code: int, reason: str) -> None:
        """The client closes, or answers our close."""
        if not self.closed:
            self.closed = True
            self.transport.write(encode_close(code, masked=False))
            self._finish(LOST if code == NO_CODE else code, reason)
        self.transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        self.closed = True
        self._owner.leaves(self)
        if self._timer is not None:
            self._timer.cancel()
        self._finish(LOST, "")
        if self._writable is not None:
            self._writable.set()

    def pause_writing(self) -> None:
        self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        if self._writable is not None:
            self._writable.set()
            self._writable = None

    def beat(self) -> None:
        """Asks for a sign of life; one that gave none since the last time is closed."""
        if self.closed or self.transport.is_closing() or self._paused:
            return
        if not self._heard:
            self.close(CLOSE_INTERNAL, "keepalive ping timeout")
            return
        self._heard = False
        self.transport.write(_PING)

    # The side of those who serve the client.

    @property
    def buffered(self) -> int:
        return self.transport.get_write_buffer_size()

    def established(self) -> None:
        self._owner.establish()

    async def receive(self) -> str | bytes:
        while not self._messages:
            if self._end is not None:
                self.closed = True
                raise Disconnected(*self._end)
            self._resume()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        message = self._messages.popleft()
        if not self._messages:
            self._messages = None
            self._resume()
        return message

    async def send(self, data: bytes) -> None:
        self.post((data,))
        if self._writable is not None:
            await self._writable.wait()
            if self.transport.is_closing():
                self.closed = True
                raise Disconnected

    def post(self, messages: Sequence[bytes]) -> None:
        if self.closed or self.transport.is_closing():
            self.closed = True
            raise Disconnected
        self.transport.write(_framed(messages))

    def close(self, code: int = CLOSE_NORMAL, reason: str = "") -> None:
        """Sends a close frame without waiting for a client that does not read, and closes a little later."""
        if self.closed or self.transport.is_closing():
            self.closed = True
            return
        self.closed = True
        reason = close_reason(reason)
        self.transport.write(encode_close(code, reason, masked=False))
        self._finish(code, reason)
        self._resume()
        # No closing handshake: it would wait for a client that never reads what is already in the buffer.
        self._timer = asyncio.get_running_loop().call_later(self._goodbye, self.transport.abort)

    def _finish(self, code: int, reason: str) -> None:
        if self._end is None:
            self._end = code, reason
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            self.transport.resume_reading()


def _framed(messages: Iterable[bytes]) -> bytes:
    return b"".join([encode_frame(TEXT, message, masked=False) for message in messages])
