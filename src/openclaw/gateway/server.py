"""The web server: uvicorn and starlette on our sockets. The one file that knows them.

It accepts connections at once and answers health checks itself; everything else waits for an `HttpService`.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import uvicorn
from msgspec import Struct, structs
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from openclaw.gateway.connections import attend
from openclaw.gateway.exposure import HostRules, host_allowed
from openclaw.gateway.http.admission import BODY_RATE, Admission, ConnectionLimits, Slot, Stage
from openclaw.gateway.launch import HttpService as HttpService
from openclaw.protocol.connection import Disconnected
from openclaw.protocol.frames import CLOSE_NORMAL, close_reason
from openclaw.protocol.peer import Peer, authenticate_by_proxy, is_loopback, is_one_of, origin_problem

TRY_LATER = 1013

log = logging.getLogger("openclaw.gateway.server")


class ServerLimits(Struct, frozen=True, kw_only=True):
    frame_bytes: int = 25 << 20
    body_bytes: int = 20_000_000
    ping_seconds: float = 25.0
    start_seconds: float = 15.0
    """How long a client that comes during the start waits before it is refused."""
    close_seconds: float = 1.0
    connections: ConnectionLimits = ConnectionLimits()


class ServerFront:
    """The ASGI application of the port: host checks, health, size limits, then the service."""

    def __init__(self, host_rules: HostRules, limits: ServerLimits) -> None:
        self.host_rules = host_rules
        self.failing: tuple[str, ...] = ("startup",)
        self.connections = 0
        self._limits = limits
        self._service: HttpService | None = None
        self._http: ASGIApp | None = None
        self._ready = asyncio.Event()
        self._started = time.monotonic()

    def apply(self, host_rules: HostRules) -> None:
        """From now on these hosts may be named."""
        self.host_rules = host_rules

    def offer(self, service: HttpService) -> None:
        """Starts serving requests."""
        self._service = service
        self._http = Starlette(routes=list(service.routes))
        self.failing = ()
        self._ready.set()

    async def until_ready(self) -> None:
        """Returns when requests are served."""
        await self._ready.wait()

    def report(self, why: str) -> None:
        """Says why no new requests should come here, though they are answered; empty when they may."""
        if self._service is not None:
            self.failing = (why,) if why else ()

    def withdraw(self, why: str) -> None:
        """Refuses new requests; open ones continue."""
        self.failing = (why,)
        self._service = None
        self._ready.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "http":
            answer = await self._answer(scope)
            await (answer or self._http or _starting())(scope, self._bounded(receive), send)

    async def _answer(self, scope: Scope) -> Response | None:
        """What we answer ourselves; None when the service is to answer."""
        peer = self.peer(scope)
        if not host_allowed(peer.host, self.host_rules):
            return _refusal(
                421,
                "this host name is not served here: use the address, or list it in gateway.controlUi.allowedOrigins",
            )
        if origin_problem(peer, "", self.host_rules.origins, self.host_rules.names):
            return _refusal(403, "this origin is not allowed: list it in gateway.controlUi.allowedOrigins")
        if scope["method"] in ("GET", "HEAD"):
            if scope["path"] in ("/health", "/healthz"):
                return JSONResponse({"ok": True, "status": "live"})
            if scope["path"] in ("/ready", "/readyz"):
                return self._readiness(peer)
        length = _headers(scope).get("content-length", "")
        if length.isdecimal() and int(length) > self._limits.body_bytes:
            error = _body_too_large(self._limits.body_bytes)
            return PlainTextResponse(error.detail, status_code=error.status_code, headers=error.headers)
        return None if await self._is_ready() else _starting()

    def _readiness(self, peer: Peer) -> Response:
        ready = not self.failing
        told: dict[str, Any] = {"ready": ready}
        if peer.local:
            told |= {"failing": list(self.failing), "uptimeMs": round((time.monotonic() - self._started) * 1000)}
        return JSONResponse(told, status_code=200 if ready else 503)

    def _bounded(self, receive: Receive) -> Receive:
        """`receive` that aborts a request with a body that is too large or comes too slowly."""
        size, more, limit = 0, True, self._limits.body_bytes
        deadline = time.monotonic() + self._limits.connections.body_seconds

        async def bounded() -> Message:
            nonlocal size, more
            if not more:  # the body is whole: what comes next is the end of the connection, whenever that is
                return await receive()
            try:
                async with asyncio.timeout(max(0.0, deadline + size / BODY_RATE - time.monotonic())):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "the body took too long to arrive", {"connection": "close"}) from None
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
            if size > limit:
                raise _body_too_large(limit)
            return message

        return bounded

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = self.peer(scope)
        await receive()
        if not host_allowed(peer.host, self.host_rules):
            log.warning("refused a WebSocket from %s: it asked for the host %r", peer.remote_ip, peer.host[:100])
            await send({"type": "websocket.close", "code": 1008})
            return
        await send({"type": "websocket.accept"})
        transport = SocketTransport(peer, scope["state"][_SOCKET])
        if not await self._is_ready() or self._service is None:
            transport.close(TRY_LATER, "the gateway is not ready: try again")
            return
        self.connections += 1
        try:
            await attend(self._service.connection, transport)
        finally:
            self.connections -= 1

    async def _is_ready(self) -> bool:
        if not self._ready.is_set() and "startup" in self.failing:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limits.start_seconds):
                    await self._ready.wait()
        return self._ready.is_set()

    def peer(self, scope: Scope) -> Peer:
        """The facts about a request's sender."""
        address = (scope.get("client") or ("",))[0]
        peer = Peer.of(address, _headers(scope))
        if self.host_rules.proxy is None:
            return peer
        return structs.replace(peer, vouched=authenticate_by_proxy(self.host_rules.proxy, address, _all_headers(scope)))


