"""Times in words, in the person's zone."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from openclaw.automation.cron.schedule import AtSchedule, CronSchedule, EverySchedule
from openclaw.automation.cron.words import describe_schedule, parse_schedule
from openclaw.core.errors import InvalidRequest

BERLIN = "Europe/Berlin"
NOW = int(datetime(2026, 11, 18, 10, 0, tzinfo=ZoneInfo(BERLIN)).timestamp() * 1000)
"""A Wednesday."""


@pytest.mark.parametrize(
    ("words", "expr"),
    [
        ("every morning at 8", "0 8 * * *"),
        ("Every morning", "0 8 * * *"),
        ("every evening at 7", "0 19 * * *"),
        ("every day at 8:30", "30 8 * * *"),
        ("daily at 9am", "0 9 * * *"),
        ("every night at 11", "0 23 * * *"),
        ("weekdays at 7:30", "30 7 * * 1-5"),
        ("every weekday at 7.30", "30 7 * * 1-5"),
        ("every weekend at 10", "0 10 * * 0,6"),
        ("every monday at 9", "0 9 * * 1"),
        ("mondays and thursdays at 6pm", "0 18 * * 1,4"),
        ("on friday mornings at 9", None),
        ("every month on the 15th at noon", "0 12 15 * *"),
        ("monthly at 9", "0 9 1 * *"),
        ("30 7 * * 1-5", "30 7 * * 1-5"),
        ("0 7 * * MON", "0 7 * * MON"),
    ],
)
def test_times_that_come_again(words: str, expr: str | None) -> None:
    if expr is None:
        with pytest.raises(InvalidRequest, match="every morning at 8"):
            parse_schedule(words, BERLIN, NOW)
        return
    assert parse_schedule(words, BERLIN, NOW) == CronSchedule(expr=expr, tz=BERLIN)


@pytest.mark.parametrize(
    ("words", "milliseconds"),
    [
        ("every 20 minutes", 1_200_000),
        ("every hour", 3_600_000),
        ("hourly", 3_600_000),
        ("every other hour", 7_200_000),
    ],
)
def test_intervals(words: str, milliseconds: int) -> None:
    assert parse_schedule(words, BERLIN, NOW) == EverySchedule(every_ms=milliseconds)


@pytest.mark.parametrize(
    ("words", "local"),
    [
        ("tomorrow 8am", "2026-11-19 08:00"),
        ("tomorrow at 17:15", "2026-11-19 17:15"),
        ("tomorrow evening", "2026-11-19 19:00"),
        ("day after tomorrow at noon", "2026-11-20 12:00"),
        ("today at 17:00", "2026-11-18 17:00"),
        ("tonight at 9", "2026-11-18 21:00"),
        ("tonight", "2026-11-18 21:00"),
        ("monday at 9", "2026-11-23 09:00"),
        ("next monday 9am", "2026-11-23 09:00"),
        ("wednesday at 9", "2026-11-25 09:00"),
        ("8am", "2026-11-19 08:00"),
        ("at 11", "2026-11-18 11:00"),
        ("12am", "2026-11-19 00:00"),
        ("in 20 minutes", "2026-11-18 10:20"),
        ("in an hour", "2026-11-18 11:00"),
        ("20m", "2026-11-18 10:20"),
        ("2027-01-31T09:30", "2027-01-31 09:30"),
    ],
)
def test_times_that_come_once(words: str, local: str) -> None:
    found = parse_schedule(words, BERLIN, NOW)
    assert isinstance(found, AtSchedule)
    at = datetime.fromisoformat(found.at)
    assert at.tzinfo is not None
    assert at.astimezone(ZoneInfo(BERLIN)).strftime("%Y-%m-%d %H:%M") == local


@pytest.mark.parametrize(
    "words", ["", "soon", "every blue moon", "tomorrow", "25:00", "13pm", "every 0 minutes", "today at 8"]
)
def test_what_is_not_a_time_says_what_would_be(words: str) -> None:
    with pytest.raises(InvalidRequest, match=r"every morning at 8|is over"):
        parse_schedule(words, BERLIN, NOW)


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("every morning at 8", "every day at 08:00; next on Thursday 2026-11-19 08:00"),
        ("weekdays at 7:30", "every weekday at 07:30; next on Thursday 2026-11-19 07:30"),
        (
            "mondays and thursdays at 6pm",
            "every Monday and Thursday at 18:00; next on Thursday 2026-11-19 18:00",
        ),
        (
            "every month on the 15th at noon",
            "on day 15 of every month at 12:00; next on Tuesday 2026-12-15 12:00",
        ),
        ("tomorrow 8am", "once, on Thursday 2026-11-19 08:00"),
        ("every 20 minutes", "every 20 minutes"),
    ],
)
def test_the_meaning_is_said_in_words(words: str, meaning: str) -> None:
    assert describe_schedule(parse_schedule(words, BERLIN, NOW), BERLIN, NOW).removesuffix(f" ({BERLIN})") == meaning
