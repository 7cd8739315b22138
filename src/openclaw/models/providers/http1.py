"""A small HTTP/1.1 client for streamed answers: one request to a connection at a time, kept open for the next.

A general client takes a quarter of a turn, most of it for what no model API needs. What this one does not do (proxies,
passwords in addresses, international host names) `proxied` does with such a client; both give an `StreamedResponse`.
"""

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, Protocol

from msgspec import Struct

from openclaw.core.deferred import ssl

CONNECT_SECONDS = 30.0
IDLE_SECONDS = 30.0
"""How long a connection is kept for the next request."""
MOST_HEAD = 256 * 1024
MOST_WAITING = 1 << 20
"""Bytes of an answer that wait to be read, from which on no more are received."""
LARGE_BODY = 256 * 1024
"""Bytes of a body from which on one more packet is less than copying it to stand behind its head."""
_PLAIN_URL = re.compile(r"(https?)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?(/[!-~]*)?", re.IGNORECASE)


class HttpFailure(Exception):
    """A request that got no answer, or not all of it."""


class NotReached(HttpFailure):
    """There is no connection; the cause says why."""


class ConnectTimedOut(HttpFailure):
    """There was no connection in time."""


class ReadTimedOut(HttpFailure):
    """Nothing came for too long."""


class BrokenEncoding(HttpFailure):
    """The answer is compressed, and cannot be decompressed."""


class ProxyFailed(HttpFailure):
    """The proxy on the way did not do its part."""


class NotAnAddress(HttpFailure):
    """There can be nothing at such an address."""


class StreamedResponse(Protocol):
    """The answer to one request."""

    status: int
    headers: Mapping[str, str]
    """By their names in lower case."""
    ended: bool
    """Whether all of the body was read, where that is known before the next `read`."""

    async def read(self) -> bytes:
        """The next bytes of the body; none are its end. Raises an `HttpFailure` when it breaks off."""
        ...


class HttpAddress(Struct, frozen=True):
    """Where a request goes."""

    secure: bool
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.secure else 80) else f"{name}:{self.port}"


@lru_cache(maxsize=256)  # a provider has a few, and each request asks
def parse_address(url: str) -> HttpAddress | None:
    """The parts of an ordinary address; None for one that this client does not understand."""
    found = _PLAIN_URL.fullmatch(url)
    if found is None:
        return None
    scheme, host, port, path = found.groups()
    secure = scheme.lower() == "https"
    number = int(port) if port else 443 if secure else 80
    return HttpAddress(secure, host.strip("[]"), number, path or "/") if number < 65536 else None


