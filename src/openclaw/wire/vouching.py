"""A proxy in front of the gateway that has asked people who they are: when its word is taken for it. Pure.

Anyone can write a header. What makes one worth something is the address it comes from, and that the proxy overwrites
it; a header that comes twice is worth nothing, because nobody can say which of the two the proxy wrote.
"""

from collections.abc import Sequence

from msgspec import Struct

from openclaw.wire.peer import NotVouched, Vouched, is_loopback, is_one_of


class ProxyRules(Struct, frozen=True, kw_only=True):
    """Whose word counts, and what it must say. Header names are lower-case."""

    proxies: tuple[str, ...]
    user_header: str
    required_headers: tuple[str, ...] = ()
    allow_users: tuple[str, ...] = ()
    """Everyone the proxy knows, when empty."""
    allow_loopback: bool = False


def vouch(rules: ProxyRules, remote_ip: str, headers: Sequence[tuple[str, str]]) -> Vouched | NotVouched:
    """Who a request comes from according to a proxy we trust, or why that cannot be said."""
    if not is_one_of(remote_ip, rules.proxies):
        return NotVouched("trusted_proxy_untrusted_source")
    if is_loopback(remote_ip) and not rules.allow_loopback:
        return NotVouched("trusted_proxy_loopback_source")
    for name in rules.required_headers:
        if not any(value.strip() for found, value in headers if found == name):
            return NotVouched(f"trusted_proxy_missing_header_{name}")
    named = [value.strip() for found, value in headers if found == rules.user_header]
    if len(named) != 1 or not named[0]:
        return NotVouched("trusted_proxy_user_missing" if not any(named) else "trusted_proxy_user_ambiguous")
    if rules.allow_users and named[0] not in rules.allow_users:
        return NotVouched("trusted_proxy_user_not_allowed")
    return Vouched(named[0])
