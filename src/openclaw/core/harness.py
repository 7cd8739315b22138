"""What the loop, a harness and compaction need of a run: its job, tools, models, gates and steering."""

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct, field

from openclaw.core.errors import ProviderError
from openclaw.core.events import (
    CompactionEnded,
    CompactionStarted,
    Event,
    ModelEvent,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
)
from openclaw.core.messages import Message, ToolCall, Usage, User
from openclaw.core.provider import CacheRetention, Endpoint, Model, ModelRequest, Provider, System, ThinkingLevel
from openclaw.core.text import Origin
from openclaw.core.tool import Output, Tool, ToolContext, ToolSpec

ToolEvent = ToolStarted | ToolUpdated | ToolEnded
Perform = Callable[[Tool, Mapping[str, Any], ToolContext], Awaitable[Output]]
"""Does the work of an admitted call in place of its tool: a runtime that runs commands itself still has them judged."""


# Tool calls.


class Gate(Protocol):
    """Decides, independently of the model, whether a tool call may run."""

    async def admit(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        """None when the call may run; otherwise the reason it may not, for the model to read."""
        ...


class CallObserver(Protocol):
    """Sees every call before policy does, may change or refuse it, and learns its result."""

    async def before(self, tool: str, args: dict[str, Any], context: ToolContext) -> dict[str, Any] | str:
        """The arguments to continue with; or the reason for the model why the call is refused."""
        ...

    def after(
        self, tool: str, args: Mapping[str, Any], context: ToolContext, output: Output, seconds: float
    ) -> None: ...


class LabelTracker(Protocol):
    """Tracks which untrusted text a run has read, and labels what it produces."""

    @property
    def origins(self) -> tuple[Origin, ...]: ...

    def heard(self, message: Message) -> None: ...

    async def before(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> Any:
        """The state before an admitted call, which `after` needs."""
        ...

    async def after(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, began: Any, output: Output
    ) -> Output:
        """The result as the model may read it: cleaned, wrapped and labelled."""
        ...

    def cleaned(self, text: str) -> str:
        """`text` of ours that quotes untrusted text, with forged markers removed."""
        ...


class NoLabels:
    """For a run that reads no untrusted text."""

    origins: tuple[Origin, ...] = ()

    def heard(self, message: Message) -> None:
        return None

    async def before(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> None:
        return None

    async def after(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, began: Any, output: Output
    ) -> Output:
        return output

    def cleaned(self, text: str) -> str:
        return text


class RunTools(Protocol):
    """The tools of one run."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...

    @property
    def loops(self) -> int:
        """How many replies were stopped for going in circles."""
        ...

    @property
    def persisted(self) -> bool:
        """Whether the run goes in the same circle as before its conversation was shortened."""
        ...

    @property
    def ended(self) -> bool:
        """Whether a tool has ended the run."""
        ...

    @property
    def yielded(self) -> bool:
        """Whether the tool that ended the run waits for something."""
        ...

    def heard(self, message: Message) -> None: ...

    async def admit(self, call: ToolCall) -> str | None:
        """Whether a runtime may itself do what `call` would do: None, or the reason why not."""
        ...

    def run_all(
        self,
        calls: Sequence[ToolCall],
        steering: "Steering | None" = None,
        performers: Mapping[str, Perform] | None = None,
    ) -> AsyncGenerator[ToolEvent, None]:
        """Runs `calls`; the work of those named in `performers`, by their id, is done by somebody else."""
        ...


class MeteredCall(Protocol):
    """A reserved call to a model; what it streams is recorded, and its cost is settled when it is closed."""

    begun: bool
    """Whether it was sent."""

    def add(self, event: ModelEvent) -> None: ...

    def failed(self, error: ProviderError) -> None: ...

    async def close(self) -> None: ...


class Attempt(Struct, frozen=True, kw_only=True):
    """The model to ask now, and its timeouts in seconds (0 = none)."""

    model: Model
    provider: Provider
    reserve: Callable[[ModelRequest], Awaitable[MeteredCall]] | None = None
    """Reserves a call in the budget; raises `OverBudget` when it must not be sent."""
    endpoint: Endpoint | None = None
    """Where the model is reached, for a runtime that asks it itself."""
    thinking: ThinkingLevel = "off"
    first_event_timeout: float = 0.0
    idle_timeout: float = 0.0


class ModelRouter(Protocol):
    """Chooses the model that answers, and the next one when it fails."""

    @property
    def attempt(self) -> Attempt: ...

    def failed(self, error: ProviderError) -> float | None:
        """Seconds to wait before retrying with `attempt`, which may be another model by now; None to give up."""
        ...

    def answered(self) -> None: ...

    def verdict(self, error: ProviderError) -> str:
        """What to tell the person after giving up on `error`."""
        ...


# The run.


class RunJob(Struct, frozen=True, kw_only=True):
    """The input of a run."""

    system: System
    messages: tuple[Message, ...]
    cache_key: str = ""
    cache_retention: CacheRetention = "short"
    max_tokens: int | None = None
    temperature: float | None = None
    crowded: Callable[[Sequence[Message]], bool] | None = None
    """Asked between steps by a harness that cannot shorten the conversation itself; it ends the run early."""


class Steering(Struct, eq=False):
    """Messages that people add while a run is busy; the loop takes them between steps, each gets its own answer."""

    waiting: deque[User] = field(default_factory=deque)
    added: Callable[[], None] | None = None
    """Told of each message, for a harness that passes them on at once."""

    def add(self, message: User) -> None:
        self.waiting.append(message)
        if self.added is not None:
            self.added()


class Harness(Protocol):
    """Carries out one run: asks the model, has its tool calls run, yields every event and ends with `RunEnded`."""

    def run(self, job: RunJob, tools: RunTools, steering: Steering) -> AsyncGenerator[Event, None]: ...


@runtime_checkable
class Resumes(Protocol):
    """A harness that can begin with a session its runtime has from elsewhere."""

    def resume(self, session_id: str) -> None:
        """Names that session, before `run`; a conversation that has one already goes on with its own."""
        ...


@runtime_checkable
class Compacts(Protocol):
    """A harness that keeps the conversation within the model's window by itself."""

    def compact(self, job: RunJob, tools: RunTools) -> AsyncGenerator[CompactionStarted | CompactionEnded, None]:
        """Shortens it now; ends with `CompactionEnded`."""
        ...


class ModelAnswer(Struct, frozen=True):
    """The text and usage of an answer."""

    text: str
    usage: Usage


class AskModel(Protocol):
    """Asks a model aside, outside the conversation."""

    async def ask(self, job: RunJob, tools: RunTools) -> ModelAnswer: ...
