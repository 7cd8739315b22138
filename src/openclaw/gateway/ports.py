"""Sockets to listen on, and who is in the way when there are none."""

import errno
import socket
from collections.abc import Sequence

from openclaw.core.errors import Conflict, StateError

BACKLOG = 512


class PortInUse(Conflict):
    """Somebody else listens there."""


def listen(hosts: Sequence[str], port: int) -> list[socket.socket]:
    """Listening sockets for all `hosts` on one port; port 0 takes a free one. All or none."""
    made: list[socket.socket] = []
    try:
        for host in hosts:
            made.append(_bound(host, port))
            port = made[0].getsockname()[1]
        if tuple(hosts) == ("127.0.0.1",):
            # `localhost` may mean the other family; nobody else should be able to answer there in our place.
            made += _other_family(port)
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


def _other_family(port: int) -> list[socket.socket]:
    try:
        return [_bound("::1", port)]
    except (StateError, Conflict):
        return []


def _explained(error: OSError, host: str, port: int) -> StateError | PortInUse:
    if error.errno == errno.EADDRINUSE:
        pid = owner(port)
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


def owner(port: int) -> int | None:
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


def free(hosts: Sequence[str], port: int) -> bool:
    """Whether we could listen there now."""
    try:
        made = listen(hosts, port)
    except (PortInUse, StateError):
        return False
    for one in made:
        one.close()
    return True


def outside(hosts: Sequence[str]) -> str:
    """The address under which other machines find what listens on `hosts`; empty when they cannot."""
    for host in hosts:
        if host == "0.0.0.0":  # noqa: S104
            return _own_address()
        if not host.startswith("127.") and host != "::1":
            return host
    return ""


def _own_address() -> str:
    """The address this machine would send from; nothing is sent to find out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        return str(one.getsockname()[0])
