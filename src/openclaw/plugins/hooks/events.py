"""The events that HOOK.md handlers subscribe to: names, payload types, and how to make and match them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from openclaw.core.clock import Clock
from openclaw.core.keys import SessionKey
from openclaw.sessions.index import SessionRow

FAMILIES = ("command", "session", "agent", "gateway", "message")
NAMES = (
    "command:new",
    "command:reset",
    "command:stop",
    "session:compact:before",
    "session:compact:after",
    "session:patch",
    "session:auto-reset",
    "agent:bootstrap",
    "gateway:startup",
    "gateway:shutdown",
    "gateway:pre-restart",
    "message:received",
    "message:preprocessed",
    "message:sent",
)
"""Every other command (`/status`, `/model`, …) is an event of the family `command` as well."""
SILENT_HERE = {"message:transcribed": "nothing turns speech into text yet"}
MOST_MESSAGES = 20
MESSAGE_CHARS = 4_000
MOST_FILES = 100


class Payload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a handler is told, as JSON."""


class HookSession(Payload, frozen=True, kw_only=True):
    """A session as a hook sees it."""

    session_id: str
    session_key: str = ""
    session_file: str = ""
    """Its transcript; empty before the first message."""
    title: str = ""
    updated_at: int = 0
    messages: int = 0


class CommandContext(Payload, frozen=True, kw_only=True):
    """A person gave a command."""

    agent_id: str
    workspace_dir: str
    command_source: str = ""
    sender_id: str = ""
    arguments: str = ""
    session_id: str = ""
    session_entry: HookSession | None = None
    previous_session_entry: HookSession | None = None
    store_path: str = ""


class AutoResetContext(Payload, frozen=True, kw_only=True):
    """A session was reset by the clock or after silence; `session_entry` is the one that ended."""

    agent_id: str
    workspace_dir: str
    reason: str
    session_entry: HookSession
    next_session_id: str
    next_session_key: str
    store_path: str = ""


class CompactContext(Payload, frozen=True, kw_only=True):
    """A session is about to be compacted, or was."""

    session_id: str = ""
    reason: str = ""
    token_count: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    ok: bool | None = None
    error: str = ""


class PatchContext(Payload, frozen=True, kw_only=True):
    """Settings of a session changed."""

    session_entry: HookSession | None = None
    patch: Mapping[str, Any] = {}


class BootstrapFile(Payload, frozen=True, kw_only=True):
    """A file of the prompt. Without `content` it is read from `path`."""

    name: str = ""
    path: str = ""
    content: str | None = None
    missing: bool = False


class BootstrapContext(Payload, frozen=True, kw_only=True):
    """The files of a prompt are gathered; a hook's answer replaces them."""

    agent_id: str
    workspace_dir: str
    bootstrap_files: tuple[BootstrapFile, ...] = ()
    session_id: str = ""


class GatewayContext(Payload, frozen=True, kw_only=True):
    """The gateway starts or stops."""

    workspace_dir: str = ""
    reason: str = ""
    restart_expected_ms: int | None = None


class ReceivedContext(Payload, frozen=True, kw_only=True):
    """A message was received, or is ready for the model."""

    agent_id: str
    content: str
    channel_id: str = ""
    sender: str = msgspec.field(default="", name="from")
    message_id: str = ""
    body_for_agent: str = ""


class SentContext(Payload, frozen=True, kw_only=True):
    """The assistant answered."""

    agent_id: str
    content: str
    success: bool
    to: str = ""
    channel_id: str = ""
    message_id: str = ""
    error: str = ""


class HookEvent(Payload, frozen=True, kw_only=True, omit_defaults=False):
    """One event."""

    type: str
    action: str
    timestamp: str
    context: Payload
    session_key: str = ""

    @property
    def name(self) -> str:
        return f"{self.type}:{self.action}"

    @property
    def agent_id(self) -> str:
        """The agent it belongs to; empty for events of the gateway itself."""
        kind, _, rest = self.session_key.partition(":")
        owner, inside, _ = rest.partition(":")
        return str(getattr(self.context, "agent_id", "")) or (owner if kind == "agent" and inside else "")


class HookFileAnswer(Payload, frozen=True, kw_only=True):
    """What a handler answers. `bootstrap_files` is None when it leaves them as they are."""

    messages: tuple[str, ...] = ()
    bootstrap_files: tuple[BootstrapFile, ...] | None = None


NOTHING = HookFileAnswer()


class BadAnswer(ValueError):
    """A handler's answer cannot be decoded."""


def encode_event(event: HookEvent, options: Mapping[str, Any]) -> bytes:
    """Encodes an event for a handler."""
    shown = msgspec.to_builtins(event)
    return msgspec.json.encode({**shown, "messages": [], "options": dict(options)})


def decode_answer(data: bytes, event: HookEvent) -> HookFileAnswer:
    """Decodes what a handler wrote; raises `BadAnswer`. An empty answer is valid."""
    if not data.strip():
        return NOTHING
    try:
        found = msgspec.json.decode(data, type=HookFileAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"it must be one JSON object with messages or bootstrapFiles, or nothing ({error})") from None
    if found.bootstrap_files is not None and not isinstance(event.context, BootstrapContext):
        found = structs.replace(found, bootstrap_files=None)
    if found.bootstrap_files is not None and len(found.bootstrap_files) > MOST_FILES:
        raise BadAnswer(f"{len(found.bootstrap_files)} bootstrap files are too many: {MOST_FILES} is the most")
    return structs.replace(found, messages=tuple(each[:MESSAGE_CHARS] for each in found.messages[:MOST_MESSAGES]))


# Making events.

CONTENT_CHARS = 100_000
RESTART_MS = 5_000


def make_event(clock: Clock, kind: str, action: str, context: Payload, session_key: str = "") -> HookEvent:
    when = datetime.fromtimestamp(clock.now(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return HookEvent(type=kind, action=action, timestamp=when, context=context, session_key=session_key)


def to_hook_session(row: SessionRow, path: Path | None) -> HookSession:
    return HookSession(
        session_id=row.session_id,
        session_key=row.session_key,
        session_file=str(path) if path is not None else "",
        title=row.title,
        updated_at=row.updated_at,
        messages=row.messages,
    )


def command_event(
    clock: Clock, key: SessionKey, action: str, workspace: Path, *, source: str, arguments: str = "", **known: Any
) -> HookEvent:
    """A command was given; `known` are further fields of its context."""
    context = CommandContext(
        agent_id=key.agent, workspace_dir=str(workspace), command_source=source, arguments=arguments, **known
    )
    return make_event(clock, "command", action, context, str(key))


def auto_reset_event(
    clock: Clock, key: SessionKey, workspace: Path, why: str, ended: HookSession, next_id: str
) -> HookEvent:
    """A session was reset by the clock or after silence."""
    context = AutoResetContext(
        agent_id=key.agent,
        workspace_dir=str(workspace),
        reason=why,
        session_entry=ended,
        next_session_id=next_id,
        next_session_key=str(key),
        store_path=str(Path(ended.session_file).parent) if ended.session_file else "",
    )
    return make_event(clock, "session", "auto-reset", context, str(key))


def patch_event(clock: Clock, key: SessionKey, row: SessionRow | None, patch: Mapping[str, Any]) -> HookEvent:
    shown = to_hook_session(row, None) if row is not None else None
    return make_event(
        clock, "session", "patch", PatchContext(session_entry=shown, patch=msgspec.to_builtins(patch)), str(key)
    )
