"""Old tool results shown shortened; the conversation itself is never changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.messages import Assistant, Image, Message, Text, ToolCall, ToolResult, User
from openclaw.sessions.compaction.plan import (
    CUSTOM_TYPE,
    REMOVED_IMAGE,
    apply_projections,
    prune,
    read_projections,
    without_old_images,
)
from openclaw.sessions.settings import PruningSettings, ToolFilter
from openclaw.sessions.transcript import Custom
from tests.sessions.compaction import conversations


def steps(count: int, chars: int, tool: str = "read") -> list[Message]:
    out: list[Message] = [User(content="go")]
    for number in range(count):
        out.append(Assistant(content=(ToolCall(id=f"c{number}", name=tool, arguments={}),)))
        out.append(ToolResult(tool_call_id=f"c{number}", tool_name=tool, content=(Text("x" * chars),)))
    return out


def test_long_results_before_the_last_three_replies_are_trimmed() -> None:
    messages = steps(6, 6_000)
    pruned = prune(messages, {}, PruningSettings(), window=20_000, cold=True)
    assert pruned.shown == {"c0": "trim", "c1": "trim", "c2": "trim"}
    first = pruned.messages[2]
    assert isinstance(first, ToolResult)
    assert first.text.startswith("x" * 1_500 + "\n...\n") and "of 6000 characters" in first.text
    assert pruned.messages[-1] is messages[-1]


def test_the_oldest_are_cleared_when_trimming_is_not_enough() -> None:
    pruned = prune(steps(30, 4_000), {}, PruningSettings(), window=30_000, cold=True)
    cleared = [call for call, how in pruned.shown.items() if how == "clear"]
    assert cleared and cleared == [f"c{number}" for number in range(len(cleared))]
    result = pruned.messages[2]
    assert isinstance(result, ToolResult) and result.text == "[Old tool result content cleared]"


@pytest.mark.parametrize(
    ("rules", "window", "cold"),
    [
        (PruningSettings(), 1_000_000, True),
        (PruningSettings(), 20_000, False),
        (PruningSettings(tools=ToolFilter(deny=("re*",))), 20_000, True),
        (PruningSettings(tools=ToolFilter(allow=("exec",))), 20_000, True),
    ],
    ids=["there is room", "the cache is warm", "denied", "not allowed"],
)
def test_nothing_is_pruned_when(rules: PruningSettings, window: int, cold: bool) -> None:
    messages = steps(6, 6_000)
    assert prune(messages, {}, rules, window=window, cold=cold).messages == tuple(messages)


def test_what_was_trimmed_once_looks_the_same_while_the_cache_is_warm() -> None:
    messages = steps(6, 6_000)
    first = prune(messages, {}, PruningSettings(), window=20_000, cold=True)
    longer = [*messages, Assistant(content=(Text("ok"),)), User(content="more")]
    again = prune(longer, first.shown, PruningSettings(), window=20_000, cold=False)
    assert again.messages[: len(messages)] == first.messages
    assert again.shown == first.shown


def test_a_result_with_an_image_is_left_alone() -> None:
    messages = steps(6, 6_000)
    messages[2] = ToolResult(
        tool_call_id="c0", tool_name="read", content=(Text("x" * 6_000), Image(data="", mime_type="image/png"))
    )
    assert "c0" not in prune(messages, {}, PruningSettings(), window=20_000, cold=True).shown


@given(conversations.messages, st.booleans(), st.integers(1, 2_000))
def test_only_results_change_and_their_order_and_ids_stay(messages: list[Message], cold: bool, window: int) -> None:
    pruned = prune(messages, {}, PruningSettings(), window=window, cold=cold)
    assert len(pruned.messages) == len(messages)
    for before, after in zip(messages, pruned.messages, strict=True):
        if isinstance(before, ToolResult):
            assert isinstance(after, ToolResult) and after.tool_call_id == before.tool_call_id
        else:
            assert after is before
    assert apply_projections(messages, pruned.shown, PruningSettings()) == pruned.messages


def test_the_record_of_it_is_read_back_and_nonsense_is_none() -> None:
    assert read_projections([Custom(custom_type=CUSTOM_TYPE, data={"shown": {"c0": "trim"}})]) == {"c0": "trim"}
    assert read_projections([Custom(custom_type=CUSTOM_TYPE, data={"shown": {"c0": "eaten"}})]) == {}
    assert read_projections([Custom(custom_type=CUSTOM_TYPE, data=None)]) == {}


def test_images_older_than_three_turns_are_left_out() -> None:
    picture = User(content=(Text("see"), Image(data="eA==", mime_type="image/png")))
    said: list[Message] = [picture, User(content="1"), User(content="2"), picture]
    shown = without_old_images(said)
    assert shown[0].text == f"see\n{REMOVED_IMAGE}"
    assert shown[3] is picture
