"""Starting a conversation over when its time is up: looked at when a person says something, and only then."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import tzinfo

from openclaw.core.clock import Clock, millis
from openclaw.core.messages import User
from openclaw.cron.events import SystemEvents
from openclaw.sessions import reset
from openclaw.sessions.files import load
from openclaw.sessions.index import SessionIndex, SessionRow
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.settings import SessionSettings
from openclaw.sessions.transcript import MessageEntry
from openclaw.turns.turn import RunRequest

Renewed = Callable[[RunRequest, SessionRow, SessionRow, reset.Reason], Awaitable[None]]


class SessionRenewal:
    """Decides and does it; `renewed` hears of it: the turn, the conversation that ended, the new one, and why."""

    def __init__(
        self,
        index: SessionIndex,
        lifecycle: SessionLifecycle,
        events: SystemEvents,
        clock: Clock,
        *,
        settings: Callable[[], SessionSettings],
        zone: Callable[[], tzinfo],
    ) -> None:
        self._index = index
        self._lifecycle = lifecycle
        self._events = events
        self._clock = clock
        self._settings = settings
        self._zone = zone
        self.renewed: Renewed = _nobody

    async def __call__(self, turn: RunRequest, row: SessionRow) -> SessionRow:
        """The conversation `turn` belongs to: `row`, or a new one under the same key."""
        policy = reset.policy_of(self._settings(), turn.key, turn.channel)
        if policy is None or turn.trigger != "user" or not row.messages:
            return row
        why = reset.stale(policy, await self._index.contact(row), millis(self._clock), self._zone())
        if why is None or await self._was_begun(turn, row):
            return row
        fresh = await self._lifecycle.reset(turn.key, row.session_id, why=why)
        await self._events.forget(turn.key)
        await self.renewed(turn, row, fresh, why)
        return fresh

    async def _was_begun(self, turn: RunRequest, row: SessionRow) -> bool:
        """Whether an earlier process asked this already: it is finished where it was begun."""
        path = self._index.path(row.agent_id, row.session_id)
        if not path.exists():
            return False
        loaded = await asyncio.to_thread(load, path)
        key = f"{turn.run_id}:user"
        said = (entry.message for entry in loaded.entries if isinstance(entry, MessageEntry))
        return any(isinstance(each, User) and each.idempotency_key == key for each in said)


async def _nobody(turn: RunRequest, before: SessionRow, after: SessionRow, why: reset.Reason) -> None:
    return
