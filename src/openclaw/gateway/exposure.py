"""Decides where the gateway listens, which credential clients need, and which browser requests are allowed."""

import contextlib
import errno
import ipaddress
import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from msgspec import Struct

from openclaw.config.settings import AuthMode, Bind, GatewaySettings
from openclaw.core.errors import ConfigError, Conflict, StateError
from openclaw.core.secret import Secret
from openclaw.gateway.running import Credential, own_token, token_path
from openclaw.protocol.auth import secret_kind
from openclaw.protocol.peer import ProxyRules, host_name, is_loopback, origin_host, parse_address
from openclaw.protocol.scopes import SCOPES
from openclaw.storage.atomic import create_file

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104
LEAST_SECRET = 16
"""Fewer characters than this are not enough beyond this machine."""


# Address, port and authentication.


class ExposureOptions(Struct, frozen=True, kw_only=True):
    """Options of the command line; they override the environment and the file."""

    port: int | None = None
    bind: str | None = None
    auth: str | None = None
    token: Secret | None = None
    password: Secret | None = None


class Exposure(Struct, frozen=True, kw_only=True):
    """Where to listen, and what to require of clients."""

    port: int
    bind: Bind
    hosts: tuple[str, ...]
    mode: AuthMode
    secret: Secret | None = None
    """None with a mode that needs one means: the token this installation generates."""
    proxy: ProxyRules | None = None
    """Of mode `trusted-proxy`."""

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return all(is_loopback(host) for host in self.hosts)

    @property
    def credential(self) -> Credential:
        """What our own commands present."""
        return "none" if self.mode == "none" else "" if self.secret is not None else "own-token"


def decide(settings: GatewaySettings, environ: Mapping[str, str], wishes: ExposureOptions) -> Exposure:
    """The exposure that was asked for; refuses one that would let strangers in."""
    bind = _bind(wishes.bind or settings.bind)
    hosts = _hosts(bind, settings.custom_bind_host)
    mode, secret = _auth(settings, environ, wishes)
    found = Exposure(
        port=_port(settings, environ, wishes),
        bind=bind,
        hosts=hosts,
        mode=mode,
        secret=secret,
        proxy=_proxy(settings, hosts) if mode == "trusted-proxy" else None,
    )
    if found.local:
        return found
    if mode == "none":
        raise ConfigError(
            f"the gateway would listen on {', '.join(hosts)} without asking anyone for a credential: set"
            " gateway.auth.token (or gateway.auth.password), or set gateway.bind to loopback",
            path="gateway.bind",
        )
    kind = secret_kind(mode)
    if secret is not None and len(secret.reveal()) < LEAST_SECRET:
        raise ConfigError(
            f"the gateway {kind} has fewer than {LEAST_SECRET} characters, which is too short for a gateway that other"
            f" machines can reach: set a longer gateway.auth.{kind}, or set gateway.bind to loopback",
            path=f"gateway.auth.{kind}",
        )
    return found


def _port(settings: GatewaySettings, environ: Mapping[str, str], wishes: ExposureOptions) -> int:
    if wishes.port is not None:
        return wishes.port
    named = environ.get("OPENCLAW_GATEWAY_PORT", "").strip()
    if not named:
        return settings.port
    if not named.isdecimal() or not 0 <= int(named) <= 65_535:
        raise ConfigError(f"OPENCLAW_GATEWAY_PORT is {named!r}: set it to a port number from 1 to 65535")
    return int(named)


def _bind(name: str) -> Bind:
    for known in get_args(Bind):
        if name == known:
            found: Bind = known
            return found
    raise ConfigError(f"{name!r} is not a way to bind: use {', '.join(get_args(Bind))}", path="gateway.bind")


def _hosts(bind: Bind, custom: str | None) -> tuple[str, ...]:
    match bind:
        case "loopback" | "auto":
            return (LOOPBACK,)
        case "lan":
            return (EVERYWHERE,)
        case "custom":
            try:
                address = str(ipaddress.IPv4Address((custom or "").strip()))
            except ValueError:
                raise ConfigError(
                    "gateway.bind is custom: set gateway.customBindHost to the IPv4 address to listen on",
                    path="gateway.customBindHost",
                ) from None
            # Our own commands always find the gateway on loopback.
            return (address,) if address == EVERYWHERE or is_loopback(address) else (address, LOOPBACK)


