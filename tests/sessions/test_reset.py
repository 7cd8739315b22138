"""When a conversation is too old to go on with."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from openclaw.core.keys import parse_session_key
from openclaw.sessions.reset import LastContact, policy_of, reset_reason
from openclaw.sessions.settings import ResetSettings, SessionSettings

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: ZoneInfo = BERLIN) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


@pytest.mark.parametrize(
    ("rule", "started", "last", "now", "why"),
    [
        ({"mode": "daily"}, "2026-03-10T03:59", "2026-03-10T03:59", "2026-03-10T04:01", "daily"),
        ({"mode": "daily"}, "2026-03-10T04:00", "2026-03-10T04:00", "2026-03-11T03:59", None),
        ({"mode": "daily"}, "2026-03-09T10:00", "2026-03-10T03:59", "2026-03-10T04:00", "daily"),
        ({"mode": "daily", "atHour": 0}, "2026-03-09T23:59", "2026-03-09T23:59", "2026-03-10T00:00", "daily"),
        ({"mode": "daily", "atHour": 23}, "2026-03-09T22:00", "2026-03-09T22:00", "2026-03-09T22:59", None),
        ({"mode": "idle", "idleMinutes": 30}, "2026-03-10T09:00", "2026-03-10T10:00", "2026-03-10T10:30", None),
        ({"mode": "idle", "idleMinutes": 30}, "2026-03-10T09:00", "2026-03-10T10:00", "2026-03-10T10:31", "idle"),
        ({"mode": "idle", "idleMinutes": 0}, "2026-03-01T09:00", "2026-03-01T10:00", "2026-03-10T10:31", None),
        ({"mode": "idle"}, "2026-03-01T09:00", "2026-03-01T10:00", "2026-03-10T10:31", None),
        # Both have expired: the earlier one is the reason.
        (
            {"mode": "daily", "idleMinutes": 60},
            "2026-03-09T20:00",
            "2026-03-09T22:00",
            "2026-03-10T08:00",
            "idle",
        ),
        (
            {"mode": "daily", "idleMinutes": 600},
            "2026-03-09T20:00",
            "2026-03-09T22:00",
            "2026-03-10T09:00",
            "daily",
        ),
        # The night the clocks go forward has no 02:30, the one they go back has two.
        ({"mode": "daily", "atHour": 2}, "2026-03-28T23:00", "2026-03-28T23:00", "2026-03-29T03:30", "daily"),
        ({"mode": "daily", "atHour": 2}, "2026-10-25T02:30", "2026-10-25T02:30", "2026-10-25T12:00", None),
    ],
)
def test_a_conversation_is_stale(rule: dict[str, Any], started: str, last: str, now: str, why: str | None) -> None:
    policy = msgspec.convert(rule, ResetSettings)
    assert reset_reason(policy, LastContact(at(started), at(last)), at(now), BERLIN) == why


SETTINGS = {
    "reset": {"atHour": 5, "idleMinutes": 10},
    "resetByType": {"group": {"mode": "idle", "idleMinutes": 60}, "thread": {"mode": "none"}},
    "resetByChannel": {"telegram": {"mode": "daily"}, "quiet": {"mode": "none"}},
}


@pytest.mark.parametrize(
    ("key", "channel", "expected"),
    [
        ("agent:main:main", "", ("daily", 5, 10)),
        ("agent:main:slack:group:x", "", ("idle", 5, 60)),
        ("agent:main:slack:group:x:thread:7", "", None),
        ("agent:main:main", "telegram", ("daily", None, None)),
        ("agent:main:main", "quiet", None),
    ],
)
def test_the_rule_of_a_conversation(key: str, channel: str, expected: tuple[Any, ...] | None) -> None:
    settings = msgspec.convert(SETTINGS, SessionSettings)
    policy = policy_of(settings, parse_session_key(key), channel)
    assert (policy and (policy.mode, policy.at_hour, policy.idle_minutes)) == expected


def test_nothing_starts_over_unless_somebody_wants_it() -> None:
    assert policy_of(SessionSettings(), parse_session_key("agent:main:main")) is None
