"""Heartbeats: every reason not to ask a model, and what an answer amounts to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.automation.cron.schedule import parse_time
from openclaw.automation.heartbeat import (
    BeatNow,
    HeartbeatState,
    Hours,
    SkipBeat,
    WaitBeat,
    decide,
    is_empty,
    is_within,
    parse_hours,
    parse_interval,
    visible_answer,
)
from openclaw.core.errors import InvalidRequest
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.outbox import alert_of
from openclaw.runs.request import AlertRules
from openclaw.sessions.reply_text import ReplyPayload

NOW = parse_time("2027-01-01T12:00:00Z")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n \n",
        "# Heartbeat\n\n## Later",
        "<!-- mail\nand calendar -->",
        "- [ ]\n- \n* [x]",
        "```\n```",
        "---",
        "1. ",
    ],
)
def test_a_file_that_asks_for_nothing(text: str) -> None:
    assert is_empty(text)


@pytest.mark.parametrize("text", ["- check mail", "# x\nLook at the inbox", "- [ ] call Ann", "<!-- a --> b", "#todo"])
def test_a_file_that_asks_for_something(text: str) -> None:
    assert not is_empty(text)


@pytest.mark.parametrize(
    ("pulse", "verdict"),
    [
        (HeartbeatState(now=NOW, tasks="- mail"), BeatNow()),
        (HeartbeatState(now=NOW, tasks="- mail", enabled=False), SkipBeat("disabled")),
        (HeartbeatState(now=NOW, tasks="- mail", hours=parse_hours("13:00", "22:00", "UTC")), SkipBeat("quiet-hours")),
        (HeartbeatState(now=NOW, tasks="- mail", hours=parse_hours("13:00", "22:00", "Europe/Berlin")), BeatNow()),
        (HeartbeatState(now=NOW, tasks="# nothing"), SkipBeat("empty-heartbeat-file")),
        (HeartbeatState(now=NOW, tasks=None), SkipBeat("empty-heartbeat-file")),
        (HeartbeatState(now=NOW, tasks="- mail", changes=()), SkipBeat("nothing-changed")),
        (HeartbeatState(now=NOW, tasks="", changes=("file a",)), BeatNow()),
        (HeartbeatState(now=NOW, tasks="# nothing", events=("bell",)), BeatNow()),
        (HeartbeatState(now=NOW, tasks="- mail", busy="requests-in-flight"), WaitBeat("requests-in-flight")),
        (HeartbeatState(now=NOW, woken=True), SkipBeat("nothing-waiting")),
        (HeartbeatState(now=NOW, woken=True, events=("bell",)), BeatNow()),
        (HeartbeatState(now=NOW, woken=True, events=("bell",), last_run=NOW - 5_000), WaitBeat("too-soon")),
    ],
)
def test_the_order_of_reasons(pulse: HeartbeatState, verdict: object) -> None:
    assert decide(pulse) == verdict


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("HEARTBEAT_OK", ""),
        ("**HEARTBEAT_OK**", ""),
        ("<b>HEARTBEAT_OK</b>.", ""),
        ("HEARTBEAT_OK All quiet.", ""),
        ("All quiet. HEARTBEAT_OK", ""),
        ("NO_REPLY", ""),
        ("", ""),
        ("The house is on fire.", "The house is on fire."),
        ("I saw HEARTBEAT_OK in a log.", "I saw HEARTBEAT_OK in a log."),
        ("HEARTBEAT_OK " + "x" * 301, "x" * 301),
    ],
)
def test_an_acknowledgement_is_not_shown(said: str, left: str) -> None:
    assert visible_answer(said) == left


@given(st.integers(0, 1440), st.integers(0, 1440))
def test_hours_and_their_complement_cover_the_day(start: int, end: int) -> None:
    rule, rest = (Hours(start=a, end=b, tz="UTC") for a, b in ((start, end), (end, start)))
    if start % 1440 == end % 1440:
        return
    for minute in range(0, 1440, 30):
        now = NOW + minute * 60_000
        assert is_within(rule, now) != is_within(rest, now)


def test_equal_ends_mean_never() -> None:
    assert not any(is_within(parse_hours("08:00", "08:00", "UTC"), NOW + n * 3_600_000) for n in range(24))


def test_intervals_and_times_of_day() -> None:
    assert (parse_interval("30m"), parse_interval("45"), parse_interval("0m"), parse_interval("2h")) == (
        1_800_000,
        2_700_000,
        0,
        7_200_000,
    )
    for bad in ("often", "10ms"):
        with pytest.raises(InvalidRequest):
            parse_interval(bad)
    for bad in ("25:00", "8", "24:01"):
        with pytest.raises(InvalidRequest):
            parse_hours(bad, "09:00", "UTC")


@pytest.mark.parametrize(
    ("text", "acknowledged", "told"),
    [
        ("", True, False),
        ("all quiet", True, False),
        ("x" * 301, True, True),
        ("fire", False, False),
        ("water", False, True),
    ],
)
def test_what_of_an_answer_is_an_alert(text: str, acknowledged: bool, told: bool) -> None:
    said = (ReplyPayload(text=text),) if text else ()
    outcome = RunOutcome(status="ok", stop_reason="stop", payloads=said, acknowledged=acknowledged)
    assert (alert_of(AlertRules(said_before="fire"), outcome) is not None) == told
