"""WebSocket frames (RFC 6455) without I/O, for both sides: bytes into whole messages, messages into bytes.

Our own, because of what a library keeps for each of a thousand clients, and because loading one takes longer than most
commands. No extensions: nothing is compressed.
"""

import os
from binascii import b2a_base64
from collections.abc import Iterator

from openclaw.protocol.frames import CLOSE_NORMAL, CLOSE_PROTOCOL, CLOSE_TOO_BIG, MAX_PAYLOAD_BYTES

try:
    # As `random` does: hashlib loads OpenSSL, which takes longer than the answer to most questions.
    from _sha1 import sha1  # type: ignore[import-not-found]
except ImportError:
    from hashlib import sha1

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NO_CODE = 1005
"""The code of a close frame that has none; it is never sent."""
NOT_TEXT = 1007
_END, _MASKED = 0x80, 0x80
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class BrokenFrame(Exception):
    """The other side does not keep to the rules; `code` is what to close with."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class FrameReader:
    """Collects bytes; `masked` says whether frames have to be masked, as those of clients, or must not be."""

    __slots__ = ("_held", "_kind", "_limit", "_masked", "_parts", "_size")

    def __init__(self, *, masked: bool, limit: int = MAX_PAYLOAD_BYTES) -> None:
        self._masked = masked
        self._limit = limit
        self._held: bytearray | None = None
        # Of a message in several frames: its kind, what came so far, and how much that is.
        self._kind = CONTINUATION
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The kind and content of every message and control frame that `data` completes; raises `BrokenFrame`."""
        held: bytes | bytearray = data
        if self._held is not None:
            self._held += data
            held = self._held
        at = 0
        while (frame := self._frame(held, at)) is not None:
            head, payload, at = frame
            kind = head & 0x0F
            if kind >= CLOSE:
                yield kind, payload
            elif (message := self._message(kind, payload, ends=bool(head & _END))) is not None:
                yield message
        if at == len(held):
            self._held = None
        elif held is self._held:
            del held[:at]
        else:
            self._held = bytearray(held[at:])

    def _message(self, kind: int, payload: bytes, *, ends: bool) -> tuple[int, bytes] | None:
        """The message that a frame of data ends."""
        if (kind == CONTINUATION) == (self._kind == CONTINUATION):
            raise BrokenFrame(CLOSE_PROTOCOL, "a part of a message that was not begun, or was not ended")
        self._size += len(payload)
        if self._size > self._limit:
            raise BrokenFrame(CLOSE_TOO_BIG, "a message is too long")
        if ends and not self._parts:
            self._size = 0
            return kind, payload
        self._parts.append(payload)
        self._kind = self._kind or kind
        if not ends:
            return None
        message = self._kind, b"".join(self._parts)
        self._kind, self._parts, self._size = CONTINUATION, [], 0
        return message

    def _frame(self, held: bytes | bytearray, at: int) -> tuple[int, bytes, int] | None:
        """First byte, content and end of the frame at `at`, once all of it is there."""
        if len(held) < at + 2:
            return None
        head, size, start = held[at], held[at + 1] & 0x7F, at + 2
        control = head & 0x08
        known = not head & 0x70 and (head & 0x07) <= 2 and (head & _END or not control)
        if not known or bool(held[at + 1] & _MASKED) != self._masked:
            raise BrokenFrame(CLOSE_PROTOCOL, "a frame that is none")
        if size > 125:
            if control:
                raise BrokenFrame(CLOSE_PROTOCOL, "a control frame is too long")
            width = 2 if size == 126 else 8
            if len(held) < start + width:
                return None
            size, start = int.from_bytes(held[start : start + width]), start + width
        if size > self._limit and not control:
            raise BrokenFrame(CLOSE_TOO_BIG, "a message is too long")
        if not self._masked:
            end = start + size
            return (head, bytes(held[start:end]), end) if len(held) >= end else None
        end = start + 4 + size
        if len(held) < end:
            return None
        return head, _mask(bytes(held[start + 4 : end]), bytes(held[start : start + 4])), end


def _mask(data: bytes, mask: bytes) -> bytes:
    """`data` masked, or unmasked: it is the same."""
    size = len(data)
    repeated = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data) ^ int.from_bytes(repeated)).to_bytes(size)


def encode_frame(kind: int, data: bytes, *, masked: bool) -> bytes:
    """A whole message in one frame; a client masks it."""
    size, flag = len(data), _MASKED if masked else 0
    if size < 126:
        head = bytes((_END | kind, flag | size))
    elif size < 1 << 16:
        head = bytes((_END | kind, flag | 126)) + size.to_bytes(2)
    else:
        head = bytes((_END | kind, flag | 127)) + size.to_bytes(8)
    if not masked:
        return head + data
    mask = os.urandom(4)
    return head + mask + _mask(data, mask)


def encode_close(code: int = CLOSE_NORMAL, reason: str = "", *, masked: bool) -> bytes:
    known = b"" if code == NO_CODE else code.to_bytes(2) + reason.encode()
    return encode_frame(CLOSE, known, masked=masked)


def parse_close(payload: bytes) -> tuple[int, str]:
    """Code and reason of a close frame; raises `BrokenFrame`."""
    if not payload:
        return NO_CODE, ""
    code = int.from_bytes(payload[:2])
    if len(payload) < 2 or not (1000 <= code < 1015 or 3000 <= code < 5000) or code in (1004, 1005, 1006):
        raise BrokenFrame(CLOSE_PROTOCOL, "a close frame without a valid code")
    try:
        return code, payload[2:].decode()
    except UnicodeDecodeError:
        raise BrokenFrame(CLOSE_PROTOCOL, "the reason of a close frame is not text") from None


# The upgrade of an HTTP connection.

END_OF_HEAD = b"\r\n\r\n"
MAX_HEAD_BYTES = 65_536


def new_key() -> str:
    return b2a_base64(os.urandom(16), newline=False).decode()


def accept_key(key: str) -> str:
    """The server's answer to the key of a client."""
    return b2a_base64(sha1(key.encode() + _MAGIC, usedforsecurity=False).digest(), newline=False).decode()


def upgrade_request(authority: str, path: str, key: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode("ascii")


def upgrade_problem(head: bytes, key: str) -> str:
    """Why the answer with this `head` is no WebSocket; empty when it is one."""
    status, *lines = head.decode("latin-1").split("\r\n")
    if status.split(" ")[1:2] != ["101"]:
        return f"server rejected WebSocket connection: {status.removeprefix('HTTP/1.1 ') or 'no answer'}"
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return "" if fields.get("sec-websocket-accept") == accept_key(key) else "something else than a gateway answers"
