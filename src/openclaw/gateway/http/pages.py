"""The web page: prebuilt files, served from memory under a policy that allows no foreign script.

A credential reaches the page by a one-time code in the fragment of its address, which browsers send to nobody; the
page exchanges the code for the secret in the body of one request.
"""

import gzip
import hashlib
import html
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from openclaw.core.errors import ConfigError
from openclaw.core.secret import Secret
from openclaw.gateway.http.endpoint import EndpointRules, HttpAuth, HttpCall, HttpEndpoint, HttpGuard
from openclaw.gateway.server import read_body
from openclaw.protocol import scopes

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


class WebParts(Struct, frozen=True, kw_only=True):
    """What the pages need to know."""

    base_path: str
    redeem: Callable[[str], bool]
    """Whether a one-time code is valid; it is used up by that."""
    secret: Callable[[], Secret | None]
    gatekeeping: HttpAuth
    bootstrap: Callable[[], Awaitable[dict[str, Any]]]
    """What `/control-ui-config.json` contains beside the base path."""


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
    attributes = f'data-openclaw-control-ui-base-path="{html.escape(base)}" data-openclaw-terminal-enabled="false"'
    return text.replace("<html ", f"<html {attributes} ", 1).encode()


def _file(name: str, data: bytes) -> WebFile:
    kind = _TYPES[Path(name).suffix]
    squeezable = kind.startswith(_SQUEEZABLE) or kind == "application/manifest+json"
    return WebFile(
        data=data,
        squeezed=gzip.compress(data, mtime=0) if squeezable and len(data) > 500 else None,
        kind=f"{kind}; charset=utf-8" if squeezable else kind,
        tag=f'"{hashlib.sha256(data).hexdigest()[:20]}"',
        lasting=name.startswith("assets/"),
    )


def routes(parts: WebParts, place: Path = BUILT) -> list[Route]:
    """The routes of the web page; they come last, because they match every path."""
    base = parts.base_path
    files = cache(lambda: read(place, base))  # read at the first request
    guard = HttpGuard(parts.gatekeeping)

    async def config(call: HttpCall) -> None:
        await call.answer({"basePath": base, **await parts.bootstrap()}, headers={"cache-control": "no-store"})

    async def page(request: Request) -> Response:
        return _page(request, files(), request.path_params.get("path", ""))

    async def link(request: Request) -> Response:
        return await _trade(request, parts)

    async def start(request: Request) -> Response:
        return RedirectResponse(f"{base}/", headers=_FIXED)

    found = [
        Route(
            f"{base}/control-ui-config.json",
            HttpEndpoint(guard, EndpointRules(method="GET", scope=scopes.READ), config),
        ),
        Route(f"{base}/control-ui-link", link, methods=["POST"]),
        Route(f"{base}/{{path:path}}", page, methods=["GET"]),
    ]
    return [*found, Route(base, start, methods=["GET"]), Route("/", start, methods=["GET"])] if base else found


def _page(request: Request, files: Mapping[str, WebFile], path: str) -> Response:
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
        return Response(status_code=304, headers=headers)
    data = file.data
    if file.squeezed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        data = file.squeezed
        headers["content-encoding"] = "gzip"
    return Response(data, headers=headers, media_type=file.kind)


class _Code(Struct, frozen=True, forbid_unknown_fields=True):
    code: str


async def _trade(request: Request, parts: WebParts) -> Response:
    """Exchanges a one-time code for the secret; wrong codes count like wrong passwords."""
    limiter = parts.gatekeeping.limiter
    address = parts.gatekeeping.address(request.scope)
    wait = limiter.locked_for(address)
    if wait > 0:
        return _said(
            429, "too many wrong codes: wait, then run openclaw dashboard again", {"retry-after": str(int(wait) + 1)}
        )
    try:
        code = msgspec.json.decode(await read_body(request, CODE_BYTES), type=_Code).code
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _said(400, "send one JSON object with a code")
    if not parts.redeem(code):
        limiter.failed(address)
        return _said(403, "this link was used already or is too old: run openclaw dashboard again")
    limiter.succeeded(address)
    secret = parts.secret()
    return JSONResponse({"token": secret.reveal() if secret else None}, headers={**_FIXED, "cache-control": "no-store"})


def _said(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    fixed = {**_FIXED, "cache-control": "no-store", **(headers or {})}
    return JSONResponse({"error": {"message": message, "type": "link"}}, status_code=status, headers=fixed)
