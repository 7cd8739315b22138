"""OpenAI's chat-completions API and its near-compatible variants: traits, encoding, decoding, provider."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import Struct

from openclaw.core.errors import ModelRefused, NetworkFailed, ServerFailed
from openclaw.core.events import CallDelta, ModelEvent, TextDelta, ThinkingDelta
from openclaw.core.messages import (
    Assistant,
    Image,
    Message,
    StopReason,
    Text,
    Thinking,
    ToolResult,
    Usage,
    User,
)
from openclaw.core.provider import Model, ModelRequest
from openclaw.models.providers.encode import (
    HistoryRules,
    adapt_messages,
    arguments_text,
    data_url,
    encode_messages,
    encode_system,
    encode_tools,
    extra_body,
    function_tools,
    join_texts,
    openai_effort,
    passed_params,
    sampling,
    to_bytes,
)
from openclaw.models.providers.errors import FaultOrigin, fault_of, from_fault
from openclaw.models.providers.http import Decoder, HttpProvider, ProviderCall
from openclaw.models.registry import host_of

_OLD_LIMIT_HOSTS = ("mistral.ai", "deepseek.com", "moonshot.ai", "moonshot.cn", "together.xyz", "z.ai", "bigmodel.cn")
_NO_EFFORT_HOSTS = ("mistral.ai", "x.ai")


class EndpointTraits(Struct, frozen=True, kw_only=True):
    """Where an endpoint differs from OpenAI's own."""

    store: bool
    cache_key: bool
    developer: bool
    effort: bool
    temperature: bool
    usage: bool
    strict: bool
    tool_result_name: bool
    thinking_as_text: bool
    limit_field: str
    thinking_format: str
    rules: HistoryRules


def is_openai(model: Model) -> bool:
    host = host_of(model.base_url)
    return host == "api.openai.com" or (not host and model.provider == "openai")


def traits(model: Model) -> EndpointTraits:
    """The traits from the compat flags; where those are unset, from what is known of the host."""
    compat, host, openai = model.compat, host_of(model.base_url), is_openai(model)
    mistral = model.provider == "mistral" or host.endswith("mistral.ai")

    def flag(value: bool | None, otherwise: bool) -> bool:
        return otherwise if value is None else value

    string_content = flag(compat.requires_string_content, False)
    return EndpointTraits(
        store=flag(compat.supports_store, openai),
        cache_key=flag(compat.supports_prompt_cache_key, openai),
        developer=openai and model.reasoning and compat.supports_developer_role is not False,
        effort=flag(compat.supports_reasoning_effort, not host.endswith(_NO_EFFORT_HOSTS)),
        temperature=flag(compat.supports_temperature, not (openai and model.reasoning)),
        usage=flag(compat.supports_usage_in_streaming, True),
        strict=flag(compat.supports_strict_mode, openai),
        tool_result_name=flag(compat.requires_tool_result_name, mistral),
        thinking_as_text=flag(compat.requires_thinking_as_text, False),
        limit_field=compat.max_tokens_field
        or ("max_tokens" if host.endswith(_OLD_LIMIT_HOSTS) else "max_completion_tokens"),
        thinking_format=compat.thinking_format or "openai",
        rules=HistoryRules(id_chars=9 if mistral else 40, id_exact=mistral, images=not string_content),
    )


# Finish reasons; others count as an ordinary stop.
_STOPS: dict[str, StopReason] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
}


def encode(request: ModelRequest) -> dict[str, Any]:
    """The body of a request."""
    kind = traits(request.model)
    adapted = adapt_messages(request.messages, request.model, kind.rules)
    tools = function_tools(request, {"strict": False} if kind.strict else {})
    return _body(request, kind, [*_system(request, kind, request.system.text), *_messages(adapted, kind)], tools)


def encode_bytes(request: ModelRequest) -> bytes:
    """The body of a request as it is sent; costs what is new in the conversation."""
    kind = traits(request.model)
    system = _system(request, kind, msgspec.Raw(encode_system(request.system)))
    said = encode_messages(request, kind.rules, _messages, kind, *system)
    tools = encode_tools(request, {"strict": False} if kind.strict else {})
    return to_bytes(_body(request, kind, said, tools))


