"""The queue of a session: what happens to a message while it is busy; and the lanes that cap runs at once."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Annotated, Literal

from msgspec import Struct, field, structs

from openclaw.core.errors import InvalidRequest
from openclaw.core.events import AttemptFailed, Event, MessageEnded, ModelCalled, RunEnded, ToolEnded, ToolStarted
from openclaw.core.harness import Steering
from openclaw.core.keys import SessionKey
from openclaw.core.messages import ToolCall, User
from openclaw.core.text import merge_origins
from openclaw.runs.inbox import RunOutcome, failed_outcome
from openclaw.runs.recovery import SessionActivity, Work
from openclaw.runs.request import Priority, RunRequest

_ORDER: tuple[Priority, ...] = ("foreground", "normal", "background")


class LaneSlot(Struct, eq=False):
    """A slot in a lane; released once, whoever does it first."""

    lane: "Lane"
    held: bool = True

    def release(self) -> None:
        if self.held:
            self.held = False
            self.lane.active -= 1
            if any(self.lane._waiting.values()):
                self.lane._wake()


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
        if self.active < self.places and not any(self._waiting.values()):
            self.active += 1
        else:
            await self._enter(priority)
        held = LaneSlot(self)
        try:
            yield held
        finally:
            held.release()

    async def _enter(self, priority: Priority) -> None:
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
        lane = self._lanes.get(wanted)
        if lane is None:
            lane = self._lanes[wanted] = Lane(wanted)
        return lane

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


@lru_cache(maxsize=64)
def parse_mode(text: str) -> Mode:
    mode = _MODES.get(text.strip().lower())
    if mode is None:
        raise InvalidRequest(f"{text!r} is not a queue mode: use steer, followup, collect or interrupt")
    return mode


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


class QueuedRun(Struct, kw_only=True):
    """An input that waits, or is being worked on."""

    turn: RunRequest
    rules: QueueRules
    arrived: float
    told: bool = True
    """Whether plugins have heard of it; when it came, they may still have been starting."""
    interrupted: bool = False
    """An earlier process had begun it."""
    also: tuple[str, ...] = ()
    """Other inputs that are part of it and end with it."""
    others: tuple[RunRequest, ...] = ()
    """What was collected into it, as it came."""

    @property
    def ids(self) -> tuple[str, ...]:
        return (self.turn.run_id, *self.also)


def drop_overflow(queue: Sequence[QueuedRun], rules: QueueRules) -> tuple[list[QueuedRun], list[QueuedRun]]:
    """The queue within its cap, and what was dropped: the oldest, without those that brought others along."""
    excess = len(queue) - max(1, rules.cap)
    if excess <= 0 or rules.drop == "new":
        return list(queue), []
    gone = [item for item in queue if not item.turn.earlier][:excess]
    return [item for item in queue if item not in gone], gone


def overflow_note(dropped: Sequence[QueuedRun]) -> str:
    """The note to the model about dropped messages."""
    lines = [f"- {_line(item.turn.text)}" for item in dropped]
    return "\n".join((f"[Queue overflow] Dropped {len(dropped)} message(s) due to cap.", *lines))


def collect(queue: Sequence[QueuedRun]) -> tuple[QueuedRun, list[QueuedRun]]:
    """The messages from the front that answer to the same channel as one, and the rest."""
    first = queue[0]
    count = next((at for at, item in enumerate(queue) if item.turn.channel != first.turn.channel), len(queue))
    if count == 1:
        return first, list(queue[1:])
    turns = [item.turn for item in queue[:count]]
    parts = ["[Queued messages while agent was busy]"]
    for number, turn in enumerate(turns, 1):
        parts += ["---", f"Queued #{number}", turn.text]
    turn = structs.replace(
        first.turn,
        text="\n".join(parts),
        origins=merge_origins(*(each.origins for each in turns)),
        images=tuple(image for each in turns for image in each.images),
    )
    also = (*first.also, *(name for item in queue[1:count] for name in item.ids))
    return structs.replace(first, turn=turn, also=also, others=tuple(turns[1:])), list(queue[count:])


def _line(text: str) -> str:
    flat = re.sub(r"\s+", " ", text).strip()
    return flat if len(flat) <= LINE_CHARS else flat[: LINE_CHARS - 1] + "…"


# A session at work.

StopReason = Literal["user", "timeout", "shutdown", "interrupt", "stalled"]


class Activity(Struct, eq=False):
    """What a run is doing, read from its events."""

    since: float
    progress_at: float
    deadline_of: Callable[[ToolCall], float | None] | None = None
    asking: bool = False
    tools: dict[str, tuple[str, float | None]] = field(default_factory=dict)
    """The tools that run now, and when each ends by itself."""

    def take(self, event: Event, now: float) -> None:
        self.progress_at = now
        match event:
            case ModelCalled():
                self.asking = True
            case MessageEnded() | AttemptFailed() | RunEnded():
                self.asking = False
            case ToolStarted(call=call):
                lasts = self.deadline_of(call) if self.deadline_of is not None else None
                self.tools[call.id] = (call.name, None if lasts is None else now + lasts)
            case ToolEnded(call=call):
                self.tools.pop(call.id, None)
            case _:
                pass

    @property
    def work(self) -> Work:
        return "tool_call" if self.tools else "model_call" if self.asking else "embedded_run"

    @property
    def tool(self) -> str:
        return next((name for name, _ in self.tools.values()), "")

    @property
    def deadline(self) -> float | None:
        """When the last of the running tools times out; None when one of them never does."""
        ends = [end for _, end in self.tools.values()]
        return max((end for end in ends if end is not None), default=None) if None not in ends else None


class ActiveRun(Struct, eq=False):
    """The run a session is busy with."""

    item: QueuedRun
    activity: Activity
    place: LaneSlot | None = None
    """Its place in a lane, once it has one."""
    given_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it did not end although it was stopped: nobody waits for it any longer."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    steering: Steering = field(default_factory=Steering)
    steered: dict[str, QueuedRun] = field(default_factory=dict)
    """Inputs handed to this run, as they came."""
    answers: list[RunRequest] = field(default_factory=list)
    """Those of them that the model has seen: its answer is for whoever sent them too."""
    steerable: bool = False
    begun: bool = False
    """Whether the model was asked: from then on the transcript has what was said."""
    brought_along: bool = False
    """Interrupted before that: the newer message says it, and its end is the other's."""
    why: StopReason | None = None
    task: "asyncio.Task[RunOutcome] | None" = None

    def stop(self, why: StopReason) -> None:
        self.why = self.why or why
        self.steerable = False
        if self.task is not None:
            self.task.cancel()


