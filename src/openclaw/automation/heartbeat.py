"""Decides whether a heartbeat asks the model, and what of its answer is delivered. Pure.

Every rule that can skip a heartbeat is checked before the model: one with nothing to do costs nothing.
"""

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from openclaw.automation.cron.schedule import load_zone, parse_duration
from openclaw.core.errors import InvalidRequest
from openclaw.core.text import compile_lazily

ACK = "HEARTBEAT_OK"
ACK_CHARS = 300
DUPLICATE_MS = 86_400_000
MIN_WAKE_GAP_MS = 30_000
DENIED_TOOLS = ("cron", "gateway", "plugins", "secrets")
"""A heartbeat changes neither the configuration nor the schedule."""
REMINDER = "cron:"
"""How the reason of a wake begins that comes from a job: a person has chosen the time."""
_CLOCK = compile_lazily(r"([01]?\d|2[0-3]):([0-5]\d)|24:00")
_COMMENT = compile_lazily(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_BLANK = compile_lazily(
    r"\s*(?:#{1,6}(?:\s.*)?|[-*+]\s*(?:\[[ xX]?\]\s*)?|\d+[.)]\s*|`{3,}.*|~{3,}.*|>?|-{3,}|\*{3,}|_{3,})\s*"
)
_WRAPPERS = "*_~`\"'.!,:;-–— \t\r\n"


class Hours(Struct, frozen=True, kw_only=True):
    """From `start` up to, but excluding, `end`, in minutes of the day."""

    start: int
    end: int
    tz: str


class SkipBeat(Struct, frozen=True):
    reason: str


class WaitBeat(Struct, frozen=True):
    """Not now: the reason may pass soon."""

    reason: str


class BeatNow(Struct, frozen=True):
    """Ask the model."""


class HeartbeatState(Struct, frozen=True, kw_only=True):
    """What is known when a heartbeat is due."""

    now: int
    enabled: bool = True
    hours: Hours | None = None
    tasks: str | None = None
    """What HEARTBEAT.md says; None when there is no such file."""
    events: Sequence[str] = ()
    """System events that wait in the session."""
    changes: Sequence[str] | None = None
    """What the watches found; None when there are none."""
    busy: str = ""
    """Why the session is busy; empty when it is not."""
    woken: bool = False
    """It was requested, not due by the interval."""
    reminder: bool = False
    """A person has chosen the time: neither quiet hours nor the switch hold it back."""
    last_run: int = 0


def decide(pulse: HeartbeatState) -> BeatNow | SkipBeat | WaitBeat:
    """Whether a heartbeat asks the model."""
    if not pulse.enabled and not pulse.reminder:
        return SkipBeat("disabled")
    if pulse.hours is not None and not is_within(pulse.hours, pulse.now) and not pulse.reminder:
        return SkipBeat("quiet-hours")
    if not pulse.events:
        if pulse.woken:
            return SkipBeat("nothing-waiting")
        if pulse.changes is not None and not pulse.changes:
            return SkipBeat("nothing-changed")
        if pulse.changes is None and (pulse.tasks is None or is_empty(pulse.tasks)):
            return SkipBeat("empty-heartbeat-file")
    if pulse.busy:
        return WaitBeat(pulse.busy)
    if pulse.woken and pulse.now - pulse.last_run < MIN_WAKE_GAP_MS:
        return WaitBeat("too-soon")
    return BeatNow()


def is_empty(text: str) -> bool:
    """Whether HEARTBEAT.md asks for nothing: blank lines, headings, comments, fences and empty list items only."""
    return all(_BLANK.fullmatch(line) for line in _COMMENT.sub("", text).splitlines())


def parse_interval(every: str) -> int:
    """Milliseconds between two heartbeats; a bare number is minutes, 0 is never."""
    text = every.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return round(float(text) * 60_000)
    found = parse_duration(text)
    if 0 < found < 1_000:
        raise InvalidRequest(f"a heartbeat every {every} is too often: the shortest is 1s")
    return found


def parse_hours(start: str, end: str, tz: str) -> Hours:
    load_zone(tz)
    return Hours(start=_minutes(start), end=_minutes(end), tz=tz)


def is_within(rule: Hours, now: int) -> bool:
    """Whether `now` is inside the hours; they may wrap midnight, and equal ends mean never."""
    local = datetime.fromtimestamp(now / 1000, UTC).astimezone(load_zone(rule.tz))
    minute = local.hour * 60 + local.minute
    if rule.start <= rule.end:
        return rule.start <= minute < rule.end
    return minute >= rule.start or minute < rule.end


def visible_answer(text: str, most: int = ACK_CHARS) -> str:
    """The part of an answer that people should read; empty when it only acknowledges."""
    text = text.strip()
    if text in ("NO_REPLY", "no_reply"):
        return ""
    plain = re.sub(r"</?[a-zA-Z][^>]*>", "", text).strip(_WRAPPERS)
    if not plain.startswith(ACK) and not plain.endswith(ACK):
        return text
    rest = plain.removeprefix(ACK).removesuffix(ACK).strip(_WRAPPERS)
    return rest if len(rest) > most else ""


def phase(agent_id: str, every_ms: int, started: int) -> int:
    """The first regular heartbeat after the start: spread, so that agents do not all run at once."""
    offset = int.from_bytes(hashlib.sha256(agent_id.encode()).digest()[:4], "big") % every_ms
    return started + every_ms - ((started - offset) % every_ms)


def _minutes(text: str) -> int:
    if not _CLOCK.fullmatch(text.strip()):
        raise InvalidRequest(f"{text!r} is not a time of day: write HH:MM, up to 24:00")
    hour, minute = text.strip().split(":")
    return int(hour) * 60 + int(minute)
