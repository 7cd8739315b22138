"""Computes when a job fires: a schedule and a time in, the next time out. Pure.

Times are milliseconds since the epoch. A slot is the time a job is due. What happens to a missed slot is decided here
too.
"""

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from openclaw.core.deferred import Deferred, zoneinfo
from openclaw.core.errors import InvalidRequest

if TYPE_CHECKING:
    import cronsim
else:
    cronsim = Deferred("cronsim")

MIN_EVERY_MS = 1_000
HOURLY_STAGGER_MS = 300_000
GRACE_MS = 60_000
"""A slot later than this was missed; below it, the machine was merely busy."""
MOST_CATCH_UP = 100
_LATEST_MS = 253_402_300_799_000
"""The last second of the year 9999, where calendars end."""

Misfire = Literal["once", "skip", "all"]
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class JobPart(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="kind"):
    """The base of what a job stores in several kinds: schedules, payloads, watches."""


class AtSchedule(JobPart, frozen=True, kw_only=True, tag="at"):
    """Once, at a time: ISO 8601; without a zone it is UTC."""

    at: str


class EverySchedule(JobPart, frozen=True, kw_only=True, tag="every"):
    """At a fixed interval, counted from the anchor."""

    every_ms: Annotated[int, Meta(ge=1)]
    anchor_ms: int | None = None


class CronSchedule(JobPart, frozen=True, kw_only=True, tag="cron"):
    """A cron expression: five fields, or six with seconds in front."""

    expr: str
    tz: str | None = None
    stagger_ms: int | None = None


Schedule = AtSchedule | EverySchedule | CronSchedule


