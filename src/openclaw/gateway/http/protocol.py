"""HTTP/1.1 on one connection: bytes into requests for an ASGI application, its answers into bytes."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import unquote

import h11

from openclaw.gateway.http.web import ASGIApp, Message

MOST_BODY = 65_536
"""Bytes of a body that wait to be read before the client has to wait."""
_PLAIN = (b"content-type", b"text/plain; charset=utf-8")
_PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}

log = logging.getLogger("openclaw.gateway.server")


class ConnectionOwner(Protocol):
    """What a connection tells as it goes on, and asks for."""

    @property
    def application(self) -> ASGIApp: ...

    def enters(self, connection: "ServedConnection") -> None:
        """The connection has begun."""

    def waits(self) -> None:
        """The next request may come."""

    def answers(self) -> None:
        """A request is there and gets its answer."""

    def stalls(self, stalled: bool) -> None:
        """The client does not read, or reads again."""

    def upgrades(self, connection: "ServedConnection", scope: Message, rest: bytes) -> None:
        """The client wants a WebSocket; what it sent after its request is `rest`."""

    def leaves(self, connection: "ServedConnection") -> None:
        """The connection is gone."""

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the answer to a request."""


class ServedConnection(asyncio.Protocol):
    """One connection, until it ends or becomes a WebSocket."""

    transport: asyncio.Transport

    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self._http = h11.Connection(h11.SERVER)
        self._exchange: HttpExchange | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._owner.enters(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._owner.leaves(self)
        self._writable.set()
        if self._exchange is not None:
            self._exchange.disconnect()

    def pause_writing(self) -> None:
        self._writable.clear()
        self._owner.stalls(True)

    def resume_writing(self) -> None:
        self._writable.set()
        self._owner.stalls(False)

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._read()

    def shut(self) -> None:
        """Ends after the answer in progress, or at once when there is none."""
        if self._exchange is None or self._exchange.complete:
            self.transport.close()
        else:
            self._exchange.keep_alive = False

    def _read(self) -> None:
        while not self.transport.is_closing():
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError:
                self._refuse()
                return
            if event is h11.NEED_DATA:
                break
            if event is h11.PAUSED:  # the next request came before the answer to this one
                self.transport.pause_reading()
                break
            match event:
                case h11.Request():
                    if self._begin(event):
                        return  # it is no HTTP any more
                case h11.Data(data=data):
                    if self._exchange is not None and self._exchange.take(data) > MOST_BODY:
                        self.transport.pause_reading()
                case h11.EndOfMessage():
                    if self._http.our_state is h11.DONE:  # a body that nobody waited for
                        self._next()
                    elif self._exchange is not None:
                        self._exchange.take_end()
        if self._exchange is not None and not self._exchange.complete:
            self._owner.answers()

    def _begin(self, request: h11.Request) -> bool:
        """Starts to answer; whether the connection becomes a WebSocket."""
        headers = [(name.lower(), value) for name, value in request.headers]
        scope = self._scope(request, headers)
        if _wants_websocket(headers):
            self._owner.upgrades(self, scope, self._http.trailing_data[0])
            return True
        self._exchange = HttpExchange(scope, self._http, self.transport, self._writable, self._answered)
        self._owner.start(self._exchange.run(self._owner.application))
        return False

    def _scope(self, request: h11.Request, headers: list[tuple[bytes, bytes]]) -> Message:
        path, _, query = request.target.partition(b"?")
        get = self.transport.get_extra_info
        client, server = get("peername"), get("sockname")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.http_version.decode("ascii"),
            "server": (str(server[0]), int(server[1])) if isinstance(server, tuple) else None,
            "client": (str(client[0]), int(client[1])) if isinstance(client, tuple) else None,
            "scheme": "https" if get("sslcontext") else "http",
            "method": request.method.decode("ascii"),
            "root_path": "",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "headers": headers,
        }

    def _answered(self) -> None:
        # First: what was sent ahead may already be the next request, and a body that drips on after its answer does not
        # hold the connection.
        self._owner.waits()
        if self.transport.is_closing():
            return
        self.transport.resume_reading()
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._next()
            self._read()

    def _next(self) -> None:
        self._exchange = None
        self._http.start_next_cycle()

    def _refuse(self) -> None:
        log.info("a request that is no HTTP was refused")
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [_PLAIN, (b"connection", b"close")]
            self.transport.write(_bytes(self._http, h11.Response(status_code=400, headers=headers)))
            self.transport.write(_bytes(self._http, h11.Data(data=b"Invalid HTTP request received.")))
            self.transport.write(_bytes(self._http, h11.EndOfMessage()))
        self.transport.close()


