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


def parse_url(url: str) -> GatewayUrl:
    """Refuses an address that is none, and one where a secret would travel unencrypted to another machine."""
    parts = urlsplit(url)
    if parts.scheme not in ("ws", "wss") or not parts.hostname:
        raise InvalidRequest(f"not a gateway address: {url}; it looks like ws://127.0.0.1:18789")
    encrypted = parts.scheme == "wss"
    if not encrypted and not is_loopback(parts.hostname):
        raise InvalidRequest(f"{url} is not encrypted and not on this machine: use wss://")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return GatewayUrl(url, parts.hostname, parts.port or (443 if encrypted else 80), path, encrypted)
