"""The renderer's only input, `PromptFacts`, and its output unit, `Section`."""

from typing import Literal

from msgspec import Struct, structs

from openclaw.core.text import ContextFile, Label, PromptText, neutralise, sanitize_block, sanitize_line, utf16_length
from openclaw.security.external import remove_control_tokens

Mode = Literal["full", "minimal", "none"]

DEFAULT_HEARTBEAT = PromptText(
    "Read HEARTBEAT.md if it exists (workspace context). Follow it strictly. "
    "Do not infer or repeat old tasks from prior chats. If nothing needs attention, reply HEARTBEAT_OK.",
    "default heartbeat prompt",
)


class ToolLine(Struct, frozen=True):
    """A tool that is available after policy."""

    name: str
    summary: str | None = ""
    """A short fragment; None to list the name only."""
    deferred: bool = False
    """Its schema is not sent: the model looks it up."""


class Elevated(Struct, frozen=True, kw_only=True):
    """Whether commands may leave the sandbox when the user says so."""

    allowed: bool = False
    default_level: str = "off"
    full_access: bool = False


class SandboxFacts(Struct, frozen=True, kw_only=True):
    """The sandbox tools run in."""

    container_workspace_dir: str = ""
    workspace_access: Literal["none", "ro", "rw"] = "none"
    agent_workspace_mount: str = ""
    elevated: Elevated = Elevated()


THREAD_SPAWN = "threadbound-acp-spawn"
"""The ability of a chat in which an external agent can have a thread."""


class RuntimeFacts(Struct, frozen=True, kw_only=True):
    """Fields of the runtime line, the last of the prompt."""

    agent_id: str = ""
    host: str = ""
    repo_root: str = ""
    os: str = ""
    arch: str = ""
    python: str = ""
    model: str = ""
    default_model: str = ""
    shell: str = ""
    channel: str = ""
    chat_type: str = ""
    capabilities: tuple[str, ...] = ()


class InboundFacts(Struct, frozen=True, kw_only=True):
    """Where the message being answered came from, as the gateway knows it."""

    channel: str = ""
    provider: str = ""
    surface: str = ""
    chat_type: str = ""
    account_id: str = ""
    chat_id: str = ""
    sender_is_owner: bool | None = None
    """Whether the owner wrote it; None where nobody did, or where it is not known."""


class GroupFacts(Struct, frozen=True, kw_only=True):
    """A conversation that others read. Its name and its people are untrusted text, and come with the message."""

    channel: str
    every_message: bool = False
    """Heard without being mentioned."""


class Reactions(Struct, frozen=True):
    level: Literal["minimal", "extensive"]
    channel: str


class VoiceFacts(Struct, frozen=True, kw_only=True):
    """Answers can be spoken in this chat."""

    aloud: bool = False
    """This one is, by itself."""
    longest: int = 0
    """Longer answers stay text."""


class ChatFacts(Struct, frozen=True, kw_only=True):
    """What a run knows of the conversation it answers in; empty where it answers nobody on a channel."""

    channel: str = ""
    chat_type: str = ""
    capabilities: tuple[str, ...] = ()
    inbound: InboundFacts | None = None
    group: GroupFacts | None = None
    message_tool_only: bool = False
    native_approvals: bool = False
    control_ui: bool = False
    voice: VoiceFacts | None = None
    reactions: Reactions | None = None


class Contribution(Struct, frozen=True, kw_only=True):
    """Sections a model family adds or words differently; it never replaces the whole prompt."""

    interaction_style: PromptText | None = None
    tool_call_style: PromptText | None = None
    execution_bias: PromptText | None = None
    stable_prefix: PromptText | None = None
    dynamic_suffix: PromptText | None = None


NO_CONTRIBUTION = Contribution()


