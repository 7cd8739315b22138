"""The event bus: publishes to all listeners. Publishing never waits; a listener that lags is told so."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field

MOST_WAITING = 10_000


class BusEvent(Struct, frozen=True):
    """One event, with the wire's name and payload."""

    event: str
    payload: dict[str, Any] = field(default_factory=dict)
    session_key: str = ""


class BusListener:
    """One subscriber of the bus."""

    def __init__(self, only: Collection[str] = ()) -> None:
        self._only = frozenset(only)
        self.queue: asyncio.Queue[BusEvent] = asyncio.Queue(MOST_WAITING)
        self.missed = 0
        """How many events were dropped while it lagged; whoever recovers from that resets it."""

    def put(self, notice: BusEvent) -> None:
        if self._only and notice.event not in self._only:
            return
        try:
            self.queue.put_nowait(notice)
        except asyncio.QueueFull:
            self.missed += 1

    async def __aiter__(self) -> AsyncIterator[BusEvent]:
        while True:
            yield await self.queue.get()

    async def some(self, most: int) -> list[BusEvent]:
        """Up to `most` waiting events; waits for the first."""
        found = [await self.queue.get()]
        while len(found) < most and not self.queue.empty():
            found.append(self.queue.get_nowait())
        return found


class EventBus:
    def __init__(self) -> None:
        self._listeners: set[BusListener] = set()

    def publish(self, event: str, payload: dict[str, Any], session_key: str = "") -> None:
        notice = BusEvent(event, payload, session_key)
        for listener in self._listeners:
            listener.put(notice)

    @contextmanager
    def listening(self, only: Collection[str] = ()) -> Iterator[BusListener]:
        """Subscribes for the length of the block. `only` names the events it hears."""
        listener = BusListener(only)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)
