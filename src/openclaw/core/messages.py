"""The messages of a conversation (user, assistant, tool result) and their content blocks.

These are also the records of a transcript file, hence the camel-case names on the border.
"""

from collections.abc import Callable, Sequence
from operator import add
from typing import Any, Literal, Protocol, TypeVar, TypeVarTuple

from msgspec import Struct, field, structs

from openclaw.core.text import Origin

Ts = TypeVarTuple("Ts")
G = TypeVar("G", bound="Grows")

StopReason = Literal["stop", "length", "toolUse", "error", "aborted"]


class Text(Struct, frozen=True, tag_field="type", tag="text", rename="camel", omit_defaults=True):
    text: str
    text_signature: str | None = None


class Thinking(Struct, frozen=True, tag_field="type", tag="thinking", rename="camel", omit_defaults=True):
    """Reasoning as the provider gave it; the signature must be replayed untouched."""

    thinking: str
    thinking_signature: str | None = None
    redacted: bool = False


class Image(Struct, frozen=True, tag_field="type", tag="image", rename="camel"):
    """An image; `data` is base64."""

    data: str
    mime_type: str


class ToolCall(Struct, frozen=True, tag_field="type", tag="toolCall", rename="camel", omit_defaults=True):
    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    signature: str | None = None
    """What the provider wants sent back with the call (Google's thought signature)."""
    broken: str | None = None
    """The raw argument text when it was not a JSON object; such a call is answered with an error and never run."""


class Cost(Struct, frozen=True, rename="camel", omit_defaults=True):
    """US dollars of one or more calls."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0


class Usage(Struct, frozen=True, rename="camel"):
    """Tokens of one or more calls; `input` counts what was not read from or written to a cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost | None = None

    def __add__(self, other: "Usage") -> "Usage":
        cost = self.cost or other.cost
        if self.cost is not None and other.cost is not None:
            cost = Cost(*map(add, structs.astuple(self.cost), structs.astuple(other.cost)))
        sums = [*map(add, structs.astuple(self)[:5], structs.astuple(other)[:5]), cost]
        return Usage(*sums)

    @property
    def prompt_tokens(self) -> int:
        return self.input + self.cache_read + self.cache_write


class WithText(Struct, frozen=True, dict=True):
    """The base of everything with content."""

    @property
    def text(self) -> str:
        content: str | tuple[Any, ...] = self.content  # type: ignore[attr-defined]
        if isinstance(content, str):
            return content
        return "\n".join([block.text for block in content if isinstance(block, Text)])


class User(WithText, frozen=True, tag_field="role", tag="user", rename="camel", omit_defaults=True):
    content: str | tuple[Text | Image, ...]
    timestamp: int = 0
    idempotency_key: str | None = None
    origins: tuple[Origin, ...] = ()
    """Where the untrusted parts of it came from; empty for a person's own words."""


AssistantBlock = Text | Thinking | ToolCall


class AskedQuestion(Struct, frozen=True, omit_defaults=True):
    """What the assistant asks a person; the next message of the conversation is the answer."""

    id: str
    text: str
    """The question as it is said, with a numbered list of the options."""
    options: tuple[str, ...] = ()
    """What may be chosen with one press; empty when it takes words."""


class Assistant(WithText, frozen=True, tag_field="role", tag="assistant", rename="camel", omit_defaults=True):
    content: tuple[AssistantBlock, ...] = ()
    api: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    stop_reason: StopReason = "stop"
    error_message: str | None = None
    timestamp: int = 0
    response_id: str | None = None
    origins: tuple[Origin, ...] = ()
    """Set only when the message was copied from another conversation that had read untrusted text."""
    asks: AskedQuestion | None = None
    """The question that the message is."""

    @property
    def text(self) -> str:
        text = ""
        for block in self.content:
            if isinstance(block, Text):
                text += block.text
        return text

    @property
    def thinking(self) -> str:
        return "".join(block.thinking for block in self.content if isinstance(block, Thinking))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        calls: tuple[ToolCall, ...] = ()
        for block in self.content:
            if isinstance(block, ToolCall):
                calls += (block,)
        return calls


class ToolResult(WithText, frozen=True, tag_field="role", tag="toolResult", rename="camel", omit_defaults=True):
    """The result of a tool call. `details` is for the runtime; models never see it."""

    tool_call_id: str
    tool_name: str
    content: tuple[Text | Image, ...] = ()
    details: dict[str, Any] | None = None
    is_error: bool = False
    timestamp: int = 0
    origins: tuple[Origin, ...] = ()
    """Where the untrusted parts of it came from."""
    asks: AskedQuestion | None = None
    """What is said to the person next, instead of what a model would say."""


Message = User | Assistant | ToolResult


class Grows(Protocol):
    """What is made of a conversation message by message, and holds none of them."""

    def add(self, message: Message) -> None: ...


def grow(kind: Callable[[*Ts], G], messages: Sequence[Message], *args: *Ts) -> G:
    """`kind(*args)` after every one of `messages`; goes on from what was made of their beginning the last time.

    It is kept with the first message, so that a turn of a long conversation costs what is new in it. The rest of the
    messages is kept beside it to compare; the first one is not, which would be a cycle.
    """
    if not messages:
        return kind(*args)
    kept = vars(messages[0]).setdefault("grown", {})
    key = (kind, *args)
    rest, made = kept.pop(key, (None, None))
    now = tuple(messages[1:])
    # Tuples compare their items by identity first: ten thousand messages take some ten microseconds.
    if made is None or now[: len(rest)] != rest:
        made, rest = kind(*args), ()
        made.add(messages[0])
    for message in now[len(rest) :]:
        made.add(message)
    kept[key] = (now, made)
    grown: G = made
    return grown