class HttpExchange:
    """One request and its answer, as an ASGI application sees them."""

    def __init__(
        self,
        scope: Message,
        http: h11.Connection,
        transport: asyncio.Transport,
        writable: asyncio.Event,
        answered: Callable[[], None],
    ) -> None:
        self.keep_alive = True
        self.complete = False
        self._scope = scope
        self._http = http
        self._transport = transport
        self._writable = writable
        self._answered = answered
        self._waits_for_100 = http.they_are_waiting_for_100_continue
        self._body = bytearray()
        self._more = True
        self._news = asyncio.Event()
        self._started = False
        self._gone = False

    async def run(self, application: ASGIApp) -> None:
        """The answer. A request is where a bug ends: this client is told, the others never notice."""
        try:
            await application(self._scope, self.receive, self.send)
        except Exception:
            log.exception("a request to %s failed", self._scope["path"])
        if self._gone or self.complete:
            return
        if not self._started:
            start = {"type": "http.response.start", "status": 500, "headers": [_PLAIN, (b"connection", b"close")]}
            await self.send(start)
            await self.send({"type": "http.response.body", "body": b"Internal Server Error"})
        else:
            self._transport.close()

    def take(self, data: bytes) -> int:
        """A piece of the body; gives how much waits to be read."""
        if self.complete:
            return 0
        self._body += data
        self._news.set()
        return len(self._body)

    def take_end(self) -> None:
        self._more = False
        self._news.set()

    def disconnect(self) -> None:
        self._gone = True
        self._news.set()

    async def receive(self) -> Message:
        if self._waits_for_100:
            self._waits_for_100 = False
            if not self._transport.is_closing():
                self._transport.write(_bytes(self._http, h11.InformationalResponse(status_code=100, headers=[])))
        if not (self._gone or self.complete):
            self._transport.resume_reading()
            await self._news.wait()
            self._news.clear()
        if self._gone or self.complete:
            return {"type": "http.disconnect"}
        message = {"type": "http.request", "body": bytes(self._body), "more_body": self._more}
        self._body.clear()
        return message

    async def send(self, message: Message) -> None:
        await self._writable.wait()
        if self._gone or self.complete:
            return
        if message["type"] == "http.response.start":
            self._started, self._waits_for_100 = True, False
            status = message["status"]
            headers = list(message.get("headers", ()))
            if not self.keep_alive:
                headers.append((b"connection", b"close"))
            response = h11.Response(status_code=status, headers=headers, reason=_PHRASES.get(status, b""))
            self._transport.write(_bytes(self._http, response))
            return
        data = b"" if self._scope["method"] == "HEAD" else message.get("body", b"")
        output = _bytes(self._http, h11.Data(data=data)) if data else b""
        more = message.get("more_body", False)
        if not more:
            output += _bytes(self._http, h11.EndOfMessage())
        self._transport.write(output)
        if more:
            return
        self.complete = True
        self._news.set()
        if self._http.our_state is h11.MUST_CLOSE or not self.keep_alive:
            self._transport.close()
        self._answered()


def _wants_websocket(headers: list[tuple[bytes, bytes]]) -> bool:
    connection = b",".join(value.lower() for name, value in headers if name == b"connection").split(b",")
    upgrade = [value.lower() for name, value in headers if name == b"upgrade"]
    return b"upgrade" in map(bytes.strip, connection) and upgrade == [b"websocket"]


def _bytes(http: h11.Connection, event: Any) -> bytes:
    return http.send(event) or b""
