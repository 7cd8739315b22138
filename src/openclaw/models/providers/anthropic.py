"""Anthropic's messages API: thinking parameters, request encoding, stream decoding, provider."""

import re
from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from openclaw.core.errors import ContextTooLong, ModelRefused
from openclaw.core.events import CallDelta, ModelEvent, TextDelta, ThinkingDelta
from openclaw.core.messages import (
    Assistant,
    AssistantBlock,
    Image,
    Message,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    User,
)
from openclaw.core.provider import CacheRetention, Model, ModelRequest
from openclaw.models.providers.encode import (
    HistoryRules,
    adapt_messages,
    arguments_text,
    extra_body,
    output_limit,
    passed_params,
    schema,
    sorted_tools,
    temperature,
    to_bytes,
)
from openclaw.models.providers.errors import FaultOrigin, excerpt, fault_of, from_fault
from openclaw.models.providers.http import Decoder, HttpProvider, ProviderCall
from openclaw.models.registry import host_of

# Thinking and output limits. The API requires a limit; these are for models whose own is not known.
DEFAULT_OUTPUT = 8_192
DEFAULT_THINKING_OUTPUT = 32_000
LEAST_BUDGET = 1_024
_BUDGETS = {"minimal": 1_024, "low": 4_096, "medium": 10_240, "high": 20_480, "xhigh": 32_768, "max": 49_152}
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}


def version_of(model_id: str) -> tuple[int, int] | None:
    """Major and minor version of a Claude model, before or after the family name."""
    name = model_id.rpartition("/")[2].lower().replace(".", "-")
    found = re.search(r"claude-(?:[a-z]+-)?(\d{1,2})(?:-(\d{1,2})(?!\d))?", name)
    if found:
        return int(found[1]), int(found[2] or 0)
    return (5, 0) if "mythos" in name or "fable" in name else None


def takes_temperature(model: Model, *, thinks: bool) -> bool:
    if model.compat.supports_temperature is not None:
        return model.compat.supports_temperature
    version = version_of(model.id)
    return not thinks and (version is None or version < (4, 7))


def thinking_params(request: ModelRequest, limit: int, messages: tuple[Message, ...]) -> dict[str, Any]:
    model, level = request.model, request.thinking
    if not model.reasoning:
        return {}
    effort = (model.compat.reasoning_effort_map or {}).get(level)
    version = version_of(model.id) or (0, 0)
    if version >= (4, 6):  # takes an effort and thinks adaptively; older ones take a token budget
        if level == "off":
            # Models from 5 on think by default, and in two families it cannot be switched off.
            told = version >= (5, 0) and not re.search("fable|mythos", model.id)
            return {"thinking": {"type": "disabled"}} if told else {}
        if effort is None and level != "adaptive":
            effort = "high" if level == "xhigh" and version < (4, 7) else _EFFORTS[level]
        adaptive = {"thinking": {"type": "adaptive", "display": "summarized"}}
        return adaptive | ({"output_config": {"effort": effort}} if effort else {})
    if level == "off" or _began_without_thinking(messages):
        return {}
    budget = _BUDGETS.get(level, _BUDGETS["medium"])
    most = min(limit + budget, model.max_tokens or max(limit, DEFAULT_THINKING_OUTPUT))
    budget = min(budget, most - LEAST_BUDGET)
    if budget < LEAST_BUDGET:
        return {}
    return {"max_tokens": most, "thinking": {"type": "enabled", "budget_tokens": budget}}


def _began_without_thinking(messages: tuple[Message, ...]) -> bool:
    """Whether the current turn called tools without thinking first: the API then refuses thinking for its rest."""
    for message in reversed(messages):
        if isinstance(message, Assistant):
            return bool(message.calls) and not any(isinstance(block, Thinking) for block in message.content)
        if isinstance(message, User):
            return False
    return False


# Requests.

VERSION = "2023-06-01"
OAUTH_BETA = "oauth-2025-04-20"
INTERLEAVED_BETA = "interleaved-thinking-2025-05-14"
LONG_CONTEXT_BETA = "context-1m-2025-08-07"
RULES = HistoryRules(id_chars=64, merge=True, user_first=True)

