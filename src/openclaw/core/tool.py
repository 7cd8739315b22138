"""The tool seam: a tool's description from its argument type, effects, call, result; approvals; MCP-style servers."""

from collections.abc import Callable, Mapping
from enum import Flag, auto
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, field

from openclaw.core.messages import AskedQuestion, Image, Text, ToolCall, WithText
from openclaw.core.text import Origin

# Approvals.

Decision = Literal["allow-once", "allow-always", "deny"]


class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """What a person must see to decide on an approval."""

    id: str
    tool: str
    command: str
    cwd: str
    agent_id: str
    session_key: str
    why: str = ""
    origins: tuple[Origin, ...] = ()
    """The untrusted text read before, which may have caused the call."""
    standing: bool = True
    """Whether "always" is a possible answer."""
    identity: str = ""
    """The digest of the programs and scripts it would start."""
    run_id: str = ""
    call: ToolCall | None = None
    """The call as the model made it, carried out when the answer comes after the run went on; None when the asker
    has to wait for the answer."""
    also: tuple[ToolCall, ...] = ()
    """Other calls of the same reply that the question shows and its answer settles."""
    expires_after: float | None = None
    """Seconds until it counts as unanswered, where the asker wants another limit than the usual one."""


class ApprovalAnswer(Struct, frozen=True):
    decision: Decision
    by: str = ""
    why: str = ""
    nobody: bool = False
    """No person answered: it expired, or nobody could be asked."""


class Approver(Protocol):
    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        """The answer; raises `ApprovalPending` when the run is to go on without it."""
        ...


# Tools.


class Effects(Flag):
    """What a call can do to the world; policy decides on these, not on the tool's name."""

    NONE = 0
    READS_FILES = auto()
    WRITES_FILES = auto()
    RUNS_CODE = auto()
    FETCHES = auto()
    SENDS_OUT = auto()
    SPENDS = auto()
    CHANGES_CONFIG = auto()
    CONTAINED = auto()
    """It runs in a sandbox and cannot leave it."""
    LEAVES_SANDBOX = auto()
    """The run is sandboxed and this call is not."""
    SCHEDULES = auto()
    """Starts work later, by itself."""
    DELETES = auto()
    DELEGATES = auto()
    """Hands text, with its labels, to another conversation of the owner."""


class ToolSpec(Struct, frozen=True, kw_only=True, dict=True):
    """A tool as the model sees it. `parameters` is a plain JSON Schema object."""

    name: str
    label: str
    description: str
    parameters: Mapping[str, Any]
    summary: str = ""
    """A short fragment for the prompt's tool list."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Parameter names models also use, and the real name of each."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Parameters known from other implementations that this tool lacks, and the error for each."""
    rare: tuple[str, ...] = ()
    """Parameters that a lean request leaves out: they are accepted all the same, and `tool_describe` shows them."""

    @cached_property
    def schema(self) -> bytes:
        """`parameters` as JSON, cached because every turn needs it several times."""
        return msgspec.json.encode(self.parameters)

    @cached_property
    def lean(self) -> "ToolSpec":
        """The spec without its rare parameters."""
        if not self.rare:
            return self
        properties = {name: each for name, each in self.parameters["properties"].items() if name not in self.rare}
        return msgspec.structs.replace(self, parameters={**self.parameters, "properties": properties}, rare=())

    @cached_property
    def chars(self) -> int:
        """What it costs in every request."""
        return len(self.name) + len(self.description) + len(self.schema)


class Output(WithText, frozen=True, kw_only=True):
    """The result of a call; a failure is an output too."""

    content: tuple[Text | Image, ...] = ()
    details: dict[str, Any] | None = None
    is_error: bool = False
    ends_run: bool = False
    """The answer follows later from elsewhere: the model is not asked again in this run."""
    yields: bool = False
    """With `ends_run`: what it waits for starts the next run by itself."""
    asks: AskedQuestion | None = None
    """With `ends_run`: the run ends with this question to the person."""
    end_matters: bool = False
    """When it is too long, truncate its start: the last lines of a command say how it went."""
    origins: tuple[Origin, ...] = ()
    """Untrusted sources of the text, where the tool knows them; otherwise they follow from the call's effects."""
    touched: tuple[str, ...] = ()
    """Absolute paths whose contents are in it."""
    listed: tuple[str, ...] = ()
    """Absolute paths of which only the names are in it."""
    enclosed: bool = False
    """The tool has sanitised and wrapped untrusted text itself, so the markers in it are ours."""
    own: bool = False
    """All of it is in our own words (a refusal, an error, an empty result), so it brings no label."""

    @classmethod
    def of(cls, text: str, **details: Any) -> "Output":
        return cls(content=(Text(text),), details=details or None)

    @classmethod
    def failed(cls, text: str, **details: Any) -> "Output":
        return cls(content=(Text(text),), details=details or None, is_error=True)

    @classmethod
    def refused(cls, text: str, **details: Any) -> "Output":
        """A failure in our own words, which quotes nothing that was read."""
        return cls(content=(Text(text),), details=details or None, is_error=True, own=True)


