"""Streams as the five APIs send them, saying the same things: one greeting, two parallel calls, one thought."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.core.messages import Assistant, Text, Thinking, ToolCall, Usage
from openclaw.core.provider import Endpoint, Model, ModelApi, Price, Provider
from openclaw.core.secret import Secret
from openclaw.models.providers import anthropic, google, ollama, openai_chat, openai_responses

KEY = "sk-test-0123456789abcdef"
GREETING = "Hello, wörld 🌍"
THOUGHT = "Let me see."
CALLS = (("read", {"path": "a.txt"}), ("search", {"query": 'ü "q"', "limit": 2}))


def sse(*events: dict[str, Any], named: bool = False, done: bool = False) -> bytes:
    out = b""
    for event in events:
        name = f"event: {event['type']}\n".encode() if named else b""
        out += name + b"data: " + msgspec.json.encode(event) + b"\n\n"
    return out + (b"data: [DONE]\n\n" if done else b"")


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(msgspec.json.encode(event) + b"\n" for event in events)


class Dialect(Struct, frozen=True, kw_only=True):
    """One API: how it is built, and what it says."""

    api: ModelApi
    provider: str
    model_id: str
    build: Callable[[Endpoint], Provider]
    path: str
    key_header: tuple[str, str]
    greeting: bytes
    calls: bytes
    thought: bytes
    usage: Usage
    cut: bytes
    """A beginning without an end."""
    broken: bytes
    """An error in the middle of the stream."""
    overflow: tuple[int, bytes]
    refusal: bytes
    call_ids: tuple[str, ...] = ()
    signature: str | None = None
    base: str = ""
    content_type: str = "text/event-stream"

    def model(self, url: str = "", **changes: Any) -> Model:
        given: dict[str, Any] = {
            "provider": self.provider,
            "id": self.model_id,
            "api": self.api,
            "base_url": url + self.base if url else "",
            "reasoning": True,
            "input": ("text", "image"),
            "price": Price(1.0, 2.0, 0.1, 1.25),
        }
        return Model(**(given | changes))

    def endpoint(self, url: str, **changes: Any) -> Endpoint:
        given: dict[str, Any] = {
            "provider": self.provider,
            "api": self.api,
            "base_url": url + self.base,
            "key": Secret(KEY),
        }
        return Endpoint(**(given | changes))

    def message(self, *content: Text | Thinking | ToolCall, **changes: Any) -> Assistant:
        return Assistant(
            content=content, api=self.api, provider=self.provider, model=self.model_id, stop_reason="stop", **changes
        )


def _chat(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-5.2",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def _chat_call(index: int, arguments: str, call_id: str | None = None, name: str | None = None) -> dict[str, Any]:
    function: dict[str, Any] = {"arguments": arguments} | ({"name": name} if name else {})
    part = {"index": index, "function": function} | ({"id": call_id, "type": "function"} if call_id else {})
    return {"tool_calls": [part]}


_CHAT_USAGE = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "gpt-5.2",
    "choices": [],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 90},
        "completion_tokens_details": {"reasoning_tokens": 5},
    },
}

CHAT = Dialect(
    api="openai-completions",
    provider="openai",
    model_id="gpt-5.2",
    build=openai_chat.OpenAIChat,
    base="/v1",
    path="/v1/chat/completions",
    key_header=("authorization", f"Bearer {KEY}"),
    greeting=sse(
        _chat({"role": "assistant", "content": ""}),
        _chat({"content": "Hello, "}),
        _chat({"content": "wörld 🌍"}),
        _chat({}, "stop"),
        _CHAT_USAGE,
        done=True,
    ),
    calls=sse(
        _chat({"role": "assistant", "content": None}),
        _chat(_chat_call(0, "", "call_A", "read")),
        _chat(_chat_call(1, "", "call_B", "search")),
        _chat(_chat_call(0, '{"path":')),
        _chat(_chat_call(1, '{"query":"ü \\"q\\"",')),
        _chat(_chat_call(0, ' "a.txt"}')),
        _chat(_chat_call(1, '"limit":2}')),
        _chat({}, "tool_calls"),
        _CHAT_USAGE,
        done=True,
    ),
    thought=sse(
        _chat({"role": "assistant", "reasoning_content": "Let me "}),
        _chat({"reasoning_content": "see."}),
        _chat({"content": GREETING}),
        _chat({}, "stop"),
        _CHAT_USAGE,
        done=True,
    ),
    usage=Usage(10, 20, 90, 0),
    call_ids=("call_A", "call_B"),
    cut=sse(_chat({"content": "Hel"})),
    broken=sse(
        _chat({"content": "Hel"}),
        {"error": {"message": "The server is overloaded", "type": "server_error", "code": 503}},
    ),
    overflow=(
        400,
        b'{"error":{"message":"This model\'s maximum context length is 128000 tokens.","type":"invalid_request_error",'
        b'"code":"context_length_exceeded"}}',
    ),
    refusal=sse(_chat({"refusal": "I cannot help with that."}), _chat({}, "stop"), done=True),
)


def _item(index: int, kind: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": f"response.output_item.{kind}", "output_index": index, "sequence_number": 1, "item": item}


def _response(status: str, output: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5.2",
        "status": status,
        "output": output or [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    return given | more


def _completed(output: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 90, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120,
    }
    return {"type": "response.completed", "sequence_number": 9, "response": _response("completed", output, usage=usage)}


_CREATED = {"type": "response.created", "sequence_number": 0, "response": _response("in_progress")}
_SPOKEN = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": GREETING, "annotations": []}],
}
_REASONED = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": THOUGHT}],
    "encrypted_content": "c2VhbGVk",
}
_FUNCTIONS = [
    {
        "type": "function_call",
        "id": "fc_A",
        "call_id": "call_A",
        "name": "read",
        "arguments": '{"path": "a.txt"}',
        "status": "completed",
    },
    {
        "type": "function_call",
        "id": "fc_B",
        "call_id": "call_B",
        "name": "search",
        "arguments": '{"query":"ü \\"q\\"","limit":2}',
        "status": "completed",
    },
]


def _said(index: int, text: str) -> dict[str, Any]:
    return {
        "type": "response.output_text.delta",
        "item_id": "msg_1",
        "output_index": index,
        "content_index": 0,
        "sequence_number": 2,
        "logprobs": [],
        "delta": text,
    }


def _arguments(index: int, text: str) -> dict[str, Any]:
    return {
        "type": "response.function_call_arguments.delta",
        "item_id": "fc_A" if index == 0 else "fc_B",
        "output_index": index,
        "sequence_number": 3,
        "delta": text,
    }


def _summed(text: str) -> dict[str, Any]:
    return {
        "type": "response.reasoning_summary_text.delta",
        "item_id": "rs_1",
        "output_index": 0,
        "summary_index": 0,
        "sequence_number": 1,
        "delta": text,
    }


RESPONSES = Dialect(
    api="openai-responses",
    provider="openai",
    model_id="gpt-5.2",
    build=openai_responses.OpenAIResponses,
    base="/v1",
    path="/v1/responses",
    key_header=("authorization", f"Bearer {KEY}"),
    greeting=sse(
        _CREATED,
        _item(0, "added", _SPOKEN | {"content": [], "status": "in_progress"}),
        _said(0, "Hello, "),
        _said(0, "wörld 🌍"),
        _item(0, "done", _SPOKEN),
        _completed([_SPOKEN]),
        named=True,
    ),
    calls=sse(
        _CREATED,
        _item(0, "added", _FUNCTIONS[0] | {"arguments": "", "status": "in_progress"}),
        _item(1, "added", _FUNCTIONS[1] | {"arguments": "", "status": "in_progress"}),
        _arguments(0, '{"path":'),
        _arguments(1, '{"query":"ü \\"q\\"",'),
        _arguments(0, ' "a.txt"}'),
        _arguments(1, '"limit":2}'),
        _item(0, "done", _FUNCTIONS[0]),
        _item(1, "done", _FUNCTIONS[1]),
        _completed(_FUNCTIONS),
        named=True,
    ),
    thought=sse(
        _CREATED,
        _item(0, "added", {"type": "reasoning", "id": "rs_1", "summary": []}),
        _summed("Let me "),
        _summed("see."),
        _item(0, "done", _REASONED),
        _item(1, "added", _SPOKEN | {"content": [], "status": "in_progress"}),
        _said(1, GREETING),
        _item(1, "done", _SPOKEN),
        _completed([_REASONED, _SPOKEN]),
        named=True,
    ),
    usage=Usage(10, 20, 90, 0),
    call_ids=("call_A", "call_B"),
    signature=msgspec.json.encode(_REASONED).decode(),
    cut=sse(_CREATED, _said(0, "Hel"), named=True),
    broken=sse(
        _CREATED,
        _said(0, "Hel"),
        {
            "type": "response.failed",
            "sequence_number": 3,
            "response": _response("failed", error={"code": "server_error", "message": "The model is overloaded"}),
        },
        named=True,
    ),
    overflow=(
        400,
        b'{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error",'
        b'"code":"context_length_exceeded"}}',
    ),
    refusal=sse(
        _CREATED,
        {
            "type": "response.refusal.delta",
            "item_id": "msg_1",
            "output_index": 0,
            "content_index": 0,
            "sequence_number": 2,
            "delta": "I cannot help with that.",
        },
        _completed([]),
        named=True,
    ),
)


def _start() -> dict[str, Any]:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 90,
        "cache_creation_input_tokens": 7,
        "output_tokens": 1,
    }
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return {"type": "message_start", "message": message}


def _block(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, kind: str, **given: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind} | given}


def _stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def _end(reason: str) -> tuple[dict[str, Any], dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 20}}, {"type": "message_stop"}


MESSAGES = Dialect(
    api="anthropic-messages",
    provider="anthropic",
    model_id="claude-sonnet-4-5",
    build=anthropic.Anthropic,
    path="/v1/messages",
    key_header=("x-api-key", KEY),
    greeting=sse(
        _start(),
        _block(0, {"type": "text", "text": ""}),
        {"type": "ping"},
        _delta(0, "text_delta", text="Hello, "),
        _delta(0, "text_delta", text="wörld 🌍"),
        _stop(0),
        *_end("end_turn"),
        named=True,
    ),
    calls=sse(
        _start(),
        _block(0, {"type": "tool_use", "id": "toolu_A", "name": "read", "input": {}}),
        _delta(0, "input_json_delta", partial_json=""),
        _delta(0, "input_json_delta", partial_json='{"path":'),
        _block(1, {"type": "tool_use", "id": "toolu_B", "name": "search", "input": {}}),
        _delta(1, "input_json_delta", partial_json='{"query":"ü \\"q\\"",'),
        _delta(0, "input_json_delta", partial_json=' "a.txt"}'),
        _delta(1, "input_json_delta", partial_json='"limit":2}'),
        _stop(0),
        _stop(1),
        *_end("tool_use"),
        named=True,
    ),
    thought=sse(
        _start(),
        _block(0, {"type": "thinking", "thinking": "", "signature": ""}),
        _delta(0, "thinking_delta", thinking="Let me "),
        _delta(0, "thinking_delta", thinking="see."),
        _delta(0, "signature_delta", signature="EqQBsig"),
        _stop(0),
        _block(1, {"type": "text", "text": ""}),
        _delta(1, "text_delta", text=GREETING),
        _stop(1),
        *_end("end_turn"),
        named=True,
    ),
    usage=Usage(10, 20, 90, 7),
    call_ids=("toolu_A", "toolu_B"),
    signature="EqQBsig",
    cut=sse(_start(), _block(0, {"type": "text", "text": ""}), _delta(0, "text_delta", text="Hel"), named=True),
    broken=sse(_start(), {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, named=True),
    overflow=(
        400,
        b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000'
        b' maximum"}}',
    ),
    refusal=sse(_start(), *_end("refusal"), named=True),
)


def _gemini(*parts: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    chunk: dict[str, Any] = {
        "candidates": [candidate | ({"finishReason": finish} if finish else {})],
        "modelVersion": "gemini-2.5-flash",
        "responseId": "r1",
    }
    if finish:
        chunk["usageMetadata"] = {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 90,
            "candidatesTokenCount": 15,
            "thoughtsTokenCount": 5,
            "totalTokenCount": 120,
        }
    return chunk


GEMINI = Dialect(
    api="google-generative-ai",
    provider="google",
    model_id="gemini-2.5-flash",
    build=google.Google,
    base="/v1beta",
    path="/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
    key_header=("x-goog-api-key", KEY),
    greeting=sse(_gemini({"text": "Hello, "}), _gemini({"text": "wörld 🌍"}, finish="STOP")),
    calls=sse(
        _gemini(
            {"functionCall": {"id": "A1", "name": "read", "args": {"path": "a.txt"}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"id": "B2", "name": "search", "args": {"query": 'ü "q"', "limit": 2}}},
        ),
        _gemini({"text": ""}, finish="STOP"),
    ),
    thought=sse(
        _gemini({"text": "Let me ", "thought": True}),
        _gemini({"text": "see.", "thought": True}),
        _gemini({"text": GREETING}),
        _gemini({"text": "", "thoughtSignature": "c2ln"}, finish="STOP"),
    ),
    usage=Usage(10, 20, 90, 0),
    call_ids=("A1", "B2"),
    cut=sse(_gemini({"text": "Hel"})),
    broken=sse(
        _gemini({"text": "Hel"}),
        {
            "error": {
                "code": 503,
                "message": "The model is overloaded. Please try again later.",
                "status": "UNAVAILABLE",
            }
        },
    ),
    overflow=(
        400,
        b'{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed'
        b' (1048576).","status":"INVALID_ARGUMENT"}}',
    ),
    refusal=sse(_gemini(finish="SAFETY")),
)


def _line(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    given = {"model": "qwen3:8b", "created_at": "2026-01-01T00:00:00Z"}
    return given | {"message": {"role": "assistant"} | message, "done": False} | more


_OLLAMA_END = _line({"content": ""}, done=True, done_reason="stop", prompt_eval_count=100, eval_count=20)

OLLAMA = Dialect(
    api="ollama",
    provider="ollama",
    model_id="qwen3:8b",
    build=ollama.Ollama,
    path="/api/chat",
    key_header=("authorization", f"Bearer {KEY}"),
    greeting=lines(_line({"content": "Hello, "}), _line({"content": "wörld 🌍"}), _OLLAMA_END),
    calls=lines(
        _line({"content": "", "tool_calls": [{"function": {"name": "read", "arguments": {"path": "a.txt"}}}]}),
        _line(
            {
                "content": "",
                "tool_calls": [{"function": {"name": "search", "arguments": {"query": 'ü "q"', "limit": 2}}}],
            }
        ),
        _OLLAMA_END,
    ),
    thought=lines(
        _line({"content": "", "thinking": "Let me "}),
        _line({"content": "", "thinking": "see."}),
        _line({"content": GREETING}),
        _OLLAMA_END,
    ),
    usage=Usage(100, 20, 0, 0),
    cut=lines(_line({"content": "Hel"})),
    broken=lines(_line({"content": "Hel"}), {"error": "the runner is overloaded"}),
    overflow=(400, b'{"error":"the prompt exceeds the available context size"}'),
    refusal=b"",
    content_type="application/x-ndjson",
)

DIALECTS = (CHAT, RESPONSES, MESSAGES, GEMINI, OLLAMA)
