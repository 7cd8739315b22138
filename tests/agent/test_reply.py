"""A reply in the making: blocks, arguments, usage, cost."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.messages import Cost, Text, Thinking, ToolCall, Usage
from openclaw.core.provider import MAX_ARGUMENT_CHARS, Model, Price, ReplyBuilder, cost_of, parse_arguments

MODEL = Model(provider="p", id="m", api="openai-completions", price=Price(1.0, 2.0, 0.1, 0.0))


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ("", {}),
        ("  ", {}),
        ("{}", {}),
        ('{"a": 1}', {"a": 1}),
        ('call: {"a": 1}', {"a": 1}),
        ('{"a": 1}```', {"a": 1}),
        ('{"n": 123456789012345678901234567890}', {"n": 123456789012345678901234567890}),
    ],
)
def test_arguments_with_a_little_junk_round_them_are_understood(raw: str, arguments: dict[str, Any]) -> None:
    assert parse_arguments(raw) == (arguments, None)


@pytest.mark.parametrize(
    "raw",
    [
        '{"a": ',
        "[1]",
        '"text"',
        "null",
        "x" * 97 + "{}",
        "{}four!",
        '{"a": 1}{"b": 2}',
        '{"a": "\\ud800"}',
        "[" * 5000,
        '{"a":' * 5000 + "1" + "}" * 5000,
        "{" + " " * 64_000 + "}x",
    ],
    ids=lambda raw: raw[:12],
)
def test_anything_else_is_broken_and_kept_for_the_answer(raw: str) -> None:
    arguments, broken = parse_arguments(raw)
    assert arguments == {}
    assert broken == raw[:2000]


def test_arguments_that_are_absurdly_long_are_not_even_read() -> None:
    assert parse_arguments('{"a": "' + "x" * MAX_ARGUMENT_CHARS + '"}')[1] is not None


@given(st.text())
def test_no_text_can_make_it_raise(raw: str) -> None:
    arguments, broken = parse_arguments(raw)
    assert arguments == {} or broken is None


@given(st.dictionaries(st.text(), st.integers() | st.text()))
def test_what_is_json_is_read_as_it_is(value: dict[str, Any]) -> None:
    assert parse_arguments(json.dumps(value, ensure_ascii=False)) == (value, None)


def test_a_reply_that_was_cut_keeps_its_words_and_drops_its_calls() -> None:
    reply = ReplyBuilder(MODEL)
    reply.thinking(0, "hm")
    reply.text(1, "Let me ")
    reply.text(1, "see")
    reply.call(2, "c1", "read", '{"path": "a"}')
    assert reply.message().content == (Thinking("hm"), Text("Let me see"))
    assert reply.message().stop_reason == "error"
    reply.stop_reason = "stop"
    assert reply.message().calls == (ToolCall(id="c1", name="read", arguments={"path": "a"}),)
    assert reply.message().stop_reason == "toolUse"


@pytest.mark.parametrize(("written", "broken"), [("", ""), ('{"path": "a', '{"path": "a'), ('{"path": "a"}', None)])
def test_a_call_that_ran_into_the_output_limit_is_run_only_when_it_is_whole(written: str, broken: str | None) -> None:
    reply = ReplyBuilder(MODEL)
    reply.call(0, "c1", "ls", "")
    reply.call(1, "c2", "ls", written)
    reply.stop_reason = "length"
    first, last = reply.message().calls
    assert first.broken is None  # finished before the other began
    assert last.broken == broken


def test_a_price_that_is_not_known_is_not_a_free_call() -> None:
    assert cost_of(Usage(input=5), None) is None
    assert (Usage(input=1) + Usage(input=2)).cost is None
    assert (Usage(cost=Cost(total=1.0)) + Usage()).cost == Cost(total=1.0)


def test_the_cost_of_a_call() -> None:
    reply = ReplyBuilder(MODEL)
    reply.stop_reason = "stop"
    reply.usage = Usage(input=900, output=20, cache_read=100)
    usage = reply.message().usage
    assert usage.total_tokens == 1020
    assert usage.prompt_tokens == 1000
    assert usage.cost is not None
    assert usage.cost.total == pytest.approx(0.00095)
    assert (usage + usage).cost.total == pytest.approx(0.0019)  # type: ignore[union-attr]
    assert (usage + usage).output == 40


tokens = st.builds(Usage, *[st.integers(0, 10**9) for _ in range(5)])


@given(tokens, tokens, tokens)
def test_usage_can_be_summed_in_any_order(one: Usage, two: Usage, three: Usage) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
    assert one + Usage() == one