_CACHE_MARKS: dict[CacheRetention, dict[str, Any]] = {
    "none": {},
    "short": {"cache_control": {"type": "ephemeral"}},
    "long": {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
}
_STOPS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "tool_use": "toolUse",
}


def encode(request: ModelRequest) -> dict[str, Any]:
    """The body of a request."""
    model = request.model
    mark = _CACHE_MARKS[request.cache_retention]
    messages = adapt_messages(request.messages, model, RULES)
    body: dict[str, Any] = {"model": model.id, "messages": _messages(messages, mark), "stream": True}
    system = [
        {"type": "text", "text": text} for text in (request.system.stable, request.system.dynamic) if text.strip()
    ]
    if system:
        body["system"] = system
        if request.system.stable.strip():
            system[0] |= mark
    tools: list[dict[str, Any]] = [
        {"name": tool.name, "description": tool.description, "input_schema": schema(tool, model)}
        for tool in sorted_tools(request)
    ]
    if tools:
        body["tools"] = tools
        if request.tool_choice == "none":
            body["tool_choice"] = {"type": "none"}
        if not request.system.stable.strip():
            tools[-1] |= mark
    limit = output_limit(request) or (DEFAULT_THINKING_OUTPUT if model.reasoning else DEFAULT_OUTPUT)
    body |= {"max_tokens": limit} | thinking_params(request, limit, messages)
    heat = temperature(request)
    if heat is not None and takes_temperature(model, thinks="thinking" in body):
        body["temperature"] = heat
    if "serviceTier" in model.params:
        body["service_tier"] = model.params["serviceTier"]
    return passed_params(model) | body | extra_body(model)


def betas(request: ModelRequest) -> list[str]:
    """Beta features this request needs."""
    model = request.model
    wanted = [LONG_CONTEXT_BETA] if model.params.get("context1m") is True else []
    version = version_of(model.id)
    budgeted = model.reasoning and request.thinking != "off" and version is not None and (4, 0) <= version < (4, 6)
    if budgeted and host_of(model.base_url) in ("", "api.anthropic.com"):
        wanted.append(INTERLEAVED_BETA)
    return wanted


def _messages(messages: tuple[Message, ...], mark: dict[str, Any]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if isinstance(message, Assistant) else "user"
        content = _content(message)
        if not content:
            continue
        # Tool results have the role user here, and roles must alternate: one message takes them all.
        if out and out[-1]["role"] == role:
            out[-1]["content"] += content
        else:
            out.append({"role": role, "content": content})
    if out and out[-1]["role"] == "user":
        out[-1]["content"][-1] |= mark
    return out


def _content(message: Message) -> list[dict[str, Any]]:
    match message:
        case User():
            blocks = (Text(message.content),) if isinstance(message.content, str) else message.content
            return [_part(block) for block in blocks]
        case ToolResult():
            result: dict[str, Any] = {
                "type": "tool_result",
                "tool_use_id": message.tool_call_id,
                "content": [_part(block) for block in message.content],
            }
            return [result | ({"is_error": True} if message.is_error else {})]
        case Assistant():
            return [part for block in message.content if (part := _spoken(block))]


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    return {"type": "image", "source": {"type": "base64", "media_type": block.mime_type, "data": block.data}}


def _spoken(block: AssistantBlock) -> dict[str, Any] | None:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case ToolCall():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments}
        case Thinking() if block.redacted:
            return {"type": "redacted_thinking", "data": block.thinking_signature or ""}
        case Thinking() if block.thinking_signature:
            return {"type": "thinking", "thinking": block.thinking, "signature": block.thinking_signature}
        case Thinking():
            return None  # the API rejects unsigned reasoning


# The stream.


