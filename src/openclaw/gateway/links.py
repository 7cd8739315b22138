"""One-time links: a short-lived code that opens the web page once, so that no credential is ever part of an address."""

import hashlib
import secrets

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
        for print_, expires in list(self._open.items()):
            if expires <= now:
                del self._open[print_]


def _print(code: str) -> bytes:
    # Looking a hash up says nothing about how much of a guess was right.
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()
