"""What the terminal shows of a conversation, from the gateway's words."""

from typing import Any

import pytest

from openclaw.cli.tui.composer import completions
from openclaw.cli.tui.conversation import MOST_ROWS, ChatConversation, Pending
from openclaw.cli.tui.rows import Item, TextItem, ToolCard
from openclaw.cli.tui.status import StatusLine, line
from openclaw.cli.tui.text import MarkdownPiece, last_lines, one_line, pretty, sanitize, split_markdown

pytest.importorskip("rich", reason="needs textual: the extra tui")

KEY = "agent:main:main"


def user(number: int, text: str, run: str = "") -> dict[str, Any]:
    about = {"id": f"e{number}", "seq": number, **({"idempotencyKey": f"{run}:user"} if run else {})}
    return {"role": "user", "content": text, "__openclaw": about}


def assistant(number: int, text: str, *tool_calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    content = [*([{"type": "text", "text": text}] if text else []), *tool_calls]
    return {"role": "assistant", "content": content, "__openclaw": {"id": f"e{number}", "seq": number}, **more}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": "c1", "name": name, "arguments": arguments}


def history(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"sessionKey": KEY, "messages": list(messages), "hasMore": False, **more}


def recorded(talk: ChatConversation, message: dict[str, Any], run: str) -> None:
    about = message["__openclaw"]
    talk.hear("session.message", {"sessionKey": KEY, "runId": run, "messageId": about["id"], "message": message})


def agent(talk: ChatConversation, run: str, stream: str, **data: Any) -> None:
    talk.hear("agent", {"sessionKey": KEY, "runId": run, "stream": stream, "data": data})


def ended(talk: ChatConversation, run: str, state: str = "final", **more: Any) -> None:
    talk.hear("chat", {"sessionKey": KEY, "runId": run, "state": state, **more})


def lines(talk: ChatConversation) -> list[tuple[str, str]]:
    return [(item.who, item.text) if isinstance(item, TextItem) else ("card", item.name) for item in talk.items()]


def keys(items: list[Item]) -> list[str]:
    return [item.key for item in items]


def fresh(*messages: dict[str, Any]) -> ChatConversation:
    talk = ChatConversation()
    talk.load(history(*messages))
    return talk


def test_a_message_keeps_its_place_from_typing_to_the_record() -> None:
    talk = fresh()
    talk.pending.append(Pending(run_id="r1", text="hello", sent=True))
    assert keys(talk.items()) == ["r1"]
    recorded(talk, user(1, "hello", "r1"), "r1")
    agent(talk, "r1", "assistant", text="Hi th", delta="Hi th")
    streaming = keys(talk.items())
    recorded(talk, assistant(2, "Hi there"), "r1")
    ended(talk, "r1")
    assert lines(talk) == [("you", "hello"), ("assistant", "Hi there")]
    assert keys(talk.items()) == streaming, "nothing is taken off the screen to be put there again"


def test_hearing_twice_shows_once() -> None:
    talk = fresh(user(1, "hello", "r1"))
    for _ in range(2):
        recorded(talk, assistant(2, "Hi"), "r1")
        agent(talk, "r2", "assistant", text="More", delta="More")
    assert lines(talk) == [("you", "hello"), ("assistant", "Hi"), ("assistant", "More")]


def test_the_second_message_of_a_run_does_not_repeat_the_first() -> None:
    talk = fresh(user(1, "go", "r1"))
    agent(talk, "r1", "assistant", text="Looking.", delta="Looking.")
    recorded(talk, assistant(2, "Looking.", call("read", path="a.txt")), "r1")
    agent(talk, "r1", "tool", phase="start", toolCallId="c1", name="read", args={"path": "a.txt"})
    agent(
        talk, "r1", "tool", phase="update", toolCallId="c1", partialResult={"content": [{"type": "text", "text": "x"}]}
    )
    card = talk.items()[-1]
    assert isinstance(card, ToolCard) and (card.state, card.summary, card.output) == ("running", "a.txt", "x")
    agent(talk, "r1", "assistant", text="Looking.\n\nDone", delta="\n\nDone")
    assert lines(talk)[-1] == ("assistant", "Done")


def test_joining_late_shows_the_unfinished_answer_once() -> None:
    talk = ChatConversation()
    running = {"runId": "r1", "text": "Looking.\n\nHalf an ans"}
    talk.load(history(user(1, "go", "r1"), assistant(2, "Looking.", call("read")), inFlightRun=running))
    assert lines(talk) == [("you", "go"), ("assistant", "Looking."), ("card", "read"), ("assistant", "Half an ans")]
    agent(talk, "r1", "assistant", text="Looking.\n\nHalf an answer", delta="wer")
    assert lines(talk)[-1] == ("assistant", "Half an answer")


def test_what_a_failed_attempt_said_is_taken_back() -> None:
    talk = fresh(user(1, "go", "r1"))
    agent(talk, "r1", "assistant", text="Wro", delta="Wro")
    agent(talk, "r1", "lifecycle", phase="fallback_step", provider="a", model="b", error="overloaded")
    assert lines(talk) == [("you", "go")] and talk.note == "a/b: overloaded"
    agent(talk, "r1", "assistant", text="Right", delta="Right")
    assert lines(talk)[-1] == ("assistant", "Right")


def test_a_reply_of_the_gateway_stays_where_it_was_given() -> None:
    talk = fresh(user(1, "a", "r1"), assistant(2, "b"))
    talk.pending.append(Pending(run_id="r2", text="/status", sent=True))
    talk.answered("r2", "Model: x")
    recorded(talk, user(3, "c", "r3"), "r3")
    expected = [("you", "a"), ("assistant", "b"), ("you", "/status"), ("gateway", "Model: x"), ("you", "c")]
    assert lines(talk) == expected
    talk.load(history(user(1, "a", "r1"), assistant(2, "b"), user(3, "c", "r3")))
    assert lines(talk) == expected
    talk.load({**history(), "sessionKey": "agent:main:other"})
    assert lines(talk) == []


def test_errors_and_stops_are_told_apart() -> None:
    talk = fresh(user(1, "go", "r1"))
    agent(talk, "r1", "assistant", text="Ha", delta="Ha")
    ended(talk, "r1", "error", errorMessage="no key")
    assert lines(talk) == [("you", "go"), ("problem", "no key")]
    assert not talk.running
    talk.load(history(user(1, "go", "r1"), assistant(2, "Ha", stopReason="aborted", errorMessage="stopped by user")))
    assert lines(talk)[1:] == [("assistant", "Ha"), ("gateway", "stopped")]


def test_a_call_nobody_will_finish_does_not_look_busy() -> None:
    talk = fresh(user(1, "go"), assistant(2, "", call("exec", command="sleep 9")))
    card = talk.items()[-1]
    assert isinstance(card, ToolCard) and card.state == "failed"


def test_a_long_conversation_lets_go_of_its_beginning() -> None:
    talk = fresh(*(user(number, f"m{number}") for number in range(1, MOST_ROWS + 2)))
    talk.trim()
    assert talk.more and talk.held == MOST_ROWS // 2
    assert lines(talk)[-1] == ("you", f"m{MOST_ROWS + 1}")


def test_events_of_other_conversations_are_nothing_to_us() -> None:
    talk = fresh()
    talk.hear("agent", {"sessionKey": "agent:main:other", "runId": "r", "stream": "assistant", "data": {"text": "x"}})
    assert lines(talk) == [] and not talk.running


def test_escape_sequences_and_hidden_characters_do_not_reach_the_terminal() -> None:
    assert sanitize("a\x1b]52;c;eA==\x07b\x9b31mc\u202ed\r\ne\tf") == "a]52;c;eA==b31mcd\ne   f"
    assert one_line("a\nb\x1b[2J   c") == "a b[2J c"
    assert sanitize("x" * 50, 10).startswith("x" * 10 + "\n\n… cut here: 40 more")
    assert (
        pretty({"path": "a", "edits": [{"old": "\u202e"}], "text": "1\n2"})
        == 'path: a\nedits: [{"old": ""}]\ntext:\n  1\n  2'
    )


def test_long_output_shows_its_end() -> None:
    text = "\n".join(str(number) for number in range(100))
    assert last_lines(text, 3) == "… 97 lines before\n97\n98\n99"
    assert last_lines("one\n", 3) == "one"


def test_commands_are_offered_by_their_beginning() -> None:
    status: dict[str, Any] = {"name": "status", "description": "how it is"}
    stop: dict[str, Any] = {"name": "stop", "description": "", "acceptsArgs": True}
    commands = [status, stop]
    assert [each.name for each in completions("/st", commands)] == ["status", "stop"]
    assert [each.name for each in completions("/Sess", commands)] == ["sessions"]
    assert completions("/status", commands) == ()
    assert completions("say /st", commands) == completions("", commands) == ()


def test_the_status_line_keeps_the_important_part_in_a_narrow_window() -> None:
    situation = StatusLine(
        connection="connected",
        info={
            "modelProvider": "p",
            "model": "m",
            "totalTokens": 1500,
            "contextTokens": 200_000,
            "estimatedCostUsd": 0.5,
        },
        defaults={},
        session_key=KEY,
        running=True,
        seconds=3,
        waiting=2,
    )
    assert line(situation, 100) == "answering 3 s · 2 waiting · p/m · main · 1.5k/200.0k tokens · $0.5000"
    assert line(situation, 30) == "answering 3 s · 2 waiting"
    assert len(line(situation, 8)) <= 8


def test_a_long_answer_is_cut_where_it_means_the_same() -> None:
    code = "```python\n" + "x = 1\n\n" * 40 + "```"
    text = f"# One\n\npara\n\n{code}\n\n1. item\n\n    more of it\n\n2. item\n\nend"
    cut = split_markdown(text, 5)
    assert "\n".join(cut) == text
    assert any(piece.startswith(code) for piece in cut) and any(
        piece.startswith("1. item\n\n    more") for piece in cut
    )
    assert len(cut) == 6
    assert split_markdown("short") == ["short"]


def test_entities_bring_nothing_hidden_back() -> None:
    drawn = "".join(
        each.content for token in MarkdownPiece("a&#x202e;b &#27;[31m &#x200b;").parsed for each in token.children or ()
    )
    assert drawn.isprintable() and drawn.startswith("ab")
