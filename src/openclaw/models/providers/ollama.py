"""Ollama's chat API, for local models: request encoding, stream decoding, provider."""

from collections.abc import AsyncIterator, Iterable
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from openclaw.core.events import CallDelta, ModelEvent, TextDelta, ThinkingDelta
from openclaw.core.messages import Assistant, Image, Text, ToolResult, Usage, User
from openclaw.core.provider import Model, ModelRequest
from openclaw.models.providers.encode import (
    HistoryRules,
    adapt_messages,
    arguments_text,
    extra_body,
    function_tools,
    passed_params,
    sampling,
    to_bytes,
)
from openclaw.models.providers.errors import FaultOrigin, fault_of, from_fault
from openclaw.models.providers.http import Decoder, HttpProvider, LineReader, ProviderCall

# The registry's guess for an unknown window. Requesting that much would fill the local machine's memory.
ASSUMED_WINDOW = 200_000
_TOP_LEVEL = frozenset(("keep_alive", "format", "template"))


def encode(request: ModelRequest) -> dict[str, Any]:
    """The body of a request."""
    model = request.model
    body: dict[str, Any] = {"model": model.id, "messages": _messages(request), "stream": True}
    tools = function_tools(request)
    if tools and request.tool_choice != "none":  # the API has no `tool_choice`
        body["tools"] = tools
    params = passed_params(model)
    options = {name: value for name, value in params.items() if name not in _TOP_LEVEL}
    if model.context_window != ASSUMED_WINDOW:
        options.setdefault("num_ctx", model.context_window)
    options |= sampling(request, "num_predict")
    if options:
        body["options"] = options
    if model.reasoning:
        body["think"] = _think(request)
    return body | {name: value for name, value in params.items() if name in _TOP_LEVEL} | extra_body(model)


def _think(request: ModelRequest) -> bool | str:
    mapped = (request.model.compat.reasoning_effort_map or {}).get(request.thinking)
    if mapped is not None:
        return mapped
    if not request.model.id.startswith("gpt-oss"):
        return request.thinking != "off"
    # This family takes levels instead of a switch, and cannot switch thinking off.
    levels = {"off": "low", "minimal": "low", "low": "low", "medium": "medium", "adaptive": "medium"}
    return levels.get(request.thinking, "high")


def _messages(request: ModelRequest) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    if request.system.text:
        out.append({"role": "system", "content": request.system.text})
    shown: list[str] = []
    for message in adapt_messages(request.messages, request.model, HistoryRules()):
        if shown and not isinstance(message, ToolResult):
            out.append(_shown(shown))
            shown = []
        match message:
            case User():
                images = [block.data for block in message.content if isinstance(block, Image)]
                out.append({"role": "user", "content": message.text} | ({"images": images} if images else {}))
            case Assistant():
                out.append(_assistant(message))
            case ToolResult():
                shown += [block.data for block in message.content if isinstance(block, Image)]
                out.append({"role": "tool", "content": message.text, "tool_name": message.tool_name})
    return [*out, _shown(shown)] if shown else out


def _shown(images: list[str]) -> dict[str, Any]:
    return {"role": "user", "content": "Images from the tool results above:", "images": images}


def _assistant(message: Assistant) -> dict[str, Any]:
    out: dict[str, Any] = {"role": "assistant"}
    out["content"] = "\n".join(block.text for block in message.content if isinstance(block, Text))
    if message.thinking:
        out["thinking"] = message.thinking
    if message.calls:
        out["tool_calls"] = [{"function": {"name": call.name, "arguments": call.arguments}} for call in message.calls]
    return out


class _Function(Struct):
    name: str = ""
    arguments: dict[str, Any] | str | None = None


class _Call(Struct):
    function: _Function
    id: str | None = None


class _Message(Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Chunk(Struct):
    message: _Message | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk, strict=False).decode


class OllamaDecoder(Decoder):
    """Decodes the lines of one answer."""

    def __init__(self, model: Model, origin: FaultOrigin) -> None:
        super().__init__(model, origin)
        self._calls = 0

    def read(self, data: bytes) -> Iterable[ModelEvent]:
        chunk = _decode(data)
        if chunk.error:
            raise from_fault(self._origin, fault_of(chunk.error))
        message = chunk.message or _Message()
        if message.thinking:
            self._reply.thinking(0, message.thinking)
            yield ThinkingDelta(message.thinking)
        if message.content:
            self._reply.text(0, message.content)
            yield TextDelta(message.content)
        for call in message.tool_calls or ():
            yield self._call(call)
        if chunk.done:
            self._reply.usage = Usage(chunk.prompt_eval_count or 0, chunk.eval_count or 0)
            self._reply.stop_reason = "length" if chunk.done_reason == "length" else "stop"
            self.ended = self.complete = True

    def _call(self, call: _Call) -> CallDelta:
        raw = call.function.arguments
        fragment = raw if isinstance(raw, str) else arguments_text(raw or {})
        known = call.id or f"call_{uuid4().hex[:24]}"
        call_id, name = self._reply.call(self._calls, known, call.function.name, fragment)
        self._calls += 1
        return CallDelta(call_id, name, fragment)


class Ollama(HttpProvider):
    """A provider that speaks Ollama's own API."""

    reader = LineReader
    decoder = OllamaDecoder

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        # `/v1` is the server's OpenAI-compatible API; people paste addresses that end in it.
        base_url = (request.model.base_url or self.endpoint.base_url).rstrip("/").removesuffix("/v1")
        return super().stream(replace(request, model=replace(request.model, base_url=base_url)))

    def call(self, request: ModelRequest) -> ProviderCall:
        return ProviderCall(path="/api/chat", body=to_bytes(encode(request)))
