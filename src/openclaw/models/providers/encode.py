"""Adapts a request to what an API accepts: its messages, then its parameters, tools and JSON."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from openclaw.core.messages import (
    Assistant,
    AssistantBlock,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
    grow,
)
from openclaw.core.provider import Model, ModelRequest, System
from openclaw.core.tool import ToolSpec

K = TypeVar("K")

NO_IMAGES = Text("[An image was here; this model cannot see images.]")
NO_RESULT = Text("No result was recorded for this call; it may have been interrupted.")
NO_OUTPUT = Text("(no output)")
FAILED = Text("[This answer failed before it was complete.]")
STOPPED = Text("[This answer was stopped before it was complete.]")
EARLIER = Text("(The conversation begins earlier.)")
_CLEAN = re.compile(r"[A-Za-z0-9_-]+")


class HistoryRules(Struct, frozen=True, kw_only=True):
    """What an API requires of the messages."""

    id_chars: int = 64
    id_exact: bool = False
    """Ids have exactly `id_chars` letters and digits."""
    merge: bool = False
    """Roles must alternate."""
    user_first: bool = False
    images: bool = True


def adapt_messages(messages: Iterable[Message], model: Model, rules: HistoryRules) -> tuple[Message, ...]:
    """Adapts `messages` to `model` and `rules`; content is always a tuple of blocks.

    Every call gets exactly one result, nothing is empty, and what only another model understands is left out.
    """
    out = _Target.of(model, rules).adapt(messages, _Ids(rules))
    if out and _is_failed(out[-1]):
        out.pop()  # a failed last answer: this request is its retry
    if rules.merge:
        out = _merged(out)
    if rules.user_first and (not out or not isinstance(out[0], User)):
        out.insert(0, User(content=(EARLIER,)))
    return tuple(out)


class _Target(Struct, frozen=True):
    """What messages are adapted to."""

    api: str
    provider: str
    model: str
    sees: bool
    rules: HistoryRules

    @classmethod
    def of(cls, model: Model, rules: HistoryRules) -> "_Target":
        return cls(model.api, model.provider, model.id, rules.images and "image" in model.input, rules)

    def adapt(self, messages: Iterable[Message], ids: "_Ids") -> list[Message]:
        out: list[Message] = []
        for message, results in _paired(messages):
            if isinstance(message, User):
                out += _question(message, self.sees)
            else:
                native = (message.api, message.provider, message.model) == (self.api, self.provider, self.model)
                out += _turn(message, results, native, ids, self.sees)
        return out


EncodePart = Callable[[Sequence[Message], K], list[Any]]
"""Encodes adapted messages: an answer with the results of its calls, and what people said until the next."""


class _EncodedHistory(Generic[K]):
    """The JSON of a conversation's messages, each with a comma before it."""

    def __init__(self, target: _Target, encode: EncodePart[K], kind: K) -> None:
        self._target = target
        self._encode = encode
        self._kind = kind
        self._open: list[Message] = []
        self.ids = _Ids(target.rules)
        self.json = bytearray()

    def add(self, message: Message) -> None:
        if isinstance(message, Assistant):
            self.close()
        self._open.append(message)

    def close(self) -> None:
        """Encodes what came since the last answer; the next message is an answer."""
        if not self._open:
            return
        adapted = self._target.adapt(self._open, self.ids)
        self.json += _joined(self._encode(adapted, self._kind))
        self._open = []


def encode_messages(
    request: ModelRequest, rules: HistoryRules, encode: EncodePart[K], kind: K, *first: Any
) -> msgspec.Raw:
    """The JSON list of `first` and the adapted messages; for APIs whose roles need not alternate.

    What was encoded for the last request is used again, so that a request costs what is new in it.
    """
    messages, target = request.messages, _Target.of(request.model, rules)
    last = max(0, len(messages) - 1)
    while last > 0 and not isinstance(messages[last], Assistant):
        last -= 1
    before = grow(_EncodedHistory, messages[:last], target, encode, kind)
    before.close()
    tail = target.adapt(messages[last:], _Ids(rules, before.ids))
    history: bytes | bytearray = before.json
    if not tail or _is_failed(tail[-1]):  # what stands before it may have to go, too
        history, tail = b"", [*adapt_messages(messages, request.model, rules)]
    # One copy of a long conversation, not one for each step.
    said = bytearray().join((_joined(first), history, _joined(encode(tail, kind)), b"]"))
    if len(said) == 1:
        return msgspec.Raw(b"[]")
    said[:1] = b"["  # where the first comma was
    return msgspec.Raw(said)


