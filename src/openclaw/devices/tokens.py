"""Device tokens: handed out once, kept as a hash, compared in constant time."""

import hashlib
import hmac
import secrets

from openclaw.core.secret import Secret

TOKEN_BYTES = 32


def issue() -> Secret:
    """A new token: 43 base64url characters."""
    return Secret(secrets.token_urlsafe(TOKEN_BYTES))


def hashed(token: Secret) -> str:
    """What is stored. The token has 256 random bits, so a plain hash cannot be turned back."""
    return hashlib.sha256(token.reveal().encode("utf-8", "replace")).hexdigest()


def matches(token: Secret, stored: str) -> bool:
    return hmac.compare_digest(hashed(token), stored)
