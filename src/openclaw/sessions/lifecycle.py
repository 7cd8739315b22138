"""Changes to whole sessions: create, set preferences, reset, rewind, delete.

Reset and delete rename the transcript; nothing is erased.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from openclaw.agent.settings import AgentsSettings
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import Conflict, InvalidRequest, NotFound, SessionBusy
from openclaw.core.keys import SessionKey
from openclaw.core.messages import User
from openclaw.core.settings import Live
from openclaw.sessions.compaction.plan import estimate_all
from openclaw.sessions.files import TranscriptFile, WriteLocks, iso, load
from openclaw.sessions.index import ZEROED, SessionIndex, SessionRow
from openclaw.sessions.transcript import (
    VERSION,
    Compaction,
    Entry,
    Labelled,
    Leaf,
    MessageEntry,
    ResetEntry,
    SessionInfo,
    TranscriptHeader,
    UnknownEntry,
    message_of,
    path_origins,
    path_to_leaf,
    settled_path,
    trust_entry,
    visible_entries,
)
from openclaw.storage.database import Database, Transaction, transact

FORK_TOKENS = 100_000
"""A conversation that is longer is not handed on to a sub-agent."""
EndReason = Literal["new", "reset", "daily", "idle", "deleted"]


class SessionPreferences(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The preferences of one session; they survive a reset."""

    label: str | None = None
    model: str | None = None
    agent_runtime: str | None = None
    thinking_level: str | None = None
    verbose_level: str | None = None
    reasoning_level: str | None = None
    queue_mode: str | None = None
    queue_debounce_ms: int | None = None
    queue_cap: int | None = None
    queue_drop: str | None = None
    trace_level: str | None = None
    group_activation: str | None = None
    response_usage: str | None = None
    send_policy: str | None = None
    elevated_level: str | None = None
    elevated_at: int = 0
    pinned: bool = False
    archived: bool = False
    unread: bool = False
    icon: str | None = None
    color: str | None = None
    category: str | None = None
    parent_session_key: str | None = None
    spawned_by: str | None = None
    resume_session_id: str | None = None
    """The session of an external agent that the conversation begins with."""


def _with_runtime(own: SessionPreferences) -> SessionPreferences:
    """An external agent was once chosen as a model; it is a runtime."""
    return structs.replace(own, model=None, agent_runtime=own.model)


