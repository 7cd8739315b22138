"""A gateway inside this process, for a command that runs without a daemon, or beside one.

It is the daemon's composition without a port, without a lock, and without what happens by itself: channels, jobs,
heartbeats, and runs that another process left unfinished. Any number may run on one home.
"""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from openclaw.config.load import load
from openclaw.core.clock import Clock
from openclaw.core.progress import Report, no_report
from openclaw.core.provider import OpenProvider
from openclaw.gateway.connections import attend
from openclaw.gateway.exposure import LOOPBACK, Exposure, ExposureOptions
from openclaw.gateway.launch import Control, GatewayLaunch, hide_environment
from openclaw.gateway.serve import compose
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.protocol import memory
from openclaw.protocol.client import GatewayClient
from openclaw.protocol.connect_request import ConnectOptions
from openclaw.protocol.scopes import SCOPES
from openclaw.version import __version__

NOWHERE = Exposure(port=0, bind="loopback", hosts=(LOOPBACK,), mode="none")
"""Nothing listens. Whoever holds the other end of the connection is this process, so no credential is asked."""


@asynccontextmanager
async def local_gateway(
    environment: Environment,
    *,
    caps: tuple[str, ...] = (),
    warn: Callable[[str], None] | None = None,
    clock: Clock | None = None,
    open_provider: OpenProvider | None = None,
    report: Report = no_report,
) -> AsyncIterator[GatewayClient]:
    """The owner's client of a gateway for the length of the block.

    `warn` hears what the configuration gets wrong, `report` how far the start is.
    """
    hide_environment()
    loaded = load(environment.home, environment.environ)
    if warn is not None:
        for problem in (*loaded.issues, *loaded.warnings):
            warn(str(problem))
    launch = GatewayLaunch(
        environment=environment,
        wishes=ExposureOptions(),
        loaded=loaded,
        exposure=NOWHERE,
        secret=None,
        server=None,
        control=Control(),
        clock=clock or SystemClock(),
        safe=False,
        report=report,
        background=False,
    )
    owner = ConnectOptions(version=__version__, platform=sys.platform, scopes=SCOPES, caps=caps)
    try:
        async with (
            compose(launch, open_provider) as parts,
            memory.connect(partial(attend, parts.connection), owner) as client,
        ):
            yield client
    except ExceptionGroup as group:
        raise _innermost(group) from None


def _innermost(group: ExceptionGroup) -> Exception:
    """What went wrong. The parts live in task groups, and each of them wraps what passes through it."""
    found: Exception = group
    while isinstance(found, ExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found
