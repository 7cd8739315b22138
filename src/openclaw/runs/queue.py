"""Decides what happens to a message while its session is busy, and holds the lanes that cap runs at once."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Literal

from msgspec import Struct

from openclaw.core.errors import InvalidRequest

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


Mode = Literal["steer", "followup", "collect", "interrupt"]
Drop = Literal["summarize", "old", "new"]

_MODES: dict[str, Mode] = {
    "steer": "steer",
    "steering": "steer",
    "queue": "steer",
    "queued": "steer",
    "followup": "followup",
    "follow-ups": "followup",
    "followups": "followup",
    "follow-up": "followup",
    "steer+backlog": "followup",
    "steer-backlog": "followup",
    "steer_backlog": "followup",
    "collect": "collect",
    "coalesce": "collect",
    "interrupt": "interrupt",
    "interrupts": "interrupt",
    "abort": "interrupt",
}
_DROPS: dict[str, Drop] = {
    "old": "old",
    "oldest": "old",
    "new": "new",
    "newest": "new",
    "summarize": "summarize",
    "summary": "summarize",
}
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}
LINE_CHARS = 160


class QueueRules(Struct, frozen=True, kw_only=True):
    """How a session queues."""

    mode: Mode = "steer"
    debounce_ms: int = 500
    cap: Annotated[int, "at least 1"] = 20
    drop: Drop = "summarize"


class StartRun(Struct, frozen=True):
    """The session is idle: start a run."""


class SteerRun(Struct, frozen=True):
    """Pass it to the active run."""


class EnqueueMessage(Struct, frozen=True):
    """Wait for the active run to end."""


class InterruptRun(Struct, frozen=True):
    """Stop the active run, drop what waits, start."""


class RejectMessage(Struct, frozen=True):
    why: str


Decision = StartRun | SteerRun | EnqueueMessage | InterruptRun | RejectMessage


def parse_mode(text: str) -> Mode:
    mode = _MODES.get(text.strip().lower())
    if mode is None:
        raise InvalidRequest(f"{text!r} is not a queue mode: use steer, followup, collect or interrupt")
    return mode


def parse_drop(text: str) -> Drop:
    drop = _DROPS.get(text.strip().lower())
    if drop is None:
        raise InvalidRequest(f"{text!r} is not a drop policy: use summarize, old or new")
    return drop


def parse_duration(text: str) -> int:
    """Milliseconds from `500`, `0.5s`, `2m`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)\s*", text.lower())
    if match is None:
        raise InvalidRequest(f"{text!r} is not a duration: write for example 500ms, 2s or 1m")
    return round(float(match.group(1)) * _UNITS[match.group(2)])


def decide(rules: QueueRules, *, busy: bool, steerable: bool, waiting: int) -> Decision:
    """What to do with one more message."""
    if not busy and not waiting:
        return StartRun()
    if rules.mode == "interrupt":
        return InterruptRun()
    if rules.mode == "steer" and busy and steerable and not waiting:
        return SteerRun()
    if waiting >= max(1, rules.cap) and rules.drop == "new":
        return RejectMessage(
            f"{waiting} messages are already waiting in this conversation: try again when it is less busy"
        )
    return EnqueueMessage()


class QueuedMessage(Struct, frozen=True, kw_only=True):
    """A message in the queue."""

    run_id: str
    text: str
    sender: str = ""
    target: str = ""
    """Where its answer goes; only messages with the same target are merged."""
    protected: bool = False


def drop_overflow(
    queue: Sequence[QueuedMessage], rules: QueueRules
) -> tuple[tuple[QueuedMessage, ...], tuple[QueuedMessage, ...]]:
    """The queue within its cap, and what was dropped: the oldest that are not protected."""
    excess = len(queue) - max(1, rules.cap)
    if excess <= 0 or rules.drop == "new":
        return tuple(queue), ()
    victims = [item for item in queue if not item.protected][:excess]
    gone = {item.run_id for item in victims}
    return tuple(item for item in queue if item.run_id not in gone), tuple(victims)


def overflow_note(dropped: Sequence[QueuedMessage]) -> str:
    """The note to the model about dropped messages."""
    lines = [f"- {_line(item.text)}" for item in dropped]
    return "\n".join((f"[Queue overflow] Dropped {len(dropped)} message(s) due to cap.", *lines))


def collect(queue: Sequence[QueuedMessage]) -> tuple[tuple[QueuedMessage, ...], str]:
    """The messages from the front that become one turn, and the text of that turn."""
    if not queue:
        return (), ""
    together = [queue[0]]
    for item in queue[1:]:
        if item.target != queue[0].target:
            break
        together.append(item)
    if len(together) == 1:
        return (queue[0],), queue[0].text
    parts = ["[Queued messages while agent was busy]"]
    for number, item in enumerate(together, 1):
        who = f" (from {item.sender})" if item.sender else ""
        parts += ["---", f"Queued #{number}{who}", item.text]
    return tuple(together), "\n".join(parts)


def _line(text: str) -> str:
    flat = re.sub(r"\s+", " ", text).strip()
    return flat if len(flat) <= LINE_CHARS else flat[: LINE_CHARS - 1] + "…"