def parse_duration(text: str) -> int:
    """Milliseconds from `90s`, `20m`, `2h` or `1d12h`."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|[smhdw])", text.strip().lower())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip().lower():
        raise InvalidRequest(f"{text!r} is not a duration: write for example 90s, 20m, 2h or 1d")
    return round(sum(float(number) * _UNITS[unit] for number, unit in parts))


_FROM_NOW = re.compile(r"\+?[\d.]+(ms|[smhdw]).*")


def parse_time(text: str, tz: str | None = None, now: int | None = None) -> int:
    """The time `text` names: ISO 8601, or with `now` also a time from now (`20m`)."""
    if now is not None and _FROM_NOW.fullmatch(text.strip().lower()):
        return now + parse_duration(text.strip().lstrip("+"))
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidRequest(
            f"{text!r} is not a date ({error}): write it like 2027-01-31T09:30:00+01:00, or 20m for a time from now"
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=load_zone(tz) if tz else UTC)
    at = _ms(found)
    if not 0 <= at <= _LATEST_MS:
        raise InvalidRequest(f"{text!r} is outside the calendar: use a date between 1970 and 9999")
    return at


def load_zone(name: str) -> "zoneinfo.ZoneInfo":
    """The time zone called `name`."""
    try:
        return zoneinfo.ZoneInfo(name.strip())
    except (KeyError, ValueError, OSError):
        raise InvalidRequest(f"{name!r} is not a time zone: use a name like Europe/Berlin or UTC") from None


def validate_schedule(schedule: Schedule, now: int, created: int, local: str) -> Schedule:
    """Completes a schedule for storage; refuses one that never fires."""
    match schedule:
        case AtSchedule():
            at = parse_time(schedule.at, now=now)
            if not _FROM_NOW.fullmatch(schedule.at.strip().lower()):
                return schedule
            return AtSchedule(at=datetime.fromtimestamp(at / 1000, UTC).isoformat())  # counted from now, once
        case EverySchedule():
            if schedule.every_ms < MIN_EVERY_MS:
                raise InvalidRequest(f"every {schedule.every_ms} ms is too often: the shortest is {MIN_EVERY_MS} ms")
            anchor = created if schedule.anchor_ms is None else schedule.anchor_ms
            return EverySchedule(every_ms=schedule.every_ms, anchor_ms=anchor)
        case CronSchedule():
            whole = CronSchedule(
                expr=" ".join(schedule.expr.split()), tz=schedule.tz or local or "UTC", stagger_ms=schedule.stagger_ms
            )
            if next_fire(whole, now) is None:
                raise InvalidRequest(f"{schedule.expr!r} never comes: there is no such date")
            return whole


def next_fire(schedule: Schedule, after: int, job_id: str = "") -> int | None:
    """The first slot strictly after `after`, or None when there is none."""
    match schedule:
        case AtSchedule():
            at = parse_time(schedule.at)
            return at if at > after else None
        case EverySchedule():
            anchor = schedule.anchor_ms or 0
            if after < anchor:
                return anchor
            return anchor + ((after - anchor) // schedule.every_ms + 1) * schedule.every_ms
        case CronSchedule():
            offset = stagger(schedule, job_id)
            base = next(_calendar(schedule, after - offset), None)
            return None if base is None else base + offset


def next_fires(schedule: Schedule, after: int, job_id: str = "", count: int = 5) -> list[int]:
    """The next slots, `count` at most."""
    found: list[int] = []
    while len(found) < count and (slot := next_fire(schedule, after, job_id)) is not None:
        found.append(slot)
        after = slot
    return found


def stagger(schedule: CronSchedule, job_id: str) -> int:
    """Milliseconds a job on the full hour starts later, so that not all jobs start together."""
    spread = schedule.stagger_ms
    if spread is None:
        spread = HOURLY_STAGGER_MS if _on_the_hour(schedule.expr) else 0
    if spread <= 0 or not job_id:
        return 0
    return int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:4], "big") % spread


class DueSlots(Struct, frozen=True, kw_only=True):
    """What to do about a due slot."""

    slot: int
    following: int | None
    """The slot after it."""
    missed: bool = False
    """Do not run it: it was missed, and the job skips missed slots."""


def plan_due_slot(schedule: Schedule, slot: int, now: int, *, job_id: str, misfire: Misfire) -> DueSlots:
    """Decides what to do with a slot at or before `now`. A one-shot job is never skipped."""
    late = now - slot > GRACE_MS
    following = next_fire(schedule, slot, job_id)
    if isinstance(schedule, AtSchedule) or not late:
        if following is not None and following <= now and misfire != "all":
            following = next_fire(schedule, now, job_id)
        return DueSlots(slot=slot, following=following)
    if misfire != "all":
        return DueSlots(slot=slot, following=next_fire(schedule, now, job_id), missed=misfire == "skip")
    # One missed slot after the other; of very many, only the latest ones.
    if isinstance(schedule, EverySchedule) and now - slot > MOST_CATCH_UP * schedule.every_ms:
        slot = next_fire(schedule, now - MOST_CATCH_UP * schedule.every_ms, job_id) or slot
        following = next_fire(schedule, slot, job_id)
    return DueSlots(slot=slot, following=following)


def _calendar(schedule: CronSchedule, after: int) -> Iterator[int]:
    """The matching times after `after`, by the wall clock: a skipped hour runs late and a repeated one once."""
    if len(schedule.expr.split()) not in (5, 6):
        raise InvalidRequest(f"{schedule.expr!r} is not a cron expression: it has five fields, like 0 9 * * 1-5")
    start = datetime.fromtimestamp(after // 1000, UTC).astimezone(load_zone(schedule.tz or "UTC"))
    try:
        for found in cronsim.CronSim(schedule.expr, start):
            at = _ms(found)
            if at > after:
                yield at
    except (cronsim.CronSimError, OverflowError) as error:
        raise InvalidRequest(f"{schedule.expr!r} is not a cron expression: {error}") from None


def _on_the_hour(expr: str) -> bool:
    """Whether it fires at minute zero of every hour, or every few hours."""
    fields = expr.split()
    if len(fields) == 6 and fields.pop(0) != "0":
        return False
    return len(fields) == 5 and fields[0] == "0" and fields[1].startswith("*")


def _ms(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
