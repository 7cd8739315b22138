"""What is sent: one request, said in five languages."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from openclaw.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult, User
from openclaw.core.provider import Compat, Model, ModelRequest, System, ThinkingLevel
from openclaw.core.tool import ToolSpec
from openclaw.models.providers import anthropic, google, ollama, openai_chat, openai_responses
from openclaw.models.providers.anthropic import version_of
from openclaw.models.providers.encode import to_bytes
from tests.models.providers.recorded import CHAT, DIALECTS, GEMINI, MESSAGES, OLLAMA, RESPONSES, Dialect

READ = ToolSpec(
    name="read",
    label="Read",
    description="Reads a file.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string", "minLength": 1}, "minLength": {"type": "integer"}},
        "required": ["path"],
    },
)
HI = User(content="hi")
PIXEL = Image("aGVsbG8=", "image/png")
ENCODERS: dict[str, Callable[[ModelRequest], dict[str, Any]]] = {
    "openai-completions": openai_chat.encode,
    "openai-responses": openai_responses.encode,
    "anthropic-messages": anthropic.encode,
    "google-generative-ai": google.encode,
    "ollama": ollama.encode,
}


def body(dialect: Dialect, *messages: Message, model: Model | None = None, **changes: Any) -> dict[str, Any]:
    request = ModelRequest(model=model or dialect.model(), messages=messages or (HI,), **changes)
    encoded: dict[str, Any] = msgspec.json.decode(to_bytes(ENCODERS[dialect.api](request)))
    return encoded


def used(dialect: Dialect) -> tuple[Message, ...]:
    """A conversation with two calls and their results, the second of which failed and came with an image."""
    asked = Assistant(
        content=(
            Text("Looking."),
            ToolCall(id="c1", name="read", arguments={"path": "a"}),
            ToolCall(id="c2", name="read"),
        ),
        api=dialect.api,
        provider=dialect.provider,
        model=dialect.model_id,
        stop_reason="toolUse",
    )
    return (
        HI,
        asked,
        ToolResult(tool_call_id="c1", tool_name="read", content=(Text("A"),)),
        ToolResult(tool_call_id="c2", tool_name="read", content=(Text("B"), PIXEL), is_error=True),
    )


def test_chat_says_a_tool_conversation() -> None:
    messages = body(CHAT, *used(CHAT), system=System("s", "d"))["messages"]

    assert messages == [
        {"role": "developer", "content": "s\nd"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}},
                {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "A"},
        {"role": "tool", "tool_call_id": "c2", "content": "B"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Images from the tool results above:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}},
            ],
        },
    ]


def test_responses_says_a_tool_conversation() -> None:
    sent = body(RESPONSES, *used(RESPONSES), system=System("s", "d"))

    assert sent["instructions"] == "s\nd"
    assert sent["input"] == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "message", "role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"a"}'},
        {"type": "function_call", "call_id": "c2", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "A"},
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": [
                {"type": "input_text", "text": "B"},
                {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGVsbG8="},
            ],
        },
    ]


def test_messages_says_a_tool_conversation() -> None:
    sent = body(MESSAGES, *used(MESSAGES), User(content="well?"), system=System("s", "d"))
    mark = {"cache_control": {"type": "ephemeral"}}

    assert sent["system"] == [{"type": "text", "text": "s"} | mark, {"type": "text", "text": "d"}]
    assert sent["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
                {"type": "tool_use", "id": "c2", "name": "read", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "A"}]},
                {
                    "type": "tool_result",
                    "tool_use_id": "c2",
                    "is_error": True,
                    "content": [
                        {"type": "text", "text": "B"},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="},
                        },
                    ],
                },
                {"type": "text", "text": "well?"} | mark,
            ],
        },
    ]


def test_gemini_says_a_tool_conversation() -> None:
    sent = body(GEMINI, *used(GEMINI), system=System("s", "d"))

    assert sent["systemInstruction"] == {"parts": [{"text": "s"}, {"text": "d"}]}
    assert sent["contents"] == [
        {"role": "user", "parts": [{"text": "hi"}]},
        {
            "role": "model",
            "parts": [
                {"text": "Looking."},
                {"functionCall": {"id": "c1", "name": "read", "args": {"path": "a"}}},
                {"functionCall": {"id": "c2", "name": "read", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "c1", "name": "read", "response": {"output": "A"}}},
                {"functionResponse": {"id": "c2", "name": "read", "response": {"error": "B"}}},
                {"inlineData": {"mimeType": "image/png", "data": "aGVsbG8="}},
            ],
        },
    ]


def test_ollama_says_a_tool_conversation() -> None:
    sent = body(OLLAMA, *used(OLLAMA), system=System("s", "d"))

    assert sent["messages"] == [
        {"role": "system", "content": "s\nd"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {"function": {"name": "read", "arguments": {"path": "a"}}},
                {"function": {"name": "read", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "A", "tool_name": "read"},
        {"role": "tool", "content": "B", "tool_name": "read"},
        {"role": "user", "content": "Images from the tool results above:", "images": ["aGVsbG8="]},
    ]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.api)
def test_keywords_an_endpoint_cannot_read_are_left_out(dialect: Dialect) -> None:
    compat = Compat(unsupported_tool_schema_keywords=("minLength",))

    sent = to_bytes(body(dialect, tools=(READ,), model=dialect.model(compat=compat))).decode()

    assert '"minLength":1' not in sent
    assert '"minLength":{"type":"integer"}' in sent


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.api)
def test_a_model_without_tools_is_offered_none(dialect: Dialect) -> None:
    assert "tools" not in body(dialect, tools=(READ,), model=dialect.model(compat=Compat(supports_tools=False)))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.api)
def test_half_a_character_does_not_stop_a_request(dialect: Dialect) -> None:
    assert "well \ufffd" in str(body(dialect, User(content="well \ud83d")))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.api)
def test_limits_are_what_is_asked_within_what_the_model_can(dialect: Dialect) -> None:
    def limit(**changes: Any) -> Any:
        model = dialect.model(reasoning=False, **changes.pop("model", {}))
        sent = body(dialect, model=model, **changes)
        found = sent | sent.get("generationConfig", {}) | sent.get("options", {})
        names = ("max_completion_tokens", "max_output_tokens", "max_tokens", "maxOutputTokens", "num_predict")
        return next((found[name] for name in names if name in found), None)

    assert limit(max_tokens=50, model={"max_tokens": 100}) == 50
    assert limit(max_tokens=500, model={"max_tokens": 100}) == 100
    assert limit(model={"max_tokens": 100}) == 100
    assert limit(model={"params": {"maxTokens": 70}}) == 70
    assert limit() == (8_192 if dialect is MESSAGES else None)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.api)
def test_parameters_reach_the_provider_and_the_runtimes_own_do_not(dialect: Dialect) -> None:
    params = {"temperature": 0.3, "top_p": 0.5, "fastMode": True, "extra_body": {"custom": 1}}

    sent = body(dialect, model=dialect.model(reasoning=False, params=params, id="m"))

    inner = sent | sent.get("generationConfig", {}) | sent.get("options", {})
    assert (inner["temperature"], inner["top_p"], sent["custom"]) == (0.3, 0.5, 1)
    assert "fastMode" not in inner
    assert "extra_body" not in inner
    assert body(dialect, model=dialect.model(reasoning=False, params=params, id="m"), temperature=0.9) != sent


def test_openai_itself_gets_what_others_may_not_know() -> None:
    plain: dict[str, Any] = {"cache_key": "agent:main", "temperature": 0.5, "tools": (READ,), "max_tokens": 9}
    there = body(CHAT, **plain)
    elsewhere = body(CHAT, model=CHAT.model("http://127.0.0.1:8000"), system=System("s"), **plain)

    assert there["prompt_cache_key"] == "agent:main"
    assert there["store"] is False
    assert there["tools"][0]["function"]["strict"] is False
    assert "temperature" not in there
    assert there["stream_options"] == {"include_usage": True}
    assert there["tool_choice"] == "auto"
    assert not {"prompt_cache_key", "store"} & elsewhere.keys()
    assert "strict" not in elsewhere["tools"][0]["function"]
    assert elsewhere["temperature"] == 0.5
    assert elsewhere["max_completion_tokens"] == 9
    assert elsewhere["messages"][0]["role"] == "system"


def test_compat_flags_are_obeyed() -> None:
    compat = Compat(
        supports_store=True,
        supports_prompt_cache_key=True,
        supports_developer_role=True,
        supports_reasoning_effort=False,
        supports_temperature=False,
        supports_usage_in_streaming=False,
        requires_string_content=True,
        requires_tool_result_name=True,
        max_tokens_field="max_tokens",
    )
    model = CHAT.model("http://127.0.0.1:8000", compat=compat)
    sent = body(
        CHAT,
        *used(CHAT),
        model=model,
        system=System("s"),
        cache_key="k",
        temperature=1.0,
        max_tokens=5,
        thinking="high",
    )

    assert (sent["store"], sent["prompt_cache_key"], sent["max_tokens"]) == (False, "k", 5)
    assert not {"stream_options", "temperature", "reasoning_effort", "max_completion_tokens"} & sent.keys()
    assert sent["messages"][0]["role"] == "system"
    assert all(isinstance(message["content"], str) for message in sent["messages"])
    assert [message["name"] for message in sent["messages"] if message["role"] == "tool"] == ["read", "read"]


def test_mistral_wants_ids_of_nine() -> None:
    model = CHAT.model("https://api.mistral.ai", provider="mistral", id="magistral")

    messages = body(CHAT, *used(CHAT), model=model)["messages"]

    ids = [call["id"] for call in messages[1]["tool_calls"]]
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == ids
    assert all(len(one) == 9 and one.isalnum() for one in ids)


@pytest.mark.parametrize(
    ("shape", "off", "on"),
    [
        ("zai", {"thinking": {"type": "disabled"}}, {"thinking": {"type": "enabled"}}),
        ("deepseek", {"thinking": {"type": "disabled"}}, {"thinking": {"type": "enabled"}}),
        ("qwen", {"enable_thinking": False}, {"enable_thinking": True}),
        ("openai", {}, {"reasoning_effort": "high"}),
    ],
)
def test_thinking_is_asked_for_in_the_hosts_own_way(shape: Any, off: dict[str, Any], on: dict[str, Any]) -> None:
    model = CHAT.model("http://127.0.0.1:1", id="m", compat=Compat(thinking_format=shape))
    silent = body(CHAT, model=CHAT.model("http://127.0.0.1:1", id="m", reasoning=False))

    assert body(CHAT, model=model) == silent | off
    assert body(CHAT, model=model, thinking="high") == silent | on


def thought_over(dialect: Dialect, signature: str | None) -> Assistant:
    return dialect.message(Thinking("hm", signature), Text("yes"))


def test_a_thought_goes_back_the_way_the_host_wants_it() -> None:
    def spoken(signature: str | None = None, **compat: Any) -> dict[str, Any]:
        model = CHAT.model(compat=Compat(**compat))
        found: dict[str, Any] = body(CHAT, HI, thought_over(CHAT, signature), HI, model=model)["messages"][1]
        return found

    assert spoken() == {"role": "assistant", "content": "yes"}
    assert spoken(thinking_format="deepseek")["reasoning_content"] == "hm"
    assert spoken(requires_thinking_as_text=True)["content"] == "hm\nyes"
    assert spoken('[{"type":"reasoning.text","text":"hm"}]')["reasoning_details"] == [
        {"type": "reasoning.text", "text": "hm"}
    ]


LEVELS: list[ThinkingLevel] = ["off", "minimal", "low", "medium", "high", "xhigh", "max", "adaptive"]


@pytest.mark.parametrize(
    ("dialect", "model_id", "expected"),
    [
        (CHAT, "gpt-5.2", ["none", "minimal", "low", "medium", "high", "xhigh", "max", None]),
        (CHAT, "gpt-5-mini", ["minimal", "minimal", "low", "medium", "high", "xhigh", "max", None]),
        (CHAT, "o3", ["low", "minimal", "low", "medium", "high", "xhigh", "max", None]),
        (CHAT, "mystery", [None, "minimal", "low", "medium", "high", "xhigh", "max", None]),
        (OLLAMA, "qwen3:8b", [False, True, True, True, True, True, True, True]),
        (OLLAMA, "gpt-oss:20b", ["low", "low", "low", "medium", "high", "high", "high", "medium"]),
    ],
)
def test_levels_of_thinking_as_effort(dialect: Dialect, model_id: str, expected: list[Any]) -> None:
    model = dialect.model(id=model_id)

    sent = [body(dialect, model=model, thinking=level) for level in LEVELS]

    assert [one.get("think", one.get("reasoning_effort")) for one in sent] == expected


def test_responses_keeps_nothing_there_and_gets_reasoning_sealed() -> None:
    sent = body(RESPONSES, thinking="high", cache_key="s", cache_retention="long", tools=(READ,))

    assert sent["store"] is False
    assert sent["include"] == ["reasoning.encrypted_content"]
    assert sent["reasoning"] == {"summary": "auto", "effort": "high"}
    assert (sent["prompt_cache_key"], sent["prompt_cache_retention"]) == ("s", "24h")
    assert sent["tools"][0]["strict"] is False
    assert "prompt_cache_key" not in body(RESPONSES, cache_key="s", cache_retention="none")
    assert "reasoning" not in body(RESPONSES, model=RESPONSES.model(reasoning=False))


@pytest.mark.parametrize(
    ("model_id", "version"),
    [
        ("claude-sonnet-4-5-20250929", (4, 5)),
        ("claude-sonnet-4-20250514", (4, 0)),
        ("claude-opus-4-6", (4, 6)),
        ("claude-3-7-sonnet-20250219", (3, 7)),
        ("claude-sonnet-5", (5, 0)),
        ("anthropic/claude-opus-4.6", (4, 6)),
        ("claude-mythos-preview", (5, 0)),
        ("minimax-m2", None),
    ],
)
def test_the_version_of_a_claude_is_in_its_name(model_id: str, version: tuple[int, int] | None) -> None:
    assert version_of(model_id) == version


def test_older_claudes_get_a_budget_and_room_for_it() -> None:
    def sent(level: ThinkingLevel, **changes: Any) -> tuple[Any, Any]:
        found = body(MESSAGES, thinking=level, max_tokens=4_000, model=MESSAGES.model(**changes))
        return found["max_tokens"], found.get("thinking")

    assert sent("off") == (4_000, None)
    assert sent("low") == (8_096, {"type": "enabled", "budget_tokens": 4_096})
    assert sent("high", max_tokens=8_000) == (8_000, {"type": "enabled", "budget_tokens": 6_976})
    assert sent("high", max_tokens=1_500) == (1_500, None)
    assert sent("high", reasoning=False) == (4_000, None)


def test_newer_claudes_get_an_effort() -> None:
    def sent(model_id: str, level: ThinkingLevel) -> tuple[Any, Any]:
        found = body(MESSAGES, thinking=level, model=MESSAGES.model(id=model_id))
        return (found.get("thinking") or {}).get("type"), found.get("output_config")

    assert sent("claude-opus-4-6", "medium") == ("adaptive", {"effort": "medium"})
    assert sent("claude-opus-4-6", "xhigh") == ("adaptive", {"effort": "high"})
    assert sent("claude-opus-4-8", "xhigh") == ("adaptive", {"effort": "xhigh"})
    assert sent("claude-opus-4-6", "adaptive") == ("adaptive", None)
    assert sent("claude-opus-4-6", "off") == (None, None)
    assert sent("claude-sonnet-5", "off") == ("disabled", None)
    assert sent("claude-fable-5", "off") == (None, None)


def test_a_turn_begun_without_thinking_goes_on_without() -> None:
    begun = used(CHAT)  # by another model, so that no thought of it can be replayed

    assert "thinking" not in body(MESSAGES, *begun, thinking="high")
    assert "thinking" in body(MESSAGES, *begun, User(content="next"), thinking="high")


def test_claude_takes_no_temperature_while_thinking() -> None:
    assert body(MESSAGES, temperature=0.2)["temperature"] == 0.2
    assert "temperature" not in body(MESSAGES, temperature=0.2, thinking="low")
    assert "temperature" not in body(MESSAGES, temperature=0.2, model=MESSAGES.model(id="claude-opus-4-8"))
    forced = MESSAGES.model(id="claude-opus-4-8", compat=Compat(supports_temperature=True))
    assert body(MESSAGES, temperature=0.2, model=forced)["temperature"] == 0.2


def test_claude_replays_its_thoughts_and_nobody_elses() -> None:
    mine = MESSAGES.message(
        Thinking("hm", "sig"), Thinking("", "blob", redacted=True), Thinking("unsigned"), Text("yes")
    )

    assert body(MESSAGES, HI, mine, HI)["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "blob"},
        {"type": "text", "text": "yes"},
    ]
    other = CHAT.message(Thinking("hm", "sig"), Text("yes"))
    assert body(MESSAGES, HI, other, HI)["messages"][1]["content"] == [{"type": "text", "text": "yes"}]


def test_caches_are_marked_where_the_prompt_is_stable() -> None:
    long = {"type": "ephemeral", "ttl": "1h"}
    both = body(MESSAGES, system=System("s", "d"), tools=(READ,), cache_retention="long")
    bare = body(MESSAGES, system=System("", "d"), tools=(READ,))
    none = body(MESSAGES, system=System("s", "d"), tools=(READ,), cache_retention="none")

    assert [block.get("cache_control") for block in both["system"]] == [long, None]
    assert both["messages"][-1]["content"][-1]["cache_control"] == long
    assert "cache_control" not in both["tools"][-1]
    assert bare["tools"][-1]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in str(none)


def test_gemini_thinks_by_level_or_by_budget() -> None:
    def sent(model_id: str, level: ThinkingLevel) -> Any:
        config = body(GEMINI, thinking=level, model=GEMINI.model(id=model_id))["generationConfig"]["thinkingConfig"]
        return config["includeThoughts"], config.get("thinkingLevel", config.get("thinkingBudget"))

    assert sent("gemini-2.5-flash", "off") == (False, 0)
    assert sent("gemini-2.5-pro", "off") == (False, 128)
    assert sent("gemini-2.5-flash", "medium") == (True, 8_192)
    assert sent("gemini-2.5-flash", "adaptive") == (True, -1)
    assert sent("gemini-3-flash-preview", "off") == (False, "MINIMAL")
    assert sent("gemini-3-pro-preview", "off") == (False, "LOW")
    assert sent("gemini-3-pro-preview", "medium") == (True, "HIGH")
    assert sent("gemini-3.1-pro", "medium") == (True, "MEDIUM")
    assert sent("gemini-3-flash-preview", "adaptive") == (True, None)


def test_gemini_gets_its_signatures_back_and_a_pass_for_others() -> None:
    modern = GEMINI.model(id="gemini-3-flash")
    mine = Assistant(
        content=(Text("x", "s1"), ToolCall(id="c1", name="read", signature="s2"), ToolCall(id="c2", name="read")),
        api=modern.api,
        provider=modern.provider,
        model=modern.id,
        stop_reason="toolUse",
    )

    def signs(*messages: Message) -> list[Any]:
        parts = body(GEMINI, *messages, model=modern)["contents"][1]["parts"]
        return [part.get("thoughtSignature") for part in parts]

    assert signs(HI, mine) == ["s1", "s2", None]
    assert signs(*used(CHAT)) == [None, google.NO_SIGNATURE, None]


def test_gemini_three_takes_images_inside_results() -> None:
    modern = GEMINI.model(id="gemini-3-flash")

    answer = body(GEMINI, *used(GEMINI), model=modern)["contents"][2]["parts"][1]

    assert answer["functionResponse"]["parts"] == [{"inlineData": {"mimeType": "image/png", "data": "aGVsbG8="}}]


def test_ollama_is_asked_for_the_window_only_when_it_is_known() -> None:
    assert "options" not in body(OLLAMA)
    assert body(OLLAMA, model=OLLAMA.model(context_window=32_768))["options"] == {"num_ctx": 32_768}
    params = {"num_ctx": 8_192, "keep_alive": "5m"}
    sent = body(OLLAMA, model=OLLAMA.model(context_window=32_768, params=params))
    assert (sent["options"], sent["keep_alive"]) == ({"num_ctx": 8_192}, "5m")
