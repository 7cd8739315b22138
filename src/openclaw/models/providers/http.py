"""HTTP for all providers: readers (SSE, JSON lines), streamed calls, and translation of HTTP errors."""

import asyncio
import ipaddress
import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field, structs

from openclaw.core.deferred import ssl
from openclaw.core.errors import (
    AuthFailed,
    BadRequest,
    BadResponse,
    ModelRefused,
    NetworkFailed,
    ProviderError,
    ProviderTimeout,
)
from openclaw.core.events import Done, ModelEvent, TextDelta
from openclaw.core.messages import Assistant
from openclaw.core.provider import Endpoint, Model, ModelRequest, ReplyBuilder
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
from openclaw.models.providers.http1 import (
    CONNECT_SECONDS,
    BrokenEncoding,
    ConnectTimedOut,
    HttpConnections,
    HttpFailure,
    NotAnAddress,
    NotReached,
    ProxyFailed,
    ReadTimedOut,
    StreamedResponse,
    parse_address,
)

if TYPE_CHECKING:
    from openclaw.models.providers.proxied import ProxiedClient

# Readers: bytes to the data of events.

MAX_EVENT_BYTES = 16 * 1024 * 1024
BOM = b"\xef\xbb\xbf"


class LineReader:
    """Reads JSON lines. Splits at CR, LF and CRLF; gives a line as soon as its end arrives."""

    foreign: tuple[bytes, ...] = (b"<",)
    """First bytes that show the body is a single document and not a stream of this kind."""

    def __init__(self, provider: str, limit: int = MAX_EVENT_BYTES) -> None:
        self._provider = provider
        self._limit = limit
        self._parts: list[bytes] = []
        self._waiting = 0
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[bytes]:
        return [line for line in self._split(chunk) if line.strip()]

    def end(self) -> list[bytes]:
        """What is left when the stream ended without its last line break."""
        return [line for line in self._rest() if line.strip()]

    def _split(self, chunk: bytes) -> list[bytes]:
        if self._after_cr and chunk[:1] == b"\n":
            chunk, self._after_cr = chunk[1:], False
        if not chunk:
            return []
        self._after_cr = chunk[-1:] == b"\r"
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            lines[0] = self._take(lines[0])
        if rest:
            self._parts.append(rest)
            self._waiting += len(rest)
            self._check(self._waiting)
        return lines

    def _rest(self) -> list[bytes]:
        rest = self._take()
        return [rest] if rest else []

    def _take(self, end: bytes = b"") -> bytes:
        """The line that was waiting for its `end`."""
        line = b"".join((*self._parts, end))
        if self._first:
            line = line.removeprefix(BOM)
        self._parts.clear()
        self._waiting, self._first = 0, False
        return line

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise BadResponse(
                f"{self._provider} sent one event of more than {self._limit} bytes: "
                f"check that models.providers.{self._provider}.baseUrl is a model API"
            )


class EventReader(LineReader):
    """Reads server-sent events as in the HTML standard; a last event without its blank line counts too.

    Gives their data only: every API here repeats an event's name in it.
    """

    foreign = (b"{", b"[", b"<")

    def __init__(self, provider: str, limit: int = MAX_EVENT_BYTES) -> None:
        super().__init__(provider, limit)
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        return self._events(self._split(chunk))

    def end(self) -> list[bytes]:
        return self._events([*self._rest(), b""])

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        known = len(data)
        for line in lines:
            if not line:
                if data:
                    events.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
                    self._size = known = 0
            elif line[:6] == b"data: ":
                data.append(line[6:])
            elif line[:5] == b"data:":
                data.append(line[5:])
            elif line == b"data":
                data.append(b"")
        if len(data) > known:  # of an event whose end has not come yet
            self._size += sum(map(len, data[known:])) + len("data:") * (len(data) - known)
            self._check(self._size)
        return events


# Calls.

ERROR_BODY_BYTES = 64 * 1024
# A response read to its end keeps its connection in the pool; this is long enough for the last chunk.
DRAIN_SECONDS = 0.2


