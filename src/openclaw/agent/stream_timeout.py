"""Ends a model stream that goes silent."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

from openclaw.core.clock import Clock
from openclaw.core.errors import ProviderTimeout

T = TypeVar("T")


class _Watch:
    """How long the stream has been silent, and the task that awaits it."""

    def __init__(self, clock: Clock, first: float, idle: float) -> None:
        self._clock = clock
        self._step = min((limit for limit in (first, idle) if limit), default=0.0)
        self.limit = first
        self.since = clock.now()
        self.waiting: asyncio.Task[object] | None = None
        self.expired = False

    async def keep(self) -> None:
        """Interrupts the awaiting task when the limit is reached. One sleeper per stream, not a timer per event."""
        while self._step:
            left = self.since + self.limit - self._clock.now() if self.limit else self._step
            if left <= 0 and self.waiting is not None:
                self.expired = True
                self.waiting.cancel()
                return
            # The limit may change during the sleep, so sleep no longer than the shorter of the two.
            await self._clock.sleep(min(left, self._step) if left > 0 else self._step)


async def with_stream_timeout(
    events: AsyncIterator[T], clock: Clock, *, first: float, idle: float, who: str
) -> AsyncGenerator[T, None]:
    """`events`, or `ProviderTimeout` after `first` silent seconds at the start or `idle` later on; 0 = no limit.

    It interrupts only while we await the stream, never while our consumer works.
    """
    watch = _Watch(clock, first, idle)
    dog = asyncio.create_task(watch.keep(), name=f"watchdog:{who}")
    try:
        while True:
            task = asyncio.current_task()
            assert task is not None
            cancelled = task.cancelling()
            watch.waiting, watch.since = task, clock.now()
            try:
                event = await anext(events)
            except StopAsyncIteration:
                return
            except asyncio.CancelledError:
                # A cancellation from outside at the same moment takes precedence.
                if not watch.expired or task.uncancel() > cancelled:
                    raise
                raise ProviderTimeout(
                    f"{who} said nothing for {watch.limit:g} s. "
                    "Try again, or raise models.providers.<id>.timeoutSeconds."
                ) from None
            finally:
                watch.waiting = None
            watch.limit = idle
            yield event
    finally:
        dog.cancel()
        try:
            # First, because a second cancellation must not leave the stream open.
            if isinstance(events, AsyncGenerator):
                await events.aclose()
        finally:
            await asyncio.gather(dog, return_exceptions=True)
