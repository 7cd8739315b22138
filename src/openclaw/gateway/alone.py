"""Commands in a process without a gateway: answered by the same code, before any model sees them."""

import asyncio

from openclaw.approvals.pending import PendingApprovals
from openclaw.core.keys import SessionKey
from openclaw.gateway.app import Assistant
from openclaw.gateway.bus import Bus
from openclaw.gateway.commands import Commands, Reply
from openclaw.gateway.desk import Desk
from openclaw.turns.lanes import Lanes
from openclaw.turns.ledger import Ledger
from openclaw.turns.runs import Runs


async def answer(app: Assistant, key: SessionKey, text: str) -> Reply | None:
    """The reply to a message that is a command; None when it is for the assistant."""
    questions = PendingApprovals(app.clock, lambda question: None, lambda question, end: None)
    runs = Runs(app.turns, Ledger(app.db, app.clock), Lanes({"main": 1}), app.clock, lambda event: None)
    async with runs.serving() as active:
        try:
            return await Commands(Desk(app, app.lifecycle, active, Bus()), questions).answer(key, text)
        except asyncio.CancelledError:
            # Stopped by a person: not something for the next gateway to take up.
            await active.abort(key)
            raise
