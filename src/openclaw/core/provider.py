"""The provider seam: a request in, a stream of model events out."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct, field, structs

from openclaw.core.events import ModelEvent
from openclaw.core.messages import Assistant, AssistantBlock, Cost, Message, StopReason, Text, Thinking, ToolCall, Usage
from openclaw.core.secret import Secret
from openclaw.core.tool import ToolSpec

ModelApi = Literal[
    "openai-completions",
    "openai-responses",
    "anthropic-messages",
    "google-generative-ai",
    "ollama",
    "offline",
    "plugin",
    "acp",
]
ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max", "adaptive"]
CacheRetention = Literal["none", "short", "long"]
ToolChoice = Literal["auto", "none"]


class Price(Struct, frozen=True, rename="camel"):
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0


class Compat(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What an OpenAI-compatible endpoint does differently; `None` lets the adapter decide by host."""

    supports_store: bool | None = None
    supports_prompt_cache_key: bool | None = None
    supports_developer_role: bool | None = None
    supports_reasoning_effort: bool | None = None
    supports_temperature: bool | None = None
    supports_usage_in_streaming: bool | None = None
    supports_tools: bool | None = None
    supports_strict_mode: bool | None = None
    requires_string_content: bool | None = None
    requires_tool_result_name: bool | None = None
    requires_thinking_as_text: bool | None = None
    reasoning_tags: bool | None = None
    """It has no reasoning channel: it is asked to think in `<think>` and to answer in `<final>`."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    thinking_format: Literal["openai", "zai", "qwen", "deepseek"] | None = None
    reasoning_effort_map: Mapping[str, str] | None = None
    unsupported_tool_schema_keywords: tuple[str, ...] = ()


class Model(Struct, frozen=True, kw_only=True, dict=True):
    """A model: its endpoint, capabilities and price."""

    provider: str
    id: str
    api: ModelApi
    base_url: str = ""
    name: str = ""
    context_window: int = 200_000
    max_tokens: int | None = None
    reasoning: bool = False
    input: tuple[str, ...] = ("text",)
    price: Price | None = None
    compat: Compat = Compat()
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    timeout_seconds: float | None = None

    @cached_property
    def ref(self) -> str:
        return f"{self.provider}/{self.id}"

    @property
    def sees_images(self) -> bool:
        return "image" in self.input


class System(Struct, frozen=True, dict=True):
    """The system prompt on both sides of the cache boundary."""

    stable: str = ""
    dynamic: str = ""

    @cached_property
    def text(self) -> str:
        return "\n".join(part for part in (self.stable, self.dynamic) if part)


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One call to a model."""

    model: Model
    system: System = System()
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    """`none` sends the tools, so that earlier calls can be read, but forbids calling them."""
    thinking: ThinkingLevel = "off"
    max_tokens: int | None = None
    temperature: float | None = None
    cache_key: str = ""
    """The session key, so that a provider can route to a warm cache."""
    cache_retention: CacheRetention = "short"


class Provider(Protocol):
    """Answers model requests. `stream` yields deltas and then one `Done`, or raises a `ProviderError`."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]: ...

    async def close(self) -> None: ...


class Endpoint(Struct, frozen=True, kw_only=True):
    """How to reach a provider's API; adapters are built from this."""

    provider: str
    api: ModelApi
    base_url: str
    key: Secret | None = None
    bearer: bool = False
    """Sends the key as a bearer token instead of in the API's own header."""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float | None = None


OpenProvider = Callable[[Endpoint], Provider]

# What adapters share: costs, arguments, collecting a reply.

MAX_ARGUMENT_CHARS = 1_000_000


def cost_of(usage: Usage, price: Price | None) -> Cost | None:
    """The cost of `usage`; None when the price is unknown, which does not mean free."""
    if price is None:
        return None
    counts, prices = structs.astuple(usage)[:4], structs.astuple(price)
    parts = [count * each / 1e6 for count, each in zip(counts, prices, strict=True)]
    return Cost(*[*parts, sum(parts)])


def parse_arguments(raw: str, *, whole: bool = True) -> tuple[dict[str, Any], str | None]:
    """Parses tool arguments from JSON; also returns the raw text when it is not an object.

    Text that is not `whole` stopped at a limit: what is missing at its end is not guessed.
    """
    if not raw.strip():
        return {}, None
    if len(raw) > MAX_ARGUMENT_CHARS:
        return {}, raw[:500]
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        value = _repaired(raw, whole)
    return (value, None) if isinstance(value, dict) else ({}, raw[:2000])


