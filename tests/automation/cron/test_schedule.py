"""When jobs fire: on any calendar, in any zone, and what happens to a time nobody was there for."""

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.automation.cron import schedule
from openclaw.automation.cron.schedule import (
    AtSchedule,
    CronSchedule,
    DueSlots,
    EverySchedule,
    next_fire,
    next_fires,
    parse_duration,
    parse_time,
    plan_due_slot,
    validate_schedule,
)
from openclaw.core.errors import InvalidRequest

DAY = 86_400_000
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")


def at(text: str) -> int:
    return parse_time(text)


def utc(*moments: int) -> list[str]:
    return [datetime.fromtimestamp(each / 1000, UTC).strftime("%m-%dT%H:%M") for each in moments]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    ("expr", "matches"),
    [
        ("15 6 * * *", lambda t: (t.hour, t.minute) == (6, 15)),
        ("*/20 9-17 * * 1-5", lambda t: t.minute % 20 == 0 and 9 <= t.hour <= 17 and t.weekday() < 5),
        ("0 12 1 * *", lambda t: (t.day, t.hour, t.minute) == (1, 12, 0)),
        ("30 22 13 * 5", lambda t: (t.hour, t.minute) == (22, 30) and (t.day == 13 or t.weekday() == 4)),
        ("0 5 29 2 *", lambda t: (t.month, t.day, t.hour, t.minute) == (2, 29, 5, 0)),
    ],
)
def test_a_year_agrees_with_a_clock_that_checks_every_minute(zone: str, expr: str, matches) -> None:
    start = datetime(2028, 1, 1, tzinfo=UTC)
    place = ZoneInfo(zone)
    expected = []
    for step in range(366 * 24 * 12):  # every expression here fires on multiples of five minutes
        moment_ = start + timedelta(minutes=5 * step)
        if matches(moment_.astimezone(place)):
            expected.append(round(moment_.timestamp() * 1000))
    found = []
    after = round(start.timestamp() * 1000) - 1
    rule = CronSchedule(expr=expr, tz=zone)
    while (slot := next_fire(rule, after)) is not None and slot < round(
        datetime(2029, 1, 1, tzinfo=UTC).timestamp()
    ) * 1000:
        found.append(slot)
        after = slot
    assert found == [each for each in expected if each < round(datetime(2029, 1, 1, tzinfo=UTC).timestamp()) * 1000]


def test_an_hour_that_is_skipped_runs_late_and_one_that_comes_twice_runs_once() -> None:
    rule = CronSchedule(expr="30 2 * * *", tz="Europe/Berlin")
    assert utc(*next_fires(rule, at("2027-03-26T12:00:00Z"), count=3)) == ["03-27T01:30", "03-28T01:00", "03-29T00:30"]
    assert utc(*next_fires(rule, at("2027-10-29T12:00:00Z"), count=3)) == ["10-30T00:30", "10-31T00:30", "11-01T01:30"]


def test_every_half_hour_goes_on_through_a_repeated_hour() -> None:
    found = next_fires(CronSchedule(expr="*/30 * * * *", tz="Europe/Berlin"), at("2027-10-30T23:45:00Z"), count=6)
    assert [b - a for a, b in itertools.pairwise(found)] == [1_800_000] * 5


