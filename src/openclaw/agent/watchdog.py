"""A stream that goes silent is ended, whatever it is waiting for."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TypeVar

from openclaw.core.clock import Clock
from openclaw.core.errors import ProviderTimeout

T = TypeVar("T")


async def watched(
    events: AsyncIterator[T], clock: Clock, *, first: float, idle: float, who: str
) -> AsyncGenerator[T, None]:
    """`events`, or `ProviderTimeout` after `first` silent seconds at the start or `idle` later on; 0 = no limit.

    One sleeping task per stream instead of a timer per event. It may only interrupt us while we wait for the stream:
    never while our consumer works.
    """
    waiting: asyncio.Task[object] | None = None
    since = clock.now()
    limit = first
    expired = False

    async def guard() -> None:
        nonlocal expired
        while True:
            pause = since + limit - clock.now() if limit else 3600.0
            if pause <= 0 and waiting is not None:
                expired = True
                waiting.cancel()
                return
            await clock.sleep(max(pause, 0.05))

    dog = asyncio.create_task(guard(), name=f"watchdog:{who}")
    try:
        while True:
            waiting, since = asyncio.current_task(), clock.now()
            try:
                event = await anext(events)
            except StopAsyncIteration:
                return
            except asyncio.CancelledError:
                if not expired:
                    raise
                if waiting is not None:
                    waiting.uncancel()
                raise ProviderTimeout(
                    f"{who} said nothing for {limit:g} s. Try again, or raise models.providers.<id>.timeoutSeconds."
                ) from None
            finally:
                waiting = None
            limit = idle
            yield event
    finally:
        dog.cancel()
        await asyncio.gather(dog, return_exceptions=True)
        if isinstance(events, AsyncGenerator):
            async with aclosing(events):
                pass
