"""Signing in at a provider instead of pasting a key: OAuth with PKCE (RFC 7636), which gives a key like any other.

A person is sent to the provider's page with the digest of a secret, comes back with a code, and whoever knows the
secret exchanges the code for a key. The provider has no `state` of its own, so ours is the end of the address that the
person comes back to: a code that did not come by it is refused.
"""

import base64
import hashlib
import secrets
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import msgspec
from msgspec import Struct

from openclaw.core.errors import AuthFailed, BadResponse, InvalidRequest, NetworkFailed
from openclaw.core.secret import Secret
from openclaw.core.text import strip_unprintable
from openclaw.models.registry import ProviderFacts, is_private_address

LOGIN_SECONDS = 600.0
"""How long a person may take; the provider's code lives as long."""
EXCHANGE_SECONDS = 30.0
MAX_ANSWER = 4_000


class PendingLogin(Struct, frozen=True, kw_only=True):
    """A person on their way to the provider's page and back."""

    provider: str
    name: str
    """Of the provider, for people."""
    state: str
    verifier: Secret
    exchange_url: str
    url: str
    """Where the person agrees."""
    expires_ms: int
    model: str | None = None
    use: bool = True


class _Exchanged(Struct, frozen=True):
    key: str = ""


def begin_login(
    facts: ProviderFacts, callback_url: str, now_ms: int, model: str | None = None, *, use: bool = True
) -> PendingLogin:
    """A login at `facts`; the person comes back to `callback_url` with a slash and the state behind it."""
    if facts.login is None:
        raise InvalidRequest(
            f"{facts.name} does not let other programs sign people in: give its key with"
            f" `openclaw models auth {facts.id}`"
        )
    if urlsplit(callback_url).scheme not in ("http", "https"):
        raise InvalidRequest("callbackUrl is not an address: write it like http://localhost:3000/callback")
    state, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "callback_url": f"{callback_url.rstrip('/')}/{state}",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return PendingLogin(
        provider=facts.id,
        name=facts.name,
        state=state,
        verifier=Secret(verifier),
        exchange_url=f"{facts.base_url}/{facts.login.exchange}",
        url=f"{urljoin(facts.base_url, facts.login.page)}?{urlencode(asked)}",
        expires_ms=now_ms + int(LOGIN_SECONDS * 1000),
        model=model,
        use=use,
    )


def parse_code(login: PendingLogin, answer: str) -> str:
    """The code in what came back: the code itself, or the whole address at which the browser ended."""
    answer = answer.strip()
    if len(answer) > MAX_ANSWER:
        raise InvalidRequest("that is too long for a code or an address")
    try:
        parts = urlsplit(answer)
        found = parse_qs(parts.query)
    except ValueError:
        parts, found = urlsplit(""), {}
    if parts.scheme in ("http", "https"):
        if refused := found.get("error_description") or found.get("error"):
            raise AuthFailed(f"{login.name} says: {strip_unprintable(refused[0])[:200]}")
        if not secrets.compare_digest(parts.path.rpartition("/")[2].encode(), login.state.encode()):
            raise InvalidRequest("this address belongs to another sign-in: take the one that this sign-in ended at")
        answer = (found.get("code") or [""])[0]
    if not answer or any(character.isspace() for character in answer):
        raise InvalidRequest("there is no code in that: paste the whole address at which the browser ended")
    return answer


async def exchange_code(login: PendingLogin, code: str) -> Secret:
    """The key for `code`. What the provider answers is never repeated: it holds the key."""
    import httpx2  # slow to import, and most never sign in

    body = {"code": code, "code_verifier": login.verifier.reveal(), "code_challenge_method": "S256"}
    # A proxy of the environment is for the world outside, as for models.
    outside = not is_private_address(login.exchange_url)
    try:
        async with httpx2.AsyncClient(timeout=EXCHANGE_SECONDS, trust_env=outside) as http:
            answer = await http.post(login.exchange_url, json=body)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        why = type(error).__name__
        raise NetworkFailed(f"{login.name} could not be reached ({why}): try again in a moment") from None
    if answer.status_code in (400, 401, 403):
        raise AuthFailed(
            f"{login.name} does not take this code (HTTP {answer.status_code}): a code works once and for ten minutes,"
            " so sign in again"
        )
    try:
        key = msgspec.json.decode(answer.content, type=_Exchanged).key.strip()
    except msgspec.MsgspecError:
        key = ""
    if answer.status_code != 200 or not key:
        raise BadResponse(f"{login.name} gave no key (HTTP {answer.status_code}): try again in a moment")
    return Secret(key)