def test_six_fields_count_seconds() -> None:
    found = next_fires(CronSchedule(expr="*/20 * * * * *", tz="UTC"), at("2027-01-01T00:00:00Z"), count=3)
    assert [each % 60_000 // 1000 for each in found] == [20, 40, 0]


@given(every=st.integers(1_000, 10 * DAY), anchor=st.integers(0, 2**41), after=st.integers(0, 2**42))
def test_fixed_steps_stay_on_their_anchor_and_come_strictly_later(every: int, anchor: int, after: int) -> None:
    slot = next_fire(EverySchedule(every_ms=every, anchor_ms=anchor), after)
    assert (slot is not None and slot > after) or slot == anchor
    assert (slot - anchor) % every == 0
    assert slot - after <= every or slot == anchor


def test_once_is_once() -> None:
    rule = AtSchedule(at="2027-01-31T09:30:00+01:00")
    slot = at("2027-01-31T08:30:00Z")
    assert next_fire(rule, slot - 1) == slot
    assert next_fire(rule, slot) is None


def test_jobs_on_the_full_hour_are_spread_and_each_keeps_its_place() -> None:
    rule = CronSchedule(expr="0 * * * *", tz="UTC")
    start = at("2027-01-01T00:10:00Z")
    offsets = {next_fire(rule, start, f"job-{n}") - at("2027-01-01T01:00:00Z") for n in range(50)}  # type: ignore[operator]
    assert len(offsets) > 40 and all(0 <= offset < 300_000 for offset in offsets)
    slots = next_fires(rule, start, "job-7", count=24)
    assert {b - a for a, b in itertools.pairwise(slots)} == {3_600_000}
    assert next_fires(CronSchedule(expr="0 * * * *", tz="UTC", stagger_ms=0), start, "job-7", 1) == [
        at("2027-01-01T01:00:00Z")
    ]
    assert schedule.stagger(CronSchedule(expr="0 7 * * *", tz="UTC"), "job-7") == 0


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (CronSchedule(expr="0 0 31 2 *"), "day-of-month"),
        (CronSchedule(expr="0 0 31 2,4 *"), "never comes|day-of-month"),
        (CronSchedule(expr="61 * * * *"), "minute"),
        (CronSchedule(expr="soon"), "five fields"),
        (CronSchedule(expr="0 7 * * *", tz="Mars/Olympus"), "not a time zone"),
        (CronSchedule(expr="0 7 * * *", tz="../../etc/passwd"), "not a time zone"),
        (EverySchedule(every_ms=1), "the shortest is 1000 ms"),
        (AtSchedule(at="2027-02-30T10:00:00"), "is not a date"),
        (AtSchedule(at="tomorrow"), "is not a date"),
    ],
)
def test_what_cannot_be_is_refused_in_words(rule: schedule.Schedule, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        validate_schedule(rule, at("2027-01-01T00:00:00Z"), 0, "UTC")


@given(st.text(alphabet="0123456789*/-,#L? ", max_size=24))
def test_any_expression_is_a_schedule_or_a_clear_refusal(expr: str) -> None:
    try:
        validate_schedule(CronSchedule(expr=expr, tz="UTC"), 1_800_000_000_000, 0, "UTC")
    except InvalidRequest as error:
        assert error.message


def test_durations() -> None:
    assert parse_duration("1d12h") == 129_600_000 and parse_duration("90s") == 90_000
    for bad in ("", "5", "2 hours", "h", "1h!"):
        with pytest.raises(InvalidRequest):
            parse_duration(bad)


class TestMissed:
    """A gateway that was away from 10:00 to 13:30, with a job every hour."""

    RULE = EverySchedule(every_ms=3_600_000, anchor_ms=0)
    SLOT = at("2027-01-01T10:00:00Z")
    NOW = at("2027-01-01T13:30:00Z")

    def taken(self, misfire: schedule.Misfire) -> list[str]:
        slot, ran = self.SLOT, []
        while slot is not None and slot <= self.NOW:
            plan = plan_due_slot(self.RULE, slot, self.NOW, job_id="j", misfire=misfire)
            ran += [] if plan.missed else utc(plan.slot)
            slot = plan.following  # type: ignore[assignment]
        assert slot == at("2027-01-01T14:00:00Z")
        return ran

    def test_is_made_up_for_once(self) -> None:
        assert self.taken("once") == ["01-01T10:00"]

    def test_is_left_alone(self) -> None:
        assert self.taken("skip") == []

    def test_is_made_up_for_completely(self) -> None:
        assert self.taken("all") == ["01-01T10:00", "01-01T11:00", "01-01T12:00", "01-01T13:00"]

    def test_a_single_moment_is_never_skipped(self) -> None:
        plan = plan_due_slot(AtSchedule(at="2027-01-01T10:00:00Z"), self.SLOT, self.NOW, job_id="j", misfire="skip")
        assert plan == DueSlots(slot=self.SLOT, following=None)

    def test_a_month_of_seconds_is_not_made_up_for(self) -> None:
        plan = plan_due_slot(
            EverySchedule(every_ms=1000, anchor_ms=0), self.SLOT, self.SLOT + 30 * DAY, job_id="j", misfire="all"
        )
        assert self.SLOT + 30 * DAY - plan.slot <= schedule.MOST_CATCH_UP * 1000
