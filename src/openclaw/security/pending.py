"""Approval requests that wait for an answer: on record, so that neither a kill nor a restart loses one.

A run waits only for a while. After that it goes on without the call, and the request stays open; when a person answers,
the call is carried out as it was shown (`answered` yields it), with the programs and scripts it had then.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Literal

import msgspec
from msgspec import Struct

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.tool import ApprovalAnswer, ApprovalPending, ApprovalRequest, Decision, Output
from openclaw.process.tasks import wait_first
from openclaw.protocol.events import EventBus
from openclaw.storage.database import Database, Row
from openclaw.storage.owners import OwnedRows, Owner

EXPIRES_AFTER = 1_800.0
KEPT = 200
KEPT_MS = 7 * 86_400_000
CHANGED = "a program or script in it was changed after you were asked"
UNANSWERED = "nobody answered in time"
RUN_ENDED = "the run ended"
RESTARTED = "the gateway was restarted"

_unattended: ContextVar[str] = ContextVar("unattended", default="")


@contextmanager
def unattended(why: str) -> Iterator[None]:
    """Questions that come up inside, also in tasks started there, are answered with no: nobody is there to ask."""
    before = _unattended.set(why)
    try:
        yield
    finally:
        _unattended.reset(before)


class GivenAnswer(Struct, frozen=True, kw_only=True):
    """What a person said to exactly this request."""

    request: ApprovalRequest
    answer: ApprovalAnswer


_given: ContextVar[tuple[GivenAnswer, ...]] = ContextVar("given", default=())


@contextmanager
def answering(given: tuple[GivenAnswer, ...]) -> Iterator[None]:
    """Questions that come up inside and were answered before get that answer; others are asked as usual."""
    before = _given.set(given)
    try:
        yield
    finally:
        _given.reset(before)


class PendingApproval(Struct, frozen=True, kw_only=True):
    """A request waiting for an answer."""

    request: ApprovalRequest
    created_at: int
    expires_at: int
    given: tuple[GivenAnswer, ...] = ()
    """Other questions about the same call that were answered before."""


class ApprovalOutcome(Struct, frozen=True, kw_only=True):
    """How a request ended."""

    id: str
    decision: Decision | Literal["expired"]
    by: str
    at: int


class AnsweredCall(Struct, frozen=True, kw_only=True):
    """A call whose run went on, and the answer to the question about it."""

    question: PendingApproval
    answer: ApprovalAnswer
    interrupted: bool = False
    """It was being carried out when the process ended, and nobody knows how far it came."""


class _Open:
    """A question and whoever waits for its answer."""

    def __init__(self, question: PendingApproval, *, waited_for: bool) -> None:
        self.question = question
        self.answer: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        self.patience: float | None = None
        """Seconds the run still waits; None while nobody has said."""
        self.told = asyncio.Event()
        self.hurry = asyncio.Event()
        self.waited_for = waited_for
        self.recorded = not waited_for
        """It is on record: an answer before that would find nothing to end."""
        self.closing = False
        """Its answer is being written down."""

    @property
    def is_answerable(self) -> bool:
        return self.recorded and not self.closing


def decisions(request: ApprovalRequest) -> tuple[Decision, ...]:
    return ("allow-once", "allow-always", "deny") if request.standing else ("allow-once", "deny")


def pending_output(request: ApprovalRequest) -> Output:
    """The result of a call that waits for its approval, as the model reads it."""
    reply = f"/approve {request.id} {'|'.join(decisions(request))}"
    text = (
        f"approval-pending (id {request.id}): this was not done yet; the owner is asked.\n"
        f"What waits, in {request.cwd}:\n{request.command}\n"
        f"Reply with: {reply}\n"
        "Do not call it again and do not wait for it. Go on with what does not need it, or tell the user that it waits "
        "and end your turn. Once it is answered it runs exactly as shown, and you get the result as a new message."
    )
    return Output.of(text, status="approval-pending", approvalId=request.id, command=request.command, reply=reply)


class PendingApprovals:
    """An `Approver` for people who are not at this terminal: clients list the requests and answer by id."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        asked: Callable[[PendingApproval], None],
        resolved: Callable[[PendingApproval, ApprovalOutcome], None],
        expires_after: float = EXPIRES_AFTER,
        me: Owner | None = None,
    ) -> None:
        self._db = db
        self._owned = OwnedRows(db, "approvals", key="approval_id", in_work="state <> 'done'", me=me)
        self._clock = clock
        self._asked = asked
        self._resolved = resolved
        self._expires_after = expires_after
        self._open: dict[str, _Open] = {}
        self._closed: dict[str, ApprovalOutcome] = {}
        self._waited: dict[str, float] = {}
        """Seconds by run, of waits that are over."""
        self._answered: asyncio.Queue[AnsweredCall] = asyncio.Queue()
        self._moved = asyncio.Event()
        self._suspended = False

    # What survives the process.

    @asynccontextmanager
    async def serving(self, *, take_over: bool) -> AsyncIterator[None]:
        """Questions can be asked inside; with `take_over`, those that an earlier process left are asked too."""
        if take_over:
            await self._take_over()
        try:
            yield
        finally:
            # The process may live on and start again: what is in its hands would be nobody else's to take.
            rows = await self._db.read(
                "SELECT approval_id FROM approvals WHERE state <> 'done' AND owner = :me", {"me": self._owned.me}
            )
            await self._owned.release([row["approval_id"] for row in rows])

    async def _take_over(self) -> None:
        """Takes up the questions and the answered calls that processes which are gone left."""
        await self._db.write(
            "DELETE FROM approvals WHERE state = 'done' AND answered_at < :before",
            {"before": millis(self._clock) - KEPT_MS},
        )
        closed = await self._db.read(
            "SELECT approval_id, decision, answered_by, answered_at FROM approvals WHERE decision <> '' "
            "ORDER BY answered_at DESC LIMIT :most",
            {"most": KEPT},
        )
        for row in reversed(closed):
            outcome = ApprovalOutcome(
                id=row["approval_id"], decision=row["decision"], by=row["answered_by"], at=row["answered_at"]
            )
            self._closed.setdefault(outcome.id, outcome)
        await self.take_left()

    async def take_left(self, fits: Callable[[Row], bool] = lambda row: True) -> None:
        """Takes up those of them that `fit`."""
        for row in sorted(await self._owned.take(fits=fits), key=lambda row: (row["created_at"], row["approval_id"])):
            await self._take(row)

    async def _take(self, row: Row) -> None:
        question = msgspec.json.decode(row["question"], type=PendingApproval)
        if row["state"] != "open":
            answer = msgspec.json.decode(row["answer"], type=ApprovalAnswer)
            interrupted = row["state"] == "running"
            self._answered.put_nowait(AnsweredCall(question=question, answer=answer, interrupted=interrupted))
        elif question.request.call is None:
            self._open[question.request.id] = _Open(question, waited_for=False)
            await self._expire(question.request.id, RESTARTED)
        else:
            self._open[question.request.id] = _Open(question, waited_for=False)
            self._stir()

    def suspend(self) -> None:
        """The process is about to end: no run waits any longer, and what is open stays open for the next start."""
        self._suspended = True
        for waiting in self._open.values():
            waiting.hurry.set()

    # Asking.

    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        if why := _unattended.get():
            return ApprovalAnswer("deny", why=f"{request.why or 'it needs your approval'}, and {why}")
        for each in _given.get():
            if _shown(each.request) == _shown(request):
                same = each.request.identity == request.identity
                return each.answer if same else ApprovalAnswer("deny", why=CHANGED)
        twin = self._twin(request)
        if twin is not None:  # asked already, and the run went on: one answer runs it once
            raise ApprovalPending(pending_output(twin))
        now = millis(self._clock)
        lasts = self._expires_after if request.expires_after is None else request.expires_after
        question = PendingApproval(
            request=request, created_at=now, expires_at=now + round(lasts * 1000), given=_given.get()
        )
        waiting = self._open[request.id] = _Open(question, waited_for=True)
        began, went_on = self._clock.now(), False
        try:
            await self._db.write(
                "INSERT INTO approvals (approval_id, question, state, owner, created_at) "
                "VALUES (:id, :question, 'open', :me, :now)",
                {
                    "id": request.id,
                    "question": msgspec.json.encode(question).decode(),
                    "me": self._owned.me,
                    "now": now,
                },
            )
            waiting.recorded = True
            self._asked(question)
            await self._wait(waiting, lasts)
            if waiting.answer.done() or waiting.closing:
                return await waiting.answer
            if self._clock.now() - began >= lasts:
                await self._expire(request.id, "nobody")
                return ApprovalAnswer("deny", why=UNANSWERED, nobody=True)
            went_on = True
            raise ApprovalPending(pending_output(request))
        finally:
            waiting.waited_for = False
            self._count(request.run_id, self._clock.now() - began)
            kept = went_on or (self._suspended and request.call is not None)
            if request.id in self._open and not (kept or waiting.closing):
                await self._expire(request.id, RUN_ENDED)
            self._stir()

    async def _wait(self, waiting: _Open, lasts: float) -> None:
        """Until it is answered or has expired, or the run waited long enough."""
        answered = asyncio.shield(waiting.answer)
        if waiting.question.request.call is None:
            await wait_first(answered, self._clock.sleep(lasts))
            return
        if self._suspended:
            return
        await wait_first(answered, self._clock.sleep(lasts), waiting.told.wait(), waiting.hurry.wait())
        if waiting.patience and not waiting.answer.done():
            again = asyncio.shield(waiting.answer)
            await wait_first(again, self._clock.sleep(min(waiting.patience, lasts)), waiting.hurry.wait())

    def _count(self, run_id: str, seconds: float) -> None:
        if run_id:
            self._waited[run_id] = self._waited.pop(run_id, 0.0) + seconds
            while len(self._waited) > KEPT:
                del self._waited[next(iter(self._waited))]

    def _twin(self, request: ApprovalRequest) -> ApprovalRequest | None:
        if request.call is None:
            return None
        for waiting in self._open.values():
            other = waiting.question.request
            if (
                not (waiting.waited_for or waiting.closing)
                and other.session_key == request.session_key
                and other.identity == request.identity
                and _shown(other) == _shown(request)
            ):
                return other
        return None

    def wait_at_most(self, name: str, seconds: float) -> None:
        """The run that asked goes on after `seconds`; the question stays open."""
        waiting = self._open.get(name)
        if waiting is not None and waiting.question.request.call is not None:
            waiting.patience = seconds
            waiting.told.set()
            if not seconds:
                waiting.hurry.set()

    def waited(self, run_id: str) -> float:
        """Seconds that a run has waited for people."""
        now = self._clock.now()
        going = (
            now - waiting.question.created_at / 1000
            for waiting in self._open.values()
            if waiting.waited_for and waiting.question.request.run_id == run_id
        )
        return self._waited.get(run_id, 0.0) + sum(going)

    def is_waited_for(self, name: str) -> bool:
        """Whether a run, or a caller, waits for the answer now."""
        return name in self._open and self._open[name].waited_for

    def holding(self) -> set[str]:
        """The sessions in which a run waits for a person now."""
        return {each.question.request.session_key for each in self._open.values() if each.waited_for}

    # Answering.

    async def resolve(self, wanted: str, decision: str, by: str = "") -> ApprovalOutcome:
        """Answers a request by its id or a unique prefix of it."""
        if decision not in ("allow-once", "allow-always", "deny"):
            raise InvalidRequest(f"{decision!r} is not a decision: use allow-once, allow-always or deny")
        chosen: Decision = decision  # type: ignore[assignment]
        waiting = self._find(wanted)
        if chosen not in decisions(waiting.question.request):
            raise InvalidRequest("this can be allowed once only: use allow-once or deny")
        return await self._close(waiting, ApprovalAnswer(chosen, by=by), chosen, by)

    async def decline(self, wanted: str, why: str, by: str = "") -> ApprovalOutcome:
        """Ends a question that nobody can be asked; the answer is no, and `why` says what would help."""
        return await self._close(self._find(wanted), ApprovalAnswer("deny", by=by, why=why, nobody=True), "deny", by)

    async def _expire(self, name: str, by: str) -> None:
        waiting = self._open.get(name)
        if waiting is not None and not waiting.closing:
            answer = ApprovalAnswer("deny", by=by, why=UNANSWERED, nobody=True)
            await self._close(waiting, answer, "expired", by)

    async def _close(
        self, waiting: _Open, answer: ApprovalAnswer, decision: Decision | Literal["expired"], by: str
    ) -> ApprovalOutcome:
        """Writes the answer down, then hands it to whoever waits for it."""
        question, waiting.closing = waiting.question, True
        outcome = ApprovalOutcome(id=question.request.id, decision=decision, by=by, at=millis(self._clock))
        later = not waiting.waited_for and question.request.call is not None and by != RUN_ENDED
        await self._db.write(
            "UPDATE approvals SET state = :state, decision = :decision, answer = :answer, answered_by = :by, "
            "answered_at = :at WHERE approval_id = :id",
            {
                "id": outcome.id,
                "state": "answered" if later else "done",
                "decision": decision,
                "answer": msgspec.json.encode(answer).decode(),
                "by": by,
                "at": outcome.at,
            },
        )
        self._open.pop(outcome.id, None)
        self._closed[outcome.id] = outcome
        while len(self._closed) > KEPT:
            del self._closed[next(iter(self._closed))]
        if later:
            self._answered.put_nowait(AnsweredCall(question=question, answer=answer))
        elif not waiting.answer.done():
            waiting.answer.set_result(answer)
        self._resolved(question, outcome)
        self._stir()
        return outcome

    async def answered(self) -> AsyncGenerator[AnsweredCall, None]:
        """The calls to carry out, as they are answered; questions that nobody answered in time end here too."""
        while True:
            while not self._answered.empty():
                yield self._answered.get_nowait()
            left = [each.question.expires_at for each in self._open.values() if not each.waited_for]
            self._moved.clear()
            if left:
                nearest = max(0.0, min(left) / 1000 - self._clock.now())
                await wait_first(self._moved.wait(), self._clock.sleep(nearest))
            else:
                await self._moved.wait()
            now = millis(self._clock)
            for waiting in list(self._open.values()):
                if waiting.question.expires_at <= now and not waiting.waited_for:
                    await self._expire(waiting.question.request.id, "nobody")

    async def begin(self, name: str) -> None:
        """A call is carried out from now on: after a kill it is not begun a second time."""
        await self._set_state(name, "running")

    async def finish(self, name: str) -> None:
        await self._set_state(name, "done")

    async def _set_state(self, name: str, state: str) -> None:
        await self._db.write(
            "UPDATE approvals SET state = :state WHERE approval_id = :id", {"id": name, "state": state}
        )

    def _stir(self) -> None:
        self._moved.set()

    # Looking.

    @property
    def now(self) -> int:
        return millis(self._clock)

    def list(self) -> "list[PendingApproval]":
        return [waiting.question for waiting in self._open.values() if waiting.is_answerable]

    def listed(self) -> tuple[PendingApproval, ...]:
        """What people can answer here."""
        return tuple(self.list())

    def outcome(self, name: str) -> ApprovalOutcome | None:
        """How a request ended; None while it waits, and when it is not known any more."""
        return self._closed.get(name)

    def get(self, wanted: str) -> PendingApproval:
        return self._find(wanted).question

    def _find(self, wanted: str) -> _Open:
        found = [
            waiting
            for name, waiting in self._open.items()
            if wanted and name.startswith(wanted) and waiting.is_answerable
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidRequest(f"{wanted!r} fits {len(found)} approvals: give more of the id")
        if wanted in self._closed:
            raise NotFound(f"approval {wanted} was already answered: {self._closed[wanted].decision}")
        raise NotFound(f"no approval {wanted!r} is waiting")


def _shown(request: ApprovalRequest) -> tuple[str, str, str]:
    return request.tool, request.command, request.cwd


def approval_to_json(question: PendingApproval) -> dict[str, Any]:
    request = question.request
    return {
        "id": request.id,
        "request": {
            "command": request.command,
            "cwd": request.cwd,
            "host": "gateway",
            "agentId": request.agent_id,
            "sessionKey": request.session_key,
            "allowedDecisions": decisions(request),
            "warningText": request.why,
            **({"origins": msgspec.to_builtins(request.origins)} if request.origins else {}),
        },
        "createdAtMs": question.created_at,
        "expiresAtMs": question.expires_at,
    }


def tell_asked(bus: EventBus, question: PendingApproval) -> None:
    bus.publish("exec.approval.requested", approval_to_json(question), question.request.session_key)


def tell_resolved(bus: EventBus, question: PendingApproval, resolution: ApprovalOutcome) -> None:
    payload = {"id": resolution.id, "decision": resolution.decision, "resolvedBy": resolution.by, "ts": resolution.at}
    bus.publish("exec.approval.resolved", payload, question.request.session_key)
