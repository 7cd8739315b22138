"""The web server: HTTP and WebSockets on our sockets, with the service's routes behind them.

It accepts connections at once and answers health checks itself; everything else waits for an `HttpService`.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from msgspec import Struct, structs

from openclaw.core.deferred import ssl
from openclaw.gateway.connections import attend
from openclaw.gateway.exposure import HostRules, host_allowed
from openclaw.gateway.http.admission import BODY_RATE, Admission, ConnectionLimits, Slot, Stage
from openclaw.gateway.http.protocol import ServedConnection
from openclaw.gateway.http.web import (
    ASGIApp,
    HTTPException,
    JSONResponse,
    Message,
    PlainTextResponse,
    Receive,
    Request,
    Router,
    Scope,
    Send,
    WebResponse,
)
from openclaw.gateway.http.websocket import WebSocketConnection, handshake
from openclaw.gateway.launch import HttpService as HttpService
from openclaw.protocol.peer import Peer, authenticate_by_proxy, is_loopback, is_one_of, origin_problem

TRY_LATER = 1013
_RESTARTS = 1012

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
        self._http = Router(list(service.routes))
        self.failing = ()
        self._ready.set()

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
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        answer = await self._answer(scope)
        try:
            await (answer or self._http or _starting())(scope, self._bounded(receive), watched)
        except HTTPException as error:
            if started:
                raise
            await error.response()(scope, receive, send)

    async def _answer(self, scope: Scope) -> WebResponse | None:
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
            return _body_too_large(self._limits.body_bytes).response()
        return None if await self._is_ready() else _starting()

    def _readiness(self, peer: Peer) -> WebResponse:
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

    async def attend(self, socket: WebSocketConnection) -> None:
        """Serves one WebSocket to its end."""
        if not await self._is_ready() or self._service is None:
            socket.close(TRY_LATER, "the gateway is not ready: try again")
            return
        self.connections += 1
        try:
            await attend(self._service.connection, socket)
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


def _refusal(status: int, message: str) -> WebResponse:
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


def _starting() -> WebResponse:
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


class _Place(Slot):
    """A connection, what closes it, and the timer that runs while it keeps us waiting."""

    def __init__(self, address: str, *, counted: bool, engine: "_Engine") -> None:
        super().__init__(address, counted=counted)
        self.transport: asyncio.Transport | None = None
        self.starting: asyncio.Task[None] | None = None
        self._engine = engine
        self._timer: asyncio.TimerHandle | None = None

    @property
    def application(self) -> ASGIApp:
        return self._engine.front

    def enters(self, connection: ServedConnection) -> None:
        self.transport = connection.transport
        self._engine.connections.add(connection)
        self.move("silent")

    def waits(self) -> None:
        self.move("silent")

    def answers(self) -> None:
        self.move("open")

    def establish(self) -> None:
        self.move("open")

    def stalls(self, stalled: bool) -> None:
        if stalled:
            self._set_timer(self._engine.limits.connections.write_seconds)
        else:
            self.move(self.stage)

    def upgrades(self, connection: ServedConnection, scope: Scope, rest: bytes) -> None:
        self.move("greeting")
        self._engine.upgrade(self, connection, scope, rest)

    def leaves(self, connection: ServedConnection | WebSocketConnection) -> None:
        self._set_timer(None)
        self._engine.leave(connection)
        self._engine.admission.leave(self)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._engine.start(work)

    def move(self, stage: Stage) -> None:
        """Another stage; only a silent connection has a deadline here."""
        self._set_timer(self._engine.limits.connections.header_seconds if stage == "silent" else None)
        if (victim := self._engine.admission.move(self, stage)) is not None:
            victim.abort()

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


_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXHAUSTED_PAUSE = 0.1
_AT_ONCE = 32
"""Connections accepted before everything else gets its turn."""
_SAY_AGAIN = 60.0
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-type: text/plain\r\ncontent-length: 21\r\n\r\ntoo many connections\n"
)


def _refused(status: str, why: str) -> bytes:
    """An answer to a request for a WebSocket that gets none."""
    head = f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: {len(why)}\r\n\r\n"
    return (head + why).encode("ascii")


class _Engine:
    """The connections: accepts them while there is room, pings the quiet ones, and ends them all."""

    def __init__(
        self,
        front: ServerFront,
        sockets: Sequence[socket.socket],
        limits: ServerLimits,
        encryption: "ssl.SSLContext | None",
    ) -> None:
        self.down = asyncio.Event()
        self.front = front
        self.limits = limits
        self.admission: Admission[_Place] = Admission(limits.connections)
        self.connections: set[ServedConnection | WebSocketConnection] = set()
        self._encryption = encryption
        self._group = asyncio.TaskGroup()
        self._listening = set(sockets)
        self._starting: set[asyncio.Task[None]] = set()
        self._answers: set[asyncio.Task[None]] = set()
        self._beat: asyncio.TimerHandle | None = None
        self._quiet = asyncio.Event()
        """Set when there is no connection and no answer any more."""
        self._said = float("-inf")

    async def run(self) -> None:
        """Serves until it is `down`."""
        async with self._group:
            for one in self._listening:
                self._listen(one)
            await self.down.wait()
            await self._stop()

    # Accepting.

    def _listen(self, listening: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, (address, *_) = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._pause(listening)
                return
            connection.setblocking(False)
            place = _Place(address, counted=self._is_counted(address), engine=self)
            room, victim = self.admission.enter(place)
            if victim is not None or not room:
                self._say("there are too many")
            if victim is not None:
                victim.abort()
            if room:
                place.starting = self._group.create_task(self._start(connection, place))
                self._starting.add(place.starting)
                place.starting.add_done_callback(partial(self._has_started, connection, place))
            else:
                with contextlib.suppress(OSError):
                    connection.send(_BUSY)
                connection.close()

    def _pause(self, listening: socket.socket) -> None:
        """Makes room when there are no descriptors, and accepts again a moment later."""
        for each in self.admission.make_room():
            each.abort()
        self._say("there are no file descriptors left")
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(_EXHAUSTED_PAUSE, lambda: self._listen(listening) if listening in self._listening else None)

    async def _start(self, connection: socket.socket, place: _Place) -> None:
        """Makes the connection's protocol, after the handshake of an encrypted one."""
        seconds = self.limits.connections.header_seconds if self._encryption else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                partial(ServedConnection, place), connection, ssl=self._encryption, ssl_handshake_timeout=seconds
            )
        except OSError as error:  # also an encryption that the client cannot do
            log.debug("a connection from %s did not begin: %s", place.address, error)

    def _has_started(self, connection: socket.socket, place: _Place, task: asyncio.Task[None]) -> None:
        # Not in the task: one that is cancelled before its first step never gets there.
        self._starting.discard(task)
        place.starting = None
        if place.transport is None:
            connection.close()
            self.admission.leave(place)

    def _is_counted(self, address: str) -> bool:
        return not is_loopback(address) and not is_one_of(address, self.front.host_rules.proxies)

    def _say(self, why: str) -> None:
        now = time.monotonic()
        if now - self._said > _SAY_AGAIN:
            self._said = now
            log.warning("connections are turned away: %s (%d so far)", why, self.admission.turned_away)

    # Serving.

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._group.create_task(work)
        self._answers.add(task)
        task.add_done_callback(self._has_answered)

    def _has_answered(self, task: asyncio.Task[None]) -> None:
        self._answers.discard(task)
        self._look_quiet()

    def upgrade(self, place: _Place, connection: ServedConnection, scope: Scope, rest: bytes) -> None:
        """Makes a WebSocket of a connection, when its request is one and names us."""
        transport, peer = connection.transport, self.front.peer(scope)
        answer = handshake(scope)
        if not host_allowed(peer.host, self.front.host_rules):
            log.warning("refused a WebSocket from %s: it asked for the host %r", peer.remote_ip, peer.host[:100])
            answer = _refused("403 Forbidden", "")
        elif isinstance(answer, str):
            answer = _refused("400 Bad Request", answer)
        else:
            limits = self.limits
            made = WebSocketConnection(transport, peer, place, limit=limits.frame_bytes, goodbye=limits.close_seconds)
            transport.write(answer)
            transport.set_protocol(made)
            self.connections.discard(connection)
            self.connections.add(made)
            if self._beat is None:
                self._beat = asyncio.get_running_loop().call_later(limits.ping_seconds, self._ping)
            if rest:
                made.data_received(rest)
            self.start(self.front.attend(made))
            return
        transport.write(answer)
        transport.close()

    def _ping(self) -> None:
        sockets = [each for each in self.connections if isinstance(each, WebSocketConnection)]
        for each in sockets:
            each.beat()
        # Without clients an idle server stays idle.
        loop = asyncio.get_running_loop()
        self._beat = loop.call_later(self.limits.ping_seconds, self._ping) if sockets else None

    def leave(self, connection: ServedConnection | WebSocketConnection) -> None:
        self.connections.discard(connection)
        self._look_quiet()

    def _look_quiet(self) -> None:
        if not self.connections and not self._answers:
            self._quiet.set()

    # The end.

    async def _stop(self) -> None:
        """Accepts no more and tells every client; those that do not leave in time are cut."""
        for listening in self._listening:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        self._listening.clear()
        if self._beat is not None:
            self._beat.cancel()
        for task in self._starting:
            task.cancel()
        for each in list(self.connections):
            if isinstance(each, WebSocketConnection):
                each.close(_RESTARTS)
            else:
                each.shut()
        self._quiet.clear()
        self._look_quiet()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.limits.close_seconds):
                await self._quiet.wait()
        for task in self._answers:
            task.cancel()
        for each in list(self.connections):
            each.transport.abort()
        await asyncio.sleep(0)  # what was aborted hears of it


@asynccontextmanager
async def serving(
    sockets: Sequence[socket.socket],
    host_rules: HostRules,
    *,
    limits: ServerLimits | None = None,
    encryption: "ssl.SSLContext | None" = None,
) -> AsyncIterator[Server]:
    """Runs a server on `sockets`, which it closes at the end together with every connection."""
    limits = limits or ServerLimits()
    front = ServerFront(host_rules, limits)
    server = Server(front, sockets, encryption is not None)
    engine = _Engine(front, sockets, limits, encryption)
    task = asyncio.create_task(engine.run(), name="web-server")
    try:
        yield server
    finally:
        front.withdraw("stopping")
        engine.down.set()
        await asyncio.shield(task)
