"""The client's half of a WebSocket (RFC 6455) without I/O: the upgrade, masked frames out, whole messages in.

The server and the channels use a library. Our own commands do not: loading it takes longer than a call.
"""

import hashlib
import os
from binascii import b2a_base64
from collections.abc import Iterator

from msgspec import Struct

from openclaw.protocol.connect_request import ConnectionLost
from openclaw.protocol.frames import CLOSE_NORMAL, CLOSE_PROTOCOL, CLOSE_TOO_BIG, MAX_PAYLOAD_BYTES

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
END_OF_HEAD = b"\r\n\r\n"
MAX_HEAD_BYTES = 65_536
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Upgrade(Struct, frozen=True):
    """One attempt to turn an HTTP connection into a WebSocket."""

    key: bytes

    @classmethod
    def new(cls) -> "Upgrade":
        return cls(b2a_base64(os.urandom(16), newline=False))

    def request(self, authority: str, path: str) -> bytes:
        return (
            f"GET {path} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {self.key.decode()}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ).encode("ascii")

    def check(self, head: bytes) -> str:
        """Why the answer with this `head` is no WebSocket; empty when it is one."""
        status, *lines = head.decode("latin-1").split("\r\n")
        if status.split(" ")[1:2] != ["101"]:
            return f"server rejected WebSocket connection: {status.removeprefix('HTTP/1.1 ') or 'no answer'}"
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        wanted = b2a_base64(hashlib.sha1(self.key + _MAGIC, usedforsecurity=False).digest(), newline=False)
        return "" if fields.get("sec-websocket-accept") == wanted.decode() else "something else than a gateway answers"


def encode_frame(kind: int, data: bytes) -> bytes:
    """A whole message as one frame, masked as a client has to."""
    size = len(data)
    if size < 126:
        head = bytes((0x80 | kind, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((0x80 | kind, 0xFE)) + size.to_bytes(2)
    else:
        head = bytes((0x80 | kind, 0xFF)) + size.to_bytes(8)
    mask = os.urandom(4)
    repeated = (mask * (size // 4 + 1))[:size]
    return head + mask + (int.from_bytes(data) ^ int.from_bytes(repeated)).to_bytes(size)


def encode_close(code: int = CLOSE_NORMAL, reason: str = "") -> bytes:
    return encode_frame(CLOSE, code.to_bytes(2) + reason.encode())


class FrameReader:
    """Collects bytes and gives whole messages; `replies` are frames that have to be sent back."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._message = bytearray()
        self.replies = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that `data` completes; raises `ConnectionLost` when the gateway closes or breaks the rules."""
        self._bytes += data
        while (frame := self._next()) is not None:
            kind, ends, payload = frame
            if kind == PING:
                self.replies += encode_frame(PONG, payload)
            elif kind == CLOSE:
                code = int.from_bytes(payload[:2]) if len(payload) > 1 else CLOSE_NORMAL
                self.replies += encode_close(code)
                why = payload[2:].decode("utf-8", "replace") or code
                raise ConnectionLost(f"the gateway closed the connection: {why}", close_code=code)
            elif kind in (CONTINUATION, TEXT, BINARY):
                self._message += payload
                if len(self._message) > MAX_PAYLOAD_BYTES:
                    raise self._broken(CLOSE_TOO_BIG, "the gateway sent more than a message may hold")
                if ends:
                    message, self._message = bytes(self._message), bytearray()
                    yield message

    def _next(self) -> tuple[int, bool, bytes] | None:
        """Kind, end of message and content of the next whole frame."""
        held = self._bytes
        if len(held) < 2:
            return None
        size, start = held[1], 2
        if held[0] & 0x70 or size & 0x80:
            raise self._broken(CLOSE_PROTOCOL, "the gateway sent a frame that is none")
        if size > 125:
            start = 4 if size == 126 else 10
            if len(held) < start:
                return None
            size = int.from_bytes(held[2:start])
        if size > MAX_PAYLOAD_BYTES:
            raise self._broken(CLOSE_TOO_BIG, "the gateway sent more than a message may hold")
        if len(held) < start + size:
            return None
        frame = held[0] & 0x0F, bool(held[0] & 0x80), bytes(held[start : start + size])
        del held[: start + size]
        return frame

    def _broken(self, code: int, why: str) -> ConnectionLost:
        self.replies += encode_close(code)
        return ConnectionLost(why, close_code=code)
