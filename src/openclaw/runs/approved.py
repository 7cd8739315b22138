"""Calls that a person allowed after their run went on: carried out as they were shown, their result told.

A call is begun once: when the process ends in the middle of it, the conversation hears that, and nothing runs again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

import msgspec

from openclaw.core.channel import Address
from openclaw.core.errors import OpenClawError
from openclaw.core.events import ToolEnded
from openclaw.core.keys import SessionKey, parse_session_key
from openclaw.core.messages import Image, ToolResult
from openclaw.core.text import merge_origins
from openclaw.runs.inbox import Inbox
from openclaw.runs.prepare import TurnPreparer
from openclaw.runs.request import RunRequest
from openclaw.runs.subagents import SubagentStore
from openclaw.runs.toolset import Toolset
from openclaw.runs.worker import RunService
from openclaw.security.approvals import ApprovalFile
from openclaw.security.external import sanitize_external_text
from openclaw.security.pending import AnsweredCall, GivenAnswer, PendingApprovals, answering
from openclaw.sessions.system_events import SystemEvents

log = logging.getLogger(__name__)

MARK = "[OpenClaw approval]"
PREFIX = "approval:"
"""The start of the ids of runs that an answer woke."""
AFTER = (
    "This is news from the system, not a message from the user. Go on with what it was for; if nobody needs to hear of "
    "it, reply NO_REPLY."
)


async def find_request(inbox: Inbox, run_id: str) -> RunRequest | None:
    """The request of a run, also of one that has ended."""
    entry = await inbox.get(run_id) if run_id else None
    try:
        return msgspec.json.decode(entry.request, type=RunRequest) if entry is not None else None
    except msgspec.DecodeError:
        return None


class ApprovedCalls:
    """Carries out calls when their approval comes, and wakes the conversations they belong to."""

    def __init__(
        self,
        questions: PendingApprovals,
        granted: ApprovalFile,
        inbox: Inbox,
        runs: RunService,
        preparer: TurnPreparer,
        toolset: Toolset,
        roster: SubagentStore,
        system_events: SystemEvents,
        asked_at: Callable[[str], Awaitable[Address | None]],
    ) -> None:
        """`asked_at` gives the chat in which a question was put to the owner."""
        self._questions = questions
        self._granted = granted
        self._inbox = inbox
        self._runs = runs
        self._preparer = preparer
        self._toolset = toolset
        self._roster = roster
        self._system_events = system_events
        self._asked_at = asked_at

    async def keep(self) -> None:
        """Carries out what is answered, until it is cancelled; one call does not wait for another."""
        async with asyncio.TaskGroup() as group, aclosing(self._questions.answered()) as calls:
            async for call in calls:
                group.create_task(self._settle(call), name=f"{PREFIX}{call.question.request.id}")

    async def _settle(self, call: AnsweredCall) -> None:
        request = call.question.request
        turn = await find_request(self._inbox, request.run_id)
        results: tuple[ToolResult, ...] = ()
        if not call.interrupted and self._may_run(call):
            await self._questions.begin(request.id)
            results = await self._carry_out(call, turn)
        if call.answer.nobody and all(result.is_error for result in results):
            await self._note(call, "nobody answered in time, and it was not done")
        else:
            await self._wake(call, turn, results)
        await self._questions.finish(request.id)

    def _may_run(self, call: AnsweredCall) -> bool:
        if call.answer.nobody:
            return self._granted.read().fallback(call.question.request.agent_id) != "deny"
        return call.answer.decision != "deny"

    async def _carry_out(self, call: AnsweredCall, turn: RunRequest | None) -> tuple[ToolResult, ...]:
        """Runs the calls through all gates again; the question that was answered gets that answer there."""
        request = call.question.request
        assert request.call is not None
        calls = (request.call, *request.also)
        results: dict[str, ToolResult] = {}
        key = parse_session_key(request.session_key)
        runner = await self._preparer.runner_of_run(self._toolset, key, request.run_id, turn, request.origins)
        with answering((*call.question.given, GivenAnswer(request=request, answer=call.answer))):
            async with aclosing(runner.run_all(calls)) as events:
                async for event in events:
                    if isinstance(event, ToolEnded):
                        results[event.call.id] = event.result
        return tuple(results[each.id] for each in calls)

    async def _wake(self, call: AnsweredCall, turn: RunRequest | None, results: tuple[ToolResult, ...]) -> None:
        request = call.question.request
        key = self._conversation(request.session_key)
        woken = RunRequest(
            run_id=f"{PREFIX}{request.id}",
            key=key,
            text=_news(call, results),
            images=tuple(block for result in results for block in result.content if isinstance(block, Image)),
            origins=merge_origins(request.origins, *(result.origins for result in results)),
            trigger="system",
            lane="subagent" if key.is_subagent else "main",
            reply_to=await self._address(key, turn, request.id),
        )
        try:
            await self._runs.submit(woken)
        except OpenClawError as error:
            log.info("%s was answered and its session was not woken: %s", request.id, error.message)
            await self._note(call, _how(call, results))

    async def _address(self, key: SessionKey, turn: RunRequest | None, name: str) -> Address | None:
        """Where the result goes, when it is not where the conversation's person was last heard."""
        if turn is None or turn.trigger == "user":
            return None
        return turn.reply_to or (await self._asked_at(name) if key.is_cron or key.is_hook else None)

    def _conversation(self, session_key: str) -> SessionKey:
        """The session that is told: a sub-agent that has ended tells the one that started it."""
        child = self._roster.by_key(session_key)
        ended = child is not None and child.status != "running"
        return parse_session_key(child.parent if child is not None and ended else session_key)

    async def _note(self, call: AnsweredCall, how: str) -> None:
        """Leaves word for the next turn, which starts for another reason."""
        request = call.question.request
        text = f"Approval {request.id} ({sanitize_external_text(request.command)[:200]}): {how}."
        await self._system_events.add(self._conversation(request.session_key), text, f"{PREFIX}{request.id}")


def _how(call: AnsweredCall, results: Sequence[ToolResult]) -> str:
    if call.interrupted:
        return "it was allowed, and the gateway ended while it ran: look how far it came before you repeat it"
    if not results:
        return "the user said no, and it was not done"
    if any((result.details or {}).get("status") == "approval-pending" for result in results):
        return "it was allowed, and another question about it is open"
    return "it was allowed and failed" if any(result.is_error for result in results) else "it was allowed and done"


def _news(call: AnsweredCall, results: Sequence[ToolResult]) -> str:
    request = call.question.request
    shown = sanitize_external_text(request.command)
    text = (
        f"{MARK} {request.id}, answered {call.answer.decision}: {_how(call, results)}.\n"
        f"The call of {request.tool}, in {request.cwd}:\n<prompt-data>\n{shown}\n</prompt-data>\n"
    )
    for result in results:
        # Labelled text comes wrapped; the wrapping stays as it is.
        said = result.text if result.origins else sanitize_external_text(result.text)
        text += f"Its result:\n<prompt-data>\n{said or '(no output)'}\n</prompt-data>\n"
    return text + AFTER
