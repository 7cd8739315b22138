"""A run as people see it: the same rules wherever its words go."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.events import (
    AttemptFailed,
    Event,
    MessageEnded,
    ModelCalled,
    RunEnded,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
)
from openclaw.core.messages import Assistant, StopReason, Text, Thinking, ToolCall, ToolResult, Usage
from openclaw.runs.reply import NoteShaped, ReplyShaped, ReplyShaper, ShapedEvent, TextShaped, ThoughtShaped
from openclaw.sessions.reply_text import ReplyOptions, ReplyPayload

CALLED = ModelCalled("p", "m")
END = RunEnded("stop", Usage())


def message(text: str, thinking: str = "", stop: StopReason = "stop") -> list[Event]:
    content = (*((Thinking(thinking),) if thinking else ()), Text(text))
    deltas = [TextDelta(letter) for letter in text]
    thoughts: list[Event] = [ThinkingDelta(thinking)] if thinking else []
    return [CALLED, *thoughts, *deltas, MessageEnded(Assistant(content=content, stop_reason=stop))]


def tool(name: str, text: str, *, failed: bool = False, **arguments: object) -> ToolEnded:
    call = ToolCall(id="c", name=name, arguments=dict(arguments))
    return ToolEnded(call, ToolResult("c", name, (Text(text),), is_error=failed))


def shaped(*events: Event, **manner: object) -> tuple[str, ReplyShaper, list[ShapedEvent]]:
    shaper = ReplyShaper(ReplyOptions(**manner))  # type: ignore[arg-type]
    out = [each for event in events for each in shaper.take(event)]
    return "".join(each.text for each in out if isinstance(each, TextShaped)), shaper, out


def test_what_streams_is_what_is_delivered() -> None:
    said, shaper, _ = shaped(*message("[[reply_to: 9]] <think>hm</think>Here it is.\nMEDIA:/a.png\nNO_REPLY"), END)
    assert said.strip() == "Here it is."
    assert shaper.payloads == (ReplyPayload(text="Here it is.", media=("/a.png",), reply_to="9"),)


@pytest.mark.parametrize("text", ["NO_REPLY", "<think>nobody asked me</think>NO_REPLY", '{"action":"NO_REPLY"}'])
def test_silence_is_heard_by_nobody(text: str) -> None:
    said, shaper, out = shaped(*message(text), END)
    assert said == "" and shaper.payloads == () and shaper.silent
    assert [each.silent for each in out if isinstance(each, ReplyShaped)] == [True]


def test_reasoning_is_hidden_unless_it_is_asked_for() -> None:
    _, shaper, out = shaped(*message("<think>tagged</think>Hello", thinking="native"), END)
    assert not [each for each in out if isinstance(each, ThoughtShaped)]
    assert shaper.payloads == (ReplyPayload(text="Hello"),)


def test_reasoning_on_comes_as_a_payload_of_its_own_before_the_answer() -> None:
    said, shaper, out = shaped(*message("<think>tagged</think>Hello", thinking="native"), END, reasoning="on")
    assert said == "Hello"
    assert [payload.kind for payload in shaper.payloads] == ["reasoning", "answer"]
    assert shaper.payloads[0].text == "Reasoning:\nnative\n\ntagged"
    assert not [each for each in out if isinstance(each, ThoughtShaped)]


def test_reasoning_streams_when_that_is_wanted_and_is_not_kept() -> None:
    said, shaper, out = shaped(*message("<think>tagged</think>Hello", thinking="native"), END, reasoning="stream")
    assert "".join(each.text for each in out if isinstance(each, ThoughtShaped)) == "nativetagged"
    assert said == "Hello" and [payload.kind for payload in shaper.payloads] == ["answer"]


def test_only_the_final_part_counts_for_a_model_that_thinks_in_tags() -> None:
    said, shaper, _ = shaped(*message("Let me see. <final>Four.</final>"), END, enforce_final=True)
    assert said == "Four." and shaper.texts == ("Four.",)


def test_tools_are_summed_up_when_verbose_and_shown_whole_when_full() -> None:
    listing = tool("exec", "a.txt\n```", command="ls")
    assert shaped(listing, END)[1].payloads == ()
    assert shaped(listing, *message("Done."), END, verbose="on")[1].payloads == (
        ReplyPayload(text="· exec ls", kind="tool"),
        ReplyPayload(text="Done."),
    )
    (full, _) = shaped(listing, *message("Done."), END, verbose="full")[1].payloads
    assert full.text == "· exec ls\n````\na.txt\n```\n````"


def test_a_failed_tool_is_the_last_word_when_there_is_no_other() -> None:
    failure = tool("exec", "permission denied", failed=True, command="ls")
    _, shaper, out = shaped(failure, *message("NO_REPLY"), END)
    assert shaper.payloads == (ReplyPayload(text="⚠️ exec failed.", kind="error"),)
    assert [each.payload.kind for each in out if isinstance(each, NoteShaped)] == ["error"]
    assert "permission denied" in shaped(failure, END, verbose="full")[1].texts[-1]


@pytest.mark.parametrize(
    "events",
    [
        [tool("exec", "x", failed=True), *message("It did not work.")],
        [tool("exec", "x", failed=True), tool("exec", "ok"), *message("NO_REPLY")],
        [tool("message", "sent", message="It did not work."), tool("exec", "x", failed=True)],
    ],
)
def test_a_failed_tool_is_not_mentioned_when_something_was_said(events: list[Event]) -> None:
    assert not [each for each in shaped(*events, END)[2] if isinstance(each, NoteShaped)]


def test_an_answer_that_a_messaging_tool_has_sent_is_not_said_again() -> None:
    sent = tool("message", "ok", action="send", message="The report is in your inbox.", media="/r.pdf")
    said, shaper, _ = shaped(sent, *message("the report is in your inbox. 🎉"), END)
    assert said == "" and shaper.payloads == ()
    said, shaper, _ = shaped(sent, *message("Anything else I can do?\nMEDIA:/r.pdf"), END)
    assert said.strip() == "Anything else I can do?" and shaper.payloads == (
        ReplyPayload(text="Anything else I can do?"),
    )


def test_what_was_sent_elsewhere_does_not_count() -> None:
    sent = tool("message", "ok", action="send", to="someone else", message="The report is in your inbox.")
    assert shaped(sent, *message("The report is in your inbox."), END)[1].texts == ("The report is in your inbox.",)


def test_an_attempt_that_failed_leaves_nothing_behind() -> None:
    half: list[Event] = [CALLED, TextDelta("<think>half a"), AttemptFailed("p", "m", "timeout", "gone")]
    said, shaper, _ = shaped(*half, *message("Whole."), END)
    assert said == "Whole." and shaper.texts == ("Whole.",)


def test_a_message_that_was_not_streamed_is_said_at_its_end() -> None:
    said, _, _ = shaped(CALLED, MessageEnded(Assistant(content=(Text("All at once. NO_REPLY"),))), END)
    assert said.strip() == "All at once."


def test_no_word_of_a_cut_message_is_shown_that_may_be_internal() -> None:
    said, shaper, _ = shaped(CALLED, *[TextDelta(each) for each in "Hi <think>secret"])
    assert said.strip() == "Hi" and shaper.payloads == ()


PARTS = st.lists(
    st.sampled_from(
        """Hello|no|h|S|ME|word|.|:|*|_|`|```|~~~|[|[[|]]|[[reply_to_current]]|MEDIA:|MEDIA:/a|Source: |x.md|#L3|# Title
        |<think>|</think>|<final>|</final>|a < b|NO_REPLY|HEARTBEAT_OK|NO_|{|"action":|Reasoning| |  |\n|\n\n""".split(
            "|"
        )
    ),
    max_size=14,
).map("".join)


def halves(text: str, cuts: list[int]) -> list[Event]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [
        CALLED,
        *(TextDelta(text[a:b]) for a, b in pairwise(places)),
        MessageEnded(Assistant(content=(Text(text),))),
    ]


@given(PARTS, st.lists(st.integers(0, 200), max_size=12), st.booleans())
def test_however_a_message_arrives_what_streams_is_all_of_it(text: str, cuts: list[int], enforce: bool) -> None:
    said, _, out = shaped(*halves(text, cuts), enforce_final=enforce)
    (whole,) = [each.text for each in out if isinstance(each, ReplyShaped)]
    assert said == whole


def test_plain_words_are_shown_as_they_come() -> None:
    shaper = ReplyShaper()
    pieces = ["Painting ", "it red", ", So", " far. Me", "asure twice:\n", "- one\n", "- two", "\n\nDone."]
    shown = [
        "".join(each.text for each in shaper.take(TextDelta(piece)) if isinstance(each, TextShaped)) for piece in pieces
    ]
    assert shown == ["Painting ", "it red", ", So", " far. Me", "asure twice:", "\n- one", "\n- two", "\n\nDone."]
