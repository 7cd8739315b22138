"""The smallest client of a gateway: raw frames over a socket, the handshake, pongs. `heard` gets the rest."""

import asyncio
import base64
import os
import struct

from openclaw.core.secret import Secret
from openclaw.protocol.connect_request import ConnectOptions, connect_request, read_challenge
from openclaw.protocol.frames import EventFrame, Response, encode, parse_from_server
from openclaw.protocol.scopes import SCOPES

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


def frame(kind: int, data: bytes) -> bytes:
    """A client's frame. Its mask may be zero: the frame is then as it is."""
    if len(data) < 126:
        size = bytes([0x80 | len(data)])
    else:
        size = struct.pack("!BH", 0xFE, len(data)) if len(data) < 65536 else struct.pack("!BQ", 0xFF, len(data))
    return bytes([0x80 | kind]) + size + bytes(4) + data


def payload_at(data: bytearray, at: int) -> tuple[int, int, int] | None:
    """Kind, start and end of the payload of the frame at `at`, once all of it is there."""
    if len(data) < at + 2:
        return None
    size, start = data[at + 1] & 0x7F, at + 2
    if size == 126:
        size, start = int.from_bytes(data[at + 2 : at + 4]), at + 4
    elif size == 127:
        size, start = int.from_bytes(data[at + 2 : at + 10]), at + 10
    start += 4 * (data[at + 1] >> 7)
    return (data[at] & 0x0F, start, start + size) if len(data) >= start + size else None


class RawClient(asyncio.Protocol):
    """One connection: the upgrade, the handshake, then every text that comes goes to `heard`."""

    def __init__(self, port: int, token: Secret) -> None:
        self._port = port
        self._token = token
        self._buffer = bytearray()
        self._upgraded = False
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed = False

    def heard(self, data: bytes) -> None:
        """A text frame after the handshake."""
        raise NotImplementedError

    def send(self, text: bytes) -> None:
        self._transport.write(frame(TEXT, text))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        transport.write(
            f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )

    def connection_lost(self, _: Exception | None) -> None:
        self.closed = True
        if not self.ready.done():
            self.ready.set_exception(ConnectionError("the gateway hung up"))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._upgraded:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            del self._buffer[: end + 4]
            self._upgraded = True
        at = 0
        while (found := payload_at(self._buffer, at)) is not None:
            kind, start, at = found
            self._take(kind, bytes(self._buffer[start:at]))
        del self._buffer[:at]

    def _take(self, kind: int, data: bytes) -> None:
        if kind == PING:
            self._transport.write(frame(PONG, data))
        elif kind == CLOSE:
            self._transport.close()
        elif self.ready.done():
            self.heard(data)
        elif isinstance(shown := parse_from_server(data), EventFrame):
            card = ConnectOptions(version="0", platform="test", scopes=SCOPES, token=self._token)
            self.send(encode(connect_request(card, read_challenge(shown), "connect", None)))
        elif isinstance(shown, Response) and shown.ok:
            self.ready.set_result(None)
        else:
            self.ready.set_exception(ConnectionError(f"the gateway refused: {data[:300]!r}"))
