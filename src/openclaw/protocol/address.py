"""The address of a gateway."""

from urllib.parse import urlsplit

from msgspec import Struct

from openclaw.core.errors import InvalidRequest
from openclaw.protocol.peer import is_loopback


class GatewayUrl(Struct, frozen=True):
    """Where a gateway listens."""

    text: str
    host: str
    port: int
    path: str
    encrypted: bool

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_url(url: str, *, proves: bool = False) -> GatewayUrl:
    """Refuses an address that is none, and one where a secret would travel unencrypted to another machine.

    Who `proves` to know a secret sends none.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("ws", "wss") or not parts.hostname:
        raise InvalidRequest(f"not a gateway address: {url}; it looks like ws://127.0.0.1:18789")
    encrypted = parts.scheme == "wss"
    if not encrypted and not proves and not is_loopback(parts.hostname):
        raise InvalidRequest(f"{url} is not encrypted and not on this machine: use wss://")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return GatewayUrl(url, parts.hostname, parts.port or (443 if encrypted else 80), path, encrypted)


def check_pinnable(where: GatewayUrl, pinned: str) -> None:
    """Refuses the digest of a certificate for an address that shows none."""
    if pinned and not where.encrypted:
        raise InvalidRequest(f"{where.text} has no certificate to compare: leave the fingerprint out, or use wss://")
