"""The events of a model stream and of a run."""

from typing import Literal

from msgspec import Struct

from openclaw.core.messages import Assistant, StopReason, ToolCall, ToolResult, Usage, User

Trigger = Literal["user", "heartbeat", "cron", "memory", "system"]
"""What started a run; `system` is the gateway itself: a sub-agent's task, or a background command that ended."""

# What a provider yields. A stream is any number of deltas, then exactly one `Done`.


class TextDelta(Struct, frozen=True):
    text: str


class ThinkingDelta(Struct, frozen=True):
    text: str


class CallDelta(Struct, frozen=True):
    """A tool call is being written; `fragment` is raw argument text, for progress only."""

    id: str
    name: str
    fragment: str


class Done(Struct, frozen=True):
    """The complete message, with usage and stop reason."""

    message: Assistant
    sent: bytes = b""
    """The request body sent to the provider, where it went over a network."""


ModelEvent = TextDelta | ThinkingDelta | CallDelta | Done


# What a run yields besides the deltas.


class ModelCalled(Struct, frozen=True):
    """A request is about to be sent."""

    provider: str
    model: str
    thinking: str = "off"


class AttemptFailed(Struct, frozen=True):
    """A model call failed and another follows; whatever was streamed since `ModelCalled` is void."""

    provider: str
    model: str
    reason: str
    error: str
    wait: float = 0.0


class MessageEnded(Struct, frozen=True):
    message: Assistant


class Steered(Struct, frozen=True):
    """A message was added while the run was busy."""

    message: User


class ToolStarted(Struct, frozen=True):
    call: ToolCall


class ToolUpdated(Struct, frozen=True):
    call: ToolCall
    text: str


class ToolEnded(Struct, frozen=True):
    call: ToolCall
    result: ToolResult
    seconds: float = 0.0


class RunNotice(Struct, frozen=True):
    """A notice to the person that is not part of the answer, such as a model fallback or the remaining budget."""

    text: str
    delivered: bool = False
    """Whether it goes where the answer goes, too: without it the answer would mislead, or there is none."""


CompactionReason = Literal["threshold", "overflow", "manual"]


class CompactionStarted(Struct, frozen=True, kw_only=True):
    """The older part of the conversation is being summarised."""

    reason: CompactionReason
    tokens: int
    """The estimated size of the conversation."""


class CompactionEnded(Struct, frozen=True, kw_only=True):
    """Compaction finished; on failure `error` says why and the conversation is unchanged."""

    reason: CompactionReason
    ok: bool
    tokens_before: int = 0
    tokens_after: int = 0
    removed: int = 0
    """Messages replaced by the summary."""
    kept: int = 0
    """Messages kept verbatim."""
    will_retry: bool = False
    """Whether the call that overflowed the context is retried."""
    error: str = ""
    usage: Usage = Usage()

    @property
    def line(self) -> str:
        """The outcome, as text for people."""
        if not self.ok:
            return f"not compacted: {self.error}"
        return f"compacted: about {self.tokens_before:,} tokens became {self.tokens_after:,}; all of it is kept on disk"


class RunEnded(Struct, frozen=True):
    """The last event of every run."""

    stop_reason: StopReason
    usage: Usage
    error: str | None = None
    error_code: str | None = None
    turns: int = 0
    yielded: bool = False
    """Whether the run waits for something that will start the next one."""


# Everything besides the model's text; readers of any kind get these events unchanged.
PlainEvent = (
    CallDelta
    | ModelCalled
    | AttemptFailed
    | Steered
    | ToolStarted
    | ToolUpdated
    | ToolEnded
    | RunNotice
    | CompactionStarted
    | CompactionEnded
    | RunEnded
)

Event = TextDelta | ThinkingDelta | MessageEnded | PlainEvent
