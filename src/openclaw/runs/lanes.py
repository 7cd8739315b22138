"""Lanes: limit how many runs of a kind go on at once, with priorities."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Literal

Priority = Literal["foreground", "normal", "background"]
_ORDER: tuple[Priority, ...] = ("foreground", "normal", "background")


class LaneSlot:
    """A slot in a lane; released once, whoever does it first."""

    def __init__(self, lane: "Lane") -> None:
        self._lane = lane
        self._held = True

    def release(self) -> None:
        if self._held:
            self._held = False
            self._lane.active -= 1
            self._lane._wake()


class Lane:
    """A semaphore with priorities; within a priority first come, first served."""

    def __init__(self, name: str, places: int = 1) -> None:
        self.name = name
        self.places = max(1, places)
        self.active = 0
        self._waiting: dict[Priority, deque[asyncio.Future[None]]] = {name: deque() for name in _ORDER}

    @property
    def waiting(self) -> int:
        return sum(len(queue) for queue in self._waiting.values())

    @asynccontextmanager
    async def place(self, priority: Priority = "normal") -> AsyncIterator[LaneSlot]:
        """Waits for a slot and holds it."""
        await self._enter(priority)
        held = LaneSlot(self)
        try:
            yield held
        finally:
            held.release()

    async def _enter(self, priority: Priority) -> None:
        if self.active < self.places and not self.waiting:
            self.active += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[priority].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.active -= 1  # the slot was granted in the moment we were cancelled: pass it on
                self._wake()
            else:
                self._waiting[priority].remove(turn)
            raise

    def _wake(self) -> None:
        while self.active < self.places:
            queue = next((self._waiting[name] for name in _ORDER if self._waiting[name]), None)
            if queue is None:
                return
            turn = queue.popleft()
            if not turn.done():
                self.active += 1
                turn.set_result(None)


class Lanes:
    """The lanes over all sessions. A run takes its session first and a slot here second, never the other way round."""

    def __init__(self, places: Mapping[str, int]) -> None:
        self._lanes = {name: Lane(name, count) for name, count in places.items()}

    def __getitem__(self, name: str) -> Lane:
        # A run started inside a cron slot must not wait for that very slot.
        wanted = "cron-nested" if name == "cron" else name
        return self._lanes.setdefault(wanted, Lane(wanted))

    def busy(self) -> dict[str, tuple[int, int]]:
        """Running and waiting, by lane."""
        return {name: (lane.active, lane.waiting) for name, lane in self._lanes.items() if lane.active or lane.waiting}
