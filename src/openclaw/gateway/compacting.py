"""A compaction on request: a run of its own in the session's lane, so that nothing else writes meanwhile."""

import uuid

from openclaw.core.errors import Unavailable
from openclaw.core.events import CompactionEnded
from openclaw.core.keys import SessionKey
from openclaw.gateway.desk import SessionService
from openclaw.turns.queue import QueueRules
from openclaw.turns.turn import RunRequest

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