class PromptFacts(Struct, frozen=True, kw_only=True):
    """All facts a prompt is rendered from. Prose from elsewhere is `PromptText`; ids and paths are plain."""

    workspace_dir: str
    mode: Mode = "full"
    tools: tuple[ToolLine, ...] = ()
    fence_id: str = ""
    """In the markers around files; one per process, so that the cached prefix stays equal. Empty: no fences."""

    context_files: tuple[ContextFile, ...] = ()
    truncation_notice: bool = False
    workspace_notes: tuple[PromptText, ...] = ()
    skills: PromptText | None = None
    docs_path: str = ""
    source_path: str = ""
    user_timezone: str = ""
    model_aliases: tuple[str, ...] = ()
    memory_citations: Literal["auto", "on", "off"] = "auto"
    delegation: Literal["suggest", "prefer"] = "suggest"
    acp_enabled: bool = False
    completion_wake: bool = True
    """A finished background command wakes the agent by itself."""
    sandbox: SandboxFacts | None = None
    authorized_senders: PromptText | None = None
    """The finished line from `authorized_senders`, so that the renderer sees neither ids nor the secret."""
    reasoning_tags: bool = False
    silent_replies: Literal["generic", "none"] = "none"
    contribution: Contribution = NO_CONTRIBUTION
    omit: tuple[str, ...] = ()
    """Sections left out to fit a small model."""

    # From here on: below the cache boundary.
    runtime: RuntimeFacts = RuntimeFacts()
    thinking: str = ""
    reasoning: Literal["off", "on", "stream"] = "off"
    extra: PromptText | None = None
    inbound: InboundFacts | None = None
    group: GroupFacts | None = None
    message_tool_only: bool = False
    native_approvals: bool = False
    control_ui: bool = False
    """The person reads it on our web page."""
    voice: VoiceFacts | None = None
    reactions: Reactions | None = None
    heartbeat: PromptText | None = None
    """The heartbeat prompt; absent where heartbeats are off or the run is not the default agent's."""
    terminal: str = ""
    """The directory of the terminal the person is at, when they are at one."""


VOLATILE = PromptFacts.__struct_fields__[PromptFacts.__struct_fields__.index("runtime") :]
"""Fields that may change between turns without breaking the cached prefix, besides `contribution.dynamic_suffix`."""

_DEFAULTS = {item.name: item.default for item in structs.fields(PromptFacts) if item.name in VOLATILE}


def stable_only(facts: PromptFacts) -> PromptFacts:
    """`facts` with every volatile field reset: the inputs of the stable part."""
    return structs.replace(facts, **_DEFAULTS, contribution=structs.replace(facts.contribution, dynamic_suffix=None))


def tool_names(facts: PromptFacts) -> frozenset[str]:
    """The canonical names of the available tools."""
    return frozenset(canonical(tool.name) for tool in facts.tools)


TOOL_ALIASES = {
    "bash": "exec",
    "apply-patch": "apply_patch",
    "automations": "cron",
    "view_image": "image",
    "progress_card": "update_plan",
}


def canonical(name: str) -> str:
    lowered = name.strip().lower()
    return TOOL_ALIASES.get(lowered, lowered)


OWN_SOURCE = "openclaw"


class Section(Struct, frozen=True, kw_only=True):
    id: str
    heading: str
    text: str
    source: str = OWN_SOURCE
    label: Label = "system"
    stable: bool = True
    raw_chars: int = 0
    """The size before cutting, where the piece is a file that was cut."""
    carrier: str = ""
    """What it travels by to a runtime that takes the prompt in parts; empty in a prompt that is one text."""

    @property
    def rendered(self) -> str:
        return "\n".join(part for part in (self.heading, self.text) if part)

    @property
    def chars(self) -> int:
        return utf16_length(self.rendered)


def section(id: str, heading: str, *lines: str, stable: bool = True) -> Section | None:  # noqa: A002
    """A section in our own words, without empty lines; None when nothing is left."""
    text = "\n".join(line for line in lines if line)
    return Section(id=id, heading=heading, text=text, stable=stable) if text else None


def quoted_section(id: str, heading: str, text: PromptText | None, *, stable: bool = True) -> Section | None:  # noqa: A002
    """A section of someone else's text, under our heading and with its label."""
    body = clean(text)
    if text is None or not body:
        return None
    return Section(id=id, heading=heading, text=body, source=text.source, label=text.label, stable=stable)


def clean(text: PromptText | None) -> str:
    """Cleans others' text: no hidden characters, no forged markers, trimmed."""
    if text is None:
        return ""
    body = neutralise("\n".join(line.rstrip() for line in sanitize_block(text.text).split("\n")).strip())
    return remove_control_tokens(body)


def trust_level(label: Label) -> str:
    """The trust level of `label` as fences name it."""
    return {"system": "owner", "owner": "owner", "workspace": "owner", "agent": "agent"}.get(label, "untrusted")


def clean_line(value: str) -> str:
    """Cleans an id or a path to one line."""
    return neutralise(sanitize_line(value)).strip()
