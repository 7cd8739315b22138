"""Everything a model stream and a run can say."""

from typing import Literal

from msgspec import Struct

from openclaw.core.messages import Assistant, StopReason, ToolCall, ToolResult, Usage, User

Trigger = Literal["user", "heartbeat", "cron", "memory", "system"]
"""What began a run; `system` is the gateway itself: a sub-agent's errand, news of a command that ended."""

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
    """What the provider was sent for it, where that went over a wire."""


ModelEvent = TextDelta | ThinkingDelta | CallDelta | Done


# What a run yields beside the deltas.


class ModelCalled(Struct, frozen=True):
    """A request is about to be sent."""

    provider: str
    model: str


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
    """A person added something while the run was busy."""

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
    """A word to the person that is no part of the answer: who answered instead, what is left of a budget."""

    text: str


CompactionReason = Literal["threshold", "overflow", "manual"]


class CompactionStarted(Struct, frozen=True, kw_only=True):
    """The older part of the conversation is being summarised."""

    reason: CompactionReason
    tokens: int
    """How large the conversation is, by estimate."""


class CompactionEnded(Struct, frozen=True, kw_only=True):
    """It was, or it was not and `error` says why; then the conversation is as before."""

    reason: CompactionReason
    ok: bool
    tokens_before: int = 0
    tokens_after: int = 0
    removed: int = 0
    """Messages that the summary stands for."""
    kept: int = 0
    """Messages that stay in sight."""
    will_retry: bool = False
    """Whether the call that failed for want of room is made again."""
    error: str = ""
    usage: Usage = Usage()

    @property
    def line(self) -> str:
        """What became of it, for people."""
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


# What a run says beside the words of the model: readers of any kind may have it as it is.
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
