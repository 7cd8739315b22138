"""The queue of a session: what happens to a message while it is busy; and the lanes that cap runs at once."""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Annotated, Any, Literal

from msgspec import Struct, field, structs

from openclaw.core.clock import Clock, Timer
from openclaw.core.errors import InvalidRequest
from openclaw.core.events import (
    AttemptFailed,
    Event,
    MessageEnded,
    ModelCalled,
    RunEnded,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from openclaw.core.harness import Steering
from openclaw.core.keys import SessionKey
from openclaw.core.messages import ToolCall, User
from openclaw.core.settings import Live
from openclaw.core.text import merge_origins
from openclaw.runs.inbox import RunOutcome, failed_outcome
from openclaw.runs.recovery import SessionActivity, Work
from openclaw.runs.request import Priority, RunRequest
from openclaw.runs.settings import MessagesSettings, QueueDrop, QueueMode, QueueSettings
from openclaw.sessions.lifecycle import SessionLifecycle

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

    async def place(self, priority: Priority = "normal") -> LaneSlot:
        """Waits for a slot; whoever gets it releases it."""
        if self.active < self.places and not any(self._waiting.values()):
            self.active += 1
            return LaneSlot(self)
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
        return LaneSlot(self)

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


_MODES: dict[str, QueueMode] = {
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
_DROPS: dict[str, QueueDrop] = {
    "summarize": "summarize",
    "summarise": "summarize",
    "summary": "summarize",
    "old": "old",
    "oldest": "old",
    "new": "new",
    "newest": "new",
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_MILLIS = {"ms": 1, None: 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_OPTION = re.compile(r"(debounce|cap|drop)[:=](\S+)", re.IGNORECASE)
LINE_CHARS = 160


class QueueRules(Struct, frozen=True, kw_only=True):
    """How a session queues."""

    mode: QueueMode = "steer"
    debounce_ms: int = 500
    cap: Annotated[int, "at least 1"] = 20
    drop: QueueDrop = "summarize"


class QueueOptions(Struct, frozen=True, kw_only=True):
    """What somebody chose of the rules, for a session or for one message; the rest is as it was."""

    mode: QueueMode | None = None
    debounce_ms: int | None = None
    cap: int | None = None
    drop: QueueDrop | None = None

    def over(self, rules: QueueRules) -> QueueRules:
        given = {name: value for name, value in structs.asdict(self).items() if value is not None}
        return structs.replace(rules, **given) if given else rules


NO_OPTIONS = QueueOptions()


def is_queue_word(word: str) -> bool:
    """Whether `word` can be part of what follows `/queue`."""
    return word.lower() in _MODES or _OPTION.fullmatch(word) is not None


def parse_queue(text: str) -> QueueOptions:
    """The arguments of `/queue`: a mode, and options such as `debounce:2s cap:3 drop:old`."""
    found: dict[str, Any] = {}
    for word in text.split():
        option = _OPTION.fullmatch(word)
        if option is None:
            found["mode"] = parse_mode(word)
            continue
        name, value = option.group(1).lower(), option.group(2).lower()
        if name == "debounce":
            found["debounce_ms"] = _milliseconds(value)
        elif name == "cap":
            if not value.isdecimal() or not 1 <= len(value) <= 6 or int(value) < 1:
                raise InvalidRequest(f"cap:{value} is not a number of messages: write cap:20")
            found["cap"] = int(value)
        elif value not in _DROPS:
            raise InvalidRequest(f"drop:{value} is not known: use summarize, old or new")
        else:
            found["drop"] = _DROPS[value]
    return QueueOptions(**found)


def _milliseconds(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None or len(match.group(1)) > 9:
        raise InvalidRequest(f"debounce:{text} is not a time: write debounce:500ms, 2s or 1m")
    return round(float(match.group(1)) * _MILLIS[match.group(2)])


def rules_of(settings: QueueSettings, channel: str, chosen: QueueOptions = NO_OPTIONS) -> QueueRules:
    """The rules of a session on a channel: what was `chosen` for it, over the channel's, over those for all."""
    usual = QueueRules(
        mode=settings.by_channel.get(channel, settings.mode),
        debounce_ms=settings.debounce_ms_by_channel.get(channel, settings.debounce_ms),
        cap=settings.cap,
        drop=settings.drop,
    )
    return usual if chosen == NO_OPTIONS else chosen.over(usual)


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
def parse_mode(text: str) -> QueueMode:
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

    @property
    def asked(self) -> tuple[RunRequest, ...]:
        """Every request that its answer is for."""
        return (self.turn, *self.turn.also_for, *self.turn.earlier, *self.others)


def drop_overflow(queue: Sequence[QueuedRun], rules: QueueRules) -> tuple[list[QueuedRun], list[QueuedRun]]:
    """The queue within its cap, and what was dropped: the oldest, without those that brought others along."""
    excess = len(queue) - max(1, rules.cap)
    if excess <= 0 or rules.drop == "new":
        return list(queue), []
    gone = [item for item in queue if not item.turn.earlier][:excess]
    return [item for item in queue if item not in gone], gone


def overflow_note(dropped: Sequence[QueuedRun]) -> str:
    """The note to the model about dropped messages; of very many, the latest."""
    shown = dropped[-max(1, dropped[-1].rules.cap) :]
    lines = [f"- {_line(item.turn.text)}" for item in shown]
    return "\n".join((f"[Queue overflow] Dropped {len(dropped)} message(s) due to cap.", *lines))


def collect(queue: Sequence[QueuedRun]) -> tuple[QueuedRun, list[QueuedRun]]:
    """The messages from the front that are answered in the same place, as one, and the rest."""
    first = queue[0]
    count = next((at for at, item in enumerate(queue) if not _together(first, item)), len(queue))
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


def _together(one: QueuedRun, other: QueuedRun) -> bool:
    """Whether two messages can be one turn: asked from the same place, with the same trust, under the same choices."""
    first, second = one.turn, other.turn
    return one is other or (
        _alike(one, other)
        and one.rules.mode == other.rules.mode
        and (first.channel, first.reply_to, first.model) == (second.channel, second.reply_to, second.model)
        and (bool(first.origins), first.thinking) == (bool(second.origins), second.thinking)
        and first.client_tools == second.client_tools
    )


def _line(text: str) -> str:
    flat = re.sub(r"\s+", " ", text).strip()
    return flat if len(flat) <= LINE_CHARS else flat[: LINE_CHARS - 1] + "…"


# A session at work.

StopReason = Literal["user", "timeout", "shutdown", "interrupt", "stalled"]


def time_of_call(usual: float, call: ToolCall) -> float | None:
    """How long a call may take before it ends by itself; a command says so, or its settings do (0 is for ever)."""
    if call.name != "exec":
        return None
    asked = call.arguments.get("timeout")
    return float(asked) if isinstance(asked, int | float) and asked > 0 else usual or inf


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
            case TextDelta():  # most of the events
                pass
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
    given_up: bool = False
    """Whether it did not end although it was stopped: nobody waits for it any longer."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when its task has ended, or it was given up."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    steering: Steering = field(default_factory=Steering)
    steered: dict[str, QueuedRun] = field(default_factory=dict)
    """Inputs handed to this run, as they came."""
    steerable: bool = False
    begun: bool = False
    """Whether the model was asked: from then on the transcript has what was said."""
    brought_along: bool = False
    """Interrupted before that: the newer message says it, and its end is the other's."""
    why: StopReason | None = None
    task: "asyncio.Task[RunOutcome] | None" = None
    settling: bool = False
    """Whether its end is being written down: it has come, so nothing stops it any more."""
    timer: Timer | None = None
    """Stops it when it takes too long."""

    def stop(self, why: StopReason) -> None:
        self.why = self.why or why
        self.steerable = False
        if self.task is not None and not self.settling:
            self.task.cancel()


def never_waited(run_id: str) -> float:
    """Where no person is asked anything."""
    return 0.0


def limit_run(active: ActiveRun, limit: float, clock: Clock, waited: Callable[[str], float]) -> None:
    """Stops a run after `limit` seconds, 0 is never; those in which it `waited` for a person do not count."""
    ends = clock.now() + limit

    def check() -> None:
        left = ends + waited(active.item.turn.run_id) - clock.now()
        if left > 0:
            active.timer = clock.call_later(left, check)
        else:
            active.stop("timeout")

    active.timer = clock.call_later(limit, check) if limit > 0 else None


class SessionQueue(Struct, eq=False):
    """The inputs of one session: those that wait, and the run it is busy with."""

    waiting: list[QueuedRun] = field(default_factory=list)
    dropped: list[QueuedRun] = field(default_factory=list)
    active: ActiveRun | None = None
    worker: "asyncio.Task[None] | None" = None
    generation: int = 0
    """How many runs it has had; see `stuck`."""
    touched: float = 0.0

    def is_queued(self, run_id: str) -> bool:
        """Whether a run of it has not begun yet."""
        active = self.active
        unplaced = [active.item] if active is not None and active.place is None else []
        return any(run_id in item.ids for item in (*unplaced, *self.waiting))

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
            owned=alive and active.task is not None and not (active.settling or active.task.done()),
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
        unseen[:0] = [active.steered.pop(run_of(user) or "") for user in take_unheard(active.steering)]
        if not (active.begun or active.brought_along) and _alike(active.item, newest):
            unseen.insert(0, active.item)
            active.brought_along = True
    said = [item for item in unseen if _alike(item, newest)]
    turns = [each for item in said for each in (*item.turn.earlier, structs.replace(item.turn, earlier=()))]
    newest.turn = structs.replace(newest.turn, earlier=tuple(turns))
    newest.also = tuple(name for item in said for name in item.ids)
    session.waiting = [newest, *(item for item in unseen if not _alike(item, newest))]


def add_askers(active: ActiveRun, told: Sequence[RunRequest]) -> RunRequest | None:
    """Remembers who else waits for the answer; gives the request to take the run up with, if there is anybody new."""
    turn = active.item.turn
    others = [each for each in told if each.reply_to not in (None, turn.reply_to)]
    if not others:
        return None
    kept = (structs.replace(each, text="", images=(), earlier=(), also_for=()) for each in others)
    active.item.turn = structs.replace(turn, also_for=(*turn.also_for, *kept))
    return structs.replace(active.item.turn, earlier=())  # what they say is in the transcript


def _alike(one: QueuedRun, other: QueuedRun) -> bool:
    """Whether both are something said, by the same kind of sender."""
    return one.turn.trigger == other.turn.trigger and one.turn.compact is other.turn.compact is None


def run_of(message: User) -> str | None:
    key = message.idempotency_key or ""
    return key.removesuffix(":user") if key.endswith(":user") else None


def dropped_outcome(rules: QueueRules, next_run: str, at: int) -> RunOutcome:
    """The end of a message that was one too many: the next run is told of it, or else its sender."""
    if rules.drop == "summarize":
        return merged_outcome(next_run, at)
    text = f"dropped, because more than {rules.cap} messages were waiting: send it again, or raise messages.queue.cap"
    return failed_outcome(text, "queue_full")


def merged_outcome(run_id: str, at: int) -> RunOutcome:
    return RunOutcome(status="ok", stop_reason="stop", steered_into=run_id, started_at=at, ended_at=at)


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


class QueuePolicy:
    """How messages queue: as asked with the message, as its session was set, or as the configuration says."""

    def __init__(self, lifecycle: SessionLifecycle, settings: Live[MessagesSettings]) -> None:
        self._lifecycle = lifecycle
        self._settings = settings

    async def rules(
        self, key: SessionKey, channel: str = "", *, asked: QueueOptions = NO_OPTIONS, usual: QueueMode | None = None
    ) -> QueueRules:
        """The rules of one message; `usual` is the mode of a way in that does not follow the configuration."""
        rules = rules_of(self._settings.current.queue, channel)
        if usual is not None:
            rules = structs.replace(rules, mode=usual)
        chosen = await self._lifecycle.preferences(key)
        of_session = QueueOptions(
            mode=_MODES.get(chosen.queue_mode or ""),
            debounce_ms=chosen.queue_debounce_ms,
            cap=chosen.queue_cap,
            drop=_DROPS.get(chosen.queue_drop or ""),
        )
        for given in (of_session, asked):
            rules = rules if given == NO_OPTIONS else given.over(rules)
        return rules

    async def of(self, key: SessionKey) -> QueueRules:
        """The rules of a conversation, as `/status` and `/queue` show them."""
        return await self.rules(key, key.route.channel if key.route else "webchat")
