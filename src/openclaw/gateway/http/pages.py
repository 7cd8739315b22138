"""The web page: prebuilt files, served from memory under a policy that allows no foreign script.

A credential reaches the page by a one-time code in the fragment of its address, which browsers send to nobody; the
page exchanges the code for the secret in the body of one request.
"""

import hashlib
import re
import secrets
import zlib
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.agent.settings import default_agent
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import ConfigError
from openclaw.gateway.app import App
from openclaw.gateway.http.endpoint import EndpointRules, HttpAuth, HttpCall, HttpEndpoint
from openclaw.gateway.http.web import JSONResponse, PlainTextResponse, RedirectResponse, Request, Route, WebResponse
from openclaw.gateway.server import read_body
from openclaw.protocol import scopes
from openclaw.protocol.params import NoParams
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.version import __version__
from openclaw.workspace.seed import identity_of

BUILT = Path(__file__).parent.parent / "web"
INDEX = "index.html"
CODE_BYTES = 1_000
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")
_BASE = re.compile(r"(/[A-Za-z0-9._~-]+)*")
_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".webmanifest": "application/manifest+json",
}
_FIXED = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_SQUEEZABLE = ("text/", "image/svg")


class WebFile(Struct, frozen=True, kw_only=True):
    """One built file, ready to send."""

    data: bytes
    squeezed: bytes | None
    kind: str
    tag: str
    lasting: bool
    """Whether its name changes with its content."""


SECONDS = 120
MOST = 20
"""Links that can be open at the same time; the oldest gives way."""


class LoginCodes:
    """The codes that have been handed out and not used. Only their fingerprints are kept."""

    def __init__(self) -> None:
        self._open: dict[bytes, int] = {}

    def make(self, now: int) -> tuple[str, int]:
        """A new code, and when it expires in milliseconds."""
        self._forget(now)
        while len(self._open) >= MOST:
            del self._open[next(iter(self._open))]
        code = secrets.token_urlsafe(24)
        expires = now + SECONDS * 1000
        self._open[_print(code)] = expires
        return code, expires

    def redeem(self, code: str, now: int) -> bool:
        """Whether `code` is good; it is no more after this."""
        self._forget(now)
        return self._open.pop(_print(code), None) is not None

    def _forget(self, now: int) -> None:
        self._open = {print_: expires for print_, expires in self._open.items() if expires > now}


def _print(code: str) -> bytes:
    # Looking a hash up says nothing about how much of a guess was right.
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()


def link_method(links: LoginCodes, base: str, clock: Clock) -> RpcMethod:
    async def link(params: NoParams, caller: Caller) -> Any:
        code, expires = links.make(millis(clock))
        return {"path": f"{base}/#code={code}", "expiresAtMs": expires}

    return RpcMethod("dashboard.link", NoParams, link, scopes.ADMIN)


def base_path(text: str) -> str:
    """Normalises a prefix: empty, or with a slash in front and none behind."""
    path = "/" + text.strip().strip("/") if text.strip().strip("/") else ""
    if not _BASE.fullmatch(path) or ".." in path:
        raise ConfigError(
            f"{text!r} is not a path the web page can be served under: write something like /openclaw",
            path="gateway.controlUi.basePath",
        )
    return path


def policy(host: str) -> str:
    """The content security policy of a page requested under `host`."""
    # 'self' does not cover WebSockets in every browser.
    own = f" ws://{host} wss://{host}" if _HOST.fullmatch(host) else ""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data: blob:",
            f"connect-src 'self'{own}",
            "manifest-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types lit-html dompurify",
        )
    )


def read(place: Path, base: str) -> dict[str, WebFile]:
    """The built files by their path below the base; links in the index are made absolute."""
    found = {}
    for path in sorted(place.rglob("*")):
        if path.is_file() and path.suffix in _TYPES:
            name = path.relative_to(place).as_posix()
            data = path.read_bytes()
            found[name] = _file(name, _based(data, base) if name == INDEX else data)
    return found


def _based(index: bytes, base: str) -> bytes:
    text = index.decode().replace('"./', f'"{base}/')
    attributes = f'data-openclaw-control-ui-base-path="{_attribute(base)}" data-openclaw-terminal-enabled="false"'
    return text.replace("<html ", f"<html {attributes} ", 1).encode()


