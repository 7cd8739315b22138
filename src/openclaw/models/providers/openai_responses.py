"""OpenAI's responses API, used without server-side state: encoding, decoding, provider."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.core.errors import ModelRefused
from openclaw.core.events import CallDelta, ModelEvent, TextDelta, ThinkingDelta
from openclaw.core.messages import Assistant, Image, Text, Thinking, ToolCall, ToolResult, Usage, User
from openclaw.core.provider import Model, ModelRequest
from openclaw.models.providers.encode import (
    HistoryRules,
    adapt_messages,
    arguments_text,
    data_url,
    extra_body,
    openai_effort,
    passed_params,
    sampling,
    schema,
    sorted_tools,
    to_bytes,
)
from openclaw.models.providers.errors import Fault, FaultOrigin, fault_of, from_fault
from openclaw.models.providers.http import Decoder, HttpProvider, ProviderCall
from openclaw.models.providers.openai_chat import is_openai


def encode(request: ModelRequest) -> dict[str, Any]:
    """The body of a request."""
    model, compat = request.model, request.model.compat
    openai = is_openai(model)
    body: dict[str, Any] = {"model": model.id, "input": _input(request), "stream": True, "store": False}
    if request.system.text:
        body["instructions"] = request.system.text
    tools = [
        # Without `strict` this API rewrites the schema.
        {"type": "function", "name": tool.name, "description": tool.description, "strict": False}
        | {"parameters": schema(tool, model)}
        for tool in sorted_tools(request)
    ]
    if tools:
        body |= {"tools": tools, "tool_choice": request.tool_choice, "parallel_tool_calls": True}
    heat = compat.supports_temperature
    heat = not (openai and model.reasoning) if heat is None else heat
    body |= sampling(request, "max_output_tokens", heat=heat)
    if model.reasoning:
        effort = openai_effort(request)
        reasoning = {"summary": "auto"} | ({"effort": effort} if effort else {})
        body |= {"reasoning": reasoning, "include": ["reasoning.encrypted_content"]}
    if request.cache_key and request.cache_retention != "none" and compat.supports_prompt_cache_key is not False:
        body["prompt_cache_key"] = request.cache_key[:64]
        if request.cache_retention == "long" and openai:
            body["prompt_cache_retention"] = "24h"
    if "serviceTier" in model.params:
        body["service_tier"] = model.params["serviceTier"]
    return passed_params(model) | body | extra_body(model)


def _input(request: ModelRequest) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for message in adapt_messages(request.messages, request.model, HistoryRules(id_chars=64)):
        match message:
            case User():
                blocks = (Text(message.content),) if isinstance(message.content, str) else message.content
                items.append({"type": "message", "role": "user", "content": [_part(block) for block in blocks]})
            case Assistant():
                items.extend(item for block in message.content if (item := _item(block)))
            case ToolResult():
                output: str | list[dict[str, Any]] = message.text
                if any(isinstance(block, Image) for block in message.content):
                    output = [_part(block) for block in message.content]
                items.append({"type": "function_call_output", "call_id": message.tool_call_id, "output": output})
    return items


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    return {"type": "input_image", "detail": "auto", "image_url": data_url(block)}


def _item(block: Text | Thinking | ToolCall) -> dict[str, Any] | None:
    """Encodes a block as the item it came from; reasoning only when its encrypted content is there."""
    match block:
        case Text():
            if block.text_signature is None:
                return {"type": "message", "role": "assistant", "content": block.text}
            mark = msgspec.json.decode(block.text_signature, type=_Mark)
            content = [{"type": "output_text", "text": block.text, "annotations": []}]
            phase = {"phase": mark.phase} if mark.phase else {}
            message = {"type": "message", "role": "assistant", "id": mark.id, "status": "completed", "content": content}
            return message | phase
        case ToolCall():
            call = {"type": "function_call", "call_id": block.id, "name": block.name}
            call["arguments"] = arguments_text(block.arguments)
            return call | ({"id": block.signature} if block.signature else {})
        case Thinking():
            return msgspec.json.decode(block.thinking_signature, type=dict) if block.thinking_signature else None


class _Mark(Struct, omit_defaults=True):
    """Fields an assistant message must carry when it is sent back."""

    id: str
    phase: str | None = None


class _Content(Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(Struct):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    phase: str | None = None
    encrypted_content: str | None = None
    summary: list[_Content] | None = None
    content: list[_Content] | None = None


class _InputDetails(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None

    def normal(self) -> Usage:
        details = self.input_tokens_details or _InputDetails()
        read, written = details.cached_tokens or 0, details.cache_write_tokens or 0
        return Usage(max(0, (self.input_tokens or 0) - read - written), self.output_tokens or 0, read, written)


class _Incomplete(Struct):
    reason: str | None = None


class _Response(Struct):
    id: str | None = None
    output: list[_Item] | None = None
    usage: _Usage | None = None
    error: Any = None
    incomplete_details: _Incomplete | None = None


class _Event(Struct):
    type: str = ""
    output_index: int = 0
    summary_index: int = 0
    delta: str | None = None
    arguments: str | None = None
    item: _Item | None = None
    response: _Response | None = None
    error: Any = None
    code: str | None = None
    message: str | None = None


_decode = msgspec.json.Decoder(_Event, strict=False).decode


class ResponsesDecoder(Decoder):
    """Decodes the events of one response; its blocks are its output items."""

    def __init__(self, model: Model, origin: FaultOrigin) -> None:
        super().__init__(model, origin)
        self._done: set[int] = set()
        self._written: set[int] = set()
        self._parts: dict[int, int] = {}

    def read(self, data: bytes) -> Iterable[ModelEvent]:
        if data.strip() == b"[DONE]":
            return
        event = _decode(data)
        key, delta = event.output_index, event.delta or ""
        match event.type:
            case "response.created" if event.response:
                self._reply.response_id = event.response.id
            case "response.output_item.added" if event.item and event.item.type == "function_call":
                yield self._call(key, event.item, event.item.arguments or "")
            case "response.output_text.delta" if delta:
                yield self._text(key, delta)
            case "response.refusal.delta":
                self._refusal.append(delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" if delta:
                yield self._thought(key, event.summary_index, delta)
            case "response.function_call_arguments.delta":
                yield self._call(key, _Item(), delta)
            case "response.function_call_arguments.done" if event.arguments is not None:
                self._reply.replace_call(key, event.arguments)
            case "response.output_item.done" if event.item:
                yield from self._item(key, event.item)
            case "response.completed" | "response.incomplete" | "response.failed" | "response.done" if event.response:
                yield from self._close(event.type, event.response)
            case "error":
                fault = Fault(event.message or "", event.code or "") if event.message else fault_of(event.error)
                raise from_fault(self._origin, fault)

    def _text(self, key: int, text: str) -> TextDelta:
        self._written.add(key)
        self._reply.text(key, text)
        return TextDelta(text)

    def _thought(self, key: int, part: int, text: str) -> ThinkingDelta:
        if self._parts.setdefault(key, part) != part:
            self._parts[key] = part
            text = "\n\n" + text
        self._written.add(key)
        self._reply.thinking(key, text)
        return ThinkingDelta(text)

    def _call(self, key: int, item: _Item, fragment: str) -> CallDelta:
        call_id, name = self._reply.call(key, item.call_id or "", item.name or "", fragment)
        return CallDelta(call_id, name, fragment)

    def _item(self, key: int, item: _Item) -> Iterable[ModelEvent]:
        """Reads a finished item: adds what was not streamed, and keeps what must be sent back."""
        if key in self._done:
            return
        self._done.add(key)
        match item.type:
            case "message":
                for part in item.content or ():
                    if part.refusal and not self._refusal:
                        self._refusal.append(part.refusal)
                if key not in self._written and (text := "".join(part.text or "" for part in item.content or ())):
                    yield self._text(key, text)
                if item.id and key in self._written:
                    mark = msgspec.json.encode(_Mark(item.id, item.phase)).decode()
                    self._reply.signature(key, "text", mark)
            case "function_call":
                yield self._call(key, item, "")
                self._reply.replace_call(key, item.arguments or "")
                if item.id:
                    self._reply.signature(key, "call", item.id)
            case "reasoning":
                shown = [part.text or "" for part in item.summary or item.content or ()]
                if key not in self._written and any(shown):
                    yield self._thought(key, 0, "\n\n".join(shown))
                if item.encrypted_content and item.id:
                    # To be sent back unchanged.
                    summary = [{"type": "summary_text", "text": part.text or ""} for part in item.summary or ()]
                    kept = {"type": "reasoning", "id": item.id, "summary": summary}
                    kept["encrypted_content"] = item.encrypted_content
                    self._reply.signature(key, "thinking", msgspec.json.encode(kept).decode())

    def _close(self, kind: str, response: _Response) -> Iterable[ModelEvent]:
        why = response.incomplete_details.reason if response.incomplete_details else None
        if kind == "response.failed":
            raise from_fault(self._origin, fault_of(response.error))
        if why == "content_filter":
            raise ModelRefused(
                f"{self._origin.provider} filtered the answer: rephrase the request or use another model"
            )
        for key, item in enumerate(response.output or ()):
            yield from self._item(key, item)
        if response.usage:
            self._reply.usage = response.usage.normal()
        self._reply.response_id = response.id or self._reply.response_id
        self._reply.stop_reason = "length" if kind == "response.incomplete" else "stop"
        self.ended = self.complete = True


class OpenAIResponses(HttpProvider):
    """A provider that speaks the responses API."""

    decoder = ResponsesDecoder

    def call(self, request: ModelRequest) -> ProviderCall:
        return ProviderCall(path="/responses", body=to_bytes(encode(request)))