def _headers(scope: Scope) -> dict[str, str]:
    return dict(_all_headers(scope))


def _all_headers(scope: Scope) -> list[tuple[str, str]]:
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]


def _refusal(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": "forbidden"}}, status_code=status)


def _body_too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than {limit} bytes", {"connection": "close"})


async def read_body(request: Request, limit: int) -> bytes:
    """The body of a request, for a route with a limit of its own."""
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > limit:
            raise _body_too_large(limit)
    return bytes(data)


def _starting() -> Response:
    return PlainTextResponse("the gateway is not ready: try again\n", status_code=503, headers={"retry-after": "1"})


class Server:
    """A running server: its port, and the front that answers."""

    fingerprint = ""
    """SHA-256 of its certificate in hexadecimal."""

    def __init__(self, front: ServerFront, sockets: Sequence[socket.socket], encrypted: bool) -> None:
        self.front = front
        self.encrypted = encrypted
        self.address, self.port = sockets[0].getsockname()[:2]

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self.address == "0.0.0.0" else self.address  # noqa: S104
        return f"{'https' if self.encrypted else 'http'}://{host}:{self.port}"


_SOCKET, _PLACE = "socket", "place"
_TEXT = 0x81
"""A text message in one frame."""


def _framed(message: bytes) -> bytes:
    """A text message as the frame a server sends: not masked, not compressed."""
    size = len(message)
    if size < 126:
        return struct.pack("!BB", _TEXT, size) + message
    if size < 65_536:
        return struct.pack("!BBH", _TEXT, 126, size) + message
    return struct.pack("!BBQ", _TEXT, 127, size) + message


def _socket_kind(goodbye: float) -> type[asyncio.Protocol]:
    """The WebSocket protocol class, whose close takes at most `goodbye` seconds."""

    class Socket(WebSocketsSansIOProtocol):
        """Reachable from the ASGI application, for what ASGI does not offer."""

        goodbye_seconds = goodbye

        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            self.place: _Place = self.app_state[_PLACE]
            self.app_state = {**self.app_state, _SOCKET: self}

        def connection_lost(self, exc: Exception | None) -> None:
            self.place.leave()
            super().connection_lost(exc)

    return Socket


class SocketTransport:
    """A WebSocket as a `Transport`. Events go to many sockets, and none may wait for another."""

    def __init__(self, peer: Peer, socket: Any) -> None:
        self.peer = peer
        self.closed = False
        self._socket = socket

    @property
    def buffered(self) -> int:
        size: int = self._socket.transport.get_write_buffer_size()
        return size

    def established(self) -> None:
        self._socket.place.move("open")

    async def receive(self) -> str | bytes:
        message = await self._socket.receive()
        if message["type"] != "websocket.receive":
            self.closed = True
            raise Disconnected(message.get("code") or 1006, message.get("reason") or "")
        text = message.get("text")
        found: str | bytes = text if text is not None else message["bytes"]
        return found

    async def send(self, data: bytes) -> None:
        self.post((data,))
        await self._socket.writable.wait()
        if self._socket.disconnected:
            self.closed = True
            raise Disconnected

    def post(self, messages: Sequence[bytes]) -> None:
        # Frames of ours and of the library may alternate: without extensions it keeps no account of them.
        if self.closed or self._is_closing():
            self.closed = True
            raise Disconnected
        self._socket.transport.write(b"".join(map(_framed, messages)))

    def close(self, code: int = CLOSE_NORMAL, reason: str = "") -> None:
        """Sends a close frame without waiting for a client that does not read, and closes a little later."""
        if self.closed or self._is_closing():
            self.closed = True
            return
        self.closed = True
        socket, reason = self._socket, close_reason(reason)
        socket.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        socket.conn.send_close(code, reason)
        socket.transport.write(b"".join(socket.conn.data_to_send()))
        socket.close_sent = True
        if socket.read_paused:
            socket.read_paused = False
            socket.transport.resume_reading()
        # No closing handshake: it would wait for a client that never reads what is already in the buffer.
        socket.close_timer = socket.loop.call_later(socket.goodbye_seconds, socket.transport.abort)

    def _is_closing(self) -> bool:
        return bool(self._socket.close_sent or self._socket.transport.is_closing())


class _Place(Slot):
    """A connection, what closes it, and the timer that runs while it keeps us waiting."""

    def __init__(self, address: str, *, counted: bool, admission: "Admission[_Place]") -> None:
        super().__init__(address, counted=counted)
        self.transport: asyncio.Transport | None = None
        self.starting: asyncio.Task[None] | None = None
        self._admission = admission
        self._timer: asyncio.TimerHandle | None = None

    def move(self, stage: Stage) -> None:
        """Another stage; only a silent connection has a deadline here."""
        self._set_timer(self._admission.limits.header_seconds if stage == "silent" else None)
        if (victim := self._admission.move(self, stage)) is not None:
            victim.abort()

    def stall(self, stalled: bool) -> None:
        """The client stopped reading, or reads again."""
        if stalled:
            self._set_timer(self._admission.limits.write_seconds)
        else:
            self.move(self.stage)

    def leave(self) -> None:
        self._set_timer(None)
        self._admission.leave(self)

    def abort(self) -> None:
        self._set_timer(None)
        if self.transport is not None:
            self.transport.abort()
        elif self.starting is not None:
            self.starting.cancel()

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = None if seconds is None else loop.call_later(seconds, self.abort)


class _HttpConnection(H11Protocol):
    """HTTP on one connection, which tells its place how far it has got."""

    def __init__(self, place: _Place, config: uvicorn.Config, server: uvicorn.Server) -> None:
        super().__init__(config, server.server_state, {**server.lifespan.state, _PLACE: place})
        self._place = place

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._place.transport = transport
        super().connection_made(transport)
        self._place.move("silent")

    def connection_lost(self, exc: Exception | None) -> None:
        self._place.leave()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._place.move("open")

    def on_response_complete(self) -> None:
        # Not after it: what was sent ahead may already be the next request. And data that comes does not stop this
        # timer as it does the server's own, or a body that drips on after its answer would hold the connection.
        self._place.move("silent")
        super().on_response_complete()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._place.move("greeting")
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._place.stall(True)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._place.stall(False)


_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXHAUSTED_PAUSE = 0.1
_AT_ONCE = 32
"""Connections accepted before everything else gets its turn."""
_SAY_AGAIN = 60.0
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-type: text/plain\r\ncontent-length: 21\r\n\r\ntoo many connections\n"
)