def _body(request: ModelRequest, kind: EndpointTraits, messages: Any, tools: Any) -> dict[str, Any]:
    model = request.model
    body: dict[str, Any] = {"model": model.id, "messages": messages, "stream": True}
    if kind.usage:
        body["stream_options"] = {"include_usage": True}
    if tools:
        body |= {"tools": tools, "tool_choice": request.tool_choice}
    body |= sampling(request, kind.limit_field, heat=kind.temperature)
    if kind.store:
        body["store"] = False
    if kind.cache_key and request.cache_key and request.cache_retention != "none":
        body["prompt_cache_key"] = request.cache_key[:64]
    if "serviceTier" in model.params:
        body["service_tier"] = model.params["serviceTier"]
    return passed_params(model) | body | _thinking(request, kind) | extra_body(model)


def _thinking(request: ModelRequest, kind: EndpointTraits) -> dict[str, Any]:
    if not request.model.reasoning:
        return {}
    on = request.thinking != "off"
    match kind.thinking_format:
        case "zai" | "deepseek":
            return {"thinking": {"type": "enabled" if on else "disabled"}}
        case "qwen":
            return {"enable_thinking": on}
    effort = openai_effort(request) if kind.effort else None
    return {} if effort is None else {"reasoning_effort": effort}


def _system(request: ModelRequest, kind: EndpointTraits, content: str | msgspec.Raw) -> list[dict[str, Any]]:
    role = "developer" if kind.developer else "system"
    return [{"role": role, "content": content}] if request.system.stable or request.system.dynamic else []


def _messages(adapted: Sequence[Message], kind: EndpointTraits) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    shown: list[Image] = []
    for message in adapted:
        if shown and not isinstance(message, ToolResult):
            out.append(_shown(shown))
            shown = []
        match message:
            case User():
                out.append({"role": "user", "content": _parts(message)})
            case Assistant():
                out.append(_assistant(message, kind))
            case ToolResult():
                images = [block for block in message.content if isinstance(block, Image)]
                shown += images
                text = message.text or f"(see the attached {'images' if len(images) > 1 else 'image'})"
                result = {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}
                out.append(result | ({"name": message.tool_name} if kind.tool_result_name else {}))
    return [*out, _shown(shown)] if shown else out


def _shown(images: list[Image]) -> dict[str, Any]:
    """Tool messages carry text only, so their images follow in a user message."""
    content: tuple[Text | Image, ...] = (Text("Images from the tool results above:"), *images)
    return {"role": "user", "content": _parts(User(content=content))}


def _parts(message: User) -> str | list[dict[str, Any]]:
    blocks = message.content
    if isinstance(blocks, str) or all(isinstance(block, Text) for block in blocks):
        return message.text
    return [
        {"type": "text", "text": block.text}
        if isinstance(block, Text)
        else {"type": "image_url", "image_url": {"url": data_url(block)}}
        for block in blocks
    ]


def _assistant(message: Assistant, kind: EndpointTraits) -> dict[str, Any]:
    texts = [block.text for block in message.content if isinstance(block, Text)]
    out: dict[str, Any] = {"role": "assistant"}
    thoughts = [block for block in message.content if isinstance(block, Thinking)]
    if thoughts and kind.thinking_as_text:
        texts = [*(thought.thinking for thought in thoughts), *texts]
    elif thoughts:
        details = [part for thought in thoughts if thought.thinking_signature for part in _details(thought)]
        if details:
            out["reasoning_details"] = details
        elif kind.thinking_format in ("zai", "deepseek"):
            out["reasoning_content"] = message.thinking
    out["content"] = join_texts(texts) or None
    calls = [
        {"id": call.id, "type": "function"}
        | {"function": {"name": call.name, "arguments": arguments_text(call.arguments)}}
        for call in message.calls
    ]
    return out | ({"tool_calls": calls} if calls else {})


def _details(thought: Thinking) -> list[Any]:
    value = msgspec.json.decode(thought.thinking_signature or "[]")
    return value if isinstance(value, list) else []


