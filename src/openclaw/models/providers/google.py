"""Google's generative-language API (Gemini): request encoding, stream decoding, provider."""

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import msgspec
from msgspec import Struct

from openclaw.core.errors import BadResponse, ModelRefused
from openclaw.core.events import CallDelta, ModelEvent, TextDelta, ThinkingDelta
from openclaw.core.messages import Assistant, AssistantBlock, Image, Text, Thinking, ToolCall, ToolResult, Usage, User
from openclaw.core.provider import Model, ModelRequest
from openclaw.models.providers.encode import (
    HistoryRules,
    adapt_messages,
    arguments_text,
    extra_body,
    passed_params,
    sampling,
    schema,
    sorted_tools,
    to_bytes,
)
from openclaw.models.providers.errors import FaultOrigin, excerpt, fault_of, from_fault
from openclaw.models.providers.http import Decoder, HttpProvider, ProviderCall

RULES = HistoryRules(id_chars=64, merge=True, user_first=True)
# Accepted in place of a signature, for calls another model made.
NO_SIGNATURE = "skip_thought_signature_validator"
_REFUSALS = frozenset(
    "SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT "
    "IMAGE_RECITATION".split()
)
_BUDGETS = {"minimal": 512, "low": 2_048, "medium": 8_192, "high": 24_576, "xhigh": 24_576, "max": 24_576}
_LEVELS = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "HIGH", "max": "HIGH"}


def _generation(model: Model) -> int:
    found = re.search(r"gemini-(\d+)", model.id)
    return int(found[1]) if found else 0


def encode(request: ModelRequest) -> dict[str, Any]:
    """The body of a request."""
    model = request.model
    body: dict[str, Any] = {"contents": _contents(request)}
    system = [{"text": text} for text in (request.system.stable, request.system.dynamic) if text.strip()]
    if system:
        body["systemInstruction"] = {"parts": system}
    declared = [
        {"name": tool.name, "description": tool.description, "parametersJsonSchema": schema(tool, model)}
        for tool in sorted_tools(request)
    ]
    if declared:
        body["tools"] = [{"functionDeclarations": declared}]
        if request.tool_choice == "none":
            body["toolConfig"] = {"functionCallingConfig": {"mode": "NONE"}}
    heat = model.compat.supports_temperature is not False
    config = passed_params(model) | sampling(request, "maxOutputTokens", heat=heat)
    thinking = _thinking(request)
    if thinking:
        config["thinkingConfig"] = thinking
    if config:
        body["generationConfig"] = config
    return body | extra_body(model)


def _thinking(request: ModelRequest) -> dict[str, Any]:
    model, level = request.model, request.thinking
    if not model.reasoning:
        return {}
    shown = level != "off"
    if _generation(model) >= 3:
        chosen = (model.compat.reasoning_effort_map or {}).get(level) or _level(model, level)
        return {"includeThoughts": shown} | ({"thinkingLevel": chosen} if chosen else {})
    if level == "adaptive":
        return {"includeThoughts": True, "thinkingBudget": -1}
    # In the large models of this generation thinking cannot be switched off.
    least = 128 if "pro" in model.id else 0
    return {"includeThoughts": shown, "thinkingBudget": max(least, _BUDGETS.get(level, 0))}


def _level(model: Model, level: str) -> str | None:
    if level == "adaptive":
        return None
    large = "pro" in model.id
    if level in ("off", "minimal"):
        return "LOW" if large else "MINIMAL"
    if level == "medium" and re.match(r"gemini-3-pro", model.id):
        return "HIGH"  # the first model of this generation has two levels only
    return _LEVELS[level]


def _contents(request: ModelRequest) -> list[dict[str, Any]]:
    modern = _generation(request.model) >= 3
    out: list[dict[str, Any]] = []
    for message in adapt_messages(request.messages, request.model, RULES):
        match message:
            case User():
                blocks = (Text(message.content),) if isinstance(message.content, str) else message.content
                _append(out, "user", [_part(block) for block in blocks])
            case Assistant():
                _append(out, "model", _spoken(message, modern))
            case ToolResult():
                _append(out, "user", _result(message, modern))
    return out


def _append(out: list[dict[str, Any]], role: str, parts: list[dict[str, Any]]) -> None:
    if parts and out and out[-1]["role"] == role:
        out[-1]["parts"] += parts
    elif parts:
        out.append({"role": role, "parts": parts})


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"text": block.text}
    return {"inlineData": {"mimeType": block.mime_type, "data": block.data}}


def _result(message: ToolResult, modern: bool) -> list[dict[str, Any]]:
    images = [_part(block) for block in message.content if isinstance(block, Image)]
    response = {"error" if message.is_error else "output": message.text or "(see the attached image)"}
    answer: dict[str, Any] = {"id": message.tool_call_id, "name": message.tool_name, "response": response}
    if modern and images:
        return [{"functionResponse": answer | {"parts": images}}]
    return [{"functionResponse": answer}, *images]