class Decoder:
    """Decodes the events of one answer and, at the end, makes its message."""

    def __init__(self, model: Model, origin: FaultOrigin) -> None:
        self._reply = ReplyBuilder(model)
        self._origin = origin
        self._refusal: list[str] = []
        self.ended = False
        """Whether the answer is whole; a stream that stops earlier was cut off."""
        self.complete = False
        """Whether nothing more will come, not even usage."""

    def read(self, data: bytes) -> Iterable[ModelEvent]:
        raise NotImplementedError

    def message(self) -> Assistant:
        if self._refusal:
            said = excerpt("".join(self._refusal), self._origin)
            raise ModelRefused(f"{self._origin.provider} declined to answer: {said}")
        return self._reply.message()


class ProviderCall(Struct, frozen=True, kw_only=True):
    """One request to a provider, as its API expects it."""

    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpProvider:
    """A provider over HTTP, with the connection pool of its endpoint, opened at the first call."""

    key_header = ""
    """The header for the key; empty when it is sent as a bearer token."""
    fixed: Mapping[str, str] = MappingProxyType({})
    """Headers of every request."""
    reader: type[LineReader] = EventReader
    decoder: type[Decoder]

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._connections = HttpConnections(certificates)
        self._proxied: ProxiedClient | None = None

    def call(self, request: ModelRequest) -> ProviderCall:
        """Encodes `request`, whose model has an address."""
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Streams one answer: its events, the last of them `Done`."""
        if not request.model.base_url:
            request = structs.replace(request, model=structs.replace(request.model, base_url=self.endpoint.base_url))
        call, origin = self.call(request), self._origin(request.model)
        reader, decoder = self.reader(request.model.provider), self.decoder(request.model, origin)
        head, events = b"", 0
        async with self._open(request.model, call, origin) as answer:
            while chunk := await answer.read():
                if not head:
                    head = chunk
                    if head.lstrip()[:1] in reader.foreign:
                        raise await _document(head, answer, origin)
                arrived: list[ModelEvent] = []
                failure: Exception | None = None
                try:
                    for data in reader.feed(chunk):
                        events += 1
                        try:
                            _join(arrived, decoder.read(data))
                        except msgspec.DecodeError as error:
                            raise _unreadable(origin, data) from error
                except ProviderError as error:
                    failure = error  # after what came before it
                for event in arrived:
                    yield event
                if failure is not None:
                    raise failure
                if decoder.complete:
                    if not answer.ended:
                        await _drain(answer)
                    break
            else:
                for data in reader.end():
                    events += 1
                    # A last event that cannot be decoded was cut off; `_unfinished` below reports it.
                    with suppress(msgspec.DecodeError):
                        for event in decoder.read(data):
                            yield event
        if not decoder.ended:
            raise _unfinished(origin, head if not events else b"")
        yield Done(decoder.message(), call.body)

    async def close(self) -> None:
        self._connections.close()
        proxied, self._proxied = self._proxied, None
        if proxied is not None:
            await proxied.close()

    def _origin(self, model: Model) -> FaultOrigin:
        """The provider and model to name in errors, and the secrets to redact from them."""
        given = (*self.endpoint.headers.values(), *model.headers.values())
        key = (self.endpoint.key,) if self.endpoint.key else ()
        return FaultOrigin(
            provider=self.endpoint.provider,
            model=model.id,
            secrets=(*key, *(Secret(part) for value in given for part in (value, *value.split()))),
        )

    @asynccontextmanager
    async def _open(self, model: Model, call: ProviderCall, origin: FaultOrigin) -> AsyncIterator[StreamedResponse]:
        url = model.base_url.rstrip("/") + call.path
        host = authority(url)
        seconds = model.timeout_seconds or self.endpoint.timeout_seconds
        headers = self._headers(model, call)
        address = parse_address(url)
        try:
            # A proxy from the environment cannot reach this machine's loopback.
            if address is not None and (is_loopback(host) or not may_use_proxy()):
                posting = self._connections.post(address, headers, call.body, seconds)
            else:
                posting = self._general_client().post(url, headers, call.body, seconds)
            async with posting as answer:
                if answer.status >= 300:
                    raise await _failed(answer, origin)
                yield answer
        except HttpFailure as error:
            raise _translated(error, origin, host, seconds) from error

    def _general_client(self) -> "ProxiedClient":
        from openclaw.models.providers.proxied import ProxiedClient  # slow to import, and few need it

        self._proxied = self._proxied or ProxiedClient(certificates)
        return self._proxied

    def _headers(self, model: Model, call: ProviderCall) -> dict[str, str]:
        """Our headers, then the configured ones, which win."""
        mine = {"content-type": "application/json", "user-agent": "openclaw", **self.fixed, **call.headers}
        if self.endpoint.key:
            value = self.endpoint.key.reveal().strip()
            if not _sendable(value):
                raise AuthFailed(
                    f"the key for {self.endpoint.provider} has characters no key has: copy it again and "
                    + key_hint(self.endpoint.provider)
                )
            bearer = self.endpoint.bearer or not self.key_header
            mine["authorization" if bearer else self.key_header] = f"Bearer {value}" if bearer else value
        headers = {name.lower(): value for name, value in mine.items()}
        for name, value in (*self.endpoint.headers.items(), *model.headers.items()):
            if not _sendable(name) or not _sendable(value):
                raise BadRequest(
                    f"a header for {self.endpoint.provider} has characters that cannot be sent: "
                    f"correct models.providers.{self.endpoint.provider}.headers"
                )
            name = name.lower()
            joined = name == "anthropic-beta" and name in headers
            headers[name] = f"{headers[name]},{value}" if joined else value
        return headers


@cache
def certificates() -> "ssl.SSLContext":
    """The machine's trusted certificates; slow to read, so read once for all providers and channels."""
    import httpx2  # slow to import, and a model on this machine needs none of it

    return httpx2.create_ssl_context()


