"""What the loop, a harness and compaction need of a run: its job, tools, models, gates and steering."""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from openclaw.core.errors import ProviderError
from openclaw.core.events import ToolEnded, ToolStarted, ToolUpdated
from openclaw.core.messages import Message, ToolCall, Usage, User
from openclaw.core.provider import CacheRetention, Endpoint, Model, Provider, System, ThinkingLevel
from openclaw.core.text import Origin
from openclaw.core.tool import Output, Tool, ToolContext, ToolSpec

ToolEvent = ToolStarted | ToolUpdated | ToolEnded


class Gate(Protocol):
    """Decides, outside the model's reach, whether a call may happen."""

    async def admit(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        """None when the call may run; otherwise the reason it may not, for the model to read."""
        ...


class CallObserver(Protocol):
    """Others who look at every call before policy does, and are told how it went."""

    async def before(self, tool: str, args: dict[str, Any], context: ToolContext) -> dict[str, Any] | str:
        """The arguments to go on with; or the reason the call may not be made, for the model to read."""
        ...

    def after(
        self, tool: str, args: Mapping[str, Any], context: ToolContext, output: Output, seconds: float
    ) -> None: ...


class LabelTracker(Protocol):
    """Follows where the text of a run comes from, and what becomes of it."""

    @property
    def origins(self) -> tuple[Origin, ...]: ...

    def heard(self, message: Message) -> None: ...

    async def before(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> Any:
        """What `after` needs to know of the time before a call that was admitted."""
        ...

    async def after(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, began: Any, output: Output
    ) -> Output:
        """The result as the model may read it."""
        ...

    def cleaned(self, text: str) -> str:
        """Words of ours with a stranger's in them, made harmless."""
        ...


class NoLabels:
    """For a run whose model reads nothing but what we wrote ourselves."""

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

    def heard(self, message: Message) -> None: ...

    def run_all(
        self, calls: Sequence[ToolCall], interrupted: Callable[[], bool] = ...
    ) -> AsyncGenerator[ToolEvent, None]: ...


class Attempt(Struct, frozen=True, kw_only=True):
    """Who is asked now, and how long they may be silent (0 = for ever)."""

    model: Model
    provider: Provider
    thinking: ThinkingLevel = "off"
    first_event_timeout: float = 0.0
    idle_timeout: float = 0.0


class ModelRouter(Protocol):
    """Which model answers, and what happens when it fails."""

    @property
    def attempt(self) -> Attempt: ...

    def failed(self, error: ProviderError) -> float | None:
        """Seconds to wait before asking `attempt` (perhaps another one now); None to give up."""
        ...

    def answered(self) -> None: ...

    def verdict(self, error: ProviderError) -> str:
        """What to tell the person after giving up on `error`."""
        ...


class RunJob(Struct, frozen=True, kw_only=True):
    """What a run starts from."""

    system: System
    messages: tuple[Message, ...]
    cache_key: str = ""
    cache_retention: CacheRetention = "short"
    max_tokens: int | None = None
    temperature: float | None = None


class Steering:
    """What people add while the run is busy; read between steps."""

    def __init__(self) -> None:
        self._queue: deque[User] = deque()

    def add(self, message: User) -> None:
        self._queue.append(message)

    def take(self) -> User | None:
        """The next of them: each gets an answer of its own."""
        return self._queue.popleft() if self._queue else None

    @property
    def waiting(self) -> bool:
        return bool(self._queue)

    @property
    def left(self) -> tuple[User, ...]:
        """Those nobody has taken yet."""
        return tuple(self._queue)


class ModelAnswer(Struct, frozen=True):
    """What came of it."""

    text: str
    usage: Usage


class AskModel(Protocol):
    """Asks a model aside, outside the conversation."""

    async def ask(self, job: RunJob, tools: RunTools) -> ModelAnswer: ...


OpenProvider = Callable[[Endpoint], Provider]
