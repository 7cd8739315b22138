"""A conversation as another model can take it."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from openclaw.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult, User
from openclaw.core.provider import Model, ModelRequest, System
from openclaw.models.providers import openai_chat
from openclaw.models.providers.encode import (
    EARLIER,
    FAILED,
    NO_IMAGES,
    NO_OUTPUT,
    NO_RESULT,
    STOPPED,
    HistoryRules,
    adapt_messages,
    to_bytes,
)

SEES = Model(provider="acme", id="m1", api="anthropic-messages", input=("text", "image"))
BLIND = Model(provider="acme", id="m1", api="anthropic-messages")
STRICT = HistoryRules(merge=True, user_first=True)
HI = User(content="hi")


def own(*content: Text | Thinking | ToolCall, **changes: str) -> Assistant:
    given = {"api": "anthropic-messages", "provider": "acme", "model": "m1", "stop_reason": "stop"}
    return Assistant(content=content, **(given | changes))  # type: ignore[arg-type]


def result(call_id: str, text: str = "ok") -> ToolResult:
    return ToolResult(tool_call_id=call_id, tool_name="read", content=(Text(text),), details={"secret": 1})


def call(call_id: str, signature: str | None = None) -> ToolCall:
    return ToolCall(id=call_id, name="read", arguments={"path": "a"}, signature=signature)


def test_an_unanswered_call_gets_an_answer() -> None:
    _, asked, answer, after = adapt_messages((HI, own(call("a")), User(content="and?")), SEES, HistoryRules())

    assert isinstance(asked, Assistant)
    assert isinstance(answer, ToolResult)
    assert (answer.tool_call_id, answer.content, answer.is_error) == ("a", (NO_RESULT,), True)
    assert isinstance(after, User)


def test_results_follow_their_calls_in_order() -> None:
    messages = (HI, own(call("a"), call("b")), result("b", "B"), User(content="wait"), result("a", "A"))

    out = adapt_messages(messages, SEES, HistoryRules())

    assert [type(message).__name__ for message in out] == ["User", "Assistant", "ToolResult", "ToolResult", "User"]
    assert [message.text for message in out if isinstance(message, ToolResult)] == ["A", "B"]


def test_a_result_nobody_asked_for_is_left_out() -> None:
    assert adapt_messages((HI, result("ghost")), SEES, HistoryRules()) == adapt_messages((HI,), SEES, HistoryRules())


def test_a_second_result_does_not_count() -> None:
    out = adapt_messages((HI, own(call("a")), result("a", "first"), result("a", "second")), SEES, HistoryRules())

    assert [message.text for message in out if isinstance(message, ToolResult)] == ["first"]


def test_details_never_leave() -> None:
    out = adapt_messages((HI, own(call("a")), result("a")), SEES, HistoryRules())

    assert all(message.details is None for message in out if isinstance(message, ToolResult))


def test_only_its_own_thoughts_go_back_to_a_model() -> None:
    thought = Thinking("hm", "sig")
    sealed = Thinking("", "data", redacted=True)
    mine = own(thought, sealed, Text("yes", "mark"), call("a", signature="s"))
    foreign = own(thought, sealed, Text("yes", "mark"), call("a", signature="s"), model="m2")

    _, kept, *_ = adapt_messages((HI, mine), SEES, HistoryRules())
    _, stripped, *_ = adapt_messages((HI, foreign), SEES, HistoryRules())

    assert isinstance(kept, Assistant)
    assert kept.content == mine.content
    assert isinstance(stripped, Assistant)
    assert stripped.content == (Text("yes"), call("a"))


def test_a_thought_that_led_nowhere_is_dropped() -> None:
    out = adapt_messages((HI, own(Thinking("hm", "sig")), User(content="?")), SEES, STRICT)

    assert [type(message).__name__ for message in out] == ["User"]


def test_empty_blocks_and_messages_vanish() -> None:
    out = adapt_messages((HI, own(Text("  \n"), Text("x")), User(content=" "), own(Text(""))), SEES, HistoryRules())

    assert [getattr(message, "text", None) for message in out] == ["hi", "x"]


def test_a_result_without_words_says_so() -> None:
    empty = ToolResult(tool_call_id="a", tool_name="read")

    (answer,) = (
        m for m in adapt_messages((HI, own(call("a")), empty), SEES, HistoryRules()) if isinstance(m, ToolResult)
    )

    assert answer.content == (NO_OUTPUT,)


def test_images_become_a_note_for_a_blind_model() -> None:
    shown = User(content=(Text("look"), Image("x", "image/png")))

    assert adapt_messages((shown,), BLIND, HistoryRules())[0].content == (Text("look"), NO_IMAGES)
    assert adapt_messages((shown,), SEES, HistoryRules())[0].content == shown.content
    assert adapt_messages((shown,), SEES, HistoryRules(images=False))[0].content == (Text("look"), NO_IMAGES)


def test_neighbours_of_one_role_are_joined_where_needed() -> None:
    messages = (HI, User(content="there"), own(Text("a")), own(Text("b")))

    joined = adapt_messages(messages, SEES, STRICT)

    assert len(adapt_messages(messages, SEES, HistoryRules())) == 4
    assert [message.content for message in joined] == [(Text("hi"), Text("there")), (Text("a"), Text("b"))]


def test_the_user_speaks_first_where_needed() -> None:
    out = adapt_messages((own(Text("hello")), HI), SEES, STRICT)

    assert out[0] == User(content=(EARLIER,))
    assert adapt_messages((), SEES, STRICT) == (User(content=(EARLIER,)),)


def test_a_failed_answer_leaves_a_mark_and_a_stopped_one_its_words() -> None:
    failed = own(Text("I thi"), Thinking("hm", "sig"), call("a"), stop_reason="error")
    stopped = own(Text("I thi"), stop_reason="aborted")

    assert [m.content for m in adapt_messages((HI, failed, HI), SEES, HistoryRules())[1:2]] == [(FAILED,)]
    assert [m.content for m in adapt_messages((HI, stopped, HI), SEES, HistoryRules())[1:2]] == [
        (Text("I thi"), STOPPED)
    ]
    assert len(adapt_messages((HI, own(stop_reason="error"), HI), SEES, HistoryRules())) == 2


def test_a_failure_at_the_end_is_simply_asked_again() -> None:
    assert len(adapt_messages((HI, own(Text("I thi"), stop_reason="error")), SEES, HistoryRules())) == 1


def test_a_call_that_ran_is_remembered_though_its_turn_failed() -> None:
    _, asked, answer, _ = adapt_messages(
        (HI, own(call("a"), stop_reason="aborted"), result("a"), HI), SEES, HistoryRules()
    )

    assert isinstance(asked, Assistant)
    assert asked.calls[0].id == "a"
    assert isinstance(answer, ToolResult)


def test_broken_arguments_are_sent_empty() -> None:
    broken = ToolCall(id="a", name="read", arguments={"half": 1}, broken='{"half')

    _, asked, *_ = adapt_messages((HI, own(broken)), SEES, HistoryRules())

    assert isinstance(asked, Assistant)
    assert asked.calls == (ToolCall(id="a", name="read", arguments={}),)


def test_ids_are_made_to_fit_and_stay_in_step() -> None:
    strange = "call|with spaces/" + "x" * 80
    messages = (HI, own(call(strange)), result(strange), own(call("same")), result("same"), own(call("same")))

    for rules in (HistoryRules(), HistoryRules(id_chars=40), HistoryRules(id_chars=9, id_exact=True)):
        out = adapt_messages(messages, SEES, rules)
        asked = [one.id for message in out if isinstance(message, Assistant) for one in message.calls]
        answered = [message.tool_call_id for message in out if isinstance(message, ToolResult)]
        assert asked == answered
        assert len(set(asked)) == 3
        assert all(len(one) <= rules.id_chars and one.replace("_", "").isalnum() for one in asked)
        assert out == adapt_messages(messages, SEES, rules)


blocks = st.one_of(
    st.builds(Text, st.sampled_from(["", " ", "x"])),
    st.builds(Thinking, st.sampled_from(["", "t"]), st.sampled_from([None, "s"]), st.booleans()),
    st.builds(call, st.sampled_from(["a", "b", "c d"])),
)
turns: st.SearchStrategy[Message] = st.one_of(
    st.builds(User, content=st.sampled_from(["", "hi"])),
    st.builds(result, st.sampled_from(["a", "b", "c d", "z"])),
    st.builds(
        Assistant,
        content=st.lists(blocks, max_size=4).map(tuple),
        model=st.sampled_from(["m1", "m2"]),
        api=st.just("anthropic-messages"),
        provider=st.just("acme"),
        stop_reason=st.sampled_from(["stop", "toolUse", "error", "aborted", "length"]),
    ),
)


@given(st.lists(turns, max_size=8), st.lists(turns, max_size=3))
def test_a_body_made_of_the_last_one_is_the_same_to_the_byte(before: list[Message], after: list[Message]) -> None:
    chat = structs.replace(SEES, api="openai-completions", base_url="http://localhost/v1")
    for size in range(len(before) + 1):
        request = ModelRequest(model=chat, system=System("be brief"), messages=tuple(before[:size]))
        assert openai_chat.encode_bytes(request) == to_bytes(openai_chat.encode(request))
    other = ModelRequest(model=chat, messages=(*before[: len(before) // 2], *after))
    assert openai_chat.encode_bytes(other) == to_bytes(openai_chat.encode(other))


@given(st.lists(turns, max_size=8))
def test_whatever_happened_the_conversation_is_well_formed(messages: list[Message]) -> None:
    out = adapt_messages(messages, BLIND, STRICT)

    assert isinstance(out[0], User)
    waiting: list[str] = []
    before: Message | None = None
    for message in out:
        assert message.content
        if isinstance(message, ToolResult):
            assert message.tool_call_id == waiting.pop(0)
        else:
            assert not waiting
            assert type(before) is not type(message)
        if isinstance(message, Assistant):
            waiting = [one.id for one in message.calls]
            assert not isinstance(message.content[-1], Thinking)
        before = message
    assert not waiting
