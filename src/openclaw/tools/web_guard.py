"""Decides which addresses the web tools may connect to (SSRF protection). No I/O.

The rules apply to addresses, not to how a URL spells them: whatever a name, a number or a redirect resolves to is
checked as the address of the connection.
"""

import ipaddress
from collections.abc import Sequence
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.tools.settings import SsrfSettings

IpAddress = IPv4Address | IPv6Address

_INTERNAL_NAMES = (
    "localhost *.localhost *.local *.localdomain *.internal *.intranet *.lan *.home.arpa metadata instance-data"
).split()
# Ranges that are reachable but not public, or that embed another address.
_CLOSED = [
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8 100.64.0.0/10 168.63.129.16/32 192.0.0.0/24 192.88.99.0/24 198.18.0.0/15 224.0.0.0/3 ::/96 100::/64 "
        "2001::/23 2001:db8::/32 2002::/16 3fff::/20 5f00::/16 fc00::/7 fe00::/8 ff00::/8"
    ).split()
]
_NAT64 = [ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48")]
_METADATA = {ipaddress.ip_address(text) for text in ("169.254.169.254", "169.254.170.2", "100.100.100.200")}


class AddressBlocked(OpenClawError):
    """The address may not be connected to."""

    code = "INVALID_REQUEST"


class AddressRules(Struct, frozen=True, kw_only=True):
    """What the owner allows beyond the public internet, and what is always blocked."""

    allow_private: bool = False
    allowed_hosts: tuple[str, ...] = ()
    """Names and literal addresses that may be private."""
    blocked_hosts: tuple[str, ...] = ()
    section: str = "tools.web.fetch.ssrfPolicy"
    """Its setting, for messages to people."""


def address_rules(settings: SsrfSettings, section: str) -> AddressRules:
    return AddressRules(
        allow_private=settings.dangerously_allow_private_network,
        allowed_hosts=settings.allowed_hostnames,
        blocked_hosts=settings.blocked_hostnames,
        section=section,
    )


def parse_url(text: str) -> SplitResult:
    """Parses a web address; raises an error that says what is wrong with it."""
    cleaned = text.strip()
    if any(ord(char) <= 0x20 or ord(char) == 0x7F or char == "\\" for char in cleaned):
        raise InvalidRequest("The URL contains spaces, control characters or backslashes: encode them.")
    try:
        url = urlsplit(cleaned)
        port = url.port
    except ValueError as error:
        raise InvalidRequest("This is not a URL: write for example https://example.com/page.") from error
    if url.scheme.lower() not in ("http", "https"):
        raise InvalidRequest(f"Only http and https can be fetched, not {url.scheme or 'a bare name'!r}.")
    if not url.hostname:
        raise InvalidRequest("The URL has no host: write for example https://example.com/page.")
    if url.username is not None or url.password is not None:
        raise InvalidRequest("The URL contains a login: remove it.")
    if port == 0:
        raise InvalidRequest("Port 0 cannot be fetched.")
    return url


def check_host(host: str, rules: AddressRules) -> None:
    """Refuses names that are never public, before they are resolved."""
    name = host.rstrip(".").lower()
    if _listed(name, rules.blocked_hosts):
        raise AddressBlocked(f"{name} is blocked by {rules.section}.blockedHostnames.")
    if not is_trusted(host, rules) and not rules.allow_private and _listed(name, _INTERNAL_NAMES):
        raise AddressBlocked(f"Blocked: {name} is a private or internal name.")


def check_addresses(host: str, found: Sequence[str], rules: AddressRules) -> list[str]:
    """The addresses of `host`, if all are allowed; a single one that is not refuses them all."""
    if not found:
        raise AddressBlocked(f"{host} has no address.")
    for text in found:
        address = ipaddress.ip_address(text.partition("%")[0])
        if any(inner in _METADATA for inner in (address, *_inside(address))) and not is_trusted(host, rules):
            raise AddressBlocked(f"Blocked: {host} is a cloud metadata service.")
        if is_trusted(host, rules) or rules.allow_private:
            continue
        if not is_public(address) or "%" in text:
            raise AddressBlocked(f"Blocked: {host} is or resolves to a private, loopback or special address.")
    return list(found)


def is_trusted(host: str, rules: AddressRules) -> bool:
    return _listed(host.rstrip(".").lower(), rules.allowed_hosts)


def is_public(address: IpAddress) -> bool:
    """Whether `address`, and any address embedded in it, is on the public internet."""
    inside = _inside(address)
    if inside:
        return all(is_public(each) for each in inside)
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not any(address.version == closed.version and address in closed for closed in _CLOSED)
        and not (address.version == 6 and (int(address) >> 32) & 0xFDFFFFFF == 0x00005EFE)  # ISATAP
    )


def _inside(address: IpAddress) -> tuple[IPv4Address, ...]:
    """The IPv4 address embedded in a mapped or translated IPv6 address."""
    if not isinstance(address, IPv6Address):
        return ()
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _NAT64[0]:
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    if address in _NAT64[1]:
        return (IPv4Address(0),)  # a network-specific NAT64 prefix: never public
    return ()


def _listed(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern.rstrip(".").lower()) for pattern in patterns)
