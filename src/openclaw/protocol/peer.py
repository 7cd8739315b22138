"""The origin of a connection: loopback or not, through a proxy or not, from which web page. Pure.

A web page can make a browser open a socket to this machine. Two headers reveal it: `Origin`, which a page cannot forge,
and `Host`, which names the attacker's domain when its DNS was pointed here.
"""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from msgspec import Struct

BROWSER_CLIENTS = frozenset(("openclaw-control-ui", "webchat-ui", "webchat"))
"""Clients that run in a web page and so always have an origin."""

_PROXY_HEADERS = (
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "cf-connecting-ip",
    "tailscale-user-login",
)
_PORTS = {"http": 80, "https": 443}


class ProxyUser(Struct, frozen=True):
    """A trusted proxy authenticated the user."""

    user: str


class NoProxyUser(Struct, frozen=True):
    """No trusted proxy authenticated the user; `reason` is for the log and the client."""

    reason: str


class Peer(Struct, frozen=True, kw_only=True):
    """The facts of one upgrade request."""

    remote_ip: str
    host: str = ""
    origin: str | None = None
    forwarded_for: tuple[str, ...] = ()
    proxied: bool = False
    scopes_cap: tuple[str, ...] | None = None
    user_agent: str = ""
    vouched: ProxyUser | NoProxyUser | None = None
    """The trusted proxy's result; None where proxies are not used for authentication."""

    @classmethod
    def of(cls, remote_ip: str, headers: Mapping[str, str]) -> "Peer":
        """Reads the upgrade request; `headers` has lower-case names."""
        cap = headers.get("x-openclaw-scopes")
        return cls(
            remote_ip=remote_ip,
            host=headers.get("host", ""),
            origin=headers.get("origin"),
            forwarded_for=_listed(headers.get("x-forwarded-for", "")),
            proxied=any(name in headers for name in _PROXY_HEADERS),
            scopes_cap=None if cap is None else _listed(cap),
            user_agent=headers.get("user-agent", ""),
        )

    @property
    def local(self) -> bool:
        """A direct connection from this machine to a loopback host."""
        between = self.proxied or isinstance(self.vouched, ProxyUser)
        return is_loopback(self.remote_ip) and is_loopback(host_name(self.host)) and not between


class ProxyRules(Struct, frozen=True, kw_only=True):
    """Which proxies are trusted, and which headers they must set. Header names are lower-case."""

    proxies: tuple[str, ...]
    user_header: str
    required_headers: tuple[str, ...] = ()
    allow_users: tuple[str, ...] = ()
    """All users the proxy knows, when empty."""
    allow_loopback: bool = False


def authenticate_by_proxy(
    rules: ProxyRules, remote_ip: str, headers: Sequence[tuple[str, str]]
) -> ProxyUser | NoProxyUser:
    """The user a trusted proxy authenticated, or why there is none.

    Anyone can write a header. It counts only from the proxy's address, and only because the proxy overwrites it; a
    header that occurs twice is rejected, because it is unknown which one the proxy wrote.
    """
    if not is_one_of(remote_ip, rules.proxies):
        return NoProxyUser("trusted_proxy_untrusted_source")
    if is_loopback(remote_ip) and not rules.allow_loopback:
        return NoProxyUser("trusted_proxy_loopback_source")
    for name in rules.required_headers:
        if not any(value.strip() for found, value in headers if found == name):
            return NoProxyUser(f"trusted_proxy_missing_header_{name}")
    named = [value.strip() for found, value in headers if found == rules.user_header]
    if len(named) != 1 or not named[0]:
        return NoProxyUser("trusted_proxy_user_missing" if not any(named) else "trusted_proxy_user_ambiguous")
    if rules.allow_users and named[0] not in rules.allow_users:
        return NoProxyUser("trusted_proxy_user_not_allowed")
    return ProxyUser(named[0])


def is_proxy_authenticated(peer: Peer) -> bool | None:
    """Whether a proxy authenticated this request; None when a credential is required instead."""
    if peer.vouched is None or peer.local:
        return None
    return isinstance(peer.vouched, ProxyUser)


def client_ip(peer: Peer, trusted_proxies: Iterable[str]) -> str:
    """The address to rate-limit: the nearest hop that is not a trusted proxy."""
    trusted = tuple(trusted_proxies)
    if not is_one_of(peer.remote_ip, trusted):
        return peer.remote_ip
    for hop in reversed(peer.forwarded_for):
        if not is_one_of(hop, trusted):
            return hop
    return peer.remote_ip


def origin_problem(peer: Peer, client_id: str, allowed: Iterable[str], known_hosts: Iterable[str]) -> str | None:
    """Why this web page may not use the gateway; None when it may, or when there is no page."""
    if peer.origin is None:
        return "origin missing" if client_id in BROWSER_CLIENTS else None
    origin = _origin(peer.origin)
    if origin is None:
        return "origin invalid"
    if origin in {_origin(entry) for entry in allowed}:
        return None
    scheme, name, port = origin
    if (name, port) != _host(peer.host, _PORTS.get(scheme)):
        return "origin not allowed"
    # A name that resolves to us proves nothing: anyone can point a domain at 127.0.0.1.
    if is_loopback(name) or parse_address(name) is not None or name in {host.lower() for host in known_hosts}:
        return None
    return "host not known"


def is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = parse_address(name)
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped.is_loopback
    return address is not None and address.is_loopback


def host_name(host: str) -> str:
    """The name in a `Host` header, without the port."""
    return _host(host, None)[0]


def origin_host(origin: str) -> str:
    """The name in an origin; empty when it has none."""
    found = _origin(origin)
    return found[1] if found else ""


def _host(host: str, default_port: int | None) -> tuple[str, int | None]:
    if any(char in host for char in "@/?#\\"):
        return "", None
    try:
        parts = urlsplit(f"//{host.strip()}")
        return (parts.hostname or "").rstrip("."), parts.port or default_port
    except ValueError:
        return "", None


def _origin(text: str) -> tuple[str, str, int | None] | None:
    try:
        parts = urlsplit(text.strip())
        if not parts.scheme or not parts.hostname:
            return None
        return parts.scheme, parts.hostname.rstrip("."), parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None


def is_one_of(text: str, proxies: Iterable[str]) -> bool:
    """Whether an address is one of the proxies, given as addresses or networks."""
    address = parse_address(text)
    if address is None:
        return False
    for proxy in proxies:
        try:
            if address in ip_network(proxy.strip(), strict=False):
                return True
        except ValueError:
            continue
    return False


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text.strip().strip("[]").split("%")[0])
    except ValueError:
        return None


def _listed(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())
