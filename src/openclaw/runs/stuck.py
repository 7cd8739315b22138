"""Detects sessions that make no progress: slow, stalled, or without a task. Pure; time is passed in as a number.

`SessionActivity` is the state of a session at one moment, `classify` judges it, and `StuckReports` remembers what was
reported, so that an unchanged session is not reported every half minute.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from openclaw.core.events import AttemptFailed, Event, MessageEnded, ModelCalled, RunEnded, ToolEnded, ToolStarted
from openclaw.core.messages import ToolCall

TICK = 30.0
WARN = 120.0
LEAST_ABORT = 300.0
SETTLE = 15.0
FIRST_REPEAT = 60.0
LONGEST_REPEAT = 3_600.0
KEPT_FOR = 1_800.0
MOST_KEPT = 2_000

Work = Literal["embedded_run", "model_call", "tool_call"]
State = Literal["idle", "processing", "waiting"]
Action = Literal["abort", "release"]


class StuckLimits(Struct, frozen=True, kw_only=True):
    """Seconds without progress: when to report, when to abort."""

    warn: float = WARN
    abort: float = LEAST_ABORT

    @classmethod
    def of(cls, warn_ms: int | None, abort_ms: int | None) -> "StuckLimits":
        warn = WARN if warn_ms is None else warn_ms / 1000
        return cls(warn=warn, abort=max(LEAST_ABORT, 3 * warn) if abort_ms is None else abort_ms / 1000)


class SessionActivity(Struct, frozen=True, kw_only=True):
    """The state of one session now."""

    key: str
    state: State
    generation: int
    """Counts the runs of the session, so that a finding about one is not applied to the next."""
    progress_at: float
    since: float
    """When the run began."""
    queue: int = 0
    run_id: str = ""
    work: Work | None = None
    owned: bool = True
    """Whether a living task works on it."""
    deadline: float | None = None
    """When the tool it waits for times out."""
    tool: str = ""


class NotStuck(Struct, frozen=True):
    """Nothing to report."""


class LongRunning(Struct, frozen=True):
    why: str


class Stalled(Struct, frozen=True):
    why: str
    abort: bool


class Stuck(Struct, frozen=True):
    why: str


Verdict = NotStuck | LongRunning | Stalled | Stuck


def classify(seen: SessionActivity, now: float, limits: StuckLimits, *, asked: bool = False) -> Verdict:
    """Judges a session; `asked` says that it waits for a person."""
    quiet = now - seen.progress_at
    if asked or seen.state == "waiting":
        return NotStuck()
    if seen.state == "idle":
        if seen.queue and not seen.owned and quiet > limits.warn:
            return Stuck("messages wait, and nobody works them off")
        return NotStuck()
    if not seen.owned:
        return Stuck("it is marked as busy, and no task is behind it") if quiet > limits.warn else NotStuck()
    if quiet <= limits.warn:
        busy = now - seen.since > limits.warn
        return LongRunning("it makes progress") if busy else NotStuck()
    if seen.work == "model_call":
        if quiet < limits.abort:
            return LongRunning("the model has been silent")
        return Stalled("the model has been silent for too long", abort=True)
    if seen.work == "tool_call" and seen.deadline is not None and now < seen.deadline:
        return LongRunning(f"{seen.tool} has time left")
    what = f"{seen.tool} does not come back" if seen.work == "tool_call" else "nothing happens"
    return Stalled(what, abort=quiet >= limits.abort)


class Recovery(Struct, frozen=True, kw_only=True):
    """The result of trying to free a session."""

    status: Literal["released", "aborted", "skipped", "failed"]
    action: Action
    reason: str


class Activity:
    """What a run is doing, read from its events."""

    def __init__(self, now: float, deadline_of: Callable[[ToolCall], float | None] = lambda call: None) -> None:
        self.since = now
        self.progress_at = now
        self._deadline_of = deadline_of
        self._asking = False
        self._tools: dict[str, tuple[str, float | None]] = {}

    def take(self, event: Event, now: float) -> None:
        self.progress_at = now
        match event:
            case ModelCalled():
                self._asking = True
            case MessageEnded() | AttemptFailed() | RunEnded():
                self._asking = False
            case ToolStarted(call=call):
                lasts = self._deadline_of(call)
                self._tools[call.id] = (call.name, None if lasts is None else now + lasts)
            case ToolEnded(call=call):
                self._tools.pop(call.id, None)
            case _:
                pass

    @property
    def work(self) -> Work:
        return "tool_call" if self._tools else "model_call" if self._asking else "embedded_run"

    @property
    def tool(self) -> str:
        return next((name for name, _ in self._tools.values()), "")

    @property
    def deadline(self) -> float | None:
        """When the last of the running tools times out; None when one of them never does."""
        ends = [end for _, end in self._tools.values()]
        return max((end for end in ends if end is not None), default=None) if None not in ends else None


class _Said(Struct):
    what: tuple[str, int]
    next_at: float
    pause: float
    seen_at: float


class StuckReports:
    """What was reported of each session, and when it is worth repeating."""

    def __init__(self) -> None:
        self._said: dict[str, _Said] = {}

    def worth(self, key: str, kind: str, generation: int, now: float) -> bool:
        """Whether to report `kind` now: at once when it is new, with growing pauses while it stays the same."""
        self._forget(now)
        said = self._said.get(key)
        if said is None or said.what != (kind, generation):
            self._said.pop(key, None)
            self._said[key] = _Said((kind, generation), now + FIRST_REPEAT, FIRST_REPEAT, now)
            return True
        said.seen_at = now
        if now < said.next_at:
            return False
        said.pause = min(LONGEST_REPEAT, said.pause * 2)
        said.next_at = now + said.pause
        return True

    def calm(self, key: str) -> None:
        self._said.pop(key, None)

    def __len__(self) -> int:
        return len(self._said)

    def _forget(self, now: float) -> None:
        stale = [key for key, said in self._said.items() if now - said.seen_at > KEPT_FOR]
        for key in stale:
            del self._said[key]
        while len(self._said) >= MOST_KEPT:
            del self._said[next(iter(self._said))]