def encode_system(system: System) -> bytes:
    """The JSON of the whole system prompt, whose stable part is encoded once for many requests."""
    parts = (_stable_json(system.stable), to_bytes(system.dynamic)[1:-1])
    return b'"%b"' % b"\\n".join(part for part in parts if part)


@lru_cache(maxsize=8)
def _stable_json(text: str) -> bytes:
    """A text in JSON, without the quotes around it."""
    return to_bytes(text)[1:-1]


def _joined(parts: Iterable[Any]) -> bytes:
    return b"".join(b"," + to_bytes(part) for part in parts)


def _is_failed(message: Message) -> bool:
    return isinstance(message, Assistant) and message.stop_reason in ("error", "aborted")


def _paired(messages: Iterable[Message]) -> list[tuple[User | Assistant, dict[str, ToolResult]]]:
    """Pairs each message with the results of its calls; results without a call are left out."""
    turns: list[tuple[User | Assistant, dict[str, ToolResult]]] = []
    open_results: dict[str, ToolResult] = {}
    wanted: set[str] = set()
    for message in messages:
        if isinstance(message, ToolResult):
            if message.tool_call_id in wanted:
                open_results.setdefault(message.tool_call_id, message)
            continue
        if isinstance(message, Assistant):
            open_results = {}
            wanted = {call.id for call in message.calls}
            turns.append((message, open_results))
        else:
            turns.append((message, {}))
    return turns


def _question(message: User, sees: bool) -> tuple[User, ...]:
    content = _seen(_blocks(message), sees)
    return (replace(message, content=content),) if content else ()


def _turn(
    message: Assistant, results: dict[str, ToolResult], native: bool, ids: "_Ids", sees: bool
) -> list[Assistant | ToolResult]:
    """An assistant message and, right after it, one result for each of its calls."""
    failed = message.stop_reason in ("error", "aborted")
    content: list[AssistantBlock] = []
    answers: list[ToolResult] = []
    for block in message.content:
        match block:
            case ToolCall():
                if failed and block.id not in results:
                    continue
                call_id = ids.clean(block.id)
                arguments = {} if block.broken is not None else block.arguments
                signature = block.signature if native else None
                content.append(ToolCall(id=call_id, name=block.name, arguments=arguments, signature=signature))
                answers.append(_answer(block, call_id, results.get(block.id), sees))
            case Text() if block.text.strip() and message.stop_reason != "error":
                content.append(block if native else Text(block.text))
            case Thinking() if native and not failed and (block.thinking.strip() or block.thinking_signature):
                content.append(block)
    # APIs reject reasoning that nothing follows.
    while content and isinstance(content[-1], Thinking):
        content.pop()
    if failed and message.content:
        calls = [block for block in content if isinstance(block, ToolCall)]
        others = [block for block in content if not isinstance(block, ToolCall)]
        content = [*others, FAILED if message.stop_reason == "error" else STOPPED, *calls]
    if not content:
        return []
    return [replace(message, content=tuple(content)), *answers]


def _answer(call: ToolCall, call_id: str, result: ToolResult | None, sees: bool) -> ToolResult:
    if result is None:
        return ToolResult(tool_call_id=call_id, tool_name=call.name, content=(NO_RESULT,), is_error=True)
    content = _seen(result.content, sees) or (NO_OUTPUT,)
    return ToolResult(tool_call_id=call_id, tool_name=call.name, content=content, is_error=result.is_error)


def _blocks(message: User) -> tuple[Text | Image, ...]:
    return (Text(message.content),) if isinstance(message.content, str) else message.content


