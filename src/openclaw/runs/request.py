"""What a caller submits: `RunRequest`, the functions it carries out itself, and events about the session's record."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field, structs

from openclaw.core.channel import Address
from openclaw.core.events import Trigger
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Image, Message, Text
from openclaw.core.text import Origin, sanitize_line
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.runs.inbox import InboxEntry, RunOutcome
from openclaw.security.settings import Ask, Security
from openclaw.sessions.index import SessionRow
from openclaw.sessions.lifecycle import SessionPreferences
from openclaw.sessions.transcript import TranscriptProblem

Priority = Literal["foreground", "normal", "background"]


class RecordedEvent(Struct, frozen=True):
    """A message is in the transcript: `number` counts the messages of the session from 1."""

    session_id: str
    entry_id: str
    number: int
    message: Message


class ClientTool(Struct, frozen=True, kw_only=True):
    """A function the caller carries out itself: a call of it ends the run, its result comes as a new turn."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    """A JSON Schema object."""


class AlertRules(Struct, frozen=True, kw_only=True):
    """What of a heartbeat's answer is worth telling."""

    ack_chars: int = 300
    """An acknowledgement with at most this much beside it is none."""
    said_before: str = ""
    """The last alert, while it is too young to be repeated."""
    light: bool = False
    """Of the workspace files it is given HEARTBEAT.md alone."""


class TurnOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person chose inside a message, for its turn alone; over what was chosen for the session."""

    verbose: str | None = None
    reasoning: str | None = None
    trace: str | None = None
    elevated: str | None = None
    exec_security: Security | None = None
    exec_ask: Ask | None = None


def with_options(preferences: SessionPreferences, chosen: TurnOptions, now: int) -> SessionPreferences:
    """The preferences of a session for one turn, with what its message chooses."""
    return structs.replace(
        preferences,
        verbose_level=chosen.verbose or preferences.verbose_level,
        reasoning_level=chosen.reasoning or preferences.reasoning_level,
        trace_level=chosen.trace or preferences.trace_level,
        elevated_level=chosen.elevated or preferences.elevated_level,
        elevated_at=now if chosen.elevated else preferences.elevated_at,
    )


ReplyMode = Literal["automatic", "message_tool_only"]


class RunRequest(Struct, frozen=True, kw_only=True):
    """One turn to run: the text, for which session, under which limits."""

    run_id: str
    key: SessionKey
    text: str
    images: tuple[Image, ...] = ()
    model: str | None = None
    thinking: str | None = None
    timeout: float | None = None
    place: str = ""
    """The working directory of a person at a terminal."""
    channel: str = ""
    """The channel the message came from and its answer goes to."""
    surface: str = ""
    """What the person looks at, where it is ours: the web page (control-ui), or another client that shows questions."""
    extra: str = ""
    """Text the caller adds to the system prompt for this turn."""
    light: bool = False
    """A job that is its message alone: it is given no workspace files."""
    options: TurnOptions | None = None
    notice: str = ""
    """What the gateway answered to a part of the message; shown beside the answer."""
    skills: tuple[str, ...] = ()
    """Directories with skills for this turn, named on the command line."""
    client_tools: tuple[ClientTool, ...] = ()
    tools_allow: tuple[str, ...] | None = None
    """The only tools of this turn, out of those that policy leaves."""
    tools_deny: tuple[str, ...] = ()
    trigger: Trigger = "user"
    """What started it."""
    lane: str = "main"
    """The lane it waits in, and how soon its turn comes there."""
    priority: Priority = "normal"
    reply_to: Address | None = None
    """Where the answer goes when nobody waits for it on a connection; stored, so that a resumed run has it too."""
    reply_to_id: str = ""
    """The message on that platform which it answers."""
    reply_mode: ReplyMode | None = None
    """Whether its text is delivered, or only what the `message` tool sends; None leaves it to the configuration."""
    voice: bool = False
    """Its answer goes as a voice note where the platform has them."""
    report_to: SessionKey | None = None
    """The conversation that is told of the result as well, with its next turn."""
    report_wakes: str = ""
    """Why that turn shall come at once, unless the result was sent to a chat; empty when it can wait."""
    alert: AlertRules | None = None
    """Its answer is an alert: an acknowledgement, or what was said before, reaches nobody."""
    compact: str | None = None
    """Compact the session, with attention to this text, instead of asking anything."""
    origins: tuple[Origin, ...] = ()
    """Where untrusted parts of the text came from; empty for a person's own words."""
    earlier: tuple["RunRequest", ...] = ()
    """Messages that this one interrupted and no model has seen; sent with it, each as itself."""
    also_for: tuple["RunRequest", ...] = ()
    """Messages that went into this run and that its model has seen: its answer is for whoever sent them, too."""


def reaches_person(turn: RunRequest) -> bool:
    """Whether somebody sees the answer of a turn who can reply to it in the same session."""
    key = turn.key
    errand = key.is_cron or key.is_hook or key.is_subagent or key.is_single
    return not errand and (turn.trigger == "user" or turn.reply_to is not None)


class SessionRenewed(Struct, frozen=True):
    """The conversation started over by itself before this run: it was too old, or a day has passed."""

    before: SessionRow
    after: SessionRow
    why: str


class SessionRepaired(Struct, frozen=True):
    """The transcript was incomplete after its last writer; this is what was found."""

    session_id: str
    problems: tuple[TranscriptProblem, ...]


# Client functions as tools.

WAITING = "Handed to the caller, who carries it out. The result comes with the next message."
SUMMARY_CHARS = 120


class ClientToolCall:
    """A client function as a tool. It does nothing on this machine, so it needs no permission."""

    def __init__(self, tool: ClientTool) -> None:
        self.spec = ToolSpec(
            name=tool.name,
            label=tool.name,
            description=tool.description,
            parameters=tool.parameters or {"type": "object", "properties": {}},
            summary=sanitize_line(tool.description)[:SUMMARY_CHARS] or f"{tool.name}, carried out by the caller",
        )

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.NONE

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        return Output(content=(Text(WAITING),), ends_run=True)


class Submission(Struct, frozen=True, kw_only=True):
    """What the caller is told at once."""

    run_id: str
    key: SessionKey
    status: Literal["started", "queued", "steered", "in_flight", "ok", "error"]
    accepted_at: int
    outcome: RunOutcome | None = None


def repeated_submission(entry: InboxEntry, key: SessionKey) -> Submission:
    """The answer to a request that was made before."""
    status: Literal["in_flight", "ok", "error"] = (
        "in_flight" if entry.outcome is None else "ok" if entry.outcome.status == "ok" else "error"
    )
    return Submission(run_id=entry.run_id, key=key, status=status, accepted_at=entry.accepted_at, outcome=entry.outcome)


class ResumedRun(Struct, frozen=True, kw_only=True):
    """An input that an earlier process left unfinished."""

    run_id: str
    session_key: str
    text: str = ""
    begun: bool = False
    """It was being worked on, not only waiting."""
    given_up: str = ""
    """Why it is not tried again."""
