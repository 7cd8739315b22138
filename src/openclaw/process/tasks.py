"""Running tasks: the system clock, work shielded from cancellation, timeouts, supervision."""

import asyncio
import inspect
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from threading import Event
from typing import Any, TypeVar

from openclaw.core.clock import Backoff, Clock
from openclaw.core.errors import Unavailable


class SystemClock:
    now = staticmethod(time.time)
    sleep = staticmethod(asyncio.sleep)

    @staticmethod
    def call_later(seconds: float, work: Callable[[], object]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, work)


T = TypeVar("T")


async def run_shielded(work: Awaitable[T]) -> T:
    """Runs `work` to its end even if the caller is cancelled meanwhile; the cancellation is re-raised after it."""
    return await _outlast(asyncio.ensure_future(work))


async def run_in_thread(work: Callable[[Event], T], threads: Executor | None = None) -> T:
    """Runs `work` in a thread. Cancellation sets its event, and the call returns after the thread has ended.

    What takes for ever brings `threads` of its own: those that everybody uses are few.
    """
    stop = Event()
    return await _outlast(asyncio.get_running_loop().run_in_executor(threads, work, stop), stop.set)


async def _outlast(future: asyncio.Future[T], cancelled: Callable[[], None] | None = None) -> T:
    pending: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            pending = error
            if cancelled is not None:
                cancelled()
    if pending is not None:
        # Retrieving the exception keeps asyncio from logging it as never retrieved.
        if not future.cancelled():
            future.exception()
        raise pending
    return future.result()


async def wait_first(*waits: Any) -> None:
    """Waits until the first of several waits is over."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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


# Supervision.

log = logging.getLogger(__name__)

RESTARTS = Backoff(1.0, 60.0)


async def supervise_once(work: Awaitable[None], what: str) -> None:
    """Runs `work` once; logs an exception instead of raising it."""
    try:
        await work
    except Exception:
        log.exception("%s failed", what)


async def supervise(start: Callable[[], Awaitable[None]], what: str, clock: Clock) -> None:
    """Runs a long-lived task; restarts it after a failure with growing delays. A normal return ends it."""
    for failures in itertools.count(1):
        try:
            await start()
            return
        except Exception as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise asyncio.CancelledError from error  # it failed while it was ending
            log.exception("%s failed; it is begun again in %g s", what, RESTARTS.after(failures))
        await clock.sleep(RESTARTS.after(failures))


async def call_function(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function of others; a plain one runs in a thread, so that it may block."""
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    found = await asyncio.to_thread(function, *args)
    return await found if inspect.isawaitable(found) else found
