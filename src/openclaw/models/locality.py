"""Whether an address is the user's own: this machine or this network. Pure."""

from functools import lru_cache
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

_OWN = tuple(
    ip_network(net)
    for net in (
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "0.0.0.0/32",
        "::1/128",
        "fc00::/7",
        "fe80::/10",
    )
)


def host_of(base_url: str) -> str:
    """The host name in `base_url`, or nothing when it has none."""
    try:
        return (urlsplit(base_url).hostname or "").lower()
    except ValueError:
        return ""


@lru_cache(maxsize=256)
def is_own_address(base_url: str) -> bool:
    """True for loopback, private and link-local addresses, `localhost` and `*.local`."""
    host = host_of(base_url)
    if host == "localhost" or host.endswith((".localhost", ".local")):
        return True
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return any(address in net for net in _OWN)