def _spoken(message: Assistant, modern: bool) -> list[dict[str, Any]]:
    parts = [part for block in message.content if (part := _said(block))]
    calls = [part for part in parts if "functionCall" in part]
    # The newest models refuse an unsigned call; among parallel calls the first one carries the signature.
    if modern and calls and not any("thoughtSignature" in part for part in calls):
        calls[0]["thoughtSignature"] = NO_SIGNATURE
    return parts


def _said(block: AssistantBlock) -> dict[str, Any] | None:
    match block:
        case Text():
            part: dict[str, Any] = {"text": block.text}
            signature = block.text_signature
        case ToolCall():
            part = {"functionCall": {"id": block.id, "name": block.name, "args": block.arguments}}
            signature = block.signature
        case Thinking():
            if not block.thinking_signature:
                return None
            part, signature = {"text": block.thinking, "thought": True}, block.thinking_signature
    return part | ({"thoughtSignature": signature} if signature else {})


class _Call(Struct):
    name: str = ""
    id: str | None = None
    args: dict[str, Any] | None = None


class _Part(Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _Call | None = None


class _Content(Struct):
    parts: list[_Part] | None = None


class _Candidate(Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Feedback(Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Usage(Struct, rename="camel"):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None

    def normal(self) -> Usage:
        read = self.cached_content_token_count or 0
        prompt = (self.prompt_token_count or 0) + (self.tool_use_prompt_token_count or 0)
        return Usage(max(0, prompt - read), (self.candidates_token_count or 0) + (self.thoughts_token_count or 0), read)


class _Chunk(Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    usage_metadata: _Usage | None = None
    prompt_feedback: _Feedback | None = None
    response_id: str | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk, strict=False).decode


class GoogleDecoder(Decoder):
    """Decodes the chunks of one answer; consecutive parts of the same kind become one block."""

    def __init__(self, model: Model, origin: FaultOrigin) -> None:
        super().__init__(model, origin)
        self._block = 0
        self._kind = ""

    def read(self, data: bytes) -> Iterable[ModelEvent]:
        chunk = _decode(data)
        if chunk.error:
            raise from_fault(self._origin, fault_of(chunk.error))
        self._reply.response_id = chunk.response_id or self._reply.response_id
        if chunk.usage_metadata:
            self._reply.usage = chunk.usage_metadata.normal()
        feedback = chunk.prompt_feedback
        if feedback and feedback.block_reason:
            raise self._refused(feedback.block_reason, feedback.block_reason_message)
        for candidate in (chunk.candidates or ())[:1]:
            for part in (candidate.content.parts if candidate.content else None) or ():
                yield from self._part(part)
            if candidate.finish_reason:
                self._finish(candidate.finish_reason, candidate.finish_message)

    def _part(self, part: _Part) -> Iterable[ModelEvent]:
        if part.function_call:
            yield self._call(part.function_call, part.thought_signature)
            return
        if part.text is None:
            return
        kind = "thinking" if part.thought else "text"
        if kind != self._kind and (part.text or not self._kind):
            self._block, self._kind = self._block + 1, kind
        if part.text and kind == "thinking":
            self._reply.thinking(self._block, part.text)
            yield ThinkingDelta(part.text)
        elif part.text:
            self._reply.text(self._block, part.text)
            yield TextDelta(part.text)
        if part.thought_signature:
            # The signature ends its part: the next chunk begins another block.
            self._reply.signature(self._block, self._kind, part.thought_signature)
            self._kind = ""

    def _call(self, call: _Call, signature: str | None) -> CallDelta:
        self._block, self._kind = self._block + 1, ""
        fragment = arguments_text(call.args or {})
        call_id, name = self._reply.call(self._block, call.id or f"call_{uuid4().hex[:24]}", call.name, fragment)
        if signature:
            self._reply.signature(self._block, "call", signature)
        return CallDelta(call_id, name, fragment)

    def _refused(self, reason: str, why: str | None) -> ModelRefused:
        said = f" ({excerpt(why, self._origin)})" if why else ""
        return ModelRefused(
            f"{self._origin.provider} declined to answer, for the reason {reason}{said}: "
            "rephrase the request or use another model"
        )

    def _finish(self, reason: str, why: str | None) -> None:
        if reason in _REFUSALS:
            raise self._refused(reason, why)
        if reason == "FINISH_REASON_UNSPECIFIED":
            return
        if reason not in ("STOP", "MAX_TOKENS"):
            raise BadResponse(f"{self._origin.provider} could not finish its answer ({reason}): try again")
        self._reply.stop_reason = "length" if reason == "MAX_TOKENS" else "stop"
        self.ended = True


class Google(HttpProvider):
    """A provider that speaks the generative-language API."""

    key_header = "x-goog-api-key"
    decoder = GoogleDecoder

    def call(self, request: ModelRequest) -> ProviderCall:
        name = quote(request.model.id.removeprefix("models/"), safe="/")
        return ProviderCall(path=f"/models/{name}:streamGenerateContent?alt=sse", body=to_bytes(encode(request)))