class _Block(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None


class _StopDetails(Struct):
    explanation: str | None = None


class _Delta(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None

    def over(self, before: Usage) -> Usage:
        """Updates running totals: each figure given replaces the one before."""
        names = ("input", "output", "cache_read", "cache_write")
        given = zip(names, astuple(self), strict=True)
        return replace(before, **{name: count for name, count in given if count is not None})


class _Start(Struct):
    id: str | None = None
    usage: _Usage | None = None


class _Event(Struct):
    type: str = ""
    index: int = 0
    message: _Start | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event, strict=False).decode


class MessagesDecoder(Decoder):
    """Decodes the events of one message."""

    def __init__(self, model: Model, origin: FaultOrigin) -> None:
        super().__init__(model, origin)
        self._given: dict[int, str] = {}
        """The initial arguments of each call; its fragments, if any, replace them."""
        self._calls: set[int] = set()

    def read(self, data: bytes) -> Iterable[ModelEvent]:
        event = _decode(data)
        match event.type:
            case "message_start" if event.message:
                self._reply.response_id = event.message.id
                if event.message.usage:
                    self._reply.usage = event.message.usage.over(self._reply.usage)
            case "content_block_start" if event.content_block:
                yield from self._start(event.index, event.content_block)
            case "content_block_delta" if event.delta:
                yield from self._delta(event.index, event.delta)
            case "content_block_stop" if event.index in self._given:
                self._reply.replace_call(event.index, self._given.pop(event.index))
            case "message_delta":
                if event.usage:
                    self._reply.usage = event.usage.over(self._reply.usage)
                if event.delta and event.delta.stop_reason:
                    self._stop(event.delta.stop_reason, event.delta.stop_details)
            case "message_stop":
                self.ended = self.complete = True
            case "error":
                raise from_fault(self._origin, fault_of(event.error))

    def message(self) -> Assistant:
        self._reply.stop_reason = self._reply.stop_reason or "stop"
        return super().message()

    def _start(self, key: int, block: _Block) -> Iterable[ModelEvent]:
        match block.type:
            case "text":
                yield from self._delta(key, _Delta(type="text_delta", text=block.text))
            case "thinking":
                yield from self._delta(key, _Delta(type="thinking_delta", thinking=block.thinking))
                if block.signature:
                    self._reply.signature(key, "thinking", block.signature)
            case "redacted_thinking":
                self._reply.signature(key, "thinking", block.data or "", redacted=True)
            case "tool_use":
                self._calls.add(key)
                if block.input:
                    self._given[key] = arguments_text(block.input)
                call_id, name = self._reply.call(key, block.id or "", block.name or "")
                yield CallDelta(call_id, name, "")

    def _delta(self, key: int, delta: _Delta) -> Iterable[ModelEvent]:
        match delta.type:
            case "text_delta" if delta.text:
                self._reply.text(key, delta.text)
                yield TextDelta(delta.text)
            case "thinking_delta" if delta.thinking:
                self._reply.thinking(key, delta.thinking)
                yield ThinkingDelta(delta.thinking)
            case "signature_delta" if delta.signature:
                self._reply.signature(key, "thinking", delta.signature)
            case "input_json_delta" if delta.partial_json and key in self._calls:
                self._given.pop(key, None)
                call_id, name = self._reply.call(key, fragment=delta.partial_json)
                yield CallDelta(call_id, name, delta.partial_json)

    def _stop(self, reason: str, details: _StopDetails | None) -> None:
        who = self._origin.provider
        if reason == "refusal":
            why = excerpt(details.explanation, self._origin) if details and details.explanation else ""
            raise ModelRefused(f"{who} declined to answer: " + (why or "rephrase the request or use another model"))
        if reason == "model_context_window_exceeded":
            raise ContextTooLong(
                f"the conversation is too long for {self._origin.model}: compact it or start a new one"
            )
        self._reply.stop_reason = _STOPS.get(reason, "stop")
        self.ended = True


class Anthropic(HttpProvider):
    """A provider that speaks the messages API."""

    key_header = "x-api-key"
    fixed = MappingProxyType({"anthropic-version": VERSION})
    decoder = MessagesDecoder

    def call(self, request: ModelRequest) -> ProviderCall:
        oauth = self.endpoint.bearer and self.endpoint.provider == "anthropic"
        wanted = [*([OAUTH_BETA] if oauth else []), *betas(request)]
        prefix = "" if self.endpoint.base_url.rstrip("/").endswith("/v1") else "/v1"
        return ProviderCall(
            path=f"{prefix}/messages",
            body=to_bytes(encode(request)),
            headers={"anthropic-beta": ",".join(wanted)} if wanted else {},
        )
