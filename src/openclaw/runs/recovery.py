"""Detects stuck sessions twice a minute and frees them; reports the runs that a restart took up again."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError
from openclaw.core.keys import SessionKey, parse_session_key
from openclaw.core.messages import Assistant, Text
from openclaw.runs.request import ResumedRun
from openclaw.runs.turn import TurnRunner
from openclaw.sessions.service import SessionService
from openclaw.sessions.system_events import SystemEvents

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


log = logging.getLogger(__name__)

SHOWN_CHARS = 120


async def report_resumed(
    sessions: SessionService, system_events: SystemEvents, turns: TurnRunner, taken: Sequence[ResumedRun]
) -> None:
    """Runs that are given up are told of once, in the conversation they belong to.

    One that was taken up again says so beside its own answer (`turns.runs.INTERRUPTED`).
    """
    if taken:
        log.info("took up %d unfinished input(s) of an earlier run", sum(not each.given_up for each in taken))
    for each in taken:
        if not each.given_up:
            continue
        log.warning("the run %s in %s is given up: %s", each.run_id, each.session_key, each.given_up)
        key = parse_session_key(each.session_key)
        if not _of_people(key):
            continue
        try:
            # Kept under the run's name: the same run is not announced a second time.
            if await system_events.add(key, _line(each), f"recovery:{each.run_id}:given-up"):
                await _tell(sessions, turns, key, each)
        except OpenClawError as error:
            log.warning("nobody could be told of the run %s: %s", each.run_id, error.message)


def _of_people(key: SessionKey) -> bool:
    """Jobs, hooks and sub-agents report to their own; nobody reads along there."""
    return not (key.is_cron or key.is_hook or key.is_subagent or key.is_single)


def _line(taken: ResumedRun) -> str:
    """What the assistant is told with its next turn there."""
    return f"A message was never answered, because {taken.given_up}: {_quoted(taken.text)}"


async def _tell(sessions: SessionService, turns: TurnRunner, key: SessionKey, taken: ResumedRun) -> None:
    """A word in the conversation itself, where otherwise a question would stand without an answer."""
    text = (
        f"I could not answer {_quoted(taken.text)}: the gateway ended while I worked on it, again and again. "
        "Send it once more if it still matters."
    )
    message = Assistant(content=(Text(text),), provider="openclaw", model="recovery", timestamp=sessions.now)
    await sessions.injected(key, await turns.inject(key, message, f"recovery:{taken.run_id}"))


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return f"\u201c{line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + '…'}\u201d"


class Watched(Protocol):
    """What has sessions that can be looked at and freed."""

    def observe(self) -> Sequence[SessionActivity]: ...

    async def recover(self, key: str, generation: int, action: Action) -> Recovery:
        """Ends or frees the run that was seen; skips it when another one is there by now."""
        ...


class Diagnosis(Struct, frozen=True):
    """One thing worth knowing about a session."""

    event: str
    session_key: str
    data: dict[str, Any] = field(default_factory=dict)


class StuckMonitor:
    def __init__(
        self,
        watched: Watched,
        clock: Clock,
        *,
        limits: Callable[[], StuckLimits],
        asked: Callable[[], Collection[str]],
        tell: Callable[[Diagnosis], None],
    ) -> None:
        self._watched = watched
        self._clock = clock
        self._limits = limits
        self._asked = asked
        """The sessions that wait for a person to answer."""
        self._tell = tell
        self._reports = StuckReports()

    async def keep(self) -> None:
        """Looks again and again, until it is cancelled."""
        while True:
            await self._clock.sleep(TICK)
            await self.look()

    async def look(self) -> None:
        """One round. Sessions that need help get it side by side."""
        now, limits, asked = self._clock.now(), self._limits(), frozenset(self._asked())
        helped = []
        for seen in self._watched.observe():
            verdict = classify(seen, now, limits, asked=seen.key in asked)
            match verdict:
                case NotStuck():
                    self._reports.calm(seen.key)
                case LongRunning(why):
                    self._report("session.long_running", seen, why, now)
                case Stalled(why, abort):
                    self._report("session.stalled", seen, why, now)
                    helped += [self._help(seen, "abort", why)] if abort else []
                case Stuck(why):
                    self._report("session.stuck", seen, why, now)
                    helped.append(self._help(seen, "release", why))
        await asyncio.gather(*helped)

    def _report(self, event: str, seen: SessionActivity, why: str, now: float) -> None:
        if not self._reports.worth(seen.key, event, seen.generation, now):
            return
        quiet = round((now - seen.progress_at) * 1000)
        level = logging.INFO if event == "session.long_running" else logging.WARNING
        log.log(level, "%s %s: %s (quiet for %d s)", event, seen.key, why, quiet // 1000)
        data = {
            "runId": seen.run_id,
            "state": seen.state,
            "queueDepth": seen.queue,
            "activeWorkKind": seen.work,
            "reason": why,
            "lastProgressAgeMs": quiet,
            "ageMs": round((now - seen.since) * 1000),
            "generation": seen.generation,
        }
        self._tell(Diagnosis(event, seen.key, data))

    async def _help(self, seen: SessionActivity, action: Action, why: str) -> None:
        common = {"runId": seen.run_id, "action": action, "generation": seen.generation}
        self._tell(Diagnosis("session.recovery.requested", seen.key, {**common, "reason": why}))
        if seen.key in self._asked():
            done = Recovery(status="skipped", action=action, reason="it waits for a person by now")
        else:
            done = await self._watched.recover(seen.key, seen.generation, action)
        log.warning("session %s: %s %s (%s)", seen.key, action, done.status, done.reason)
        if done.status in ("released", "aborted"):
            self._reports.calm(seen.key)
        self._tell(
            Diagnosis("session.recovery.completed", seen.key, {**common, "status": done.status, "reason": done.reason})
        )
