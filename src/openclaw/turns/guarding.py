"""The supervisor: work beside the runs that must not take its neighbours with it when it fails."""

import logging
from collections.abc import Awaitable, Callable

from openclaw.core.clock import Clock

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


async def supervise_once(work: Awaitable[None], what: str) -> None:
    """One piece of work; a bug in it is logged and ends here."""
    try:
        await work
    except Exception:
        log.exception("%s failed", what)


async def supervise(start: Callable[[], Awaitable[None]], what: str, clock: Clock) -> None:
    """Work that goes on for ever; after a failure it is begun again, more slowly each time. Ending well ends it."""
    pause = FIRST_PAUSE
    while True:
        try:
            await start()
            return
        except Exception:
            log.exception("%s failed; it is begun again in %g s", what, pause)
        await clock.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
