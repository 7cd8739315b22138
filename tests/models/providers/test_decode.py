"""What is heard: streams with the quirks real servers have."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from openclaw.core.errors import BadResponse, ContextTooLong, ModelRefused, NetworkFailed, ProviderError, ServerFailed
from openclaw.core.messages import Assistant, Text, Thinking, ToolCall, Usage
from openclaw.core.provider import parse_arguments
from openclaw.models.providers.anthropic import MessagesDecoder
from openclaw.models.providers.errors import FaultOrigin
from openclaw.models.providers.google import GoogleDecoder
from openclaw.models.providers.http import Decoder, EventReader
from openclaw.models.providers.ollama import OllamaDecoder
from openclaw.models.providers.openai_chat import ChatDecoder
from openclaw.models.providers.openai_responses import ResponsesDecoder
from tests.models.providers.recorded import CHAT, DIALECTS, GEMINI, GREETING, MESSAGES, OLLAMA, RESPONSES, Dialect

ORIGIN = FaultOrigin(provider="acme", model="m")
KINDS: dict[str, type[Decoder]] = {
    "openai-completions": ChatDecoder,
    "openai-responses": ResponsesDecoder,
    "anthropic-messages": MessagesDecoder,
    "google-generative-ai": GoogleDecoder,
    "ollama": OllamaDecoder,
}


def decoder(dialect: Dialect) -> Decoder:
    return KINDS[dialect.api](dialect.model(), ORIGIN)


def heard(dialect: Dialect, events: Iterable[dict[str, Any]]) -> Assistant:
    """The message those events make."""
    reading = decoder(dialect)
    for event in events:
        list(reading.read(msgspec.json.encode(event)))
    assert reading.ended
    return reading.message()


def delta(finish: str | None = None, **given: Any) -> dict[str, Any]:
    return {"choices": [{"delta": given, "finish_reason": finish}]}


def tool(arguments: Any, **given: Any) -> dict[str, Any]:
    name = {"name": given.pop("name")} if "name" in given else {}
    return delta(tool_calls=[given | {"function": name | {"arguments": arguments}}])


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.api)
@pytest.mark.parametrize("data", [b"{}", b'{"type":"something.new","x":1}', b'{"choices":null,"candidates":null}'])
def test_what_is_not_known_is_passed_over(dialect: Dialect, data: bytes) -> None:
    reading = decoder(dialect)

    assert list(reading.read(data)) == []
    assert not reading.ended


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.api)
def test_what_cannot_be_read_is_an_error_of_reading(dialect: Dialect) -> None:
    with pytest.raises(msgspec.DecodeError):
        list(decoder(dialect).read(b"{oops"))


def test_chat_calls_told_apart_by_id_when_the_index_repeats() -> None:
    message = heard(
        CHAT,
        [
            tool('{"a":1}', index=0, id="x", name="one"),
            tool('{"b":2}', index=0, id="y", name="two"),
            delta("tool_calls"),
        ],
    )

    assert message.calls == (
        ToolCall(id="x", name="one", arguments={"a": 1}),
        ToolCall(id="y", name="two", arguments={"b": 2}),
    )


def test_chat_calls_with_arguments_as_an_object_and_no_id() -> None:
    message = heard(CHAT, [tool({"a": 1}, name="one"), delta("stop")])

    (call,) = message.calls
    assert (call.name, call.arguments, message.stop_reason) == ("one", {"a": 1}, "toolUse")
    assert call.id.startswith("call_")


def test_chat_arguments_that_are_not_json_are_marked_broken() -> None:
    message = heard(CHAT, [tool('{"a": ', index=0, id="x", name="one"), delta("length")])

    assert message.stop_reason == "length"
    assert message.calls[0].broken == '{"a": '


def test_chat_reasoning_details_are_joined_for_replay() -> None:
    message = heard(
        CHAT,
        [
            delta(reasoning="He", reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "He"}]),
            delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "llo", "signature": "sig"}]),
            delta(reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "abc"}]),
            delta("stop", content="hi"),
        ],
    )

    thought, text = message.content
    assert isinstance(thought, Thinking)
    assert thought.thinking == "Hello"
    assert msgspec.json.decode(thought.thinking_signature or "") == [
        {"type": "reasoning.text", "index": 0, "text": "Hello", "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 1, "data": "abc"},
    ]
    assert text == Text("hi")


def test_chat_content_in_parts_is_read() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes"},
    ]

    message = heard(CHAT, [delta("stop", content=parts)])

    assert (message.thinking, message.text) == ("hm", "yes")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, Usage(10, 2, 0, 0, 12)),
        ({"prompt_tokens": 10, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}, Usage(6, 2, 4, 0, 12)),
        (
            {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 17},
            Usage(10, 7, 0, 0, 17),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 5},
            },
            Usage(2, 2, 3, 5, 12),
        ),
        ({"prompt_tokens": None, "completion_tokens": None, "prompt_tokens_details": None}, Usage()),
    ],
)
def test_chat_usage_in_all_its_forms(usage: dict[str, Any], expected: Usage) -> None:
    for events in (
        [delta("stop", content="x"), {"choices": [], "usage": usage}],
        [{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop", "usage": usage}]}],
    ):
        found = heard(CHAT, events).usage
        assert msgspec.structs.replace(found, cost=None) == expected


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("content_filter", ModelRefused), ("error", ServerFailed), ("network_error", NetworkFailed)],
)
def test_chat_ends_that_are_failures(reason: str, kind: type[ProviderError]) -> None:
    with pytest.raises(kind):
        heard(CHAT, [delta(reason)])


def test_chat_that_only_says_done_is_done() -> None:
    reading = decoder(CHAT)
    for frame in EventReader("acme").feed(b'data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n'):
        list(reading.read(frame))

    assert reading.complete
    assert reading.message().stop_reason == "stop"


def test_responses_that_were_not_streamed_are_taken_from_the_end() -> None:
    output = [
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "e"},
        {"type": "message", "id": "m", "phase": "commentary", "content": [{"type": "output_text", "text": GREETING}]},
        {"type": "function_call", "id": "f", "call_id": "c", "name": "read", "arguments": '{"a":1}'},
    ]

    message = heard(RESPONSES, [{"type": "response.completed", "response": {"output": output}}])

    thought, text, call = message.content
    assert isinstance(thought, Thinking)
    assert thought.thinking == "hm"
    assert text == Text(GREETING, '{"id":"m","phase":"commentary"}')
    assert call == ToolCall(id="c", name="read", arguments={"a": 1}, signature="f")
    assert message.stop_reason == "toolUse"


def test_responses_parts_of_a_summary_are_paragraphs() -> None:
    def part(index: int, text: str) -> dict[str, Any]:
        return {"type": "response.reasoning_summary_text.delta", "summary_index": index, "delta": text}

    end = {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}}
    message = heard(RESPONSES, [part(0, "one"), part(1, "two"), part(1, "!"), end])

    assert message.thinking == "one\n\ntwo!"
    assert message.stop_reason == "length"


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}},
            ModelRefused,
        ),
        ({"type": "error", "code": "context_length_exceeded", "message": "too long"}, ContextTooLong),
        ({"type": "error", "error": {"type": "server_error", "message": "oops"}}, ServerFailed),
        ({"type": "response.failed", "response": {"error": None}}, ServerFailed),
    ],
)
def test_responses_ends_that_are_failures(event: dict[str, Any], kind: type[ProviderError]) -> None:
    with pytest.raises(kind):
        heard(RESPONSES, [event])


def ends(reason: str) -> list[dict[str, Any]]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}}, {"type": "message_stop"}]


def test_claude_hides_a_thought_and_it_is_kept() -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "redacted_thinking", "data": "blob"}}

    assert heard(MESSAGES, [start, *ends("end_turn")]).content == (Thinking("", "blob", redacted=True),)


def test_claude_like_servers_may_give_a_call_at_once() -> None:
    block = {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "a"}}
    events: list[dict[str, Any]] = [
        {"type": "content_block_start", "content_block": block},
        {"type": "content_block_stop"},
    ]

    assert heard(MESSAGES, [*events, *ends("tool_use")]).calls == (
        ToolCall(id="t", name="read", arguments={"path": "a"}),
    )


def test_what_claude_writes_replaces_what_a_call_began_with() -> None:
    block = {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "draft"}}
    events: list[dict[str, Any]] = [
        {"type": "content_block_start", "content_block": block},
        {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": '{"path":"a"}'}},
        {"type": "content_block_stop"},
    ]

    assert heard(MESSAGES, [*events, *ends("tool_use")]).calls[0].arguments == {"path": "a"}


def test_what_claude_runs_itself_is_not_ours_to_run() -> None:
    block = {"type": "server_tool_use", "id": "t", "name": "web_search", "input": {}}
    part = {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": '{"q":1}'}}

    assert (
        heard(MESSAGES, [{"type": "content_block_start", "content_block": block}, part, *ends("end_turn")]).calls == ()
    )


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("new", "stop"),
    ],
)
def test_claude_stops(reason: str, stop: str) -> None:
    assert heard(MESSAGES, ends(reason)).stop_reason == stop


def test_claude_without_room_asks_for_a_shorter_conversation() -> None:
    with pytest.raises(ContextTooLong):
        heard(MESSAGES, ends("model_context_window_exceeded"))


def test_claude_declines_with_a_reason() -> None:
    end = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": {"explanation": "not that"}}}

    with pytest.raises(ModelRefused, match="acme declined to answer: not that"):
        heard(MESSAGES, [end])


def says(*parts: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}} | ({"finishReason": finish} if finish else {})]}


def test_gemini_signatures_stay_with_their_parts() -> None:
    message = heard(
        GEMINI,
        [
            says({"text": "hm", "thought": True}),
            says({"text": "one"}, {"text": " two", "thoughtSignature": "s1"}),
            says({"text": "three"}),
            says({"functionCall": {"name": "read", "args": {"a": 1}}, "thoughtSignature": "s2"}),
            says({"functionCall": {"name": "read"}}, finish="STOP"),
        ],
    )

    thought, first, second, signed, plain = message.content
    assert (thought, first, second) == (Thinking("hm"), Text("one two", "s1"), Text("three"))
    assert isinstance(signed, ToolCall)
    assert isinstance(plain, ToolCall)
    assert (signed.signature, plain.signature) == ("s2", None)
    assert signed.id != plain.id
    assert message.stop_reason == "toolUse"


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (says(finish="SAFETY"), ModelRefused),
        (says(finish="PROHIBITED_CONTENT"), ModelRefused),
        (says(finish="MALFORMED_FUNCTION_CALL"), BadResponse),
        ({"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"}}, ModelRefused),
    ],
)
def test_gemini_ends_that_are_failures(event: dict[str, Any], kind: type[ProviderError]) -> None:
    with pytest.raises(kind):
        heard(GEMINI, [event])


def test_gemini_stops_at_its_limit() -> None:
    assert heard(GEMINI, [says({"text": "x"}, finish="MAX_TOKENS")]).stop_reason == "length"


def test_ollama_stops_at_its_limit_and_counts() -> None:
    message = heard(OLLAMA, [{"message": {"content": "x"}, "done": True, "done_reason": "length", "eval_count": 3}])

    assert (message.stop_reason, message.usage.output) == ("length", 3)


@pytest.mark.parametrize(
    ("raw", "whole", "arguments"),
    [
        ('```json\n{"path": "a"}\n```', True, {"path": "a"}),
        ('{"path": "a", "edits": [{"old": "}"}', True, {"path": "a", "edits": [{"old": "}"}]}),
        ('{"path": "a"', True, {"path": "a"}),
        ('{"path": "a"', False, None),
        ('{"path": "a', True, None),
        ('{"path":', True, None),
        ('{"path": "a"]', True, None),
        ('{"path": "\\\\"', True, {"path": "\\"}),
    ],
)
def test_arguments_are_repaired_only_where_nothing_is_guessed(raw: str, whole: bool, arguments: Any) -> None:
    parsed, broken = parse_arguments(raw, whole=whole)
    assert (parsed if broken is None else None) == arguments
