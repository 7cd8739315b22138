"""The event bus: publishes to all listeners. Publishing never waits; a listener that lags is told so."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from openclaw.protocol.frames import EventFrame, StateVersion, encode

MOST_WAITING = 10_000

_DROPPABLE = frozenset(("tick", "health", "presence", "heartbeat", "node.presence", "node.hostStats", "session.typing"))
"""Events that the next one supersedes."""


class BusEvent(Struct):
    """One event, with the wire's name and payload. It is encoded once: only the sequence number differs by client."""

    event: str
    payload: dict[str, Any] = field(default_factory=dict)
    session_key: str = ""
    state_version: StateVersion | UnsetType = UNSET
    relay: bool = True
    """Whether other gateways of a cluster are told."""
    _head: bytes = b""

    @property
    def droppable(self) -> bool:
        """Whether a slow client may miss it; the next delta of an answer carries all the text before it."""
        return self.event in _DROPPABLE or (self.event == "chat" and self.payload.get("state") == "delta")

    def numbered(self, seq: int) -> bytes:
        """The encoded frame with this sequence number."""
        if not self._head:
            frame = EventFrame(event=self.event, payload=self.payload, state_version=self.state_version)
            self._head = encode(frame)[:-1] + b',"seq":'
        return b"%b%d}" % (self._head, seq)


class BusListener:
    """One subscriber of the bus."""

    def __init__(
        self, only: Collection[str] = (), *, everywhere: bool = False, arrived: Callable[[], object] | None = None
    ) -> None:
        self.only = frozenset(only)
        self.everywhere = everywhere
        self.missed = 0
        """How many events were dropped while it lagged; whoever recovers from that resets it."""
        self.waiting: deque[BusEvent] = deque()
        self._first = asyncio.Event()
        self._arrived = arrived or self._first.set

    def put(self, notice: BusEvent) -> None:
        waiting = self.waiting
        if not waiting:
            self._arrived()
        elif len(waiting) >= MOST_WAITING:
            self.missed += 1
            return
        waiting.append(notice)

    async def __aiter__(self) -> AsyncIterator[BusEvent]:
        while True:
            for notice in await self.some(1):
                yield notice

    async def some(self, most: int) -> list[BusEvent]:
        """Up to `most` waiting events; waits for the first."""
        while not self.waiting:
            self._first.clear()
            await self._first.wait()
        return self.take(most)

    def take(self, most: int) -> list[BusEvent]:
        """Up to `most` of the events that wait."""
        waiting = self.waiting
        return [waiting.popleft() for _ in range(min(most, len(waiting)))]


class EventBus:
    def __init__(self) -> None:
        self._listeners: set[BusListener] = set()
        self._of: dict[str, tuple[BusListener, ...]] = {}
        """Who hears an event of this name; found anew when somebody comes or goes."""

    def publish(
        self,
        event: str,
        payload: dict[str, Any],
        session_key: str = "",
        state_version: StateVersion | UnsetType = UNSET,
        *,
        relay: bool = True,
        here: bool = True,
    ) -> None:
        """`relay` says whether other gateways of a cluster hear it too, `here` whether it happened in this one."""
        self.put(BusEvent(event, payload, session_key, state_version, relay and here), here=here)

    def put(self, notice: BusEvent, *, here: bool = True) -> None:
        """Publishes an event as it is."""
        listeners = self._of.get(notice.event)
        if listeners is None:
            listeners = tuple(each for each in self._listeners if not each.only or notice.event in each.only)
            self._of[notice.event] = listeners
        for listener in listeners:
            if here or listener.everywhere:
                listener.put(notice)

    @contextmanager
    def listening(
        self, only: Collection[str] = (), *, everywhere: bool = False, arrived: Callable[[], object] | None = None
    ) -> Iterator[BusListener]:
        """Subscribes for the length of the block. `only` names the events it hears; `everywhere`: other nodes' too.

        `arrived` is called when an event waits and none did before, for whoever does not await `some`.
        """
        listener = BusListener(only, everywhere=everywhere, arrived=arrived)
        self._listeners.add(listener)
        self._of.clear()
        try:
            yield listener
        finally:
            self._listeners.discard(listener)
            self._of.clear()
