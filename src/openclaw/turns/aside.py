"""Asking a model aside: a run that nobody watches and no transcript records."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from msgspec import Struct

from openclaw.agent.loop import ModelRouter, RunJob, Steering, run
from openclaw.agent.toolrun import ToolRunner
from openclaw.core.clock import Clock
from openclaw.core.errors import ContextTooLong, OpenClawError, Unavailable
from openclaw.core.events import MessageEnded, RunEnded
from openclaw.core.messages import Usage

T = TypeVar("T")


class ModelAnswer(Struct, frozen=True):
    """What came of it."""

    text: str
    usage: Usage


class ModelAsker:
    """A model, or a chain of them, to be asked aside; each question goes through the chain from its start."""

    def __init__(self, route: Callable[[], Awaitable[ModelRouter]], clock: Clock) -> None:
        self._route = route
        self._clock = clock

    async def ask(self, job: RunJob, tools: ToolRunner) -> ModelAnswer:
        """The last thing said; an `OpenClawError` when there was no answer."""
        text, end = "", None
        route = await self._route()
        async with aclosing(run(job, route, tools, Steering(), self._clock)) as events:
            async for event in events:
                if isinstance(event, MessageEnded) and event.message.text.strip():
                    text = event.message.text
                elif isinstance(event, RunEnded):
                    end = event
        if end is None or end.error:
            why = end.error if end and end.error else "the model gave no answer"
            raise _FAILURES.get(end.error_code or "" if end else "", Unavailable)(why)
        return ModelAnswer(text, end.usage)


_FAILURES: dict[str, type[OpenClawError]] = {ContextTooLong.reason: ContextTooLong}


async def with_timeout(work: Coroutine[Any, Any, T], seconds: float, clock: Clock, what: str) -> T:
    """The result of `work`, or `Unavailable` when it takes longer than `seconds` (0 = no limit)."""
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(seconds) if seconds else asyncio.Event().wait())
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Unavailable(f"{what} took longer than {seconds:g} s")
        return task.result()
    finally:
        task.cancel()
        timer.cancel()
        await asyncio.gather(task, timer, return_exceptions=True)
