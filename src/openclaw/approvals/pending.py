"""Questions that wait for a person: asked once, answered once, and never for ever."""

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from openclaw.core.approval import ApprovalAnswer, ApprovalRequest, Decision
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest, NotFound

EXPIRES_AFTER = 1_800.0
KEPT = 200


class PendingApproval(Struct, frozen=True, kw_only=True):
    """A request on the table."""

    request: ApprovalRequest
    created_at: int
    expires_at: int


class ApprovalOutcome(Struct, frozen=True, kw_only=True):
    """How a question ended."""

    id: str
    decision: Decision | Literal["expired"]
    by: str
    at: int


class PendingApprovals:
    """An `Approver` for people who are not at this terminal: clients list the questions and answer by id."""

    def __init__(
        self,
        clock: Clock,
        asked: Callable[[PendingApproval], None],
        resolved: Callable[[PendingApproval, ApprovalOutcome], None],
        expires_after: float = EXPIRES_AFTER,
    ) -> None:
        self._clock = clock
        self._asked = asked
        self._resolved = resolved
        self._expires_after = expires_after
        self._open: dict[str, tuple[PendingApproval, asyncio.Future[ApprovalAnswer]]] = {}
        self._closed: dict[str, ApprovalOutcome] = {}

    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        now = millis(self._clock)
        question = PendingApproval(request=request, created_at=now, expires_at=now + round(self._expires_after * 1000))
        answer: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        self._open[request.id] = (question, answer)
        timer = asyncio.create_task(self._clock.sleep(self._expires_after), name=f"approval:{request.id}")
        self._asked(question)
        try:
            both: set[asyncio.Future[Any]] = {answer, timer}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            self._close(question, "expired", "nobody")
            return ApprovalAnswer("deny", why="nobody answered in time", nobody=True)
        finally:
            timer.cancel()
            await asyncio.gather(timer, return_exceptions=True)
            if self._open.pop(request.id, None) is not None and not answer.done():
                self._close(question, "expired", "the run ended")

    def resolve(self, wanted: str, decision: str, by: str = "") -> ApprovalOutcome:
        """Answers a question by its id or the unique start of it."""
        if decision not in ("allow-once", "allow-always", "deny"):
            raise InvalidRequest(f"{decision!r} is not a decision: use allow-once, allow-always or deny")
        question, answer = self._find(wanted)
        chosen: Decision = decision  # type: ignore[assignment]
        answer.set_result(ApprovalAnswer(chosen, by=by))
        del self._open[question.request.id]
        return self._close(question, chosen, by)

    @property
    def now(self) -> int:
        return millis(self._clock)

    def list(self) -> "list[PendingApproval]":
        return [question for question, _ in self._open.values()]

    def get(self, wanted: str) -> PendingApproval:
        return self._find(wanted)[0]

    def _find(self, wanted: str) -> tuple[PendingApproval, asyncio.Future[ApprovalAnswer]]:
        found = [pair for name, pair in self._open.items() if wanted and name.startswith(wanted)]
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidRequest(f"{wanted!r} fits {len(found)} approvals: give more of the id")
        if wanted in self._closed:
            raise NotFound(f"approval {wanted} was already answered: {self._closed[wanted].decision}")
        raise NotFound(f"no approval {wanted!r} is waiting")

    def _close(self, question: PendingApproval, decision: Decision | Literal["expired"], by: str) -> ApprovalOutcome:
        resolution = ApprovalOutcome(id=question.request.id, decision=decision, by=by, at=millis(self._clock))
        self._closed[resolution.id] = resolution
        while len(self._closed) > KEPT:
            del self._closed[next(iter(self._closed))]
        self._resolved(question, resolution)
        return resolution
