"""The sessions as the gateway's methods see them: rows with their state, changes told to everyone."""

import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from openclaw.core.clock import millis
from openclaw.core.errors import NotFound, Unavailable
from openclaw.core.events import CompactionEnded
from openclaw.core.keys import SessionKey
from openclaw.core.text import Origin
from openclaw.gateway.app import App
from openclaw.plugins.hooks import events
from openclaw.protocol.events import EventBus
from openclaw.runs.queue import QueueRules
from openclaw.runs.request import RunRequest
from openclaw.runs.worker import RunService
from openclaw.sessions import service
from openclaw.sessions.files import LoadedTranscript, load
from openclaw.sessions.index import SessionRow
from openclaw.sessions.lifecycle import SessionLifecycle, SessionPreferences
from openclaw.sessions.transcript import path_origins, path_to_leaf


class SessionService:
    """Looks sessions up and says when one changed."""

    def __init__(self, app: App, lifecycle: SessionLifecycle, runs: RunService, bus: EventBus) -> None:
        self.app = app
        self.lifecycle = lifecycle
        self.runs = runs
        self.bus = bus

        app.renewal.renewed = self._renewed
        self.stop_below: Callable[[SessionKey], Awaitable[int]] = _nobody
        """Ends the sub-agents of a session."""

    @property
    def now(self) -> int:
        return millis(self.app.clock)

    def key(self, text: str, agent_id: str | None = None) -> SessionKey:
        return self.app.key(text, agent_id)

    async def row(self, key: SessionKey) -> dict[str, Any] | None:
        """A session as a row, or None when there is none."""
        found = await self.app.index.get(key)
        if found is None:
            return None
        situation = self.app.models.situation(key.agent)
        return service.session(
            found,
            key,
            await self.lifecycle.preferences(key),
            active=self.runs.active(key),
            running=self.runs.is_running(key),
            now=self.now,
            default=situation.model(situation.default),
        )

    async def list(self, agent_id: str | None = None) -> list[dict[str, Any]]:
        """All sessions as rows, the latest first."""
        chosen = await self.lifecycle.all_preferences()
        out = []
        defaults = {}
        for found in await self.app.index.list(agent_id=agent_id):
            key = SessionKey(found.agent_id, found.session_key.removeprefix(f"agent:{found.agent_id}:"))
            if found.agent_id not in defaults:
                try:
                    situation = self.app.models.situation(found.agent_id)
                except NotFound:  # an agent that was taken out of the configuration; its sessions are still there
                    situation = self.app.models.situation(self.app.key(None, None).agent)
                defaults[found.agent_id] = situation.model(situation.default)
            out.append(
                service.session(
                    found,
                    key,
                    chosen.get(found.session_key, _NOTHING_CHOSEN),
                    active=self.runs.active(key),
                    running=self.runs.is_running(key),
                    now=self.now,
                    default=defaults[found.agent_id],
                )
            )
        return out

    async def load(self, key: SessionKey) -> tuple[str, LoadedTranscript | None]:
        """The transcript behind `key`, when something was said."""
        found = await self.app.index.get(key)
        if found is None:
            return "", None
        path = self.app.index.path(found.agent_id, found.session_id)
        return found.session_id, load(path) if path.exists() else None

    def earlier(self, key: SessionKey, session_id: str) -> LoadedTranscript | None:
        """A conversation that was held under `key` before it started over."""
        if not _SESSION_ID.fullmatch(session_id):
            return None
        path = self.app.index.path(key.agent, session_id)
        aside = max(path.parent.glob(f"{path.name}.reset.*"), default=None)
        loaded = load(aside) if aside is not None else None
        known = loaded is not None and loaded.header is not None and loaded.header.session_key == str(key)
        return loaded if known else None

    async def origins(self, key: SessionKey) -> tuple[Origin, ...]:
        """Where the untrusted text of a conversation came from, also what it does not see any more."""
        _, loaded = await self.load(key)
        return path_origins(path_to_leaf(loaded.entries)) if loaded else ()

    async def stop(self, key: SessionKey, run_id: str | None = None, source: str = "") -> Sequence[str]:
        """Stops what a session is doing, one run of it or all with everyone it has set to work; gives the runs."""
        stopped = await self.runs.abort(key, run_id)
        await self.stop_below(key)
        await self.commanded(key, "stop", source=source)
        return stopped

    async def start_over(
        self, key: SessionKey, action: Literal["new", "reset"] = "new", *, expected: str | None = None, source: str = ""
    ) -> tuple[SessionRow | None, tuple[str, ...]]:
        """An empty conversation under the same key, and what hooks have to say about it."""
        await self.runs.abort(key)
        before = await self.app.index.get(key)
        after = (
            await self.lifecycle.reset(key, expected, why=action)
            if before is not None or expected is not None
            else None
        )
        await self.changed(key, "reset")
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
        hooks = self.app.internal_hooks
        if not hooks.on:
            return ()
        row = after or await self.app.index.get(key)
        event = events.command(
            self.app.clock,
            key,
            action,
            self.app.workspace(key.agent),
            source=source,
            session_id=row.session_id if row else "",
            session_entry=events.session(row, self._transcript(row)) if row else None,
            previous_session_entry=events.session(before, self._transcript(before)) if before else None,
            store_path=str(self.app.home.state / "agents" / key.agent / "sessions"),
        )
        return (await hooks.fire(event)).messages

    async def _renewed(self, turn: RunRequest, before: SessionRow, after: SessionRow, why: str) -> None:
        """A conversation started over by itself."""
        await self.changed(turn.key, "reset")
        hooks = self.app.internal_hooks
        if hooks.on:
            ended = events.session(before, self._transcript(before))
            workspace = self.app.workspace(turn.key.agent)
            hooks.tell(events.renewed(self.app.clock, turn.key, workspace, why, ended, after.session_id))

    def _transcript(self, row: SessionRow) -> Path | None:
        """Where a conversation is written down, also when it was set aside."""
        path = self.app.index.path(row.agent_id, row.session_id)
        if path.exists():
            return path
        return max(path.parent.glob(f"{path.name}.reset.*"), default=None)

    async def changed(self, key: SessionKey, reason: str, patch: Mapping[str, Any] | None = None) -> None:
        """Tells everyone that a session is not what it was."""
        row = await self.row(key)
        if reason == "patch" and self.app.internal_hooks.on:
            known = await self.app.index.get(key)
            self.app.internal_hooks.tell(events.patched(self.app.clock, key, known, patch or {}))
        payload: dict[str, Any] = {"sessionKey": str(key), "agentId": key.agent, "ts": self.now, "reason": reason}
        self.bus.publish("sessions.changed", {**payload, **({"session": row} if row else {})}, str(key))


async def _nobody(key: SessionKey) -> int:
    return 0


_NOTHING_CHOSEN = SessionPreferences()
_SESSION_ID = re.compile(r"[\w-]{1,64}")


LONGEST_WAIT = 3_600.0


async def compact(desk: SessionService, key: SessionKey, focus: str = "") -> CompactionEnded:
    """Compacts the conversation behind `key`, with attention to `focus`, and gives what became of it."""
    if desk.runs.active(key):
        raise Unavailable("this conversation is busy: compact it when the answer is there, or /stop first")
    turn = RunRequest(run_id=str(uuid.uuid4()), key=key, text="", compact=focus)
    await desk.runs.submit(turn, rules=QueueRules(mode="followup"))
    outcome = await desk.runs.wait(turn.run_id, LONGEST_WAIT)
    if outcome is None:
        raise Unavailable("the compaction still runs: /status shows when it is done")
    if outcome.compaction is None:
        return CompactionEnded(reason="manual", ok=False, error=outcome.error or "it was stopped")
    await desk.changed(key, "compact")
    return outcome.compaction
