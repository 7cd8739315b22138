"""HTTP for all providers: frame readers (SSE, JSON lines), streamed calls, and translation of HTTP errors."""

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from functools import cache, lru_cache
from typing import Any, Protocol, TypeVar

import httpx2
import msgspec
from msgspec import Struct, field

from openclaw.core.errors import AuthFailed, BadRequest, BadResponse, NetworkFailed, ProviderError, ProviderTimeout
from openclaw.core.events import Done, ModelEvent
from openclaw.core.messages import Assistant
from openclaw.core.provider import Endpoint, Model
from openclaw.core.secret import Secret
from openclaw.models.providers.encode import authority
from openclaw.models.providers.errors import (
    FaultOrigin,
    body_fault,
    excerpt,
    fault_of,
    from_fault,
    from_status,
    key_hint,
)

# Frame readers.

MAX_FRAME_BYTES = 16 * 1024 * 1024
BOM = b"\xef\xbb\xbf"


class Frame(Struct, frozen=True):
    """One event: its name (empty when it has none) and its undecoded data."""

    name: str
    data: bytes


class FrameReader(Protocol):
    """Splits a byte stream into frames."""

    @property
    def foreign(self) -> tuple[bytes, ...]:
        """First bytes that show the body is a single document and not a stream of this kind."""
        ...

    def feed(self, chunk: bytes) -> list[Frame]: ...

    def end(self) -> list[Frame]:
        """The frames left when the stream ended without its last line break."""
        ...


