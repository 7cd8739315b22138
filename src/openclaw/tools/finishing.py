"""Work that is seen through to its end, also when the call around it is cancelled."""

import asyncio
from collections.abc import Callable, Coroutine
from threading import Event
from typing import Any, TypeVar

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
