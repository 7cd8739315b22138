"""The provider seam: a request in, a stream of model events out."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct, field

from openclaw.core.events import ModelEvent
from openclaw.core.messages import Message
from openclaw.core.secret import Secret
from openclaw.core.tool import ToolSpec

Api = Literal[
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
    """It has no channel for reasoning: it is asked to think in `<think>` and to answer in `<final>`."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    thinking_format: Literal["openai", "zai", "qwen", "deepseek"] | None = None
    reasoning_effort_map: Mapping[str, str] | None = None
    unsupported_tool_schema_keywords: tuple[str, ...] = ()


class Model(Struct, frozen=True, kw_only=True):
    """A model we can call: where it is, what it can do, what it costs."""

    provider: str
    id: str
    api: Api
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

    @property
    def ref(self) -> str:
        return f"{self.provider}/{self.id}"

    @property
    def sees_images(self) -> bool:
        return "image" in self.input


class System(Struct, frozen=True):
    """The system prompt on both sides of the cache boundary."""

    stable: str = ""
    dynamic: str = ""

    @property
    def text(self) -> str:
        return "\n".join(part for part in (self.stable, self.dynamic) if part)


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One call to a model."""

    model: Model
    system: System = System()
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    """`none`: the tools are told, so that the conversation can be read, and none may be called."""
    thinking: ThinkingLevel = "off"
    max_tokens: int | None = None
    temperature: float | None = None
    cache_key: str = ""
    """The session, so that a provider can route to a warm cache."""
    cache_retention: CacheRetention = "short"


class Provider(Protocol):
    """Something that answers. `stream` yields deltas and then one `Done`, or raises a `ProviderError`."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]: ...

    async def close(self) -> None: ...


@runtime_checkable
class ListsModels(Protocol):
    async def models(self) -> list[Model]: ...


@runtime_checkable
class Admits(Protocol):
    """Something that looks at a request before it is sent, and may refuse it with a `ProviderError`."""

    async def admit(self, request: ModelRequest) -> None: ...


class Endpoint(Struct, frozen=True, kw_only=True):
    """How a provider of one wire API is reached; adapters are built from this."""

    provider: str
    api: Api
    base_url: str
    key: Secret | None = None
    bearer: bool = False
    """Send the key as a bearer token where the API would use its own header."""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float | None = None