class ApprovalPending(Exception):
    """Nobody answered yet: the run goes on with `output`, and the call is carried out when a person allows it."""

    def __init__(self, output: Output) -> None:
        super().__init__("an approval is pending")
        self.output = output


def _ignore(text: str) -> None:
    """Drops a report of progress that nobody waits for."""


class ToolContext(Struct, frozen=True, kw_only=True):
    """The context of one call: workspace, session, run, and a way to report progress."""

    call_id: str
    workspace: Path
    call: ToolCall | None = None
    """The call as the model made it."""
    session_key: str = ""
    run_id: str = ""
    tools: tuple[str, ...] = ()
    """All tools of the run, for a tool that passes some of them on."""
    agent_id: str = "main"
    report: Callable[[str], None] = _ignore
    accepts_images: bool = True
    origins: tuple[Origin, ...] = ()
    """The untrusted sources the run has read so far; whatever it passes on carries them."""
    env: Mapping[str, str] = field(default_factory=dict)


class Tool(Protocol):
    """One tool. Cancelling the task stops the work; only background commands outlive the call."""

    @property
    def spec(self) -> ToolSpec: ...

    def effects(self, args: Mapping[str, Any]) -> Effects: ...

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        """Resources the call needs exclusively (usually absolute paths); calls that share one run in order."""
        ...

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output: ...


# What a tool may be besides: base classes, because each call asks for them, and a protocol takes long to be told.


class StartsProgram:
    """A tool whose calls a program on this machine carries out; it may change files, and not say which."""

    starts_program: bool


class PlannedCall(Struct, frozen=True):
    """A call that is to be made later: its tool, and where it goes (addressees, hosts, files) or the command lines."""

    tool: str
    to: tuple[str, ...]


class ProposesCalls:
    """A tool whose call names others, to be approved together before they are made."""

    def proposed(self, args: Mapping[str, Any]) -> tuple[PlannedCall, ...]:
        raise NotImplementedError


class ChecksCalls:
    """A tool that knows before a person is asked whether a call can work."""

    def check(self, args: Mapping[str, Any]) -> None:
        """Raises with the reason why a call with these arguments would fail."""
        raise NotImplementedError


# Tool servers (MCP).


class OfferedTool(Struct, frozen=True, kw_only=True):
    """A tool exactly as its server describes it."""

    name: str
    title: str = ""
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    read_only: bool = False
    """The server's claim; enough to skip a question, not to grant anything."""


class ServerResult(Struct, frozen=True, kw_only=True):
    """The result of a server's tool call."""

    content: tuple[Text | Image, ...] = ()
    structured: Any = None
    is_error: bool = False


# Specs.


def param(about: str = "", **schema: Any) -> Meta:
    """Describes a field whose name does not say it; `schema` overrides what its type says, None leaves a key out."""
    return Meta(description=about, extra_json_schema=schema)


def properties_of(args: type[Struct]) -> dict[str, Any]:
    """The JSON schemas of the fields of an argument struct, by their names on the wire."""
    return {field.encode_name: _schema(field.type) for field in msgspec.structs.fields(args)}


def _schema(kind: Any) -> dict[str, Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        about = inner[1]
        found = {**_schema(inner[0]), "description": about.description or None, **(about.extra_json_schema or {})}
        return {name: value for name, value in found.items() if value is not None}
    if origin in (Union, UnionType):  # with None, which only says that it may be left out
        return _schema(inner[0])
    if origin is Literal:
        return {"type": "string", "enum": list(inner)}
    if origin is tuple:
        return {"type": "array", "items": _schema(inner[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(inner[1])}
    if kind is Any:
        return {}
    if issubclass(kind, Struct):
        required = [field.encode_name for field in msgspec.structs.fields(kind) if field.required]
        return {"type": "object", "properties": properties_of(kind), **({"required": required} if required else {})}
    return {"type": {str: "string", bool: "boolean", int: "integer", float: "number"}[kind]}


def tool_spec(
    name: str,
    label: str,
    summary: str,
    description: str,
    properties: Mapping[str, Any] | type[Struct],
    *required: str,
    aliases: Mapping[str, str] | None = None,
    absent: Mapping[str, str] | None = None,
    rare: tuple[str, ...] = (),
) -> ToolSpec:
    """A spec with parameters from an argument struct, or from written properties and the names of required ones."""
    if isinstance(properties, Mapping):
        parameters = {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}
    else:
        parameters = _schema(properties)
    return ToolSpec(
        name=name,
        label=label,
        summary=summary,
        description=description,
        parameters=parameters,
        aliases=aliases or {},
        absent=absent or {},
        rare=rare,
    )
