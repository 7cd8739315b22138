"""Tells the service manager how far we are, in its own words; without one, nothing happens."""

import contextlib
import socket
from collections.abc import Mapping


def notify(environ: Mapping[str, str], state: str) -> bool:
    """Sends `state` (`READY=1`, `STOPPING=1`, …) to `NOTIFY_SOCKET`; whether there was somebody to tell."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")) or not hasattr(socket, "AF_UNIX"):
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.sendto(state.encode(), address)
        return True
    return False