def _repaired(raw: str, whole: bool) -> Any:
    """The object inside `raw` when only surrounding junk is wrong, or brackets are missing at its end."""
    raw = raw.rstrip().removesuffix("```").rstrip()
    start, end = raw.find("{"), raw.rfind("}")
    if start < 0 or start > 96 or len(raw) > 64_000:
        return None
    tries = [raw[start : end + 1]] if end > start and len(raw) - end - 1 <= 3 else []
    if whole and (missing := _missing_brackets(raw[start:])):
        tries.append(raw[start:] + missing)
    for text in tries:
        with suppress(msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return msgspec.json.decode(text)
    return None


def _missing_brackets(text: str) -> str:
    """The brackets that close what `text` leaves open; none when it ends inside a string, or has too many."""
    open_: list[str] = []
    quoted = escaped = False
    for char in text:
        if quoted and escaped:
            escaped = False
        elif quoted:
            quoted, escaped = char != '"', char == "\\"
        elif char == '"':
            quoted = True
        elif char in "{[":
            open_.append("}" if char == "{" else "]")
        elif char in "}]" and (not open_ or open_.pop() != char):
            return ""
    return "" if quoted else "".join(reversed(open_))


class _Block(Struct):
    kind: str
    parts: list[str] = []
    call_id: str = ""
    name: str = ""
    signature: str | None = None
    redacted: bool = False


class ReplyBuilder:
    """Collects the content blocks of one assistant message in the order they began."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.usage = Usage()
        self.stop_reason: StopReason | None = None
        self.response_id: str | None = None
        self._blocks: dict[Any, _Block] = {}

    def text(self, key: Any, part: str) -> None:
        self._block(key, "text").parts.append(part)

    def thinking(self, key: Any, part: str) -> None:
        self._block(key, "thinking").parts.append(part)

    def signature(self, key: Any, kind: str, value: str, *, redacted: bool = False) -> None:
        """Sets the signature of the block `key`, verbatim."""
        block = self._block(key, kind)
        block.signature = (block.signature or "") + value if kind == "thinking" and not redacted else value
        block.redacted = block.redacted or redacted

    def call(self, key: Any, call_id: str = "", name: str = "", fragment: str = "") -> tuple[str, str]:
        """Adds to the tool call `key`; returns its id and name as known so far."""
        block = self._block(key, "call")
        block.call_id = block.call_id or call_id
        block.name = block.name or name
        block.parts.append(fragment)
        return block.call_id, block.name

    def replace_call(self, key: Any, arguments: str) -> None:
        """Sets the complete argument text of the call `key`, which some providers repeat at the end."""
        self._block(key, "call").parts = [arguments]

    @property
    def empty(self) -> bool:
        return not self._blocks

    def message(self, timestamp: int = 0) -> Assistant:
        """The message so far. With a stop reason it is complete; without one the stream was cut."""
        cut = self.stop_reason is None
        # At the output limit the last call may have stopped before its arguments began.
        starved = next(reversed(self._blocks), None) if self.stop_reason == "length" else None
        finished = (_finish(part, key, cut, starved=key == starved) for key, part in self._blocks.items())
        content = tuple(block for block in finished if block is not None)
        usage = self.usage
        total = usage.total_tokens or usage.input + usage.output + usage.cache_read + usage.cache_write
        usage = structs.replace(usage, total_tokens=total, cost=cost_of(usage, self.model.price))
        stop: StopReason = self.stop_reason or "error"
        if stop == "stop" and any(isinstance(block, ToolCall) for block in content):
            stop = "toolUse"
        return Assistant(
            content=content,
            api=self.model.api,
            provider=self.model.provider,
            model=self.model.id,
            usage=usage,
            stop_reason=stop,
            timestamp=timestamp,
            response_id=self.response_id,
        )

    def _block(self, key: Any, kind: str) -> _Block:
        slot = (kind, key)
        if slot not in self._blocks:
            self._blocks[slot] = _Block(kind)
        return self._blocks[slot]


def _finish(block: _Block, key: Any, cut: bool, *, starved: bool) -> AssistantBlock | None:
    body = "".join(block.parts)
    if block.kind == "text":
        return Text(body, block.signature) if body else None
    if block.kind == "thinking":
        return Thinking(body, block.signature, block.redacted) if body or block.signature else None
    if cut or not block.name:
        return None  # a truncated call is never run
    arguments, broken = ({}, "") if starved and not body.strip() else parse_arguments(body, whole=not starved)
    call_id = block.call_id or f"call_{key[1]}"
    return ToolCall(id=call_id, name=block.name, arguments=arguments, signature=block.signature, broken=broken)


# What a provider adds to prompts.


class ProviderPrompt(Struct, frozen=True, kw_only=True, rename="camel"):
    """The prompt for a model of the plugin's own provider is about to be built. Nothing that was said is in it."""

    provider: str
    model: str


class ProviderContribution(
    Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """What a plugin's provider says in the prompts of its models, at the hook `provider_prompt_contribution`."""

    interaction_style: str | None = None
    """The section on how to talk; there is none otherwise."""
    tool_call_style: str | None = None
    """In place of Tool Call Style."""
    execution_bias: str | None = None
    """In place of Execution Bias."""
    stable_prefix: str | None = None
    """Above the cache boundary: text that stays the same from turn to turn."""
    dynamic_suffix: str | None = None
    """Below the cache boundary."""