def _auth(
    settings: GatewaySettings, environ: Mapping[str, str], wishes: ExposureOptions
) -> tuple[AuthMode, Secret | None]:
    auth = settings.auth
    token = wishes.token or _from(environ, "OPENCLAW_GATEWAY_TOKEN") or auth.token
    password = wishes.password or _from(environ, "OPENCLAW_GATEWAY_PASSWORD") or auth.password
    match wishes.auth or auth.mode:
        case "none":
            return "none", None
        case "token" | "trusted-proxy" as mode:
            return mode, token or None
        case "password":
            if not password:
                raise ConfigError(
                    "gateway.auth.mode is password, but there is none: set gateway.auth.password or"
                    " OPENCLAW_GATEWAY_PASSWORD",
                    path="gateway.auth.password",
                )
            return "password", password
        case None:
            return ("password", password) if password and not token else ("token", token or None)
        case other:
            raise ConfigError(
                f"{other!r} is not a way to authenticate: use {', '.join(get_args(AuthMode))}", path="gateway.auth.mode"
            )


def _proxy(settings: GatewaySettings, hosts: Sequence[str]) -> ProxyRules:
    """The rules of mode `trusted-proxy`; refuses rules that let nobody in, or everybody."""
    wanted, proxies = settings.auth.trusted_proxy, settings.trusted_proxies
    if not wanted.user_header.strip():
        raise ConfigError(
            "gateway.auth.mode is trusted-proxy: set gateway.auth.trustedProxy.userHeader to the header in which the"
            " proxy names the person, such as x-forwarded-user",
            path="gateway.auth.trustedProxy.userHeader",
        )
    if not proxies:
        raise ConfigError(
            "gateway.auth.mode is trusted-proxy, but no proxy is trusted: list its addresses in gateway.trustedProxies",
            path="gateway.trustedProxies",
        )
    for proxy in proxies:
        try:
            network = ipaddress.ip_network(proxy.strip(), strict=False)
        except ValueError:
            raise ConfigError(
                f"{proxy!r} in gateway.trustedProxies is no address and no network: write 10.0.0.5 or 10.0.0.0/28",
                path="gateway.trustedProxies",
            ) from None
        if network.prefixlen == 0:
            raise ConfigError(
                f"{proxy} in gateway.trustedProxies is everybody, and whoever is in it can be anyone: list only the"
                " addresses of the proxy",
                path="gateway.trustedProxies",
            )
    if all(is_loopback(host) for host in hosts) and not wanted.allow_loopback:
        raise ConfigError(
            "gateway.auth.mode is trusted-proxy and the gateway listens on this machine only: set"
            " gateway.auth.trustedProxy.allowLoopback when the proxy runs here, else set gateway.bind",
            path="gateway.auth.trustedProxy.allowLoopback",
        )
    if unknown := [scope for scope in wanted.device_auto_approve.scopes if scope not in SCOPES]:
        raise ConfigError(
            f"{', '.join(unknown)} in gateway.auth.trustedProxy.deviceAutoApprove.scopes is no scope: use"
            f" {', '.join(SCOPES)}",
            path="gateway.auth.trustedProxy.deviceAutoApprove.scopes",
        )
    return ProxyRules(
        proxies=proxies,
        user_header=wanted.user_header.strip().lower(),
        required_headers=tuple(name.strip().lower() for name in wanted.required_headers if name.strip()),
        allow_users=wanted.allow_users,
        allow_loopback=wanted.allow_loopback,
    )


def _from(environ: Mapping[str, str], name: str) -> Secret | None:
    value = environ.get(name, "").strip()
    return Secret(value) if value else None


# Host and origin checks.


class HostRules(Struct, frozen=True, kw_only=True):
    """Which names and origins requests may come with."""

    names: frozenset[str] = frozenset()
    """Host names, beside addresses and localhost."""
    origins: tuple[str, ...] = ()
    proxy: ProxyRules | None = None
    """The proxy whose user header counts; None when there is none."""
    proxies: tuple[str, ...] = ()
    """Addresses and networks of trusted proxies, whose connections belong to many people."""


