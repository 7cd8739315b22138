"""How much of a tool's answer a model sees, and when a run goes in circles."""

import pytest

from openclaw.agent.repeats import (
    NoRepeat,
    RepeatBlocked,
    RepeatDetector,
    RepeatLimits,
    RepeatWarning,
    result_cap,
    shorten,
)
from openclaw.core.messages import Text
from openclaw.core.tool import Output


@pytest.mark.parametrize(
    ("window", "cap"),
    [
        (1_000_000, 64_000),
        (200_000, 64_000),
        (199_999, 32_000),
        (100_000, 32_000),
        (99_999, 16_000),
        (16_000, 16_000),
        (8_000, 9_600),  # three tenths of the window, four characters a token
        (500, 1_000),
    ],
)
def test_the_cap_follows_the_models_window(window: int, cap: int) -> None:
    assert result_cap(window) == cap


def test_what_fits_is_left_alone() -> None:
    output = Output(content=(Text("a" * 60), Text("b" * 40)))
    assert shorten(output, 100) is output


def same(repeats: RepeatDetector, times: int, tool: str = "draw", answer: str = "same", **args: object) -> None:
    for _ in range(times):
        repeats.after(tool, args, Output.of(answer))


def test_ten_equal_calls_are_fine_the_eleventh_is_warned() -> None:
    repeats = RepeatDetector(RepeatLimits())
    same(repeats, 9)
    assert repeats.before("draw", {}) == NoRepeat()
    same(repeats, 1)
    assert isinstance(repeats.before("draw", {}), RepeatWarning)


def test_equal_calls_with_new_answers_are_never_blocked() -> None:
    repeats = RepeatDetector(RepeatLimits())
    for number in range(60):
        assert not isinstance(repeats.before("poll", {"id": 1}), RepeatBlocked)
        repeats.after("poll", {"id": 1}, Output.of(f"{number} %"))


def test_the_order_of_arguments_does_not_hide_a_repeat() -> None:
    repeats = RepeatDetector(RepeatLimits())
    for number in range(20):
        args = {"a": 1, "b": 2} if number % 2 else {"b": 2, "a": 1}
        repeats.after("draw", args, Output.of("same"))
    assert isinstance(repeats.before("draw", {"b": 2, "a": 1}), RepeatBlocked)


def test_durations_do_not_hide_a_repeat() -> None:
    repeats = RepeatDetector(RepeatLimits())
    for number in range(20):
        repeats.after("exec", {"command": "x"}, Output.of("failed", exitCode=1, durationMs=number))
    assert isinstance(repeats.before("exec", {"command": "x"}), RepeatBlocked)


def ping_pong(repeats: RepeatDetector, times: int) -> None:
    for number in range(times):
        repeats.after("ping" if number % 2 == 0 else "pong", {}, Output.of("same"))


def test_two_calls_that_alternate_are_warned_and_then_blocked() -> None:
    repeats = RepeatDetector(RepeatLimits(history=100, breaker=100, warn=10, block=20))
    ping_pong(repeats, 8)
    assert repeats.before("ping", {}) == NoRepeat()
    ping_pong(repeats, 2)
    assert isinstance(repeats.before("ping", {}), RepeatWarning)
    ping_pong(repeats, 12)
    assert isinstance(repeats.before("ping", {}), RepeatBlocked)


def test_many_variants_with_the_same_answer_are_warned() -> None:
    repeats = RepeatDetector(RepeatLimits())
    for number in range(10):
        repeats.after("grep", {"pattern": str(number % 3)}, Output.of("no matches"))
    assert repeats.before("grep", {"pattern": "new"}) == RepeatWarning(
        "Variations of grep keep giving the same result. Try something else."
    )


def test_thirty_calls_that_bring_nothing_new_are_enough() -> None:
    repeats = RepeatDetector(RepeatLimits())
    for number in range(35):
        repeats.after("draw", {"n": number % 5}, Output.of("same"))
    assert isinstance(repeats.before("other", {}), RepeatBlocked)


def test_one_new_answer_resets_the_count() -> None:
    repeats = RepeatDetector(RepeatLimits())
    for number in range(34):
        repeats.after("draw", {"n": number % 5}, Output.of("same"))
    repeats.after("draw", {"n": 99}, Output.of("news"))
    assert not isinstance(repeats.before("other", {}), RepeatBlocked)


def test_the_end_of_a_command_survives_the_cut() -> None:
    output = Output(content=(Text("x" * 5_000 + "\n(Command exited with code 3)"),), end_matters=True)
    text = shorten(output, 1_000).text
    assert text.endswith("(Command exited with code 3)")
    assert text.startswith("[... 4029 earlier characters truncated; rerun with narrower args if needed]\n")
