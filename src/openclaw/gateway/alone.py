"""Commands in a process without a gateway: answered by the same code, before any model sees them."""

import asyncio

from openclaw.core.keys import SessionKey
from openclaw.gateway.app import App
from openclaw.protocol.events import EventBus
from openclaw.runs.commands import CommandResult, SlashCommands
from openclaw.runs.control import SessionService
from openclaw.runs.inbox import Inbox
from openclaw.runs.lanes import Lanes
from openclaw.runs.worker import RunService
from openclaw.security.approvals import PendingApprovals


async def answer(app: App, key: SessionKey, text: str) -> CommandResult | None:
    """The reply to a message that is a command; None when it is for the assistant."""
    questions = PendingApprovals(app.clock, lambda question: None, lambda question, end: None)
    runs = RunService(app.turns, Inbox(app.db, app.clock), Lanes({"main": 1}), app.clock, lambda event: None)
    async with runs.serving() as active:
        try:
            return await SlashCommands(SessionService(app, app.lifecycle, active, EventBus()), questions).answer(
                key, text
            )
        except asyncio.CancelledError:
            # Stopped by a person: not something for the next gateway to take up.
            await active.abort(key)
            raise
