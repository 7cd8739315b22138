"""Decisions about messages that arrive while a session is busy."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import SessionKey
from openclaw.runs.queue import (
    Decision,
    EnqueueMessage,
    InterruptRun,
    QueuedRun,
    QueueRules,
    RejectMessage,
    StartRun,
    SteerRun,
    collect,
    decide,
    drop_overflow,
    overflow_note,
    parse_mode,
)
from openclaw.runs.request import RunRequest
from openclaw.runs.settings import QueueMode


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
def test_what_happens_to_a_message(
    mode: QueueMode, busy: bool, steerable: bool, waiting: int, expected: Decision
) -> None:
    assert decide(QueueRules(mode=mode), busy=busy, steerable=steerable, waiting=waiting) == expected


def test_a_full_queue_that_keeps_the_old_rejects_the_new() -> None:
    rules = QueueRules(mode="followup", cap=2, drop="new")
    assert isinstance(decide(rules, busy=True, steerable=False, waiting=2), RejectMessage)
    assert decide(rules, busy=True, steerable=False, waiting=1) == EnqueueMessage()


def request(name: str, **more: Any) -> RunRequest:
    return RunRequest(run_id=name, key=SessionKey("main", "main"), text=f"text of {name}", **more)


def items(*names: str, channel: str = "") -> list[QueuedRun]:
    return [QueuedRun(turn=request(name, channel=channel), rules=QueueRules(), arrived=0.0) for name in names]


def names(queue: Sequence[QueuedRun]) -> list[str]:
    return [item.turn.run_id for item in queue]


def test_the_oldest_fall_out_unless_protected() -> None:
    bringing = QueuedRun(turn=request("a", earlier=(request("z"),)), rules=QueueRules(), arrived=0.0)
    kept, gone = drop_overflow([bringing, *items("b", "c", "d")], QueueRules(cap=2))
    assert names(kept) == ["a", "d"]
    assert names(gone) == ["b", "c"]
    assert overflow_note(gone).splitlines() == [
        "[Queue overflow] Dropped 2 message(s) due to cap.",
        "- text of b",
        "- text of c",
    ]


@given(st.integers(0, 30), st.integers(1, 25))
def test_overflow_loses_nothing_unsaid(count: int, cap: int) -> None:
    queue = items(*(str(number) for number in range(count)))
    kept, gone = drop_overflow(queue, QueueRules(cap=cap))
    assert sorted(names([*kept, *gone])) == sorted(names(queue))
    assert len(kept) <= max(cap, 0) or not gone


def test_messages_for_one_place_become_one_turn() -> None:
    together, rest = collect([*items("a", "b", channel="x"), *items("c", channel="y")])
    assert together.ids == ("a", "b") and names(rest) == ["c"]
    assert together.turn.text.splitlines() == [
        "[Queued messages while agent was busy]",
        "---",
        "Queued #1",
        "text of a",
        "---",
        "Queued #2",
        "text of b",
    ]
    assert collect(items("a")) == (items("a")[0], [])


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


def test_a_mode_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="use"):
        parse_mode("wait")
