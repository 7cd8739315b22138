"""The watchman: looks at every session twice a minute, says which do not get on, and frees those that never will."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError
from openclaw.core.keys import SessionKey, parse
from openclaw.core.messages import Assistant, Text
from openclaw.runs.stuck import (
    TICK,
    Action,
    LongRunning,
    NotStuck,
    Recovery,
    SessionActivity,
    Stalled,
    Stuck,
    StuckLimits,
    StuckReports,
    classify,
)
from openclaw.runs.turn import TurnRunner
from openclaw.runs.worker import ResumedRun
from openclaw.sessions.service import SessionService
from openclaw.sessions.system_events import SystemEvents

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
        key = parse(each.session_key)
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
    return not (key.is_cron or key.is_hook or key.is_subagent or key.rest.startswith("boot:"))


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
    await turns.inject(key, message, f"recovery:{taken.run_id}")
    await sessions.changed(key, "inject")


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
