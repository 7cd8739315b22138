"""What a running gateway is asked to do from outside: stop, stop now, restart, read its configuration again."""

import asyncio
import contextlib
import logging
import signal
import sys
import time
from collections.abc import Iterator
from typing import Literal

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


@contextlib.contextmanager
def signals(control: Control) -> Iterator[None]:
    """Orders by signal: TERM and INT stop, USR1 restarts, HUP reads the configuration."""
    loop = asyncio.get_running_loop()
    orders = {signal.SIGINT: control.stop, signal.SIGTERM: control.stop}
    if sys.platform != "win32":
        orders |= {signal.SIGUSR1: control.restart, signal.SIGHUP: control.reload}
    before = {}
    for number, order in orders.items():
        try:
            before[number] = signal.getsignal(number)
            loop.add_signal_handler(number, order, number.name)
        except NotImplementedError:
            signal.signal(
                number,
                lambda got, _, order=order: loop.call_soon_threadsafe(order, signal.Signals(got).name),  # type: ignore[misc]
            )
    try:
        yield
    finally:
        for number, handler in before.items():
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, handler)