class HttpConnection(asyncio.Protocol):
    """One connection: sends a request, reads its answer, and can then be used again."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._over = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._left: int | None = None
        """Bytes to come of the body or of its chunk; None until the connection closes."""
        self._chunked = False
        self.ended = True
        self._reusable = False
        self._unpack: Callable[[bytes], bytes] | None = None
        self._seconds: float | None = None
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.idle: asyncio.TimerHandle | None = None

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > MOST_WAITING and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._over = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._over, self._error, self._transport = True, error, None
        self._wake()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # One exchange.

    async def send(self, head: bytes, body: bytes, seconds: float | None) -> None:
        """Sends a request and reads the head of its answer."""
        if self._transport is None:
            raise HttpFailure("the connection is closed")
        self._seconds, self.ended, self._reusable = seconds, False, False
        if len(body) < LARGE_BODY:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        if self._writable is not None:
            await self._writable
        while True:
            while (end := self._buffer.find(b"\r\n\r\n")) < 0:
                if len(self._buffer) > MOST_HEAD:
                    raise HttpFailure("the head of the answer does not end")
                await self._more()
            self._take_head(bytes(self._buffer[:end]))
            del self._buffer[: end + 4]
            if self.status >= 200:
                break

    def _take_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdecimal():
            raise HttpFailure("this is no answer of HTTP/1.1")
        self.status = int(status[:3])
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            value = value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        self.headers = headers
        closing = "close" in headers.get("connection", "").lower()
        self._reusable = version == "HTTP/1.1" and not closing
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        size = headers.get("content-length", "")
        if self.status in (204, 304):
            self._left, self._chunked = 0, False
        elif self._chunked:
            self._left = 0
        else:
            self._left = int(size) if size.isdecimal() else None  # until it closes
        self.ended = not self._chunked and self._left == 0
        self._unpack = _unpacker(headers.get("content-encoding", ""))

    async def read(self) -> bytes:
        while not self.ended:
            data, whole = self._take_body()
            self.ended = whole or (self._over and self._left is None and self._error is None)
            if data and self._unpack is not None:
                data = self._unpacked(data)
            if data:
                return data
            if not self.ended:
                await self._more()
        return b""

    def _unpacked(self, data: bytes) -> bytes:
        assert self._unpack is not None
        try:
            return self._unpack(data)
        except zlib.error as error:
            raise BrokenEncoding(str(error)) from error

    def _take_body(self) -> tuple[bytes, bool]:
        """What has arrived of the body, and whether that is the last of it."""
        if not self._chunked:
            size = len(self._buffer) if self._left is None else min(self._left, len(self._buffer))
            data = bytes(self._buffer[:size])
            del self._buffer[:size]
            if self._left is not None:
                self._left -= size
            return data, self._left == 0
        parts, at, buffer, whole = [], 0, self._buffer, False
        while True:
            if self._left:  # of a chunk, its line break included
                piece = buffer[at : at + self._left]
                at += len(piece)
                kept = max(0, self._left - 2)
                parts.append(bytes(piece[:kept]))
                self._left -= len(piece)
                if self._left:
                    break
            end = buffer.find(b"\r\n", at)
            if end < 0:
                break
            try:
                size = int(bytes(buffer[at:end]).partition(b";")[0].strip() or b"x", 16)
            except ValueError:
                raise HttpFailure("the answer is not made of chunks as it says") from None
            if size == 0:
                # Trailers end with an empty line, as the chunks do.
                last = buffer.find(b"\r\n\r\n", at)
                if last < 0:
                    break
                at, whole = last + 4, True
                break
            at, self._left = end + 2, size + 2
        del buffer[:at]
        return b"".join(parts), whole

    async def _more(self) -> None:
        """Waits until more has arrived."""
        if self._over:
            raise HttpFailure("the connection was closed in the middle of the answer") from self._error
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            if self._seconds is None:
                await self._waiter
            else:
                async with asyncio.timeout(self._seconds):
                    await self._waiter
        except TimeoutError:
            raise ReadTimedOut(f"nothing for {self._seconds:g} s") from None
        finally:
            self._waiter = None

    # Between two.

    @property
    def free(self) -> bool:
        """Whether the next request can be sent on it."""
        return self.ended and self._reusable and not self._over and not self._buffer and self._transport is not None

    def close(self) -> None:
        if self.idle is not None:
            self.idle.cancel()
        if self._transport is not None:
            self._transport.abort()


def _unpacker(encoding: str) -> Callable[[bytes], bytes] | None:
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress
        case "deflate":
            return zlib.decompressobj().decompress
        case other:
            raise BrokenEncoding(f"{other} was not asked for")


class HttpConnections:
    """The connections to one provider, each of them used for one request after another."""

    def __init__(self, certificates: "Callable[[], ssl.SSLContext]") -> None:
        self._certificates = certificates
        self._idle: dict[tuple[bool, str, int], list[HttpConnection]] = {}

    @asynccontextmanager
    async def post(
        self, address: HttpAddress, headers: Mapping[str, str], body: bytes, seconds: float | None
    ) -> AsyncIterator[StreamedResponse]:
        """Sends `body`; the answer for the length of the block. `seconds` limits the silence in it."""
        lines = [f"POST {address.path} HTTP/1.1", f"host: {address.authority}", "accept: */*"]
        lines += ["accept-encoding: gzip, deflate", *(f"{name}: {value}" for name, value in headers.items())]
        head = "\r\n".join((*lines, f"content-length: {len(body)}", "", "")).encode("latin-1")
        place = (address.secure, address.host, address.port)
        connection = self._waiting(place) or await self._connect(address)
        try:
            await connection.send(head, body, seconds)
            yield connection
        finally:
            if connection.free:
                connection.idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, connection.close)
                self._idle.setdefault(place, []).append(connection)
            else:
                connection.close()

    def _waiting(self, place: tuple[bool, str, int]) -> HttpConnection | None:
        idle = self._idle.get(place, [])
        while idle:
            connection = idle.pop()  # the latest, so that those nobody needs grow old
            if connection.free:
                assert connection.idle is not None
                connection.idle.cancel()
                return connection
        return None

    async def _connect(self, address: HttpAddress) -> HttpConnection:
        encryption: dict[str, Any] = {}
        if address.secure:
            encryption = {"ssl": self._certificates(), "server_hostname": address.host}
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                # Both kinds of addresses are tried: a machine may have a route for one only.
                _, connection = await loop.create_connection(
                    HttpConnection, address.host, address.port, happy_eyeballs_delay=0.25, **encryption
                )
        except TimeoutError as error:
            raise ConnectTimedOut(str(error)) from error
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError; a ValueError is a name too long for DNS
            raise NotReached(str(error)) from error
        return connection

    def close(self) -> None:
        while self._idle:
            _, connections = self._idle.popitem()
            for connection in connections:
                connection.close()
