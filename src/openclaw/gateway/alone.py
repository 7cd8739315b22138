"""Commands in a process without a gateway: answered by the same code, before any model sees them."""

import asyncio
from functools import partial

from openclaw.core.keys import SessionKey
from openclaw.gateway.app import App
from openclaw.gateway.capabilities import describe_agent
from openclaw.gateway.services import build_services
from openclaw.runs.commands import CommandResult, SlashCommands
from openclaw.security.approvals import PendingApprovals


async def answer(app: App, key: SessionKey, text: str) -> CommandResult | None:
    """The reply to a message that is a command; None when it is for the assistant."""
    services = build_services(app)
    questions = PendingApprovals(app.clock, lambda question: None, lambda question, end: None)
    commands = SlashCommands(
        services.sessions,
        services.control,
        app.lifecycle,
        services.runs,
        app.models,
        app.index,
        app.plugins,
        app.clock,
        app.preparer,
        app.sandboxes,
        app.budget,
        app.archive,
        app.audit,
        app.live.tools,
        app.live.commands,
        questions,
        services.toolset,
        partial(describe_agent, app, services.toolset),
    )
    async with services.serving():
        try:
            return await commands.answer(key, text)
        except asyncio.CancelledError:
            # Stopped by a person: not something for the next gateway to take up.
            await services.runs.abort(key)
            raise
