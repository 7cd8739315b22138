"""One call to a model: reserved in the budget, streamed under a limit on silence, recorded when it ends."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from openclaw.core.clock import Clock
from openclaw.core.errors import ProviderError, ProviderTimeout
from openclaw.core.events import ModelEvent
from openclaw.core.harness import Attempt, MeteredCall
from openclaw.core.provider import ModelRequest


class ModelCall:
    """Iterates over the events of a call: `async with ModelCall(…) as events`; a silent stream is a timeout."""

    def __init__(self, attempt: Attempt, request: ModelRequest, clock: Clock) -> None:
        self._attempt = attempt
        self._request = request
        self._clock = clock
        self._metered: MeteredCall | None = None
        self._events: AsyncIterator[ModelEvent] | None = None
        self._watchdog: asyncio.Task[None] | None = None
        self._limit = attempt.first_event_timeout
        self._since = 0.0
        self._waiting: asyncio.Task[object] | None = None
        """The task that awaits the stream; None while its consumer works, which is never interrupted."""
        self._expired = False

    async def __aenter__(self) -> "ModelCall":
        if self._attempt.reserve is not None:
            self._metered = await self._attempt.reserve(self._request)
        return self

    def __aiter__(self) -> "ModelCall":
        return self

    async def __anext__(self) -> ModelEvent:
        task = asyncio.current_task()
        assert task is not None
        if self._events is None:
            self._events = self._attempt.provider.stream(self._request)
            self._watchdog = asyncio.create_task(self._watch(), name=f"watchdog:{self._request.model.ref}")
            if self._metered is not None:
                self._metered.begun = True
        cancelled = task.cancelling()
        self._waiting, self._since = task, self._clock.now()
        try:
            event = await anext(self._events)
        except ProviderError as error:
            if self._metered is not None:
                self._metered.failed(error)
            raise
        except asyncio.CancelledError:
            # A cancellation from outside at the same moment takes precedence.
            if not self._expired or task.uncancel() > cancelled:
                raise
            raise ProviderTimeout(
                f"{self._request.model.ref} said nothing for {self._limit:g} s. "
                "Try again, or raise models.providers.<id>.timeoutSeconds."
            ) from None
        finally:
            self._waiting = None
        self._limit = self._attempt.idle_timeout
        if self._metered is not None:
            self._metered.add(event)
        return event

    async def __aexit__(self, *ended: object) -> None:
        # Taken out, because the frame in a cancelled task's traceback holds this call: with it in here, a cycle would
        # keep the whole request until the next full collection.
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.cancel()
        try:
            # First, because a second cancellation must not leave the stream open.
            if isinstance(self._events, AsyncGenerator):
                await self._events.aclose()
        finally:
            if watchdog is not None:
                await asyncio.gather(watchdog, return_exceptions=True)
            if self._metered is not None:
                await self._metered.close()

    async def _watch(self) -> None:
        """Interrupts the awaiting task when the limit is reached. One sleeper per stream, not a timer per event."""
        limits = (self._attempt.first_event_timeout, self._attempt.idle_timeout)
        step = min((limit for limit in limits if limit), default=0.0)
        while step:
            left = self._since + self._limit - self._clock.now() if self._limit else step
            if left <= 0 and self._waiting is not None:
                self._expired = True
                self._waiting.cancel()
                return
            # The limit may change during the sleep, so sleep no longer than the shorter of the two.
            await self._clock.sleep(min(left, step) if left > 0 else step)
