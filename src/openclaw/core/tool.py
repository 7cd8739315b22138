"""The tool seam: what a tool says of itself, what it may do, and how it is called."""

from collections.abc import Callable, Mapping, Sequence
from enum import Flag, auto
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct, field

from openclaw.core.messages import Image, Text
from openclaw.core.secret import Secret
from openclaw.core.text import Origin

Decision = Literal["allow-once", "allow-always", "deny"]


class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """What a person must see before they can say yes."""

    id: str
    tool: str
    command: str
    cwd: str
    agent_id: str
    session_key: str
    why: str = ""
    origins: tuple[Origin, ...] = ()
    """The untrusted text that was read before, and may be what asked for it."""
    standing: bool = True
    """Whether "always" means anything for it."""


class ApprovalAnswer(Struct, frozen=True):
    decision: Decision
    by: str = ""
    why: str = ""
    nobody: bool = False
    """No person answered: it expired, or there was nobody to ask."""


class Approver(Protocol):
    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer: ...


class Effects(Flag):
    """What a call can do to the world; policy decides on these, never on the tool's name."""

    NONE = 0
    READS_FILES = auto()
    WRITES_FILES = auto()
    RUNS_CODE = auto()
    FETCHES = auto()
    SENDS_OUT = auto()
    SPENDS = auto()
    CHANGES_CONFIG = auto()
    CONTAINED = auto()
    """It happens in a sandbox and cannot leave it."""
    LEAVES_SANDBOX = auto()
    """The run is in a sandbox, and this call is not."""
    SCHEDULES = auto()
    """Work that starts by itself, later."""
    DELETES = auto()
    DELEGATES = auto()
    """Hands text to another conversation of the owner's, labels and all."""


class ToolSpec(Struct, frozen=True, kw_only=True, dict=True):
    """What the model is told. `parameters` is a plain JSON Schema object."""

    name: str
    label: str
    description: str
    parameters: Mapping[str, Any]
    summary: str = ""
    """A short fragment for the prompt's tool list."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Parameter names models also use, and the real name of each."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Parameters that models may know from elsewhere and this tool lacks: what it answers to whoever uses one."""

    @cached_property
    def schema(self) -> bytes:
        """`parameters` as JSON. Most tools live as long as the process, and every turn asks for this several times."""
        return msgspec.json.encode(self.parameters)


class Output(Struct, frozen=True, kw_only=True):
    """What a tool hands back; a failure is an output too."""

    content: tuple[Text | Image, ...] = ()
    details: dict[str, Any] | None = None
    is_error: bool = False
    ends_run: bool = False
    """The answer comes from elsewhere, later: the model is not asked again in this run."""
    end_matters: bool = False
    """When it is too long, keep its end: the last lines of a command say how it went."""
    origins: tuple[Origin, ...] = ()
    """Untrusted sources of what it says, where the tool knows them; others are told by what the call does."""
    touched: tuple[str, ...] = ()
    """Absolute paths whose contents are shown in it."""
    listed: tuple[str, ...] = ()
    """Absolute paths of which only the names are shown."""
    enclosed: bool = False
    """The tool has cleaned and enclosed what strangers wrote, and the markers in it are ours."""

    @classmethod
    def of(cls, text: str, **details: Any) -> "Output":
        return cls(content=(Text(text),), details=details or None)

    @classmethod
    def failed(cls, text: str, **details: Any) -> "Output":
        return cls(content=(Text(text),), details=details or None, is_error=True)

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


class ToolContext(Struct, frozen=True, kw_only=True):
    """What one call is given: where it works, for whom, and a way to show progress."""

    call_id: str
    workspace: Path
    session_key: str = ""
    run_id: str = ""
    tools: tuple[str, ...] = ()
    """The names of all tools of the run, for a tool that hands some of them on."""
    agent_id: str = "main"
    report: Callable[[str], None] = lambda text: None
    accepts_images: bool = True
    origins: tuple[Origin, ...] = ()
    """The untrusted sources the run has read so far: what it hands on carries them."""
    env: Mapping[str, str] = field(default_factory=dict)


class Tool(Protocol):
    """One ability. Cancelling the task stops the work; only what was put in the background outlives the call."""

    @property
    def spec(self) -> ToolSpec: ...

    def effects(self, args: Mapping[str, Any]) -> Effects: ...

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        """Names of what this call needs alone (absolute paths, usually); calls that share one run in order."""
        ...

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output: ...


Transport = Literal["stdio", "sse", "streamable-http"]


class OfferedTool(Struct, frozen=True, kw_only=True):
    """A tool as its server describes it, word for word."""

    name: str
    title: str = ""
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    read_only: bool = False
    """What the server says of it; good enough to spare a question, not to grant anything."""


class ServerResult(Struct, frozen=True, kw_only=True):
    """What a call gave back."""

    content: tuple[Text | Image, ...] = ()
    structured: Any = None
    is_error: bool = False


class ServerLaunch(Struct, frozen=True, kw_only=True):
    """How a server is reached: a program that is started, or an address."""

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, Secret] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, Secret] = field(default_factory=dict)
    verify: bool = True
    client_cert: str = ""
    client_key: str = ""
    connect_seconds: float = 30.0
    request_seconds: float = 60.0


class ToolServer(Protocol):
    """One server. It is started by the first question and again after it died; `close` ends it for good."""

    async def list(self) -> Sequence[OfferedTool]: ...

    async def call(self, name: str, args: Mapping[str, Any], report: Callable[[str], None]) -> ServerResult: ...

    @property
    def alive(self) -> bool:
        """Whether it runs now."""
        ...

    @property
    def listings(self) -> int:
        """Grows whenever what the server offers may have become something else."""
        ...

    async def close(self) -> None: ...