class SessionLifecycle:
    """Changes whole sessions, each change in one transaction or under the session's write lock."""

    def __init__(
        self,
        db: Database,
        index: SessionIndex,
        locks: WriteLocks,
        clock: Clock,
        agents: Live[AgentsSettings],
        ended: Callable[[SessionRow, EndReason], None] = lambda row, why: None,
        resets: Callable[[SessionRow, EndReason, Path], Awaitable[None]] | None = None,
    ) -> None:
        self._resets = resets
        self._agents = agents
        """Waited for before a session begins anew."""
        self._on_end = ended
        """Called with the row of a session that ended, and why."""
        self._db = db
        self._index = index
        self._locks = locks
        self._clock = clock

    async def preferences(self, key: SessionKey) -> SessionPreferences:
        """What holds in a session: its own preferences, and the configured defaults where it has none."""
        rows = await self._db.look("SELECT settings FROM sessions WHERE session_key = :key", {"key": str(key)})
        own = msgspec.json.decode(rows[0]["settings"], type=SessionPreferences) if rows else SessionPreferences()
        if own.model is not None and own.model.startswith("acp/"):
            own = _with_runtime(own)
        usual = self._agents.current.defaults
        if usual.verbose_default == usual.reasoning_default == usual.trace_default == "off":
            return own
        return structs.replace(
            own,
            verbose_level=own.verbose_level or usual.verbose_default,
            reasoning_level=own.reasoning_level or usual.reasoning_default,
            trace_level=own.trace_level or usual.trace_default,
        )

    async def all_preferences(self) -> dict[str, SessionPreferences]:
        """The own preferences of every session that has any."""
        rows = await self._db.read("SELECT session_key, settings FROM sessions WHERE settings <> '{}'")
        found = {row["session_key"]: msgspec.json.decode(row["settings"], type=SessionPreferences) for row in rows}
        return {key: _with_runtime(own) if (own.model or "").startswith("acp/") else own for key, own in found.items()}

    async def create(self, key: SessionKey, changes: Mapping[str, Any] | None = None) -> SessionRow:
        """Creates the session of `key` and lists it, before it has any message."""
        row = await self._index.resolve(key)
        await self.prefer(key, changes or {})
        await self._db.write(
            "UPDATE sessions SET status = 'new' WHERE session_key = :key AND status = 'idle' AND messages = 0",
            {"key": str(key)},
        )
        return row

    async def prefer(self, key: SessionKey, changes: Mapping[str, Any]) -> SessionPreferences:
        """Changes preferences; None clears one."""
        await self._index.resolve(key)

        async def change(tx: Transaction) -> SessionPreferences:
            rows = await tx.read("SELECT settings FROM sessions WHERE session_key = :key", {"key": str(key)})
            before = msgspec.json.decode(rows[0]["settings"], type=SessionPreferences)
            defaults = SessionPreferences()
            given = {name: getattr(defaults, name) if value is None else value for name, value in changes.items()}
            after = structs.replace(before, **given)
            await tx.write(
                "UPDATE sessions SET settings = :settings WHERE session_key = :key",
                {"settings": msgspec.json.encode(after).decode(), "key": str(key)},
            )
            return after

        return await transact(self._db, change, f"session:{key}")

    async def reset(self, key: SessionKey, expected: str | None = None, why: EndReason = "reset") -> SessionRow:
        """Starts an empty conversation with the same key and preferences; renames the old transcript."""
        row = await self._current(key, expected)
        if self._resets is not None:
            await self._resets(row, why, await self._index.fetch(row.agent_id, row.session_id))
        await self._set_aside(row, "reset")
        now = millis(self._clock)
        fresh = SessionRow(
            session_key=row.session_key,
            agent_id=row.agent_id,
            session_id=str(uuid.uuid4()),
            title=row.title,
            created_at=now,
            updated_at=now,
        )
        await self._db.write_all(
            ("DELETE FROM transcripts WHERE session_id = :id", {"id": row.session_id}),
            (
                "UPDATE sessions SET session_id = :new, status = 'new', created_at = :now, updated_at = :now, "  # noqa: S608
                f"last_interaction = 0, {ZEROED} WHERE session_key = :key",
                {"new": fresh.session_id, "now": now, "key": row.session_key},
            ),
        )
        self._on_end(row, why)
        return fresh

    async def delete(self, key: SessionKey, expected: str | None = None) -> str | None:
        """Removes a session from the list; returns the new name of its transcript."""
        row = await self._current(key, expected)
        aside = await self._set_aside(row, "deleted")
        await self._db.write_all(
            ("DELETE FROM transcripts WHERE session_id = :id", {"id": row.session_id}),
            ("DELETE FROM sessions WHERE session_key = :key", {"key": row.session_key}),
        )
        self._on_end(row, "deleted")
        return aside

    async def erase(self, key: SessionKey, expected: str) -> bool:
        """Removes a session with its transcript, unless another process has removed it or uses it after all."""
        try:
            aside = await self.delete(key, expected)
        except (NotFound, SessionBusy):
            return False
        if aside is not None:
            path = self._index.path(key.agent, expected).with_name(aside)
            await self._index.store.remove(path)
        return True

    async def fork(self, source: SessionKey, key: SessionKey) -> None:
        """Begins the session `key` with the conversation of `source`, but for calls without a result; labels stay.

        The source is read as it is: its run may be writing to it.
        """
        row = await self._current(source, None)
        there = await self._index.fetch(row.agent_id, row.session_id)
        entries = await asyncio.to_thread(load, there) if there.exists() else None
        path = settled_path(path_to_leaf(entries.entries)) if entries is not None else []
        said = [message for entry in visible_entries(path)[0] if (message := message_of(entry)) is not None]
        if (tokens := estimate_all(said)) > FORK_TOKENS:
            raise InvalidRequest(
                f"context fork: this conversation has about {tokens:,} tokens, and at most {FORK_TOKENS:,} are "
                "handed on; put what is needed into the task"
            )
        fresh = await self._index.resolve(key)
        target = self._index.path(fresh.agent_id, fresh.session_id)
        now = self._clock.now()
        header = TranscriptHeader(
            version=VERSION,
            id=fresh.session_id,
            timestamp=iso(now),
            session_key=str(key),
            parent_session=row.session_id,
        )
        async with self._locks.writing(target, f"fork:{row.session_id}"):
            transcript = TranscriptFile.create(target, header)
            try:
                names: dict[str | None, str] = {}
                for entry in path:
                    if isinstance(entry, UnknownEntry | SessionInfo | Labelled | Leaf):
                        continue
                    copy: Entry = entry
                    if isinstance(copy, Compaction | ResetEntry):
                        copy = structs.replace(copy, first_kept_entry_id=names.get(copy.first_kept_entry_id, ""))
                    names[entry.id] = transcript.append(copy, now).id
                transcript.sync()
            finally:
                transcript.close()

    async def rewind(self, key: SessionKey, entry_id: str) -> User:
        """Rewinds to before a user message and returns it; later entries stay in the file, on an abandoned branch."""
        row = await self._current(key, None)
        path = self._index.path(row.agent_id, row.session_id)
        async with self._locks.writing(path, f"rewind:{row.session_id}"):
            if not path.exists():
                raise NotFound(f"nothing has been said in {key} yet")
            now = self._clock.now()
            header = TranscriptHeader(version=VERSION, id=row.session_id, timestamp=iso(now), session_key=str(key))
            transcript, loaded = TranscriptFile.reopen(path, header)
            try:
                entry = next((each for each in path_to_leaf(loaded.entries) if each.id == entry_id), None)
                if not isinstance(entry, MessageEntry) or not isinstance(entry.message, User):
                    raise NotFound(f"{entry_id} is no message of yours in this conversation: reload it")
                transcript.append(Leaf(target_id=entry.parent_id), now)
                transcript.sync()
            finally:
                transcript.close()
        return entry.message

    async def trust(self, key: SessionKey, by: str) -> None:
        """Writes down that the owner trusts what was read so far: labels of earlier entries count no more."""
        row = await self._current(key, None)
        path, now = self._index.path(row.agent_id, row.session_id), self._clock.now()
        async with self._locks.writing(path, f"trust:{row.session_id}"):
            header = TranscriptHeader(version=VERSION, id=row.session_id, timestamp=iso(now), session_key=str(key))
            transcript, loaded = TranscriptFile.reopen(path, header)
            try:
                transcript.append(trust_entry(path_origins(path_to_leaf(loaded.entries)), by), now)
                transcript.sync()
            finally:
                transcript.close()

    async def _current(self, key: SessionKey, expected: str | None) -> SessionRow:
        row = await self._index.get(key)
        if row is None:
            raise NotFound(f"no session {key}")
        if expected is not None and row.session_id != expected:
            raise Conflict(f"{key} has moved on since you looked: its session is {row.session_id} now")
        return row

    async def _set_aside(self, row: SessionRow, why: str) -> str | None:
        path = self._index.path(row.agent_id, row.session_id)
        async with self._locks.writing(path, f"{why}:{row.session_id}"):
            if not path.exists():
                return None
            aside = path.with_name(f"{path.name}.{why}.{millis(self._clock)}")
            await self._index.store.rename(path, aside)
            return aside.name