def _seen(blocks: Iterable[Text | Image], sees: bool) -> tuple[Text | Image, ...]:
    """The non-empty blocks; images become a text when the model cannot see."""
    out: list[Text | Image] = []
    for block in blocks:
        if isinstance(block, Image) and not sees:
            block = NO_IMAGES
        if isinstance(block, Image) or block.text.strip():
            out.append(block)
    return tuple(out)


def _merged(messages: list[Message]) -> list[Message]:
    out: list[Message] = []
    for message in messages:
        match out[-1] if out else None, message:
            case User() as before, User():
                out[-1] = replace(before, content=(*_blocks(before), *_blocks(message)))
            case Assistant() as before, Assistant():
                out[-1] = replace(message, content=(*before.content, *message.content))
            case _:
                out.append(message)
    return out


class _Ids:
    """Rewrites call ids to what the API accepts, each unique."""

    def __init__(self, rules: HistoryRules, before: "_Ids | None" = None) -> None:
        self._rules = rules
        self._used: set[str] = set()
        self._before = before._used if before is not None else self._used
        """The ids of earlier messages."""

    def clean(self, call_id: str) -> str:
        candidate, attempt = call_id, 0
        while not self._fits(candidate) or candidate in self._used or candidate in self._before:
            digest = hashlib.sha256(f"{attempt}:{call_id}".encode("utf-8", "replace")).hexdigest()
            candidate = digest[: self._rules.id_chars] if self._rules.id_exact else f"call_{digest[:24]}"
            attempt += 1
        self._used.add(candidate)
        return candidate

    def _fits(self, call_id: str) -> bool:
        if self._rules.id_exact:
            return len(call_id) == self._rules.id_chars and call_id.isascii() and call_id.isalnum()
        return len(call_id) <= self._rules.id_chars and bool(_CLEAN.fullmatch(call_id))


# Parameters, tools and JSON.

# Parameters the runtime reads itself; everything else in a model's `params` goes to the provider unchanged.
_RUNTIME_PARAMS = frozenset(
    ("temperature", "maxTokens", "cacheRetention", "thinking", "fastMode", "context1m", "extra_body", "serviceTier")
)


@lru_cache(maxsize=256)
def authority(url: str) -> str:
    """Host and port of an address, malformed ones included; never the credentials in it."""
    return re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0].rpartition("@")[2].lower()


def numeric_param(model: Model, name: str) -> Any:
    """A numeric parameter of the model, if it is one."""
    value = model.params.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def output_limit(request: ModelRequest) -> int | None:
    """The most tokens to answer with: what is asked for, within what the model can do."""
    asked = request.max_tokens or numeric_param(request.model, "maxTokens")
    limits = [int(limit) for limit in (asked, request.model.max_tokens) if limit]
    return min(limits) if limits else None


def temperature(request: ModelRequest) -> float | None:
    asked = request.temperature if request.temperature is not None else numeric_param(request.model, "temperature")
    return None if asked is None else float(asked)


def sampling(request: ModelRequest, limit_field: str, *, heat: bool = True) -> dict[str, Any]:
    """The output limit under the API's name for it, and the temperature, as far as they are set."""
    given = {limit_field: output_limit(request), "temperature": temperature(request) if heat else None}
    return {name: value for name, value in given.items() if value is not None}


def passed_params(model: Model) -> dict[str, Any]:
    """Parameters that go to the provider untouched."""
    return {name: value for name, value in model.params.items() if name not in _RUNTIME_PARAMS}


def extra_body(model: Model) -> dict[str, Any]:
    """What the configuration puts into every request, over everything else."""
    extra = model.params.get("extra_body")
    return dict(extra) if isinstance(extra, Mapping) else {}


_name_of = attrgetter("name")


def sorted_tools(request: ModelRequest) -> list[ToolSpec]:
    """The tools in an order that is the same for every call, so that caches hit."""
    if request.model.compat.supports_tools is False:
        return []
    return sorted(request.tools, key=_name_of)


