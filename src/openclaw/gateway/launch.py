"""What a composition of the gateway is given, and what it serves: the values between the process and its parts."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from openclaw.config.load import LoadedConfig
from openclaw.core.clock import Clock
from openclaw.core.progress import Report, no_report
from openclaw.core.secret import Secret
from openclaw.gateway.connections import Transport
from openclaw.gateway.exposure import Exposure, ExposureOptions
from openclaw.gateway.running import Credential
from openclaw.process.environment import Environment

if TYPE_CHECKING:
    from openclaw.gateway.http.web import BaseRoute
    from openclaw.gateway.reload import Reload
    from openclaw.gateway.server import Server

log = logging.getLogger("openclaw.gateway")

Wish = Literal["stop", "restart"]


class Control:
    """One gateway's orders; signals and clients give them, the daemon follows them."""

    def __init__(self) -> None:
        self.wish: Wish | None = None
        self.over = asyncio.Event()
        """Set when the gateway is to end or to begin again."""
        self.hurry = asyncio.Event()
        """Set when nobody wants to wait for work in progress any more."""
        self.reread = asyncio.Event()
        self.restarted = float("-inf")
        """When the last restart was asked for, on the monotonic clock."""

    @property
    def began_anew(self) -> bool:
        """Whether this process has restarted the gateway before."""
        return self.restarted > float("-inf")

    def stop(self, why: str) -> None:
        """Ends the gateway; asked a second time, at once."""
        if self.wish is not None:
            log.warning("stopping at once (%s)", why)
            self.hurry.set()
        else:
            log.info("stopping (%s)", why)
        self.wish = "stop"
        self.over.set()

    def restart(self, why: str) -> None:
        """Begins again in this process, with the configuration as it is then."""
        if self.wish is None:
            log.info("restarting (%s)", why)
            self.wish = "restart"
            self.restarted = time.monotonic()
            self.over.set()

    def reload(self, why: str) -> None:
        """Reads the configuration now."""
        log.info("reading the configuration again (%s)", why)
        self.reread.set()

    def begin(self) -> None:
        """A new life in the same process."""
        self.wish = None
        for event in (self.over, self.hurry, self.reread):
            event.clear()


def hide_environment() -> None:
    """Empties `/proc/<pid>/environ`, where a command could read what `safe_env` takes out of its own variables.

    Linux shows the memory that the variables were started in. They move to other memory first, so that the process and
    its children have them as before.
    """
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[47]), int(fields[48])
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            for name, value in os.environ.items():
                os.putenv(name, value)
            memory.seek(start)
            memory.write(b"\0" * (end - start))
    except (OSError, IndexError, ValueError) as error:  # another system, or one that does not let us
        log.debug("the environment stays visible: %s", error)


class HttpService(Struct, frozen=True, kw_only=True):
    """What is offered on the port."""

    connection: Callable[[Transport], Awaitable[None]]
    """Serves one WebSocket to its end."""
    routes: "Sequence[BaseRoute]" = ()


def log_progress(what: str, done: int, total: int) -> None:
    """A `Report` for a gateway: its log says when long work begins and ends."""
    if total and done in (0, total):
        log.info("%s: %d of %d", what, done, total)


def expect_nobody(credential: Credential) -> None:
    """For a gateway without a port: nobody comes."""


class GatewayLaunch(Struct, frozen=True, kw_only=True):
    """What a composition is given."""

    environment: Environment
    wishes: ExposureOptions
    """What stands above the configuration, also above the next one."""
    loaded: LoadedConfig
    exposure: Exposure
    secret: Secret | None
    """What clients have to present; None when nothing is asked."""
    server: "Server | None"
    """None when nothing listens: the one client is in this process."""
    control: Control
    clock: Clock
    safe: bool
    """Start without channels, plugins and cron."""
    report: Report = no_report
    """Hears how far the start is, when it takes long."""
    expect: Callable[[Credential], None] = expect_nobody
    """Hears which credential our own commands have to present, when that changes."""
    background: bool = True
    """Whether anything happens by itself: channels, jobs, heartbeats, and runs that another process left unfinished.
    Without it the tools that need a gateway that goes on (sessions, sub-agents, cron) are not offered."""


class GatewayParts(HttpService, frozen=True, kw_only=True):
    """What a composition serves, and what it has to hear."""

    reload: "Callable[[Reload], Awaitable[None]]"
    drain: Callable[[float], Awaitable[None]]
    """Lets its work come to rest within the seconds it is given."""


Compose = Callable[[GatewayLaunch], AbstractAsyncContextManager[GatewayParts]]
