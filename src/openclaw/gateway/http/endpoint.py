"""One HTTP endpoint: checks method, switch, credential, scope and size before a handler sees the request."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OpenClawError
from openclaw.core.secret import Secret
from openclaw.gateway.http import problems
from openclaw.gateway.http.problems import HttpProblem
from openclaw.gateway.http.web import ClientDisconnect, HTTPException, Receive, Request, Scope, Send
from openclaw.protocol import scopes
from openclaw.protocol.auth import AuthLimiter, is_guess_proof, secrets_equal
from openclaw.protocol.params import describe

# Authentication.


def _nobody_vouches(scope: Scope) -> bool | None:
    return None


class HttpAuth(Struct, frozen=True, kw_only=True):
    """Authorises requests; everything is asked for each, so that a rotated secret counts at once."""

    secret: Callable[[], Secret | None]
    """None when no credential is required."""
    limiter: AuthLimiter
    """The one of the sockets: failures are counted in the same book."""
    clock: Clock
    address: Callable[[Scope], str]
    """The client's address, seen through trusted proxies."""
    vouched: Callable[[Scope], bool | None] = _nobody_vouches
    """Whether a trusted proxy vouches for the request; None when the secret is required."""

    def check(self, request: Request, needed: str) -> None:
        """Raises a problem unless the request may use the scope `needed`."""
        secret = self.secret()
        vouched = self.vouched(request.scope)
        if vouched is False:
            raise problems.unauthorized()
        if secret is None or vouched:
            # All, less what a proxy in front withholds.
            header = request.headers.get("x-openclaw-scopes")
            held = scopes.SCOPES if header is None else scopes.known(part.strip() for part in header.split(","))
        else:
            self._authenticate(request, secret)
            held = scopes.SCOPES
        if not scopes.allows(held, needed):
            raise problems.missing_scope(needed)

    def _authenticate(self, request: Request, secret: Secret) -> None:
        address, now = self.address(request.scope), millis(self.clock)
        wait = self.limiter.wait_ms(address, now)
        if wait and not is_guess_proof(secret):
            raise problems.locked_out(wait / 1000)
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        # Headers arrive as Latin-1; a password may be anything, and clients send it as UTF-8.
        token = value.strip().encode("latin-1", "replace").decode("utf-8", "replace")
        given = token if scheme.lower() == "bearer" else ""
        if given and secrets_equal(given, secret):
            self.limiter.clear(address)
            return
        if wait:
            raise problems.locked_out(wait / 1000)
        if given:  # a request without a credential is not counted as a guess
            self.limiter.fail(address, now)
        raise problems.unauthorized()


# A call.

log = logging.getLogger("openclaw.gateway.http")

BODY_SECONDS = 60.0
T = TypeVar("T")
_STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


class ClientDisconnected(Exception):
    """The client has disconnected."""


class HttpCall:
    """One authorised request, and the methods that answer it."""

    def __init__(self, request: Request, send: Send) -> None:
        self.request = request
        self.body = b""
        self.started = False
        self.streaming = False
        self._send = send

    def header(self, name: str) -> str | None:
        return (self.request.headers.get(name) or "").strip() or None

    def read(self, kind: type[T]) -> T:
        """The body as `kind`."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except msgspec.ValidationError as error:
            raise HttpProblem(400, f"invalid request: {describe(str(error))}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise HttpProblem(400, "the body is not JSON: send one JSON object") from None

    async def answer(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        data = msgspec.json.encode(value)
        shape = {"content-type": "application/json; charset=utf-8", "content-length": str(len(data))}
        await self._start(status, shape | (headers or {}))
        await self._send({"type": "http.response.body", "body": data})

    async def open_stream(self) -> None:
        self.streaming = True
        await self._start(200, _STREAM_HEADERS)

    async def event(self, value: Any, name: str = "") -> None:
        head = f"event: {name}\n" if name else ""
        await self._piece(head.encode() + b"data: " + msgspec.json.encode(value) + b"\n\n")

    async def keep_alive(self) -> None:
        """Sends a comment, which clients skip, so that the connection stays open."""
        await self._piece(b": waiting\n\n")

    async def close_stream(self) -> None:
        await self._piece(b"data: [DONE]\n\n")
        await self._send({"type": "http.response.body", "body": b""})

    async def while_there(self, work: Coroutine[Any, Any, T]) -> T:
        """Does `work`, and cancels it when the client disconnects."""
        task = asyncio.create_task(work)
        watch = asyncio.create_task(self._hung_up())
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientDisconnected
            return task.result()
        finally:
            for each in (task, watch):
                each.cancel()
            await asyncio.gather(task, watch, return_exceptions=True)

    async def _hung_up(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass

    async def _start(self, status: int, headers: dict[str, str]) -> None:
        self.started = True
        fixed = {"x-content-type-options": "nosniff", **headers}
        pairs = [(name.encode(), value.encode()) for name, value in fixed.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def _piece(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})


class EndpointRules(Struct, frozen=True, kw_only=True):
    """What a request must satisfy."""

    method: Literal["GET", "POST"]
    scope: str
    limit: int = 0
    """Bytes of body."""
    off: str = ""
    """Why the endpoint is disabled; empty when it is not."""
    shape: Callable[[HttpProblem], dict[str, Any]] = problems.body


class HttpEndpoint:
    """The ASGI application for one endpoint."""

    def __init__(self, auth: HttpAuth, rules: EndpointRules, handle: Callable[[HttpCall], Awaitable[None]]) -> None:
        self._auth = auth
        self._rules = rules
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = HttpCall(Request(scope, receive), send)
        try:
            await self._admit(call)
            await self._handle(call)
        except (ClientDisconnected, ClientDisconnect):
            return
        except OpenClawError as error:
            await self._refuse(call, problems.from_error(error))
        except HTTPException as error:
            headers = {"connection": "close"} if error.status_code == 413 else {}
            await self._refuse(call, HttpProblem(error.status_code, error.detail, headers=headers))
        # A bug ends with its connection: this client is told, the others are not affected.
        except Exception:
            log.exception("%s failed", scope["path"])
            problem = HttpProblem(500, "something went wrong inside OpenClaw; the log has the details", problems.FAILED)
            await self._refuse(call, problem)

    async def _admit(self, call: HttpCall) -> None:
        rules, request = self._rules, call.request
        if request.method != rules.method:
            raise HttpProblem(405, f"Method Not Allowed: use {rules.method}", headers={"allow": rules.method})
        if rules.off:
            raise HttpProblem(404, rules.off, "not_found")
        self._auth.check(request, rules.scope)
        if rules.limit:
            call.body = await _body(request, rules.limit)

    async def _refuse(self, call: HttpCall, problem: HttpProblem) -> None:
        if not call.started:
            await call.answer(self._rules.shape(problem), problem.status, problem.headers)
        elif call.streaming:
            await call.event(problems.body(problem))
            await call.close_stream()


async def _body(request: Request, limit: int) -> bytes:
    """Reads the body. One that is somewhat too large is read to its end: a client cut off never sees why."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > 2 * limit:
        raise problems.too_large(limit)
    data = bytearray()
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                size += len(piece)
                if size <= limit:
                    data += piece
                elif size > 2 * limit:
                    break
    except TimeoutError:
        raise HttpProblem(408, "the body took too long to arrive", headers={"connection": "close"}) from None
    if size > limit:
        raise problems.too_large(limit)
    return bytes(data)