class _Lines:
    """Splits at CR, LF and CRLF; returns a line as soon as its end arrives."""

    def __init__(self, provider: str, limit: int) -> None:
        self._provider = provider
        self._limit = limit
        self._parts: list[bytes] = []
        self._waiting = 0
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[bytes]:
        if not chunk:
            return []
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_cr = False
            if not chunk:
                return []
        self._after_cr = chunk[-1:] == b"\r"
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self._keep(chunk)
            return []
        lines = chunk.split(b"\n")
        lines[0] = self._take() + lines[0]
        self._keep(lines.pop())
        if self._first:
            self._first = False
            lines[0] = lines[0].removeprefix(BOM)
        return lines

    def end(self) -> list[bytes]:
        rest = self._take()
        if self._first:
            rest = rest.removeprefix(BOM)
        return [rest] if rest else []

    def _keep(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._waiting += len(part)
            self.check(self._waiting)

    def check(self, size: int) -> None:
        if size > self._limit:
            raise BadResponse(
                f"{self._provider} sent one event of more than {self._limit} bytes: "
                f"check that models.providers.{self._provider}.baseUrl is a model API"
            )

    def _take(self) -> bytes:
        line = b"".join(self._parts)
        self._parts.clear()
        self._waiting = 0
        return line


class EventReader:
    """Reads server-sent events as in the HTML standard; a last event without its blank line counts too."""

    foreign: tuple[bytes, ...] = (b"{", b"[", b"<")

    def __init__(self, provider: str, limit: int = MAX_FRAME_BYTES) -> None:
        self._lines = _Lines(provider, limit)
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        return self._read(self._lines.feed(chunk))

    def end(self) -> list[Frame]:
        return self._read([*self._lines.end(), b""])

    def _read(self, lines: list[bytes]) -> list[Frame]:
        frames: list[Frame] = []
        for line in lines:
            if line:
                self._field(line)
            elif self._data:
                frames.append(Frame(self._name, b"\n".join(self._data)))
                self._reset()
            else:
                self._reset()
        return frames

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if name == b"data":
            self._data.append(value)
            self._size += len(value)
            self._lines.check(self._size)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")

    def _reset(self) -> None:
        self._name = ""
        self._data = []
        self._size = 0


class LineReader:
    """Reads JSON lines."""

    foreign: tuple[bytes, ...] = (b"<",)

    def __init__(self, provider: str, limit: int = MAX_FRAME_BYTES) -> None:
        self._lines = _Lines(provider, limit)

    def feed(self, chunk: bytes) -> list[Frame]:
        return [Frame("", line) for line in self._lines.feed(chunk) if line.strip()]

    def end(self) -> list[Frame]:
        return [Frame("", line) for line in self._lines.end() if line.strip()]


# Calls.

CONNECT_SECONDS = 30.0
ERROR_BODY_BYTES = 64 * 1024
BODY_BYTES = 16 * 1024 * 1024
# A response read to its end keeps its connection in the pool; this is long enough for the last chunk.
DRAIN_SECONDS = 0.2

Shape = TypeVar("Shape")


class Decoder(Protocol):
    """Decodes the frames of one answer into events and, at the end, a message."""

    @property
    def ended(self) -> bool:
        """Whether the answer is whole; a stream that stops earlier was cut off."""
        ...

    @property
    def complete(self) -> bool:
        """Whether nothing more will come, not even usage."""
        ...

    def read(self, frame: Frame) -> Iterable[ModelEvent]: ...

    def message(self) -> Assistant: ...


class ProviderCall(Struct, frozen=True, kw_only=True):
    """One request to a provider."""

    path: str
    body: bytes
    model: Model
    headers: Mapping[str, str] = field(default_factory=dict)


class ProviderHttp:
    """The connection pool of one endpoint, opened at the first call."""

    def __init__(self, endpoint: Endpoint, *, key_header: str = "", fixed: Mapping[str, str] | None = None) -> None:
        self.endpoint = endpoint
        self._key_header = key_header
        self._fixed = fixed or {}
        self._clients: dict[tuple[bool, bool], httpx2.AsyncClient] = {}

    def origin(self, model: Model | None = None) -> FaultOrigin:
        """The provider and model to name in errors, and the secrets to redact from them."""
        given = (*self.endpoint.headers.values(), *(model.headers.values() if model else ()))
        key = (self.endpoint.key,) if self.endpoint.key else ()
        return FaultOrigin(
            provider=self.endpoint.provider,
            model=model.id if model else "",
            secrets=(*key, *(Secret(part) for value in given for part in (value, *value.split()))),
        )

    async def converse(self, call: ProviderCall, reader: FrameReader, decoder: Decoder) -> AsyncIterator[ModelEvent]:
        """Streams one answer: its events, the last of them `Done`."""
        origin = self.origin(call.model)
        head, frames = b"", 0
        async with self._open("POST", call.path, call) as response, aclosing(response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                if not head:
                    head = chunk
                    if head.lstrip()[:1] in reader.foreign:
                        raise await _document(head, chunks, origin)
                for frame in reader.feed(chunk):
                    frames += 1
                    for event in _decoded(decoder, frame, origin):
                        yield event
                if decoder.complete:
                    await _drain(chunks)
                    break
            else:
                for frame in reader.end():
                    frames += 1
                    # A last frame that cannot be decoded was cut off; `_unfinished` below reports it.
                    with suppress(msgspec.DecodeError):
                        for event in decoder.read(frame):
                            yield event
        if not decoder.ended:
            raise _unfinished(origin, head if not frames else b"")
        yield Done(decoder.message(), call.body)

    async def fetch(self, path: str, shape: type[Shape], *, post: Any = None) -> Shape:
        """Fetches a small JSON document and decodes it as `shape`."""
        origin = self.origin()
        body = msgspec.json.encode(post) if post is not None else b""
        call = ProviderCall(path=path, body=body, model=Model(provider=origin.provider, id="", api=self.endpoint.api))
        async with (
            self._open("GET" if post is None else "POST", path, call) as response,
            aclosing(response.aiter_bytes()) as chunks,
        ):
            content = await _bounded(chunks, BODY_BYTES)
        try:
            return msgspec.json.decode(content, type=shape, strict=False)
        except msgspec.DecodeError as error:
            raise _unreadable(origin, content) from error

    async def close(self) -> None:
        while self._clients:
            _, client = self._clients.popitem()
            await client.aclose()

    @asynccontextmanager
    async def _open(self, method: str, path: str, call: ProviderCall) -> AsyncIterator[httpx2.Response]:
        origin = self.origin(call.model)
        url = (call.model.base_url or self.endpoint.base_url).rstrip("/") + path
        host = authority(url)
        seconds = call.model.timeout_seconds or self.endpoint.timeout_seconds
        timeout = httpx2.Timeout(seconds, connect=CONNECT_SECONDS, pool=None)
        try:
            client = self._ready(host, secure=not url.startswith("http:"))
            headers = self._headers(call)
            async with client.stream(method, url, content=call.body, headers=headers, timeout=timeout) as response:
                if response.status_code >= 300:
                    raise await _failed(response, origin)
                yield response
        except httpx2.HTTPError as error:
            raise _translated(error, origin, host, seconds) from error
        except httpx2.InvalidURL as error:
            raise _not_an_address(origin) from error

    def _ready(self, host: str, *, secure: bool) -> httpx2.AsyncClient:
        # A proxy from the environment cannot reach this machine's loopback.
        here = is_loopback(host)
        if (here, secure) not in self._clients:
            # Plain HTTP needs no certificates, and reading them is slow.
            context = _certificates() if secure or not here else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._clients[here, secure] = httpx2.AsyncClient(trust_env=not here, verify=context)
        return self._clients[here, secure]

    def _headers(self, call: ProviderCall) -> httpx2.Headers:
        """Our headers, then the configured ones, which win."""
        mine = {"content-type": "application/json", "user-agent": "openclaw", **self._fixed, **call.headers}
        if self.endpoint.key:
            value = self.endpoint.key.reveal().strip()
            if not _sendable(value):
                raise AuthFailed(
                    f"the key for {self.endpoint.provider} has characters no key has: copy it again and "
                    + key_hint(self.endpoint.provider)
                )
            bearer = self.endpoint.bearer or not self._key_header
            mine["authorization" if bearer else self._key_header] = f"Bearer {value}" if bearer else value
        headers = httpx2.Headers(mine)
        for name, value in (*self.endpoint.headers.items(), *call.model.headers.items()):
            if not _sendable(name) or not _sendable(value):
                raise BadRequest(
                    f"a header for {self.endpoint.provider} has characters that cannot be sent: "
                    f"correct models.providers.{self.endpoint.provider}.headers"
                )
            joined = name.lower() == "anthropic-beta" and name in headers
            headers[name] = f"{headers[name]},{value}" if joined else value
        return headers


@cache
def _certificates() -> ssl.SSLContext:
    """The machine's trusted certificates; slow to read, so read once for all providers."""
    return httpx2.create_ssl_context()


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    name = name.strip("[]")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return False


def _sendable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _decoded(decoder: Decoder, frame: Frame, origin: FaultOrigin) -> Iterable[ModelEvent]:
    try:
        yield from decoder.read(frame)
    except msgspec.DecodeError as error:
        raise _unreadable(origin, frame.data) from error


async def _bounded(chunks: AsyncIterator[bytes], limit: int, head: bytes = b"") -> bytes:
    body = bytearray(head)
    async for chunk in chunks:
        body += chunk
        if len(body) >= limit:
            break
    return bytes(body[:limit])


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    with suppress(TimeoutError, httpx2.HTTPError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass


async def _failed(response: httpx2.Response, origin: FaultOrigin) -> ProviderError:
    if response.status_code < 400:
        return BadResponse(
            f"{origin.provider} points elsewhere (status {response.status_code}): "
            f"set models.providers.{origin.provider}.baseUrl to the address it redirects to",
            status=response.status_code,
        )
    body = b""
    with suppress(httpx2.HTTPError):
        async with aclosing(response.aiter_bytes()) as chunks:
            body = await _bounded(chunks, ERROR_BODY_BYTES)
    return from_status(origin, response.status_code, body, response.headers)


async def _document(head: bytes, chunks: AsyncIterator[bytes], origin: FaultOrigin) -> ProviderError:
    """The error for a document in place of a stream: some servers report failures so, with status 200."""
    body = await _bounded(chunks, ERROR_BODY_BYTES, head)
    with suppress(msgspec.DecodeError):
        value = msgspec.json.decode(body)
        if isinstance(value, dict) and value.get("error"):
            return from_fault(origin, fault_of(value))
    return _unreadable(origin, body)


def _unreadable(origin: FaultOrigin, body: bytes) -> BadResponse:
    said = excerpt(body_fault(body).message, origin)
    return BadResponse(
        f"{origin.provider} answered something that is not its API: check models.providers.{origin.provider}.baseUrl"
        + (f". It said: {said}" if said else "")
    )


def _unfinished(origin: FaultOrigin, unread: bytes) -> ProviderError:
    if unread and not unread.lstrip(b"\xef\xbb\xbf\r\n ").startswith((b":", b"data", b"event", b"id", b"retry", b"{")):
        return _unreadable(origin, unread)
    return NetworkFailed(f"{origin.provider} closed the connection in the middle of its answer: try again")


def _not_an_address(origin: FaultOrigin) -> BadRequest:
    return BadRequest(
        f"the address of {origin.provider} cannot be used: "
        f"set models.providers.{origin.provider}.baseUrl to an http:// or https:// address"
    )


def _translated(error: httpx2.HTTPError, origin: FaultOrigin, host: str, seconds: float | None) -> ProviderError:
    who = origin.provider
    match error:
        case httpx2.ConnectTimeout():
            return NetworkFailed(f"no connection to {who} at {host} within {CONNECT_SECONDS:g} s: check the network")
        case httpx2.TimeoutException():
            return ProviderTimeout(
                f"{who} was silent for {seconds or 0:g} s: try again or raise models.providers.{who}.timeoutSeconds"
            )
        case httpx2.ProxyError():
            return NetworkFailed(f"the proxy on the way to {who} failed: check HTTPS_PROXY and NO_PROXY")
        case httpx2.ConnectError():
            return _no_connection(error, origin, host)
        case httpx2.UnsupportedProtocol():
            return _not_an_address(origin)
        case httpx2.DecodingError():
            return BadResponse(f"{who} sent an answer whose compression is broken: try again")
        case _:
            return NetworkFailed(f"{who} closed the connection in the middle of its answer: try again")


def _no_connection(error: httpx2.ConnectError, origin: FaultOrigin, host: str) -> NetworkFailed:
    who = origin.provider
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return NetworkFailed(
                f"no secure connection to {who} at {host} ({excerpt(str(cause), origin)}): check the address, "
                "the clock and the certificates of this machine"
            )
        cause = cause.__cause__ or cause.__context__
    if not is_loopback(host):
        hint = f"check the network and models.providers.{who}.baseUrl"
    elif origin.provider == "ollama":
        hint = "is it running? Start it with: ollama serve"
    else:
        hint = f"is the server running? Start it, or correct models.providers.{who}.baseUrl"
    return NetworkFailed(f"cannot reach {who} at {host}: {hint}")