def _attribute(text: str) -> str:
    """`text` inside the quotes of an attribute."""
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def _file(name: str, data: bytes) -> WebFile:
    kind = _TYPES[Path(name).suffix]
    squeezable = kind.startswith(_SQUEEZABLE) or kind == "application/manifest+json"
    return WebFile(
        data=data,
        squeezed=zlib.compress(data, wbits=31) if squeezable and len(data) > 500 else None,
        kind=f"{kind}; charset=utf-8" if squeezable else kind,
        tag=f'"{hashlib.sha256(data).hexdigest()[:20]}"',
        lasting=name.startswith("assets/"),
    )


def routes(app: App, base: str, links: LoginCodes, auth: HttpAuth) -> list[Route]:
    """The routes of the web page; they come last, because they match every path."""
    files = cache(partial(read, BUILT, base))  # read at the first request

    async def config(call: HttpCall) -> None:
        agent = default_agent(app.live.config.agents)
        identity = identity_of(app.workspaces, app.live.agents, agent)
        shown = {"assistantName": identity["name"], "assistantAgentId": agent, "serverVersion": __version__}
        await call.answer({"basePath": base, **shown}, headers={"cache-control": "no-store"})

    async def page(request: Request) -> WebResponse:
        return _page(request, files(), request.path_params.get("path", ""))

    async def link(request: Request) -> WebResponse:
        return await _trade(request, links, auth)

    async def start(request: Request) -> WebResponse:
        return RedirectResponse(f"{base}/", headers=_FIXED)

    found = [
        Route(
            f"{base}/control-ui-config.json", HttpEndpoint(auth, EndpointRules(method="GET", scope=scopes.READ), config)
        ),
        Route(f"{base}/control-ui-link", link, methods=["POST"]),
        Route(f"{base}/{{path:path}}", page, methods=["GET"]),
    ]
    return [*found, Route(base, start, methods=["GET"]), Route("/", start, methods=["GET"])] if base else found


def _page(request: Request, files: Mapping[str, WebFile], path: str) -> WebResponse:
    file = files.get(path or INDEX)
    if file is None:
        last = path.rpartition("/")[2]
        first = path.partition("/")[0]
        # A session key may contain a dot; a missing file must not get the page instead.
        if first in ("api", "v1") or ("." in last and first not in ("chat", "prompt")):
            return PlainTextResponse("Not Found", status_code=404, headers=_FIXED)
        file = files.get(INDEX)
    if file is None:
        return PlainTextResponse("the web page is not part of this installation\n", status_code=404, headers=_FIXED)
    headers = {
        **_FIXED,
        "etag": file.tag,
        "cache-control": "public, max-age=31536000, immutable" if file.lasting else "no-cache",
        "vary": "accept-encoding",
    }
    if file.kind.startswith("text/html"):
        headers["content-security-policy"] = policy(request.headers.get("host", ""))
    if request.headers.get("if-none-match") == file.tag:
        return WebResponse(status_code=304, headers=headers)
    data = file.data
    if file.squeezed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        data = file.squeezed
        headers["content-encoding"] = "gzip"
    return WebResponse(data, headers=headers, media_type=file.kind)


class _Code(Struct, frozen=True, forbid_unknown_fields=True):
    code: str


async def _trade(request: Request, links: LoginCodes, auth: HttpAuth) -> WebResponse:
    """Exchanges a one-time code for the secret; wrong codes count like wrong passwords."""
    limiter, address, now = auth.limiter, auth.address(request.scope), millis(auth.clock)
    if wait := limiter.wait_ms(address, now):
        retry = {"retry-after": str(wait // 1000 + 1)}
        return _said(429, "too many wrong codes: wait, then run openclaw dashboard again", retry)
    try:
        code = msgspec.json.decode(await read_body(request, CODE_BYTES), type=_Code).code
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _said(400, "send one JSON object with a code")
    if not links.redeem(code, now):
        limiter.fail(address, now)
        return _said(403, "this link was used already or is too old: run openclaw dashboard again")
    limiter.clear(address)
    secret = auth.secret()
    return JSONResponse({"token": secret.reveal() if secret else None}, headers={**_FIXED, "cache-control": "no-store"})


def _said(status: int, message: str, headers: Mapping[str, str] | None = None) -> WebResponse:
    fixed = {**_FIXED, "cache-control": "no-store", **(headers or {})}
    return JSONResponse({"error": {"message": message, "type": "link"}}, status_code=status, headers=fixed)