def may_use_proxy() -> bool:
    """Whether there may be a proxy between this machine and others."""
    names = ("http_proxy", "https_proxy", "all_proxy")
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) or os.environ.get(name.upper()) for name in names
    )


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


def _join(arrived: list[ModelEvent], events: Iterable[ModelEvent]) -> None:
    """Adds events that arrived together; their pieces of text become one, because each costs every reader of them."""
    for event in events:
        if arrived and isinstance(event, TextDelta) and isinstance(last := arrived[-1], TextDelta):
            arrived[-1] = TextDelta(last.text + event.text)
        else:
            arrived.append(event)


async def _bounded(answer: StreamedResponse, limit: int, head: bytes = b"") -> bytes:
    body = bytearray(head)
    while len(body) < limit and (chunk := await answer.read()):
        body += chunk
    return bytes(body[:limit])


async def _drain(answer: StreamedResponse) -> None:
    with suppress(TimeoutError, HttpFailure):
        async with asyncio.timeout(DRAIN_SECONDS):
            while await answer.read():
                pass


async def _failed(answer: StreamedResponse, origin: FaultOrigin) -> ProviderError:
    if answer.status < 400:
        return BadResponse(
            f"{origin.provider} points elsewhere (status {answer.status}): "
            f"set models.providers.{origin.provider}.baseUrl to the address it redirects to",
            status=answer.status,
        )
    body = b""
    with suppress(HttpFailure):
        body = await _bounded(answer, ERROR_BODY_BYTES)
    return from_status(origin, answer.status, body, answer.headers)


async def _document(head: bytes, answer: StreamedResponse, origin: FaultOrigin) -> ProviderError:
    """The error for a document in place of a stream: some servers report failures so, with status 200."""
    body = await _bounded(answer, ERROR_BODY_BYTES, head)
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


def _translated(error: HttpFailure, origin: FaultOrigin, host: str, seconds: float | None) -> ProviderError:
    who = origin.provider
    match error:
        case ConnectTimedOut():
            return NetworkFailed(f"no connection to {who} at {host} within {CONNECT_SECONDS:g} s: check the network")
        case ReadTimedOut():
            return ProviderTimeout(
                f"{who} was silent for {seconds or 0:g} s: try again or raise models.providers.{who}.timeoutSeconds"
            )
        case ProxyFailed():
            return NetworkFailed(f"the proxy on the way to {who} failed: check HTTPS_PROXY and NO_PROXY")
        case NotReached():
            return _no_connection(error, origin, host)
        case NotAnAddress():
            return _not_an_address(origin)
        case BrokenEncoding():
            return BadResponse(f"{who} sent an answer whose compression is broken: try again")
        case _:
            return NetworkFailed(f"{who} closed the connection in the middle of its answer: try again")


def _no_connection(error: NotReached, origin: FaultOrigin, host: str) -> NetworkFailed:
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