class _Function(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _CallPart(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(Struct):
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[_CallPart] | None = None


class _Details(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None

    def normal(self) -> Usage:
        details = self.prompt_tokens_details or _Details()
        read = details.cached_tokens or self.prompt_cache_hit_tokens or 0
        written = details.cache_write_tokens or 0
        prompt = self.prompt_tokens or 0
        # Some hosts count reasoning in the total only, not in the completion.
        output = max(self.completion_tokens or 0, (self.total_tokens or 0) - prompt)
        return Usage(max(0, prompt - read - written), output, read, written)


class _Choice(Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None
    usage: _Usage | None = None


class _Chunk(Struct):
    id: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk, strict=False).decode


class ChatDecoder(Decoder):
    """Decodes the chunks of one completion."""

    def __init__(self, model: Model, origin: FaultOrigin) -> None:
        super().__init__(model, origin)
        self._calls: dict[int, tuple[int, str]] = {}
        self._next_call = 0
        self._details: dict[tuple[Any, Any], dict[str, Any]] = {}

    def read(self, data: bytes) -> Iterable[ModelEvent]:
        if data[:1] != b"{" and data.strip() == b"[DONE]":
            self.ended = self.complete = True
            return
        chunk = _decode(data)
        if chunk.error:
            raise from_fault(self._origin, fault_of(chunk.error))
        self._reply.response_id = self._reply.response_id or chunk.id
        if chunk.choices:
            choice = chunk.choices[0]
            if choice.delta is not None:
                yield from self._delta(choice.delta)
            if choice.finish_reason:
                self._finish(choice.finish_reason)
            if choice.usage:
                self._reply.usage = choice.usage.normal()
        if chunk.usage:
            self._reply.usage = chunk.usage.normal()

    def message(self) -> Assistant:
        if self._details:
            raw = msgspec.json.encode(list(self._details.values())).decode()
            self._reply.signature(0, "thinking", raw)
        self._reply.stop_reason = self._reply.stop_reason or "stop"
        return super().message()

    def _delta(self, delta: _Delta) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        thought = delta.reasoning_content or delta.reasoning
        for detail in delta.reasoning_details or ():
            shown = self._detail(detail)
            thought = thought or shown
        text = delta.content
        if isinstance(text, list):
            thought = thought or join_texts(_inner(part, "thinking") for part in text)
            text = "".join(_inner(part, "text") for part in text)
        if thought:
            self._reply.thinking(0, thought)
            events.append(ThinkingDelta(thought))
        if text:
            self._reply.text(0, text)
            events.append(TextDelta(text))
        if delta.refusal:
            self._refusal.append(delta.refusal)
        if delta.tool_calls:
            events += map(self._call, delta.tool_calls)
        return events

    def _detail(self, detail: dict[str, Any]) -> str:
        """Keeps a reasoning detail for replay, its fragments joined; returns the part that can be shown."""
        self._reply.thinking(0, "")  # opens the block before the answer's, also when there is no text to show
        kept = self._details.setdefault((detail.get("index"), detail.get("type")), {})
        for name, value in detail.items():
            grows = name in ("text", "summary", "data") and isinstance(value, str)
            kept[name] = kept.get(name, "") + value if grows else value if value is not None else kept.get(name)
        shown = detail.get("text") or detail.get("summary")
        return shown if isinstance(shown, str) else ""

    def _call(self, part: _CallPart) -> CallDelta:
        function = part.function or _Function()
        index = part.index if part.index is not None else 0
        key, known = self._calls.get(index, (-1, ""))
        # Some hosts give every call the same index, or none: a new id is then the only sign of a new call.
        if key < 0 or (part.id and known and part.id != known and function.name):
            key, known = self._next_call, part.id or f"call_{uuid4().hex[:24]}"
            self._calls[index] = (key, known)
            self._next_call += 1
        raw = function.arguments
        fragment = raw if isinstance(raw, str) else arguments_text(raw) if raw else ""
        call_id, name = self._reply.call(key, known, function.name or "", fragment)
        return CallDelta(call_id, name, fragment)

    def _finish(self, reason: str) -> None:
        who = self._origin.provider
        if reason in ("content_filter", "sensitive"):
            raise ModelRefused(f"{who} filtered the answer: rephrase the request or use another model")
        if reason == "error":
            raise ServerFailed(f"{who} failed in the middle of its answer: try again")
        if reason == "network_error":
            raise NetworkFailed(f"{who} lost its own connection in the middle of its answer: try again")
        self._reply.stop_reason = _STOPS.get(reason, "stop")
        self.ended = True


def _inner(part: dict[str, Any], kind: str) -> str:
    """The text of a content part of `kind`; thinking parts hold a list of text parts."""
    if part.get("type") != kind:
        return ""
    value = part.get(kind)
    if isinstance(value, list):
        return "".join(_inner(inner, "text") for inner in value if isinstance(inner, dict))
    return value if isinstance(value, str) else ""


class OpenAIChat(HttpProvider):
    """A provider that speaks chat completions."""

    decoder = ChatDecoder

    def call(self, request: ModelRequest) -> ProviderCall:
        return ProviderCall(path="/chat/completions", body=encode_bytes(request))
