"""Listening to one run: what it says, to whoever asked for it, without ever making it wait."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec import structs

from openclaw.core.errors import Unavailable
from openclaw.core.events import CallDelta, ToolUpdated
from openclaw.turns.record import RecordedEvent
from openclaw.turns.runs import RunEvent, RunSettled
from openclaw.turns.shaping import TextShaped, ThoughtShaped

MOST_WAITING = 2_000
_UNHEARD = (CallDelta, ThoughtShaped, ToolUpdated, RecordedEvent)
"""Progress that an answer is not made from."""


class RunListener:
    """The events of one run for one reader. Text that waits to be read grows into one event."""

    def __init__(self) -> None:
        self._waiting: deque[RunEvent] = deque()
        self._more = asyncio.Event()
        self._over: Unavailable | None = None
        self.settled = False
        """Whether the run has its outcome, read or not."""

    def put(self, told: RunEvent) -> None:
        if isinstance(told.event, _UNHEARD) or self._over is not None:
            return
        self.settled = self.settled or isinstance(told.event, RunSettled)
        last = self._waiting[-1].event if self._waiting else None
        if isinstance(last, TextShaped) and isinstance(told.event, TextShaped):
            self._waiting[-1] = structs.replace(told, event=TextShaped(last.text + told.event.text))
        elif len(self._waiting) < MOST_WAITING:
            self._waiting.append(told)
        else:
            self.close(Unavailable("the client reads too slowly: its run was given up"))
        self._more.set()

    def close(self, why: Unavailable) -> None:
        """There will be no more; the reader gets `why` once it has read what is there."""
        self._over = self._over or why
        self._more.set()

    async def next(self, patience: float) -> RunEvent | None:
        """The next event, or None when it was quiet for `patience` seconds."""
        while not self._waiting:
            if self._over is not None:
                raise self._over
            self._more.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._more.wait()
            if not self._more.is_set():
                return None
        return self._waiting.popleft()


class RunFanout:
    """Hands each event of a run to those who listen to that run."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[RunListener]] = {}
        self._closed = False

    def tell(self, told: RunEvent) -> None:
        for listener in self._listeners.get(told.run_id, ()):
            listener.put(told)

    @contextmanager
    def listening(self, run_id: str) -> Iterator[RunListener]:
        """A listener for as long as the block lasts; open it before the run is submitted, so that nothing is missed."""
        listener = RunListener()
        if self._closed:
            listener.close(_stopping())
        self._listeners.setdefault(run_id, []).append(listener)
        try:
            yield listener
        finally:
            self._listeners[run_id].remove(listener)
            if not self._listeners[run_id]:
                del self._listeners[run_id]

    def close(self) -> None:
        """Lets every reader go: runs that are parked for the next start have no outcome to wait for."""
        self._closed = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.close(_stopping())

    def __len__(self) -> int:
        return sum(map(len, self._listeners.values()))


def _stopping() -> Unavailable:
    return Unavailable("the gateway is shutting down: try again in a moment", retry_after=2.0)
