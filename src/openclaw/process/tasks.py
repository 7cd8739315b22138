"""Running tasks: the system clock, work shielded from cancellation, threads, timeouts, supervision."""

import asyncio
import inspect
import itertools
import logging
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context, copy_context
from functools import cache
from threading import Event, Lock, Thread
from typing import Any, TypeVar

from msgspec import Struct

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


# Threads. A call of a tool goes to one and comes back, so the way there and back is short: the thread that worked last
# works next, no other one is woken, and a result is one call into the loop.


async def run_in_thread(work: Callable[[Event], T], threads: Executor | None = None) -> T:
    """Runs `work` in a thread. Cancellation sets its event, and the call returns after the thread has ended.

    What takes for ever brings `threads` of its own: those that everybody uses are few.
    """
    if threads is None:
        return await work_threads().start(work)
    stop = Event()
    return await _outlast(asyncio.get_running_loop().run_in_executor(threads, work, stop), stop.set)


class ThreadFuture(asyncio.Future[T]):
    """The result of work in a thread, which cannot be broken off: a task that is cancelled meanwhile gets its
    cancellation when the work has ended, and the work is told by an event."""

    stop: Event

    def cancel(self, msg: Any = None) -> bool:
        self.stop.set()
        return False


class _Errand(Struct):
    """Work for a thread."""

    work: Callable[[Event], Any]
    future: ThreadFuture[Any]
    loop: asyncio.AbstractEventLoop
    context: Context


class _Worker:
    """A thread, and what it does next."""

    def __init__(self) -> None:
        self.wake = Lock()
        self.wake.acquire()
        self.errand: _Errand | None = None


class WorkThreads:
    """The threads, started one by one as they are needed. They end with the process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._idle: list[_Worker] = []
        self._waiting: deque[_Errand] = deque()
        self._count = 0

    def start(self, work: Callable[[Event], T]) -> ThreadFuture[T]:
        """Gives `work`, which is handed the event of its cancellation, to a thread."""
        loop = asyncio.get_running_loop()
        future: ThreadFuture[T] = ThreadFuture(loop=loop)
        future.stop = Event()
        errand = _Errand(work, future, loop, copy_context())
        with self._lock:
            if self._idle:
                worker = self._idle.pop()
            elif self._count < self._most:
                self._count += 1
                worker = _Worker()
                Thread(target=self._serve, args=(worker,), name=f"work-{self._count}", daemon=True).start()
            else:
                self._waiting.append(errand)
                return future
        worker.errand = errand
        worker.wake.release()
        return future

    def _serve(self, worker: _Worker) -> None:
        while True:
            worker.wake.acquire()
            errand, worker.errand = worker.errand, None
            while errand is not None:
                errand = self._done(errand, worker)

    def _done(self, errand: _Errand, worker: _Worker) -> _Errand | None:
        """Does one errand; gives the next one."""
        future = errand.future
        tell: Callable[[Any], None] = future.set_result
        try:
            said = errand.context.run(errand.work, future.stop)
        except BaseException as error:
            tell, said = future.set_exception, error
        # Idle before the loop hears of it, so that this thread does what the loop wants next.
        with self._lock:
            following = self._waiting.popleft() if self._waiting else None
            if following is None:
                self._idle.append(worker)
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            errand.loop.call_soon_threadsafe(tell, said)
        del said  # an error refers to this frame
        return following


@cache
def work_threads() -> WorkThreads:
    """Those of this process."""
    os.register_at_fork(after_in_child=work_threads.cache_clear)
    return WorkThreads(min(32, (os.cpu_count() or 1) + 4))


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
