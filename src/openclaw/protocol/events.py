"""The event bus: publishes to all listeners. Publishing never waits; a listener that lags is told so."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
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

    def __init__(self, only: Collection[str] = (), *, everywhere: bool = False) -> None:
        self.only = frozenset(only)
        self.everywhere = everywhere
        self.queue: asyncio.Queue[BusEvent] = asyncio.Queue(MOST_WAITING)
        self.missed = 0
        """How many events were dropped while it lagged; whoever recovers from that resets it."""

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
        notice = BusEvent(event, payload, session_key, state_version, relay and here)
        for listener in self._listeners:
            if (listener.only and event not in listener.only) or not (here or listener.everywhere):
                continue
            try:
                listener.queue.put_nowait(notice)
            except asyncio.QueueFull:
                listener.missed += 1

    @contextmanager
    def listening(self, only: Collection[str] = (), *, everywhere: bool = False) -> Iterator[BusListener]:
        """Subscribes for the length of the block. `only` names the events it hears; `everywhere`: other nodes' too."""
        listener = BusListener(only, everywhere=everywhere)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)
