"""Where a conversation is cut: pairs stay whole, the tail fits, something goes, or nothing is done."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.messages import Assistant, Image, Message, Text, ToolCall, ToolResult, Usage, User
from openclaw.sessions.compaction import plan as compaction_plan
from openclaw.sessions.compaction.plan import estimate, estimate_all, estimate_text, find_cut, measure, plan
from openclaw.sessions.transcript import AnyEntry, Compaction, build_context, pair
from tests.sessions.compaction import conversations
from tests.sessions.compaction.conversations import linked, talk


def asks(text: str = "do it") -> User:
    return User(content=text)


def answers(text: str = "done") -> Assistant:
    return Assistant(content=(Text(text),))


def calls(*ids: str) -> Assistant:
    return Assistant(content=tuple(ToolCall(id=each, name="read", arguments={}) for each in ids))


def result(call: str, text: str = "x") -> ToolResult:
    return ToolResult(tool_call_id=call, tool_name="read", content=(Text(text),))


def answered_by_place(messages: list[Message]) -> dict[int, int]:
    """For each result, by its place, the place of the reply it belongs to; strays belong to none."""
    owner: dict[int, int] = {}
    last, open_ids = -1, set[str]()
    for place, message in enumerate(messages):
        if isinstance(message, Assistant):
            last, open_ids = place, {call.id for call in message.calls}
        elif isinstance(message, ToolResult) and message.tool_call_id in open_ids:
            owner[place] = last
            open_ids.discard(message.tool_call_id)
    return owner


@given(conversations.messages, st.integers(0, 3000))
def test_no_result_is_ever_cut_off_from_its_call(messages: list[Message], keep: int) -> None:
    at = find_cut(messages, keep)
    assert all((place < at) == (owner < at) for place, owner in answered_by_place(messages).items())


@given(conversations.messages, st.integers(0, 3000))
def test_what_stays_fits_and_starts_a_step(messages: list[Message], keep: int) -> None:
    at = find_cut(messages, keep)
    assert estimate_all(messages[at:]) <= keep
    assert at == len(messages) or not isinstance(messages[at], ToolResult)


@given(conversations.messages, st.integers(0, 3000))
def test_a_tail_is_as_long_as_it_can_be(messages: list[Message], keep: int) -> None:
    at = find_cut(messages, keep)
    owners = answered_by_place(messages)
    for earlier in range(at):
        whole = all((place < earlier) == (owner < earlier) for place, owner in owners.items())
        starts = not any(isinstance(m, ToolResult) for m in _until_reply(messages[earlier:]))
        if whole and starts:
            assert estimate_all(messages[earlier:]) > keep


def _until_reply(messages: list[Message]) -> list[Message]:
    out: list[Message] = []
    for message in messages:
        if isinstance(message, Assistant):
            break
        out.append(message)
    return out


@given(conversations.path(), st.integers(0, 3000))
def test_every_plan_takes_something_away_and_leaves_valid_messages(path: list[AnyEntry], keep: int) -> None:
    before = build_context(path)
    made = plan(path, keep)
    if made is None:
        return
    assert made.removed
    entry = Compaction(id="new", summary="notes", first_kept_entry_id=made.first_kept)
    after = build_context(linked([*path, entry]))
    assert after.summary == "notes"
    assert after.messages == pair(made.kept).messages
    assert estimate_all(made.kept) <= keep
    assert len(made.kept) < len(made.kept) + len(made.removed)
    assert len(after.messages) <= len(before.messages)


@given(conversations.path(), st.integers(0, 3000))
def test_cutting_again_and_again_comes_to_an_end(path: list[AnyEntry], keep: int) -> None:
    for number in range(len(path) + 2):
        made = plan(path, keep)
        if made is None:
            return
        path = linked([*path, Compaction(id=f"n{number}", summary="", first_kept_entry_id=made.first_kept)])
    raise AssertionError("there was always something left to cut")


def test_a_message_between_a_call_and_its_result_is_no_place_to_cut() -> None:
    messages: list[Message] = [asks(), calls("a", "b"), result("a"), asks("and?"), result("b"), answers()]
    room = estimate_all(messages[3:])
    assert find_cut(messages, room) == 5


def test_a_turn_that_is_cut_through_is_known_from_its_start() -> None:
    made = plan(talk(asks("first"), answers(), asks("second"), calls("a"), result("a"), calls("b"), result("b")), 12)
    assert made is not None
    assert (made.split, len(made.removed)) == (2, 5)
    assert made.unanswered == "second"
    assert made.first_kept == "e5"


def test_a_request_that_was_answered_is_not_pending() -> None:
    made = plan(talk(asks("first"), calls("a"), result("a"), answers("here")), 0)
    assert made is not None and made.unanswered == ""
    kept = plan(talk(asks("first " * 50), answers("here"), asks("second")), 30)
    assert kept is not None and len(kept.kept) == 2 and kept.unanswered == ""


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("abcd", 1), ("abcde", 2), ("時間です", 4), ("時a", 2)],
    ids=["", "4", "5", "cjk", "mix"],
)
def test_a_text_costs_a_token_for_four_characters_or_one_of_the_wide(text: str, tokens: int) -> None:
    assert estimate_text(text) == tokens


def test_an_image_costs_two_thousand_tokens() -> None:
    picture = Image(data="eA==", mime_type="image/png")
    assert estimate(User(content=(picture,))) == 2_004


def counted(text: str, total: int) -> Assistant:
    return Assistant(content=(Text(text),), usage=Usage(input=total - 1, output=1, total_tokens=total))


def test_the_size_is_the_providers_count_and_an_estimate_of_what_followed() -> None:
    assert measure(talk(asks(), counted("hi", 5_000), asks("abcd" * 100))).tokens(lambda: 900) == 5_000 + 104


def test_a_count_that_is_too_low_to_be_true_is_not_believed() -> None:
    assert measure(talk(asks("abcd" * 5_000), counted("hi", 12))).tokens(lambda: 900) > 5_900


def test_a_count_from_before_a_compaction_is_worth_nothing_any_more() -> None:
    path = talk(asks(), counted("hi", 150_000), asks("next"), counted("ok", 150_100))
    path = linked([*path, Compaction(id="k", summary="abcd" * 10, first_kept_entry_id="e2")])
    assert measure(path).tokens(lambda: 100) < 200


@pytest.mark.parametrize(
    ("window", "flush_at", "compact_at"),
    [(32_768, 20_576, 24_576), (200_000, 176_000, 180_000), (4_000, 1_500, 3_000)],
)
def test_the_thresholds(window: int, flush_at: int, compact_at: int) -> None:
    assert compaction_plan.flush_threshold(window, 4_000) == flush_at
    assert compaction_plan.capacity(window) == compact_at


@pytest.mark.parametrize(
    ("error", "window"),
    [
        ("This model's maximum context length is 8192 tokens. However, you requested 9000", 8_192),
        ("prompt is too long: 214,000 tokens > 200,000 maximum", 200_000),
        ("the request exceeds the available context size (4096 tokens)", 4_096),
        ("prompt is too long", None),
    ],
)
def test_a_provider_that_names_its_limit_is_believed(error: str, window: int | None) -> None:
    assert compaction_plan.parse_window(error) == window
