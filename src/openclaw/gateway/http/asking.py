"""Asking a run for an answer over HTTP: it lives as long as somebody waits for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

from msgspec import Struct

from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import SessionKey
from openclaw.gateway.http import problems
from openclaw.gateway.http.conversation import RequestedTurn
from openclaw.gateway.http.functions import FunctionChoice
from openclaw.gateway.http.listening import RunFanout, RunListener
from openclaw.gateway.http.problems import HttpProblem
from openclaw.gateway.http.speech import StreamedText
from openclaw.gateway.http.target import KeyOf, RequestTarget
from openclaw.turns.ledger import RunOutcome
from openclaw.turns.queue import QueueRules
from openclaw.turns.runs import RunService
from openclaw.turns.turn import RunRequest

QUIET_SECONDS = 15.0
"""After so long without a word a waiting client is told that we are still here."""
# Each request gets an answer of its own, so none is steered into another or put together with it.
_RULES = QueueRules(mode="followup", cap=20, drop="new")


class Conversations(Struct, frozen=True, kw_only=True):
    """What is known of agents and sessions."""

    key_of: KeyOf
    has_history: Callable[[SessionKey], Awaitable[bool]]
    """Whether something was said in a session before."""
    tool_names: Callable[[], Collection[str]]
    """The agent's own tools."""


def turn_of(run_id: str, target: RequestTarget, asked: RequestedTurn, choice: FunctionChoice) -> RunRequest:
    return RunRequest(
        run_id=run_id,
        key=target.key,
        text=asked.text,
        images=asked.images,
        model=target.model,
        channel=target.channel,
        extra="\n\n".join(part for part in (asked.extra, choice.order) if part),
        client_tools=choice.tools,
    )


class HttpRun:
    """A run under way, as its client follows it."""

    def __init__(self, events: RunListener, speech: StreamedText) -> None:
        self._events = events
        self.speech = speech

    async def pieces(self) -> AsyncIterator[str]:
        """The text as it comes, until the run is over; an empty piece when it was quiet for long."""
        while self.speech.outcome is None:
            told = await self._events.next(QUIET_SECONDS)
            text = "" if told is None else self.speech.take(told)
            if text or told is None:
                yield text

    async def beginning(self) -> str:
        """What is said until a model was asked: whatever fails before that still gets a status of its own."""
        while not self.speech.began:
            told = await self._events.next(QUIET_SECONDS)
            if told is None:
                return ""
            if text := self.speech.take(told):
                return text
        if self.speech.outcome is not None:
            self.check()
        return ""

    async def end(self) -> RunOutcome:
        """The outcome; raises the problem of a run that failed."""
        async for _ in self.pieces():
            pass
        return self.check()

    def check(self) -> RunOutcome:
        outcome = self.speech.outcome
        if outcome is None:
            raise HttpProblem(500, "the run ended without an outcome", problems.FAILED)
        if outcome.status == "error":
            raise problems.of_outcome(outcome)
        return outcome


class HttpRunRequests:
    """Takes questions that came over HTTP."""

    def __init__(self, runs: RunService, fanout: RunFanout) -> None:
        self._runs = runs
        self._fanout = fanout

    @asynccontextmanager
    async def asking(self, turn: RunRequest) -> AsyncIterator[HttpRun]:
        """A run that is stopped when the block is left before its end."""
        with self._fanout.listening(turn.run_id) as events:
            try:
                await self._runs.submit(turn, rules=_RULES)
            except InvalidRequest as error:
                raise HttpProblem(429, error.message, "rate_limit_error", code="queue_full") from error
            try:
                yield HttpRun(events, StreamedText([tool.name for tool in turn.client_tools]))
            finally:
                if not events.settled:
                    await asyncio.shield(self._runs.abort(turn.key, turn.run_id))
