"""Who may come in over HTTP: the shared secret as a bearer token, guessed slowly, compared in constant time."""

import hashlib
import hmac
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct
from starlette.requests import Request
from starlette.types import Scope

from openclaw.core.secret import Secret
from openclaw.gateway.http import problems
from openclaw.wire import scopes


class HttpLimiter(Protocol):
    """Counts failures by address."""

    def locked_for(self, address: str) -> float:
        """Seconds until `address` may try again; 0 when it may now."""
        ...

    def failed(self, address: str) -> None: ...

    def succeeded(self, address: str) -> None: ...


class HttpAuth(Struct, frozen=True, kw_only=True):
    """What the guard goes by; asked for each request, so that a rotated secret counts at once."""

    secret: Callable[[], Secret | None]
    """None when anyone who reaches the port may come in."""
    limiter: HttpLimiter
    address: Callable[[Scope], str]
    """Who asks, seen through the proxies we trust."""
    vouched: Callable[[Scope], bool | None] = lambda scope: None
    """Whether a proxy in front lets this request in; None when the secret is asked for."""


class HttpGuard:
    """Lets a request in, or says why not."""

    def __init__(self, how: HttpAuth) -> None:
        self._how = how

    def check(self, request: Request, needed: str) -> None:
        """Raises a problem unless the request may do what needs the scope `needed`."""
        secret = self._how.secret()
        vouched = self._how.vouched(request.scope)
        if vouched is False:
            raise problems.unauthorized()
        if secret is None or vouched:
            held = _declared(request)
        else:
            self._authenticate(request, secret)
            held = scopes.SCOPES
        if not scopes.allows(held, needed):
            raise problems.missing_scope(needed)

    def _authenticate(self, request: Request, secret: Secret) -> None:
        address = self._how.address(request.scope)
        wait = self._how.limiter.locked_for(address)
        if wait > 0:
            raise problems.locked_out(wait)
        given = _bearer(request)
        if given and same(given, secret):
            self._how.limiter.succeeded(address)
            return
        if given:  # a request without a credential is no guess
            self._how.limiter.failed(address)
        raise problems.unauthorized()


def same(given: str, secret: Secret) -> bool:
    """Whether `given` is the secret; takes as long whatever it is. An empty secret fits nothing."""
    ours = secret.reveal()
    left, right = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in (given, ours))
    return hmac.compare_digest(left, right) and bool(ours)


def _bearer(request: Request) -> str:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    # Headers arrive as Latin-1; a password may be anything, and clients send it as UTF-8.
    token = value.strip().encode("latin-1", "replace").decode("utf-8", "replace")
    return token if scheme.lower() == "bearer" else ""


def _declared(request: Request) -> tuple[str, ...]:
    """Without a secret everyone holds everything, less what a front door in between takes away."""
    header = request.headers.get("x-openclaw-scopes")
    return scopes.SCOPES if header is None else scopes.known(part.strip() for part in header.split(","))