class _Acceptor:
    """Accepts connections while there is room; without it, somebody who keeps us waiting makes it."""

    def __init__(self, front: ServerFront, limits: ConnectionLimits, encryption: ssl.SSLContext | None) -> None:
        self._admission: Admission[_Place] = Admission(limits)
        self._front = front
        self._encryption = encryption
        self._listening: set[socket.socket] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._said = float("-inf")

    def listen(
        self, listening: socket.socket, make: Callable[[_Place], asyncio.Protocol], group: asyncio.TaskGroup
    ) -> None:
        """Accepts connections of one socket, until `stop`."""
        self._listening.add(listening)
        asyncio.get_running_loop().add_reader(listening, self._accept, listening, make, group)

    def _accept(
        self, listening: socket.socket, make: Callable[[_Place], asyncio.Protocol], group: asyncio.TaskGroup
    ) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, (address, *_) = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._pause(listening, make, group)
                return
            connection.setblocking(False)
            place = _Place(address, counted=self._is_counted(address), admission=self._admission)
            room, victim = self._admission.enter(place)
            if victim is not None or not room:
                self._say("there are too many")
            if victim is not None:
                victim.abort()
            if room:
                place.starting = group.create_task(self._start(connection, place, make))
                self._starting.add(place.starting)
                place.starting.add_done_callback(partial(self._has_started, connection, place))
            else:
                with contextlib.suppress(OSError):
                    connection.send(_BUSY)
                connection.close()

    def _pause(
        self, listening: socket.socket, make: Callable[[_Place], asyncio.Protocol], group: asyncio.TaskGroup
    ) -> None:
        """Makes room when there are no descriptors, and accepts again a moment later."""
        for each in self._admission.make_room():
            each.abort()
        self._say("there are no file descriptors left")
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(
            _EXHAUSTED_PAUSE, lambda: self.listen(listening, make, group) if listening in self._listening else None
        )

    async def _start(
        self, connection: socket.socket, place: _Place, make: Callable[[_Place], asyncio.Protocol]
    ) -> None:
        """Makes the connection's protocol, after the handshake of an encrypted one."""
        seconds = self._admission.limits.header_seconds if self._encryption else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: make(place), connection, ssl=self._encryption, ssl_handshake_timeout=seconds
            )
        except OSError as error:  # also an encryption that the client cannot do
            log.debug("a connection from %s did not begin: %s", place.address, error)

    def _has_started(self, connection: socket.socket, place: _Place, task: asyncio.Task[None]) -> None:
        # Not in the task: one that is cancelled before its first step never gets there.
        self._starting.discard(task)
        if place.transport is None:
            connection.close()
            place.leave()

    def stop(self) -> None:
        """Accepts no more, and gives up connections that have not begun."""
        for listening in self._listening:
            asyncio.get_running_loop().remove_reader(listening)
        self._listening.clear()
        for task in self._starting:
            task.cancel()

    def _is_counted(self, address: str) -> bool:
        return not is_loopback(address) and not is_one_of(address, self._front.host_rules.proxies)

    def _say(self, why: str) -> None:
        now = time.monotonic()
        if now - self._said > _SAY_AGAIN:
            self._said = now
            log.warning("connections are turned away: %s (%d so far)", why, self._admission.turned_away)


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handlers and its timer: the daemon owns the signals, and an idle server stays idle."""

    def __init__(self, config: uvicorn.Config, acceptor: _Acceptor, sockets: Sequence[socket.socket]) -> None:
        super().__init__(config)
        self._acceptor = acceptor
        self._sockets = sockets
        self.up = asyncio.Event()
        self.down = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.servers = []  # we accept connections ourselves
        for one in self._sockets:
            one.setblocking(False)
            one.listen(self.config.backlog)
        self.started = True
        self.up.set()

    async def main_loop(self) -> None:
        async with asyncio.TaskGroup() as group:
            for one in self._sockets:
                self._acceptor.listen(one, self._made, group)
            await self.down.wait()
            self._acceptor.stop()

    def _made(self, place: _Place) -> asyncio.Protocol:
        return _HttpConnection(place, self.config, self)


@asynccontextmanager
async def serving(
    sockets: Sequence[socket.socket],
    host_rules: HostRules,
    *,
    limits: ServerLimits | None = None,
    encryption: ssl.SSLContext | None = None,
) -> AsyncIterator[Server]:
    """Runs a server on `sockets`, which it closes at the end together with every connection."""
    limits = limits or ServerLimits()
    front = ServerFront(host_rules, limits)
    engine = _Uvicorn(
        uvicorn.Config(
            front,
            ws=_socket_kind(limits.close_seconds),
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            ws_max_size=limits.frame_bytes,
            ws_ping_interval=limits.ping_seconds,
            ws_ping_timeout=limits.ping_seconds,
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=round(limits.close_seconds) or 1,
        ),
        _Acceptor(front, limits.connections, encryption),
        sockets,
    )
    task = asyncio.create_task(engine.serve(sockets=list(sockets)), name="web-server")
    task.add_done_callback(lambda _: engine.up.set())
    try:
        await engine.up.wait()
        if task.done():
            await task
        yield Server(front, sockets, encryption is not None)
    finally:
        front.withdraw("stopping")
        engine.down.set()
        await asyncio.shield(task)
