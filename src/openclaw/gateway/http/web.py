"""Requests, responses and routes over ASGI: the little of a web framework that the gateway's pages and APIs use."""

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from enum import Enum
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, quote

import msgspec

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class HTTPException(Exception):
    """An answer other than the one that was asked for."""

    def __init__(self, status_code: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status_code = status_code
        self.detail = detail
        self.headers = headers

    def response(self) -> "WebResponse":
        return PlainTextResponse(self.detail, self.status_code, self.headers)


class ClientDisconnect(Exception):
    """The client left before its request was whole."""


class Request:
    """One request. Of a header that stands there twice the first counts, of a query parameter the last."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: str = scope["query_string"].decode("latin-1")
        self.path_params: dict[str, str] = scope.get("path_params", {})
        self.query_params = dict(parse_qsl(self.query, keep_blank_values=True))
        self.headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            self.headers.setdefault(name.decode("latin-1"), value.decode("latin-1"))

    async def stream(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            if body := message.get("body", b""):
                yield body
            more = message.get("more_body", False)

    async def body(self) -> bytes:
        return b"".join([piece async for piece in self.stream()])


class WebResponse:
    """A whole answer, sent by calling it as an application."""

    media_type: str | None = None

    def __init__(
        self,
        content: bytes | str = b"",
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
    ) -> None:
        self.body = content.encode() if isinstance(content, str) else content
        self.status_code = status_code
        kind = media_type or self.media_type
        fields = {name.lower(): value for name, value in (headers or {}).items()}
        if kind is not None:
            plain = kind.startswith("text/") and "charset=" not in kind
            fields.setdefault("content-type", f"{kind}; charset=utf-8" if plain else kind)
        if status_code not in (204, 304):
            fields["content-length"] = str(len(self.body))
        self.headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


class PlainTextResponse(WebResponse):
    media_type = "text/plain"


class JSONResponse(WebResponse):
    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(msgspec.json.encode(content), status_code, headers)


class RedirectResponse(WebResponse):
    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(b"", 307, {"location": quote(url, safe=":/%#?=@[]!$&'()*+,;"), **(headers or {})})


# Routes.


class Match(Enum):
    """How far a route fits: not at all, all but the method, or wholly."""

    NONE = 0
    PARTIAL = 1
    FULL = 2


class BaseRoute:
    """Something that answers some requests."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """How far it fits, and what is to be added to the scope."""
        raise NotImplementedError

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError


Endpoint = Callable[[Request], Awaitable[WebResponse]] | ASGIApp


class Route(BaseRoute):
    """A path with its parameters, `{name}` for one part and `{name:path}` for all that follows.

    A function gets a `Request` and gives a `WebResponse`, to GET unless it says more; an object is an application.
    """

    def __init__(self, path: str, endpoint: Endpoint, methods: Sequence[str] | None = None) -> None:
        self.path = path
        pieces = re.split(r"{(\w+)(:path)?}", path)
        pattern = ""
        for text, name, rest in zip(pieces[::3], (*pieces[1::3], ""), (*pieces[2::3], ""), strict=True):
            pattern += re.escape(text) + (f"(?P<{name}>{'.*' if rest else '[^/]+'})" if name else "")
        self._pattern = re.compile(pattern)
        plain = endpoint.func if isinstance(endpoint, partial) else endpoint
        is_function = inspect.isfunction(plain) or inspect.ismethod(plain)
        self._answer: Any = endpoint if is_function else None
        self._application: Any = None if is_function else endpoint
        allowed = methods or (["GET"] if is_function else [])
        self.methods = {*allowed, "HEAD"} if "GET" in allowed else set(allowed)
        """Every method, when there is none."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        found = self._pattern.fullmatch(scope["path"])
        if found is None:
            return Match.NONE, {}
        fits = not self.methods or scope["method"] in self.methods
        return Match.FULL if fits else Match.PARTIAL, {"path_params": found.groupdict()}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.methods and scope["method"] not in self.methods:
            raise HTTPException(405, "Method Not Allowed", {"allow": ", ".join(sorted(self.methods))})
        application = self._application or await self._answer(Request(scope, receive))
        await application(scope, receive, send)


class Router:
    """The first route that fits answers."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        partly: tuple[BaseRoute, Scope] | None = None
        for route in self._routes:
            match, more = route.matches(scope)
            if match is Match.FULL:
                await route.handle({**scope, **more}, receive, send)
                return
            if match is Match.PARTIAL and partly is None:
                partly = route, more
        if partly is None:
            raise HTTPException(404, "Not Found")
        await partly[0].handle({**scope, **partly[1]}, receive, send)
