"""The plugins of this process: where they listen, and what each part of the road needs of them.

Loaded when the first of them comes; without any, nothing of this is in memory.
"""

import asyncio
from pathlib import Path
from typing import Literal

from openclaw.core.approval import Approver
from openclaw.core.clock import Clock, millis
from openclaw.core.events import Trigger
from openclaw.core.hooks import EndReason, GatewayStart, GatewayStop, HookContext, SessionEnd
from openclaw.hooks.dispatch import HookDispatcher
from openclaw.sessions.index import SessionIndex, SessionRow
from openclaw.trust.auditlog import AuditLog
from openclaw.turns.hooking import TurnHooks, context_of
from openclaw.turns.messaging import MessageHooks
from openclaw.turns.toolhooks import ToolHooks
from openclaw.turns.turn import RunRequest

GOODBYE_SECONDS = 2.0
"""For all plugins together to hear that sessions end because the gateway does."""
MOST_SESSIONS = 1_000


class RunHooks:
    """Who listens, for everyone on the road."""

    def __init__(self, audit: AuditLog, approver: Approver, clock: Clock, fence_id: str) -> None:
        self.hooks = HookDispatcher(clock)
        self.tools = ToolHooks(self.hooks, audit, approver, clock)
        self.messages = MessageHooks(self.hooks, audit, clock)
        self._audit = audit
        self._clock = clock
        self._fence_id = fence_id
        self._open: dict[str, RunRequest] = {}
        """Sessions that were spoken in while this process lived, by key, with the last turn of each."""

    def turn(self, turn: RunRequest, session_id: str, workspace: Path) -> TurnHooks:
        """The hook points of one turn."""
        self._open.pop(str(turn.key), None)
        self._open[str(turn.key)] = turn
        if len(self._open) > MOST_SESSIONS:
            del self._open[next(iter(self._open))]
        where = context_of(turn, session_id, str(workspace))
        return TurnHooks(self.hooks, self._audit, where, self._clock, self._fence_id)

    def errand(self, trigger: Trigger) -> HookContext:
        """Where something happens that belongs to no turn."""
        return HookContext(trigger=trigger)

    def session_ended(self, row: SessionRow, why: EndReason) -> None:
        """Tells that a conversation is over."""
        self._open.pop(row.session_key, None)
        if self.hooks.has("session_end"):
            self.hooks.tell("session_end", self._end(row, why), _place(row))

    def gateway_started(self, port: int) -> None:
        if self.hooks.has("gateway_start"):
            self.hooks.tell("gateway_start", GatewayStart(port=port), HookContext(trigger="system"))

    async def gateway_stops(self, why: Literal["stop", "restart"], index: SessionIndex) -> None:
        """Tells that sessions end with the gateway, and that it does; whoever takes too long is left behind."""
        if self.hooks.has("session_end") and self._open:
            reason: EndReason = "restart" if why == "restart" else "shutdown"
            rows = [row for turn in self._open.values() if (row := await index.get(turn.key)) is not None]
            goodbyes = {
                asyncio.create_task(self.hooks.told("session_end", self._end(row, reason), _place(row))) for row in rows
            }
            if goodbyes:
                _, late = await asyncio.wait(goodbyes, timeout=GOODBYE_SECONDS)
                for task in late:
                    task.cancel()
                await asyncio.gather(*late, return_exceptions=True)
        if self.hooks.has("gateway_stop"):
            await self.hooks.told("gateway_stop", GatewayStop(reason=why), HookContext(trigger="system"))

    def _end(self, row: SessionRow, why: EndReason) -> SessionEnd:
        return SessionEnd(
            session_id=row.session_id,
            message_count=row.messages,
            duration_ms=max(0, millis(self._clock) - row.created_at),
            reason=why,
        )


def _place(row: SessionRow) -> HookContext:
    return HookContext(agent_id=row.agent_id, session_key=row.session_key, session_id=row.session_id, trigger="system")
