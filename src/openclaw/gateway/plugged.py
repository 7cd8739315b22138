"""The plugins of this process: where they listen, and what each part of the road needs of them.

Loaded when the first of them comes; without any, nothing of this is in memory.
"""

from pathlib import Path

from openclaw.core.approval import Approver
from openclaw.core.clock import Clock
from openclaw.core.hooks import HookContext
from openclaw.hooks.dispatch import Hooks
from openclaw.trust.auditlog import AuditLog
from openclaw.turns.hooking import TurnHooks
from openclaw.turns.toolhooks import ToolHooks
from openclaw.turns.turn import Turn


class Plugged:
    def __init__(self, audit: AuditLog, approver: Approver, clock: Clock, fence_id: str) -> None:
        self.hooks = Hooks(clock)
        self.tools = ToolHooks(self.hooks, audit, approver, clock)
        self._audit = audit
        self._clock = clock
        self._fence_id = fence_id

    def turn(self, turn: Turn, session_id: str, workspace: Path) -> TurnHooks:
        """The hook points of one turn."""
        where = context(turn, session_id, str(workspace))
        return TurnHooks(self.hooks, self._audit, where, self._clock, self._fence_id)


def context(turn: Turn, session_id: str = "", workspace: str = "") -> HookContext:
    return HookContext(
        agent_id=turn.key.agent,
        session_key=str(turn.key),
        session_id=session_id,
        workspace_dir=workspace,
        channel=turn.channel,
        trigger=turn.trigger,
        run_id=turn.run_id,
    )