def schema(tool: ToolSpec, model: Model) -> dict[str, Any]:
    """The tool's parameters without the keywords the endpoint cannot read."""
    return _schema(tool.schema, frozenset(model.compat.unsupported_tool_schema_keywords))


def function_tools(request: ModelRequest, more: Mapping[str, Any] = MappingProxyType({})) -> list[dict[str, Any]]:
    """The tools as OpenAI's chat API and Ollama list them; `more` goes into each function."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": schema(tool, request.model),
                **more,
            },
        }
        for tool in sorted_tools(request)
    ]


_encoded_tools: dict[tuple[Any, ...], tuple[tuple[ToolSpec, ...], msgspec.Raw]] = {}
"""The tools of the latest requests as JSON: they are the same in every call of an agent, and much of it."""
MOST_TOOL_LISTS = 32


def encode_tools(request: ModelRequest, more: Mapping[str, Any] = MappingProxyType({})) -> msgspec.Raw | None:
    """What `function_tools` gives, as JSON; None when there are none."""
    compat, tools = request.model.compat, request.tools
    key = (
        compat.supports_tools,
        compat.unsupported_tool_schema_keywords,
        *more.items(),
        *map(_name_of, tools),
    )
    known, made = _encoded_tools.get(key, (None, None))
    if made is None or known != tools:
        if len(_encoded_tools) >= MOST_TOOL_LISTS:
            _encoded_tools.clear()
        made = msgspec.Raw(to_bytes(function_tools(request, more)))
        _encoded_tools[key] = (tools, made)
    return made if bytes(made) != b"[]" else None


@lru_cache(maxsize=512)
def _schema(text: bytes, keywords: frozenset[str]) -> dict[str, Any]:
    """Cached by text: the same object is in every request body, so bodies must not be changed in place."""
    return {"type": "object", "properties": {}} | _without(msgspec.json.decode(text), keywords)


def _without(value: Mapping[str, Any], keywords: frozenset[str]) -> dict[str, Any]:
    """`value` without `keywords`; names of properties are not keywords."""
    out: dict[str, Any] = {}
    for name, part in value.items():
        if name in keywords:
            continue
        if name in ("properties", "$defs", "definitions", "patternProperties") and isinstance(part, Mapping):
            out[name] = {key: _cleaned(inner, keywords) for key, inner in part.items()}
        elif name in ("const", "default", "enum", "examples"):
            out[name] = part
        else:
            out[name] = _cleaned(part, keywords)
    return out


def _cleaned(value: Any, keywords: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return _without(value, keywords)
    return [_cleaned(part, keywords) for part in value] if isinstance(value, list | tuple) else value


def data_url(image: Image) -> str:
    return f"data:{image.mime_type};base64,{image.data}"


def join_texts(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)


def arguments_text(arguments: Mapping[str, Any]) -> str:
    return to_bytes(arguments).decode()


def to_bytes(body: Any) -> bytes:
    """Encodes JSON; lone surrogates, which UTF-8 cannot hold, become the replacement character."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole(body))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_whole(name): _whole(part) for name, part in value.items()}
    return [_whole(part) for part in value] if isinstance(value, list | tuple) else value


def openai_effort(request: ModelRequest) -> str | None:
    """The reasoning effort in OpenAI's words, or None to leave it to the model."""
    model, level = request.model, request.thinking
    if not model.reasoning or model.compat.supports_reasoning_effort is False:
        return None
    mapped = (model.compat.reasoning_effort_map or {}).get(level)
    if mapped is not None:
        return mapped
    if level == "adaptive":
        return None
    return _least_effort(model.id) if level == "off" else level


def _least_effort(model_id: str) -> str | None:
    """The lowest effort a model accepts; None when that is not known."""
    name = model_id.rpartition("/")[2]
    found = re.match(r"gpt-(\d+)(?:\.(\d+))?", name)
    if found:
        version = (int(found[1]), int(found[2] or 0))
        return None if version < (5, 0) else "minimal" if version == (5, 0) else "none"
    return "low" if re.match(r"o\d", name) else None
