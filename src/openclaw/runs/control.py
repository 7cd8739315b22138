"""What a person does to a session: stop it, start it over, compact it."""

import asyncio
import uuid
from pathlib import Path
from typing import Literal

from msgspec import Struct

from openclaw.core.clock import Clock
from openclaw.core.errors import Unavailable
from openclaw.core.events import CompactionEnded
from openclaw.core.keys import SessionKey
from openclaw.plugins.hooks import events
from openclaw.plugins.hooks.files import HookFiles
from openclaw.runs.events import RunEvent
from openclaw.runs.queue import QueueRules
from openclaw.runs.request import RunRequest, SessionRenewed
from openclaw.runs.subagents import SubagentService
from openclaw.runs.worker import RunService
from openclaw.sessions.index import SessionIndex, SessionRow
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.service import SessionService
from openclaw.workspace.seed import Workspaces

LONGEST_WAIT = 600.0


class StoppedWork(Struct, frozen=True):
    """What a stop ended: runs, waiting ones too, and how many sub-agents."""

    runs: tuple[str, ...] = ()
    children: int = 0


class SessionControl:
    """Stops, renews and compacts sessions, and tells hooks of it."""

    def __init__(
        self,
        sessions: SessionService,
        runs: RunService,
        subagents: SubagentService,
        lifecycle: SessionLifecycle,
        index: SessionIndex,
        hook_files: HookFiles,
        workspaces: Workspaces,
        state_dir: Path,
        clock: Clock,
    ) -> None:
        self._sessions = sessions
        self._runs = runs
        self._subagents = subagents
        self._lifecycle = lifecycle
        self._index = index
        self._hook_files = hook_files
        self._workspaces = workspaces
        self._state_dir = state_dir
        self._clock = clock
        self._renewals: asyncio.Queue[tuple[SessionKey, SessionRenewed]] = asyncio.Queue()

    async def stop(self, key: SessionKey, run_id: str | None = None, source: str = "") -> StoppedWork:
        """Stops what a session is doing, one run of it or all with everyone it has set to work."""
        stopped = await self._runs.abort(key, run_id)
        children = await self._subagents.stop_below(key)
        await self.commanded(key, "stop", source=source)
        return StoppedWork(tuple(stopped), children)

    async def refresh(self, key: SessionKey, source: str = "") -> tuple[str, ...]:
        """Stops what runs and keeps what was said; gives what hooks have to say about it."""
        await self._runs.abort(key)
        return await self.commanded(key, "reset", source=source)

    async def start_over(
        self, key: SessionKey, action: Literal["new", "reset"] = "new", *, expected: str | None = None, source: str = ""
    ) -> tuple[SessionRow | None, tuple[str, ...]]:
        """An empty conversation under the same key, and what hooks have to say about it."""
        await self._runs.abort(key)
        before = await self._index.get(key)
        after = None
        if before is not None or expected is not None:
            after = await self._lifecycle.reset(key, expected, why=action)
        await self._sessions.changed(key, "reset")
        said = await self.commanded(key, action, source=source, before=before, after=after)
        return after, said

    async def commanded(
        self,
        key: SessionKey,
        action: str,
        *,
        source: str = "",
        before: SessionRow | None = None,
        after: SessionRow | None = None,
    ) -> tuple[str, ...]:
        """Tells hooks of a command that was carried out; gives what they want said."""
        if not self._hook_files.on:
            return ()
        row = after or await self._index.get(key)
        event = events.command_event(
            self._clock,
            key,
            action,
            self._workspaces.of(key.agent),
            source=source,
            session_id=row.session_id if row else "",
            session_entry=events.to_hook_session(row, self._transcript(row)) if row else None,
            previous_session_entry=events.to_hook_session(before, self._transcript(before)) if before else None,
            store_path=str(self._state_dir / "agents" / key.agent / "sessions"),
        )
        return (await self._hook_files.fire(event)).messages

    async def compact(self, key: SessionKey, focus: str = "") -> CompactionEnded:
        """Compacts a conversation, with attention to `focus`, and gives what became of it."""
        if self._runs.active(key):
            raise Unavailable("this conversation is busy: compact it when the answer is there, or /stop first")
        request = RunRequest(run_id=str(uuid.uuid4()), key=key, text="", compact=focus)
        await self._runs.submit(request, rules=QueueRules(mode="followup"))
        outcome = await self._runs.wait(request.run_id, LONGEST_WAIT)
        if outcome is None:
            raise Unavailable("the compaction still runs: /status shows when it is done")
        if outcome.compaction is None:
            return CompactionEnded(reason="manual", ok=False, error=outcome.error or "it was stopped")
        await self._sessions.changed(key, "compact")
        return outcome.compaction

    def take(self, event: RunEvent) -> None:
        """Hears of conversations that started over by themselves."""
        assert isinstance(event.event, SessionRenewed)
        self._renewals.put_nowait((event.key, event.event))

    async def follow_renewals(self) -> None:
        """Publishes them, and tells hooks."""
        while True:
            key, renewed = await self._renewals.get()
            await self._sessions.changed(key, "reset")
            if self._hook_files.on:
                ended = events.to_hook_session(renewed.before, self._transcript(renewed.before))
                workspace, new = self._workspaces.of(key.agent), renewed.after.session_id
                self._hook_files.tell(events.auto_reset_event(self._clock, key, workspace, renewed.why, ended, new))

    def _transcript(self, row: SessionRow) -> Path | None:
        """Where a conversation is written down, also when it was set aside."""
        path = self._index.path(row.agent_id, row.session_id)
        if path.exists():
            return path
        return max(path.parent.glob(f"{path.name}.reset.*"), default=None)
