"""Who is on the other end of a connection, as far as the handshake established it."""

from msgspec import Struct

from openclaw.wire import scopes
from openclaw.wire.scopes import Role


class Caller(Struct, frozen=True, kw_only=True):
    """One authenticated client. `scopes` is what the gateway grants, never what the client declared."""

    conn_id: str
    role: Role = "operator"
    scopes: tuple[str, ...] = ()
    client_id: str = "cli"
    client_mode: str = "cli"
    version: str = ""
    platform: str = ""
    device_family: str = ""
    display_name: str = ""
    instance_id: str = ""
    device_id: str | None = None
    caps: frozenset[str] = frozenset()
    commands: tuple[str, ...] = ()
    remote_ip: str = ""
    local: bool = False
    """A loopback peer that asked for a loopback host, with no proxy in between."""

    def may(self, scope: str | None) -> bool:
        return scopes.allows(self.scopes, scope)