def host_rules(settings: GatewaySettings, own_names: Sequence[str] = (), proxy: ProxyRules | None = None) -> HostRules:
    """The host rules of a configuration; `own_names` are the names of this machine."""
    origins = settings.control_ui.allowed_origins
    listed = (origin_host(origin) for origin in origins)
    names = frozenset({*listed, *(name.lower() for name in own_names)} - {""})
    return HostRules(names=names, origins=origins, proxy=proxy, proxies=settings.trusted_proxies)


def host_allowed(host: str, known: HostRules) -> bool:
    """Whether a `Host` header names us.

    A page that points its own name at our address (DNS rebinding) sends that name; an address cannot be spoofed so.
    """
    name = host_name(host)
    return bool(name) and (is_loopback(name) or name in known.names or parse_address(name) is not None)


# The token.


def shared_secret(exposure: Exposure, state: Path) -> Secret | None:
    """The secret clients present; generates the token at first need. None when none is required."""
    if exposure.mode == "none" or exposure.secret is not None:
        return exposure.secret
    if own_token(state) is None:
        path = token_path(state)
        try:
            create_file(path, secrets.token_hex(32).encode())
        except OSError as error:
            raise StateError(f"cannot keep a token in {path}: {error.strerror}") from error
    return own_token(state)


# Listening.

BACKLOG = 512


class PortInUse(Conflict):
    """Another process listens on the port."""


def listen(hosts: Sequence[str], port: int) -> list[socket.socket]:
    """Listening sockets for all `hosts` on one port; port 0 takes a free one. All or none."""
    made: list[socket.socket] = []
    try:
        for host in hosts:
            made.append(_bound(host, port))
            port = made[0].getsockname()[1]
        if tuple(hosts) == ("127.0.0.1",):
            # `localhost` may resolve to the other family; nobody else should be able to answer there in our place.
            with contextlib.suppress(StateError, Conflict):
                made.append(_bound("::1", port))
    except BaseException:
        for one in made:
            one.close()
        raise
    return made


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Accepted sockets take over the protocol, and asyncio sets TCP_NODELAY only where it says TCP. With 0, Nagle's
    # algorithm holds the second small write back until the first is acknowledged.
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in host:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind((host, port))
        one.listen(BACKLOG)
        one.setblocking(False)
    except OSError as error:
        one.close()
        raise _explained(error, host, port) from error
    return one


def _explained(error: OSError, host: str, port: int) -> StateError | PortInUse:
    if error.errno == errno.EADDRINUSE:
        pid = port_owner(port)
        who = f" by process {pid}" if pid else ""
        return PortInUse(
            f"port {port} on {host} is in use{who}: stop that program, or choose another port with --port or"
            " gateway.port"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return StateError(f"{host} is not an address of this machine: correct gateway.customBindHost")
    if error.errno == errno.EACCES:
        return StateError(f"port {port} needs special rights: choose one above 1023 with --port or gateway.port")
    return StateError(f"cannot listen on {host} port {port}: {error.strerror}")


def port_owner(port: int) -> int | None:
    """The process that listens on `port`, when the system lets us see it."""
    import psutil  # type: ignore[import-untyped]

    try:
        found = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return None
    for one in found:
        if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid:
            return int(one.pid)
    return None


def is_port_free(hosts: Sequence[str], port: int) -> bool:
    """Whether we could listen there now."""
    try:
        made = listen(hosts, port)
    except (PortInUse, StateError):
        return False
    for one in made:
        one.close()
    return True


def outside_address(hosts: Sequence[str]) -> str:
    """The address other machines reach `hosts` at; empty when they cannot."""
    for host in hosts:
        if host == "0.0.0.0":  # noqa: S104
            return _own_address()
        if not host.startswith("127.") and host != "::1":
            return host
    return ""


def _own_address() -> str:
    """The address this machine would send from; sends nothing to find out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        return str(one.getsockname()[0])
