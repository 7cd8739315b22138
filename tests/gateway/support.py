"""What the tests of the whole assistant look at: the transcript on disk."""

import asyncio
from collections.abc import Callable, Iterable

from openclaw.core.events import Event
from openclaw.core.messages import Assistant, Message, ToolResult
from openclaw.gateway import app
from openclaw.runs.request import RecordedEvent, SessionRenewed, SessionRepaired
from openclaw.sessions.files import load
from openclaw.sessions.transcript import MessageEntry, build_context
from openclaw.testing import Heard, TemporaryHome, ask

Happening = Event | SessionRepaired | SessionRenewed | RecordedEvent


def written(home: TemporaryHome) -> list[Message]:
    """The messages in the only transcript, in the order they were written; it must be whole."""
    (path,) = home.transcripts()
    loaded = load(path)
    assert loaded.problems == ()
    context = build_context(loaded.entries)
    assert (context.problems, context.unanswered) == ((), ())
    return [entry.message for entry in loaded.entries if isinstance(entry, MessageEntry)]


def roles(messages: Iterable[Message]) -> list[str]:
    return [type(message).__name__ for message in messages]


def results(messages: Iterable[Message]) -> list[ToolResult]:
    return [message for message in messages if isinstance(message, ToolResult)]


def spoken(messages: Iterable[Message]) -> list[str]:
    return [message.text for message in messages if isinstance(message, Assistant)]


async def stopped_at(assistant: app.App, text: str, moment: Callable[[Happening], bool]) -> Heard:
    """Runs a turn and cancels it, as Ctrl-C does, when `moment` has come."""
    heard = Heard()
    reached = asyncio.Event()

    class Watching(list[Happening]):
        def append(self, event: Happening) -> None:
            super().append(event)
            if moment(event):
                reached.set()

    heard.events = Watching()
    task = asyncio.create_task(ask(assistant, text, into=heard))
    async with asyncio.timeout(120):
        await reached.wait()
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled()
    return heard
