"""From entries to what a model sees: branches, resets, compactions, and pairs that are always whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.messages import Assistant, Cost, Message, Text, ToolCall, ToolResult, Usage, User
from openclaw.sessions.transcript import (
    AnyEntry,
    BranchSummary,
    Compaction,
    Custom,
    CustomMessage,
    Labelled,
    Leaf,
    MessageEntry,
    ModelChange,
    ResetEntry,
    SessionInfo,
    ThinkingChange,
    UnknownEntry,
    build_context,
    headline,
    pair,
    path_to_leaf,
    tally,
    title_of,
)


def said(name: str, parent: str | None, text: str | None = None) -> MessageEntry:
    return MessageEntry(id=name, parent_id=parent, message=User(content=text or name))


def texts(*entries: AnyEntry) -> list[str]:
    return [message.text for message in build_context(entries).messages]


# The tree


def test_the_conversation_is_the_way_from_the_root_to_the_last_entry() -> None:
    assert texts(said("a", None), said("b", "a"), said("x", "a"), said("y", "x")) == ["a", "x", "y"]
    assert texts() == []


def test_a_root_of_its_own_starts_over() -> None:
    assert texts(said("a", None), said("b", "a"), said("c", None)) == ["c"]


def test_a_leaf_moves_the_end_and_the_next_entry_goes_on_from_there() -> None:
    entries: list[AnyEntry] = [said("a", None), said("b", "a"), Leaf(id="l", parent_id="b", target_id="a")]
    assert texts(*entries) == ["a"]
    assert texts(*entries, said("c", "a")) == ["a", "c"]
    assert texts(*entries, said("c", "l")) == ["a", "c"]  # one that names the pointer means where it points
    assert texts(*entries, Leaf(id="m", parent_id="l", target_id=None)) == []


def test_a_missing_parent_hides_nothing_and_is_reported() -> None:
    context = build_context([said("a", None), said("c", "b"), said("d", "c")])
    assert [message.text for message in context.messages] == ["a", "c", "d"]
    assert [(problem.kind, problem.detail) for problem in context.problems] == [
        ("missing", "c goes on from b, which is not in the file")
    ]


def test_a_leaf_that_points_nowhere_is_ignored() -> None:
    assert texts(said("a", None), said("b", "a"), Leaf(id="l", parent_id="b", target_id="gone")) == ["a", "b"]


def test_a_missing_parent_behind_a_leaf_goes_on_from_the_leaf() -> None:
    entries: list[AnyEntry] = [
        said("a", None),
        said("b", "a"),
        Leaf(id="l", parent_id="b", target_id="a"),
        said("c", "gone"),
    ]
    assert texts(*entries) == ["a", "c"]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["a", "b", "c", "d", "?", None]), st.booleans())))
def test_any_links_make_a_finite_path(links: list[tuple[str, str | None, bool]]) -> None:
    entries: list[AnyEntry] = [
        Leaf(id=name, parent_id=None, target_id=to) if leaf else said(name, to) for name, to, leaf in links
    ]
    path = path_to_leaf(entries)
    assert len(path) <= len(entries)
    assert not any(isinstance(entry, Leaf) for entry in path)


# Resets and compactions


def test_a_compaction_stands_for_what_came_before_what_it_keeps() -> None:
    entries = [said("a", None), said("b", "a"), said("c", "b")]
    compaction = Compaction(id="k", parent_id="c", summary="sum", first_kept_entry_id="b")
    context = build_context([*entries, compaction, said("d", "k")])
    assert context.summary == "sum"
    assert [message.text for message in context.messages] == ["b", "c", "d"]


def test_the_newest_compaction_counts() -> None:
    context = build_context(
        [
            said("a", None),
            Compaction(id="k1", parent_id="a", summary="one", first_kept_entry_id="a"),
            said("b", "k1"),
            Compaction(id="k2", parent_id="b", summary="two", first_kept_entry_id="b"),
            said("c", "k2"),
        ]
    )
    assert (context.summary, [message.text for message in context.messages]) == ("two", ["b", "c"])


def test_a_compaction_that_keeps_nothing_leaves_its_summary() -> None:
    compaction = Compaction(id="k", parent_id="a", summary="sum", first_kept_entry_id="gone")
    context = build_context([said("a", None), compaction, said("b", "k")])
    assert (context.summary, [message.text for message in context.messages]) == ("sum", ["b"])


def test_a_reset_hides_what_came_before_except_what_it_keeps() -> None:
    before = [said("a", None), said("b", "a")]
    assert texts(*before, ResetEntry(id="r", parent_id="b"), said("c", "r")) == ["c"]
    assert texts(*before, ResetEntry(id="r", parent_id="b", first_kept_entry_id="b"), said("c", "r")) == ["b", "c"]


def test_a_reset_also_hides_a_summary() -> None:
    compaction = Compaction(id="k", parent_id="a", summary="sum", first_kept_entry_id="a")
    context = build_context([said("a", None), compaction, ResetEntry(id="r", parent_id="k", first_kept_entry_id="a")])
    assert context.summary is None
    assert [message.text for message in context.messages] == ["a"]


def test_a_compaction_cannot_reach_behind_a_reset() -> None:
    compaction = Compaction(id="k", parent_id="b", summary="sum", first_kept_entry_id="a")
    context = build_context([said("a", None), ResetEntry(id="r", parent_id="a"), said("b", "r"), compaction])
    assert (context.summary, context.messages) == ("sum", ())


def test_a_compaction_on_a_branch_that_was_left_does_not_count() -> None:
    compaction = Compaction(id="k", parent_id="b", summary="sum", first_kept_entry_id="b")
    context = build_context([said("a", None), said("b", "a"), compaction, said("c", "a")])
    assert (context.summary, [message.text for message in context.messages]) == (None, ["a", "c"])


def test_what_is_for_the_model_is_shown_and_the_rest_is_not() -> None:
    entries: list[AnyEntry] = [
        ModelChange(id="1", parent_id=None, provider="p", model_id="old"),
        ThinkingChange(id="2", parent_id="1", thinking_level="low"),
        said("3", "2", "hello"),
        Custom(id="4", parent_id="3", custom_type="model-snapshot", data={"secret": 1}),
        CustomMessage(id="5", parent_id="4", custom_type="note", content="a note"),
        BranchSummary(id="6", parent_id="5", from_id="3", summary="we tried X"),
        Labelled(id="7", parent_id="6", target_id="3", label="star"),
        SessionInfo(id="8", parent_id="7", name="Named"),
        UnknownEntry(type="from_the_future", id="9", parent_id="8"),
        ModelChange(id="10", parent_id="9", provider="p", model_id="new"),
        ThinkingChange(id="11", parent_id="10", thinking_level="high"),
    ]
    context = build_context(entries)
    assert [type(message) for message in context.messages] == [User] * 3
    assert [message.text.splitlines()[-1] for message in context.messages] == ["hello", "a note", "we tried X"]
    assert context.problems == ()


# Pairs


def calls(*ids: str) -> Assistant:
    return Assistant(content=tuple(ToolCall(id=each, name=f"tool_{each}") for each in ids), stop_reason="toolUse")


def result(call_id: str, text: str = "ok") -> ToolResult:
    return ToolResult(tool_call_id=call_id, tool_name=f"tool_{call_id}", content=(Text(text),))


def shape(messages: tuple[Message, ...]) -> list[str]:
    out = []
    for message in messages:
        match message:
            case User():
                out.append(message.text)
            case Assistant():
                out.append("+".join(call.id for call in message.calls) or "answer")
            case ToolResult():
                out.append(f"{message.tool_call_id}={'?' if message.is_error else message.text}")
    return out


@pytest.mark.parametrize(
    ("messages", "expected", "kinds"),
    [
        ([calls("a"), result("a")], ["a", "a=ok"], []),
        ([calls("a")], ["a", "a=?"], ["unanswered"]),
        ([calls("a", "b"), result("b", "B"), result("a", "A")], ["a+b", "a=A", "b=B"], []),
        ([calls("a", "b"), result("b", "B"), calls("c")], ["a+b", "a=?", "b=B", "c", "c=?"], ["unanswered"] * 2),
        ([result("x"), User(content="hi")], ["hi"], ["stray-result"]),
        ([calls("a"), result("a", "1"), result("a", "2")], ["a", "a=1"], ["repeated-result"]),
        ([calls("a"), User(content="wait"), result("a")], ["a", "a=ok", "wait"], []),
        ([calls("a"), Assistant(), result("a")], ["a", "a=?", "answer"], ["unanswered", "stray-result"]),
        ([calls("a"), result("a", "1"), calls("a"), result("a", "2")], ["a", "a=1", "a", "a=2"], []),
        ([calls("a", "a"), result("a", "1"), result("a", "2")], ["a+a-2", "a=1", "a-2=2"], []),
        ([calls("a", "a", "a-2"), result("a-2", "x")], ["a+a-3+a-2", "a=?", "a-3=?", "a-2=x"], ["unanswered"] * 2),
        ([calls("a", "a"), result("a", "1"), result("a-2", "2")], ["a+a-2", "a=1", "a-2=2"], []),
    ],
)
def test_every_call_has_its_result_right_behind_it(
    messages: list[Message], expected: list[str], kinds: list[str]
) -> None:
    paired = pair(messages)
    assert shape(paired.messages) == expected
    assert sorted(problem.kind for problem in paired.problems) == sorted(kinds)


ids = st.sampled_from(["a", "b", "c", "a-2", ""])
anything = st.one_of(
    st.lists(ids, max_size=4).map(lambda each: calls(*each)),
    ids.map(result),
    st.just(User(content="hi")),
    st.just(Assistant(content=(Text("answer"),))),
)


@given(st.lists(anything, max_size=20))
def test_any_mix_of_messages_becomes_one_that_no_provider_rejects(messages: list[Message]) -> None:
    paired = pair(messages)
    left = list(paired.messages)
    while left:
        message = left.pop(0)
        assert not isinstance(message, ToolResult), "a result without its call"
        if isinstance(message, Assistant):
            answers = [left.pop(0) for _ in message.calls]
            assert [answer.tool_call_id for answer in answers if isinstance(answer, ToolResult)] == [
                call.id for call in message.calls
            ]
            assert len({call.id for call in message.calls}) == len(message.calls)
    # Nothing a person or a model said is lost or reordered.
    assert [message for message in paired.messages if isinstance(message, User)] == [
        message for message in messages if isinstance(message, User)
    ]
    assert [len(message.calls) for message in paired.messages if isinstance(message, Assistant)] == [
        len(message.calls) for message in messages if isinstance(message, Assistant)
    ]
    again = pair(paired.messages)
    assert again.messages == paired.messages
    assert again.problems == ()


@given(st.lists(anything, max_size=12))
def test_writing_down_the_missing_results_settles_the_end(messages: list[Message]) -> None:
    paired = pair(messages)
    settled = pair([*messages, *(result(call.id) for call in paired.unanswered)])
    assert settled.unanswered == ()
    assert len(settled.problems) == len(paired.problems) - len(paired.unanswered)


def test_a_call_hidden_by_a_reset_waits_for_nothing() -> None:
    entries: list[AnyEntry] = [MessageEntry(id="a", message=calls("x")), ResetEntry(id="r", parent_id="a")]
    assert build_context(entries).unanswered == ()
    assert [call.id for call in build_context(entries[:1]).unanswered] == ["x"]


# Figures and names


def test_a_tally_adds_what_the_branch_used() -> None:
    def answer(name: str, parent: str, tokens: int) -> MessageEntry:
        usage = Usage(input=tokens, output=1, total_tokens=tokens + 1, cost=Cost(total=0.5))
        return MessageEntry(id=name, parent_id=parent, message=Assistant(usage=usage, model=name, timestamp=tokens))

    total = tally([said("q", None), answer("1", "q", 10), answer("2", "1", 20)])
    assert (total.messages, total.usage.input, total.usage.output, total.at) == (3, 30, 2, 20)
    assert total.usage.cost == Cost(total=1.0)
    assert total.last is not None
    assert total.last.model == "2"


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([], "idle"),
        ([User(content="q")], "killed"),
        ([User(content="q"), Assistant(content=(Text("a"),))], "done"),
        ([User(content="q"), Assistant(stop_reason="error")], "failed"),
        ([User(content="q"), Assistant(stop_reason="aborted")], "killed"),
        ([User(content="q"), calls("a")], "killed"),
        ([User(content="q"), calls("a"), result("a")], "killed"),
    ],
)
def test_how_a_conversation_stands_is_seen_at_its_end(messages: list[Message], status: str) -> None:
    entries = [
        MessageEntry(id=str(at), parent_id=str(at - 1) if at else None, message=message)
        for at, message in enumerate(messages)
    ]
    assert tally(entries).status == status


def test_a_session_is_named_by_its_name_else_by_what_was_said_first() -> None:
    assert title_of([]) == ""
    assert title_of([said("1", None, " first\n\tthing "), said("2", "1", "second")]) == "first thing"
    assert title_of([said("1", None, "first"), SessionInfo(name="Plans"), SessionInfo(name="Better")]) == "Better"
    assert title_of([said("1", None, "first"), SessionInfo(name="")]) == "first"


def test_a_title_is_one_short_printable_line() -> None:
    assert headline("a\x1b[31m\x00b\udcff") == "a[31mb"
    assert headline("x" * 60) == "x" * 60
    assert headline("word " * 30) == ("word " * 12)[:59].rstrip() + "…"
