"""Times in words, such as "every morning at 8" or "tomorrow 8am", to a schedule, and a schedule to words. Pure."""

import re
from datetime import UTC, datetime, timedelta

from openclaw.automation.cron.schedule import (
    AtSchedule,
    CronSchedule,
    EverySchedule,
    Schedule,
    load_zone,
    next_fire,
    parse_duration,
    parse_time,
)
from openclaw.core.errors import InvalidRequest
from openclaw.core.text import compile_lazily

DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
PARTS = {"morning": 8, "noon": 12, "lunchtime": 12, "afternoon": 15, "evening": 19, "night": 21, "midnight": 0}
"""The hour that a part of the day stands for, when no time is given."""
EXAMPLES = '"every morning at 8", "weekdays at 7:30", "every 20 minutes", "tomorrow 8am", "monday at 9", "in 2 hours"'
_UNITS = {"second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "day": "d", "week": "w"}
_CLOCK = compile_lazily(r"(?:\bat |@ ?)?\b(\d{1,2})(?:[:.](\d{2}))? ?(am|pm|o'clock|uhr)?(?=$|[ ,])")
_EVERY_SO = compile_lazily(r"(?:every|each) (\d+|other)? ?(second|sec|minute|min|hour)s?")
_IN = compile_lazily(r"in (\d+|an?) ?(second|sec|minute|min|hour|day|week)s?")
_FILLING = compile_lazily(
    r"\b(?:every|each|on|and|single|daily|day|the|weekdays?|weekends?|"
    + "|".join(f"{day}s?" for day in DAYS)
    + r")\b|,"
)
_MONTHLY = compile_lazily(r"(?:every month|monthly|each month)(?: on)?(?: the)?(?: (\d{1,2})(?:st|nd|rd|th)?)?")


def parse_schedule(text: str, tz: str, now: int) -> Schedule:
    """The schedule that `text` names in the zone `tz`: a cron expression, a date, a duration or words."""
    plain = " ".join(text.split())
    if len(plain.split()) in (5, 6) and not re.search(r"[a-z]{4}|\b(?:at|in|on)\b", plain, re.IGNORECASE):
        return CronSchedule(expr=plain, tz=tz)
    if re.match(r"\+?\d+(?:\.\d+)?(?:ms|[smhdw])|\d{4}-\d\d", plain):
        return _once(datetime.fromtimestamp(parse_time(plain, tz, now) / 1000, UTC))
    words = plain.lower().rstrip(".").replace(" a.m", " am").replace(" p.m", " pm")
    found = _again(words, tz) or _at(words, tz, now)
    if found is None:
        raise InvalidRequest(f"{text!r} is not a time we understand: write {EXAMPLES}, or a cron expression")
    return found


def _again(words: str, tz: str) -> Schedule | None:
    """Schedules that repeat."""
    if so := _EVERY_SO.fullmatch({"hourly": "every hour"}.get(words, words)):
        count = {None: 1, "other": 2}.get(so[1]) or int(so[1])
        if count < 1:
            return None
        return EverySchedule(every_ms=parse_duration(f"{count}{_UNITS[so[2]]}"))
    if monthly := _MONTHLY.match(words):
        clock = _clock(words[monthly.end() :])
        day = int(monthly[1] or 1)
        if clock is None or not 1 <= day <= 31:
            return None
        return CronSchedule(expr=f"{clock[1]} {clock[0]} {day} * *", tz=tz)
    days = _weekdays(words)
    if days is None:
        return None
    clock = _clock(" ".join(_FILLING.sub(" ", words).split()))
    return CronSchedule(expr=f"{clock[1]} {clock[0]} * * {days}", tz=tz) if clock else None


def _weekdays(words: str) -> str | None:
    """The day field of a cron expression; nothing when the words do not repeat."""
    named = [str(place) for place, day in enumerate(DAYS) if re.search(rf"\b{day}s?\b", words)]
    many = re.search(r"\b(?:every|each|on|" + "|".join(f"{day}s" for day in DAYS) + r")\b", words)
    if re.search(r"\b(?:every |each )?weekdays?\b", words):
        return "1-5"
    if re.search(r"\b(?:every |each )?weekends?\b", words):
        return "0,6"
    if named:
        return ",".join(named) if many and not words.startswith(("next ", "this ")) else None
    parts = "|".join(PARTS)
    return "*" if re.match(rf"(?:every|each) (?:single )?(?:day|{parts})\b|daily\b", words) else None


def _at(words: str, tz: str, now: int) -> AtSchedule | None:
    """A time that comes once."""
    if so := _IN.fullmatch(words):
        count = 1 if so[1] in ("a", "an") else int(so[1])
        return _once(datetime.fromtimestamp((now + parse_duration(f"{count}{_UNITS[so[2]]}")) / 1000, UTC))
    today = datetime.fromtimestamp(now / 1000, load_zone(tz))
    ahead: int | None = 0
    rest = words
    for name, days in (("day after tomorrow", 2), ("tomorrow", 1), ("today", 0), ("tonight", 0)):
        if rest.startswith(name):
            rest, ahead = rest.removeprefix(name).strip(" ,"), days
            rest = f"{rest} night" if name == "tonight" else rest
            break
    else:
        ahead = None
        if day := re.match(r"(?:next |this |on )?(" + "|".join(DAYS) + r")\b", rest):
            rest = rest[day.end() :].strip(" ,")
            ahead = (DAYS.index(day[1]) - (today.weekday() + 1)) % 7
    clock = _clock(rest)
    if clock is None:
        return None
    moment = (today + timedelta(days=ahead or 0)).replace(hour=clock[0], minute=clock[1], second=0, microsecond=0)
    if moment <= today and words.startswith(("today", "tonight")):
        raise InvalidRequest(f"{words!r} is over: it is {today:%H:%M} in {tz}")
    if moment <= today:
        moment += timedelta(days=7 if ahead is not None else 1)
    return _once(moment)


def _once(moment: datetime) -> AtSchedule:
    return AtSchedule(at=moment.astimezone(UTC).isoformat(timespec="seconds"))


def _clock(text: str) -> tuple[int, int] | None:
    """Hour and minute in a text that is nothing else; a part of the day stands for its usual hour."""
    part = next((name for name in PARTS if re.search(rf"\b{name}\b", text)), "")
    rest = re.sub(rf"\b(?:in the |at |this )?{part}\b", "", text).strip(" ,") if part else text.strip(" ,")
    if not rest:
        return (PARTS[part], 0) if part else None
    found = _CLOCK.fullmatch(rest)
    if found is None:
        return None
    hour, minute, half = int(found[1]), int(found[2] or 0), found[3]
    if half in ("am", "pm"):
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    elif part in ("afternoon", "evening", "night") and 1 <= hour < 12:
        hour += 12
    return (hour, minute) if hour < 24 and minute < 60 else None


# Schedules in words.


def describe_schedule(schedule: Schedule, tz: str, now: int) -> str:
    """What a schedule means, with the time it comes next, in the zone `tz`."""
    zone = load_zone(schedule.tz if isinstance(schedule, CronSchedule) and schedule.tz else tz)
    following = next_fire(schedule, now)
    if following is None:
        return "never: that time is over"
    first = datetime.fromtimestamp(following / 1000, zone)
    shown = f"{first:%A %Y-%m-%d %H:%M} ({zone.key})"
    match schedule:
        case AtSchedule():
            return f"once, on {shown}"
        case EverySchedule():
            return f"every {_interval(schedule.every_ms)}"
        case CronSchedule():
            return f"{_calendar_words(schedule.expr)}; next on {shown}"


def _interval(milliseconds: int) -> str:
    for size, unit in ((604_800_000, "week"), (86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute")):
        if milliseconds % size == 0:
            count = milliseconds // size
            return unit if count == 1 else f"{count} {unit}s"
    return f"{milliseconds / 1000:g} seconds"


def _calendar_words(expr: str) -> str:
    """The common expressions in words, the others as they are."""
    found = re.fullmatch(r"(\d{1,2}) (\d{1,2}) (\*|\d{1,2}) \* (\*|[\d,]+|1-5)", expr)
    if found is None:
        return f"by the calendar, {expr}"
    clock = f"{int(found[2]):02}:{int(found[1]):02}"
    if found[3] != "*":
        return f"on day {found[3]} of every month at {clock}" if found[4] == "*" else f"by the calendar, {expr}"
    if found[4] in ("*", "1-5", "0,6"):
        return f"every {({'*': 'day', '1-5': 'weekday', '0,6': 'weekend day'})[found[4]]} at {clock}"
    days = [DAYS[int(day) % 7].capitalize() for day in found[4].split(",") if day]
    return f"every {' and '.join(days)} at {clock}"
