"""Work that is seen through to its end, also when the call around it is cancelled."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from threading import Event
from typing import Any, TypeVar

from openclaw.core.clock import Clock
from openclaw.core.errors import Unavailable


class SystemClock:
    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


T = TypeVar("T")


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` to its end even if the caller is cancelled meanwhile; the cancellation follows after."""
    return await _outlast(asyncio.ensure_future(work), lambda: None)


async def offload(work: Callable[[Event], T]) -> T:
    """Runs `work` in a thread. On cancellation its event is set, and the call ends when the thread has ended."""
    stop = Event()
    return await _outlast(asyncio.get_running_loop().run_in_executor(None, work, stop), stop.set)


async def _outlast(future: asyncio.Future[T], cancelled: Callable[[], None]) -> T:
    pending: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            pending = error
            cancelled()
    if pending is not None:
        # Reading the outcome keeps the loop from complaining that nobody did.
        if not future.cancelled():
            future.exception()
        raise pending
    return future.result()


async def with_timeout(work: Coroutine[Any, Any, T], seconds: float, clock: Clock, what: str) -> T:
    """The result of `work`, or `Unavailable` when it takes longer than `seconds` (0 = no limit)."""
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(seconds) if seconds else asyncio.Event().wait())
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Unavailable(f"{what} took longer than {seconds:g} s")
        return task.result()
    finally:
        task.cancel()
        timer.cancel()
        await asyncio.gather(task, timer, return_exceptions=True)


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