class SessionQueue(Struct, eq=False):
    """The inputs of one session: those that wait, and the run it is busy with."""

    waiting: list[QueuedRun] = field(default_factory=list)
    dropped: list[QueuedRun] = field(default_factory=list)
    active: ActiveRun | None = None
    worker: "asyncio.Task[None] | None" = None
    generation: int = 0
    """How many runs it has had; see `stuck`."""
    touched: float = 0.0

    def observe(self, key: SessionKey) -> SessionActivity:
        """What it does now."""
        alive = self.worker is not None and not self.worker.done()
        active = self.active
        if active is None:
            return SessionActivity(
                key=str(key),
                state="idle",
                generation=self.generation,
                progress_at=self.touched,
                since=self.touched,
                queue=len(self.waiting),
                owned=alive,
            )
        activity = active.activity
        return SessionActivity(
            key=str(key),
            state="waiting" if active.place is None and alive else "processing",
            generation=self.generation,
            progress_at=activity.progress_at,
            since=activity.since,
            queue=len(self.waiting),
            run_id=active.item.turn.run_id,
            work=activity.work,
            owned=alive and active.task is not None and not active.task.done(),
            deadline=activity.deadline,
            tool=activity.tool,
        )


def take_unheard(steering: Steering) -> list[User]:
    """What people added and the run did not get to."""
    unheard = list(steering.waiting)
    steering.waiting.clear()
    return unheard


def bring_along(session: SessionQueue, newest: QueuedRun) -> None:
    """Puts `newest` in front of the queue, with what its sender said before and no model has seen: that is not lost."""
    active = session.active
    unseen = list(session.waiting)
    if active is not None:
        unseen[:0] = [active.steered[run_of(user) or ""] for user in take_unheard(active.steering)]
        if not (active.begun or active.brought_along) and _alike(active.item, newest):
            unseen.insert(0, active.item)
            active.brought_along = True
    said = [item for item in unseen if _alike(item, newest)]
    turns = [each for item in said for each in (*item.turn.earlier, structs.replace(item.turn, earlier=()))]
    newest.turn = structs.replace(newest.turn, earlier=tuple(turns))
    newest.also = tuple(name for item in said for name in item.ids)
    session.waiting = [newest, *(item for item in unseen if not _alike(item, newest))]


def _alike(one: QueuedRun, other: QueuedRun) -> bool:
    """Whether both are something said, by the same kind of sender."""
    return one.turn.trigger == other.turn.trigger and one.turn.compact is other.turn.compact is None


def run_of(message: User) -> str | None:
    key = message.idempotency_key or ""
    return key.removesuffix(":user") if key.endswith(":user") else None


def merged_outcome(run_id: str) -> RunOutcome:
    return RunOutcome(status="ok", stop_reason="stop", steered_into=run_id)


def stopped_outcome(why: StopReason | None, limit: float = 0.0) -> RunOutcome:
    match why:
        case "timeout":
            return failed_outcome(f"stopped: the run took longer than {limit:g} s", "timeout", "timeout")
        case "stalled":
            text = "stopped: nothing happened for too long. Send it again, or raise diagnostics.stuckSessionAbortMs."
            return failed_outcome(text, "stalled")
        case "interrupt":
            return failed_outcome("interrupted by a newer message", "aborted", "aborted")
        case _:
            return failed_outcome("stopped by the user", "aborted", "aborted")
