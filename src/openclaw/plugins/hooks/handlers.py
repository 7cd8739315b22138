"""Handlers of the bundled hooks that need no running gateway."""

import asyncio
import os
from collections.abc import Sequence
from datetime import datetime, tzinfo
from pathlib import Path

import msgspec

from openclaw.core.errors import StateError
from openclaw.core.messages import Assistant, Message, User
from openclaw.core.text import Label
from openclaw.memory import notes
from openclaw.plugins.hooks import events
from openclaw.plugins.hooks.events import NOTHING, BootstrapFile, HookEvent, HookFileAnswer, HookSession
from openclaw.plugins.settings import HookEntrySettings
from openclaw.security.external import is_wrapped
from openclaw.sessions.files import load
from openclaw.sessions.reply_text import strip_tokens
from openclaw.sessions.transcript import MessageEntry, path_origins, path_to_leaf
from openclaw.storage.atomic import private_directory

MESSAGES = 15
MESSAGE_CHARS = 4_000
NOTE_CHARS = 150_000
MOST_MATCHES = 50
ALLOWED = frozenset(
    ("agents.md", "soul.md", "tools.md", "identity.md", "user.md", "heartbeat.md", "bootstrap.md", "memory.md")
)


class SessionMemory:
    """Saves the last messages of a session that is reset to a memory note."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    async def __call__(self, event: HookEvent, entry: HookEntrySettings) -> HookFileAnswer:
        count = entry.messages or MESSAGES
        match event.context:
            case events.CommandContext(previous_session_entry=HookSession() as ended, command_source=source) as context:
                await asyncio.to_thread(self._keep, event, ended, context.workspace_dir, source or "unknown", count)
            case events.AutoResetContext(session_entry=ended, reason=reason) as context:
                await asyncio.to_thread(self._keep, event, ended, context.workspace_dir, f"{reason} reset", count)
        return NOTHING

    def _keep(self, event: HookEvent, previous: HookSession, workspace: str, source: str, count: int) -> None:
        path = Path(previous.session_file)
        if not previous.session_file or not path.exists():
            return
        entries = path_to_leaf(load(path).entries)
        messages = [each.message for each in entries if isinstance(each, MessageEntry)]
        said = conversation_lines(messages)[-count:]
        while sum(len(text) for _, text in said) > NOTE_CHARS:
            said = said[1:]
        if not said:
            return
        when = datetime.fromisoformat(event.timestamp).astimezone(self._zone)
        about = [f"- Session ID: {previous.session_id}", f"- Source: {source}"]
        text = notes.session_note(when, event.session_key, said, about)
        # What strangers said stays labelled when it comes back from the notes.
        foreign = bool(path_origins(entries)) or any(is_wrapped(message.text) for message in messages)
        label: Label = "external" if foreign else "agent"
        notes.append(Path(workspace), f"memory/{when:%Y-%m-%d-%H%M}.md", text, label)


def conversation_lines(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """The messages between people and the assistant: no commands, tool calls or silent replies."""
    found = []
    for message in messages:
        text = message.text.strip()
        if isinstance(message, User) and text and not text.startswith("/"):
            found.append(("User", text[:MESSAGE_CHARS]))
        elif isinstance(message, Assistant) and (shown := (strip_tokens(text) or "").strip()):
            found.append(("Assistant", shown[:MESSAGE_CHARS]))
    return found


class CommandLogger:
    """Appends each command to a log file, one line each."""

    def __init__(self, state: Path) -> None:
        self._path = state / "logs" / "commands.log"

    async def __call__(self, event: HookEvent, entry: HookEntrySettings) -> HookFileAnswer:
        context = event.context
        if isinstance(context, events.CommandContext):
            line = {
                "timestamp": event.timestamp,
                "action": event.action,
                "sessionKey": event.session_key,
                "senderId": context.sender_id or "unknown",
                "source": context.command_source or "unknown",
            }
            await asyncio.to_thread(self._add, msgspec.json.encode(line) + b"\n")
        return NOTHING

    def _add(self, line: bytes) -> None:
        try:
            private_directory(self._path.parent)
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, line)  # one write: lines of two writers never mix
            finally:
                os.close(handle)
        except OSError as error:
            raise StateError(f"cannot write {self._path}: {error.strerror}") from error


async def extra_files(event: HookEvent, entry: HookEntrySettings) -> HookFileAnswer:
    """Adds more files of the usual names from inside the workspace, behind those that are there."""
    context = event.context
    patterns = entry.paths or entry.patterns or entry.files
    if not isinstance(context, events.BootstrapContext) or not patterns:
        return NOTHING
    known = {file.path for file in context.bootstrap_files}
    found = await asyncio.to_thread(_matching, Path(context.workspace_dir), patterns)
    added = [BootstrapFile(name=path.name, path=str(path)) for path in found if str(path) not in known]
    return HookFileAnswer(bootstrap_files=(*context.bootstrap_files, *added)) if added else NOTHING


def _matching(workspace: Path, patterns: Sequence[str]) -> list[Path]:
    """The matching files inside the workspace; a pattern that leads out of it matches nothing."""
    real = workspace.resolve()
    found: dict[Path, None] = {}
    for pattern in patterns:
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts or not pattern.strip():
            continue
        for path in sorted(workspace.glob(pattern)):
            inside = path.resolve().is_relative_to(real) and path.name.lower() in ALLOWED
            if inside and path.is_file() and len(found) < MOST_MATCHES:
                found[path] = None
    return list(found)
