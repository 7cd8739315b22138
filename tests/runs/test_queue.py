"""Decisions about messages that arrive while a session is busy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.errors import InvalidRequest
from openclaw.runs.queue import (
    Decision,
    EnqueueMessage,
    InterruptRun,
    Mode,
    QueuedMessage,
    QueueRules,
    RejectMessage,
    StartRun,
    SteerRun,
    collect,
    decide,
    drop_overflow,
    overflow_note,
    parse_drop,
    parse_duration,
    parse_mode,
)


@pytest.mark.parametrize(
    ("mode", "busy", "steerable", "waiting", "expected"),
    [
        ("steer", False, False, 0, StartRun()),
        ("steer", True, True, 0, SteerRun()),
        ("steer", True, False, 0, EnqueueMessage()),
        ("steer", True, True, 2, EnqueueMessage()),
        ("steer", False, False, 1, EnqueueMessage()),
        ("followup", True, True, 0, EnqueueMessage()),
        ("collect", True, True, 3, EnqueueMessage()),
        ("interrupt", True, True, 3, InterruptRun()),
        ("interrupt", False, False, 0, StartRun()),
    ],
)
def test_what_happens_to_a_message(mode: Mode, busy: bool, steerable: bool, waiting: int, expected: Decision) -> None:
    assert decide(QueueRules(mode=mode), busy=busy, steerable=steerable, waiting=waiting) == expected


def test_a_full_queue_that_keeps_the_old_rejects_the_new() -> None:
    rules = QueueRules(mode="followup", cap=2, drop="new")
    assert isinstance(decide(rules, busy=True, steerable=False, waiting=2), RejectMessage)
    assert decide(rules, busy=True, steerable=False, waiting=1) == EnqueueMessage()


def items(*names: str, target: str = "") -> list[QueuedMessage]:
    return [QueuedMessage(run_id=name, text=f"text of {name}", target=target) for name in names]


def test_the_oldest_fall_out_unless_protected() -> None:
    queue = [QueuedMessage(run_id="a", text="a", protected=True), *items("b", "c", "d")]
    kept, gone = drop_overflow(queue, QueueRules(cap=2))
    assert [item.run_id for item in kept] == ["a", "d"]
    assert [item.run_id for item in gone] == ["b", "c"]
    assert overflow_note(gone).splitlines() == [
        "[Queue overflow] Dropped 2 message(s) due to cap.",
        "- text of b",
        "- text of c",
    ]


@given(st.integers(0, 30), st.integers(1, 25))
def test_overflow_loses_nothing_unsaid(count: int, cap: int) -> None:
    queue = items(*(str(number) for number in range(count)))
    kept, gone = drop_overflow(queue, QueueRules(cap=cap))
    assert sorted(item.run_id for item in (*kept, *gone)) == sorted(item.run_id for item in queue)
    assert len(kept) <= max(cap, 0) or not gone


def test_messages_for_one_place_become_one_turn() -> None:
    together, text = collect([*items("a", "b", target="x"), *items("c", target="y")])
    assert [item.run_id for item in together] == ["a", "b"]
    assert text.splitlines() == [
        "[Queued messages while agent was busy]",
        "---",
        "Queued #1",
        "text of a",
        "---",
        "Queued #2",
        "text of b",
    ]
    assert collect(items("a")) == (tuple(items("a")), "text of a")
    assert collect([]) == ((), "")


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("Steer", "steer"),
        ("queue", "steer"),
        ("steer+backlog", "followup"),
        ("coalesce", "collect"),
        ("abort", "interrupt"),
    ],
)
def test_modes_have_old_names_too(text: str, mode: str) -> None:
    assert parse_mode(text) == mode


def test_durations_and_mistakes() -> None:
    assert [parse_duration(text) for text in ("500", "0.5s", "2m", " 1h ")] == [500, 500, 120_000, 3_600_000]
    for call, text in ((parse_duration, "soon"), (parse_mode, "wait"), (parse_drop, "all")):
        with pytest.raises(InvalidRequest, match=r"use|write"):
            call(text)
