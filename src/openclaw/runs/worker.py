"""Carries out runs: accepted inputs on their way to an answer, one at a time for each session.

An input is in the inbox before it is acknowledged and leaves it with an outcome, whatever happens in between. Every run
is a task with an owner; stopping it is cancelling it, and its end is waited for.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import structs

from openclaw.agent.settings import AgentsSettings
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest, OpenClawError, ProviderError, Unavailable
from openclaw.core.events import ModelCalled, RunEnded, Steered, TextDelta
from openclaw.core.keys import SessionKey
from openclaw.core.settings import Fixed, Live
from openclaw.process.tasks import wait_first
from openclaw.runs import queue
from openclaw.runs.events import PublishedEvent, RunAccepted, RunEvent, RunPhase, RunResumed, RunSettled, RunTally
from openclaw.runs.inbox import Inbox, InboxEntry, RunOutcome, Statement, failed_outcome
from openclaw.runs.outbox import Outbox
from openclaw.runs.queue import (
    ActiveRun,
    Activity,
    EnqueueMessage,
    InterruptRun,
    Lanes,
    QueuedRun,
    QueueRules,
    RejectMessage,
    SessionQueue,
    StartRun,
    SteerRun,
    add_askers,
    bring_along,
    dropped_outcome,
    limit_run,
    merged_outcome,
    never_waited,
    run_of,
    stopped_outcome,
    take_unheard,
    time_of_call,
)
from openclaw.runs.recovery import SETTLE, Action, Recovery, SessionActivity
from openclaw.runs.reply import ReplyShaper
from openclaw.runs.request import (
    RecordedEvent,
    ResumedRun,
    RunRequest,
    SessionRenewed,
    SessionRepaired,
    Submission,
    repeated_submission,
)
from openclaw.runs.toolset import Toolset
from openclaw.runs.turn import TurnPrepared, TurnRunner, to_message
from openclaw.tools.settings import ToolsSettings

if TYPE_CHECKING:
    from openclaw.runs.hooks.messages import MessageHooks, OutgoingMessage

log = logging.getLogger(__name__)

MOST_ATTEMPTS = 3
ELSEWHERE = 0.25
"""Seconds between two looks for the end of a run that another process carries out."""
INTERRUPTED = "The gateway was restarted while it worked on this, and has taken it up again."

_AGENTS, _TOOLS = Fixed(AgentsSettings()), Fixed(ToolsSettings())


def _no_context(request: RunRequest) -> AbstractContextManager[None]:
    return nullcontext()


class RunService:
    """Accepts run requests and carries them out: `async with RunService(…).serving(toolset) as runs`."""

    def __init__(
        self,
        turns: TurnRunner,
        ledger: Inbox,
        lanes: Lanes,
        clock: Clock,
        publish: Callable[[RunEvent], None],
        *,
        proofread: Callable[[str, str], str] | None = None,
        agents: Live[AgentsSettings] = _AGENTS,
        tools: Live[ToolsSettings] = _TOOLS,
        about: Callable[[RunRequest], AbstractContextManager[None]] = _no_context,
        messages: "MessageHooks | None" = None,
        outbox: Outbox | None = None,
        waited: Callable[[str], float] = never_waited,
    ) -> None:
        self._turns = turns
        self._ledger = ledger
        self._lanes = lanes
        self._clock = clock
        self._publish = publish
        self._proofread = proofread
        """Takes sources that do not exist out of an agent's answer."""
        self._agents = agents
        self._tools = tools
        self._about = about
        self._messages = messages
        self._outbox = outbox
        self._waited = waited
        self._toolset: Toolset | None = None
        self._sessions: dict[SessionKey, SessionQueue] = {}
        self._seq: dict[str, int] = {}
        self._ends: dict[str, asyncio.Future[RunOutcome]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._draining = False

    @asynccontextmanager
    async def serving(self, toolset: Toolset) -> AsyncIterator["RunService"]:
        """Runs live inside this block, with these tools; leaving it parks what is unfinished for the next start."""
        self._toolset = toolset
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                try:
                    yield self
                finally:
                    await self.drain(0.0)
        finally:
            # The process may live on and start again: what is in its hands would be nobody else's to take.
            await self._ledger.release(list(self._ends))

    async def submit(self, turn: RunRequest, *, rules: QueueRules | None = None) -> Submission:
        """Takes an input on; the same run id a second time gives the state of the first."""
        if self._draining:
            raise Unavailable("the gateway is shutting down: try again in a moment", retry_after=2.0)
        if self._outbox is not None:
            route = await self._outbox.routes.follow(str(turn.key), turn.trigger, turn.reply_to, turn.reply_to_id)
            turn = turn if route is turn.reply_to else structs.replace(turn, reply_to=route)
        request = msgspec.json.encode(turn).decode()
        entry, new = await self._ledger.accept(turn.run_id, str(turn.key), request)
        if not new:
            if entry.outcome is None:  # whoever accepted it may be gone, and nobody asks for it again after this
                for left in await self._ledger.take_over(turn.run_id):
                    await self._take_up(left)
                    entry = await self._ledger.get(turn.run_id) or entry
            return repeated_submission(entry, turn.key)
        told = self._messages is not None and self._messages.hooks.any
        if told and self._messages is not None:
            self._messages.received(turn)
        self._ends[turn.run_id] = asyncio.get_running_loop().create_future()
        item = QueuedRun(turn=turn, rules=rules or QueueRules(), arrived=self._clock.now(), told=told)
        status = await self._place(item)
        return Submission(run_id=turn.run_id, key=turn.key, status=status, accepted_at=entry.accepted_at)

    async def resume(self) -> list[ResumedRun]:
        """Takes up what processes that are gone accepted and did not finish; gives what became of each."""
        return [await self._take_up(entry) for entry in await self._ledger.take_over()]

    async def _take_up(self, entry: InboxEntry) -> ResumedRun:
        taken = ResumedRun(run_id=entry.run_id, session_key=entry.session_key, begun=entry.attempts > 0)
        try:
            turn = msgspec.json.decode(entry.request, type=RunRequest)
        except msgspec.DecodeError as error:
            return await self._give_up(taken, f"the request cannot be read any more ({error})")
        taken = structs.replace(taken, text=turn.text)
        entry = await self._ledger.forgive(entry)
        if entry.attempts >= MOST_ATTEMPTS:
            return await self._give_up(taken, f"it did not finish in {entry.attempts} attempts", turn)
        self._ends[turn.run_id] = asyncio.get_running_loop().create_future()
        rules = QueueRules(mode="followup", cap=10_000)
        item = QueuedRun(turn=turn, rules=rules, arrived=self._clock.now(), interrupted=taken.begun)
        self._say(turn.run_id, turn.key, RunResumed(turn))
        self._enqueue(item)
        return taken

    async def wait(self, run_id: str, timeout: float) -> RunOutcome | None:
        """The outcome of a run, or None when it has none yet after `timeout` seconds. Waiting never stops a run."""
        end = self._ends.get(run_id)
        if end is not None:
            done, _ = await asyncio.wait({end}, timeout=timeout)
            return end.result() if done else None
        deadline = self._clock.now() + timeout
        while (entry := await self._ledger.get(run_id)) is not None and self._ledger.is_elsewhere(entry):
            if self._clock.now() >= deadline:
                break
            await self._clock.sleep(min(ELSEWHERE, max(0.0, deadline - self._clock.now())))
        return entry.outcome if entry else None

    def is_queued(self, run_id: str) -> bool:
        """Whether a run waits behind another one of its session, or for a place in its lane."""
        return any(session.is_queued(run_id) for session in self._sessions.values())

    @property
    def draining(self) -> bool:
        """Whether the gateway is shutting down, so that nothing new begins."""
        return self._draining

    async def abort(self, key: SessionKey, run_id: str | None = None) -> list[str]:
        """Stops one run of a session, waiting or active, or all of them; gives those it stopped."""
        session = self._sessions.get(key)
        if session is None:
            return []
        stopped = [item for item in session.waiting if run_id in (None, item.turn.run_id)]
        session.waiting = [item for item in session.waiting if item not in stopped]
        groups = [item.ids for item in stopped]
        active = session.active if session.active and run_id in (None, *session.active.item.ids) else None
        if active is not None:
            groups += [(name,) for name in map(run_of, take_unheard(active.steering)) if name]
        for group in groups:
            await self._settle(group, key, failed_outcome("aborted", "aborted", "aborted"), "aborted")
        names = [name for group in groups for name in group]
        if active is not None:
            active.stop("user")
            names.append(active.item.turn.run_id)
        return names

    def active(self, key: SessionKey) -> tuple[str, ...]:
        """The runs a session is busy with or waiting for, the active one first."""
        session = self._sessions.get(key)
        if session is None:
            return ()
        first = (session.active.item.turn.run_id,) if session.active else ()
        return (*first, *(item.turn.run_id for item in session.waiting))

    def unread(self, key: SessionKey) -> list[tuple[RunRequest, float]]:
        """What a session was told and has not taken up yet, with when it came."""
        session = self._sessions.get(key)
        if session is None:
            return []
        active = session.active
        handed = [active.steered.get(run_of(user) or "") for user in active.steering.waiting] if active else []
        first = [active.item] if active and not (active.begun or active.brought_along) else []
        items = (*first, *(item for item in handed if item is not None), *session.waiting)
        return [(turn, item.arrived) for item in items for turn in (*item.turn.earlier, item.turn)]

    def is_running(self, key: SessionKey) -> bool:
        session = self._sessions.get(key)
        return session is not None and session.active is not None

    def observe(self) -> list[SessionActivity]:
        """Every session that has something to do, as it is now."""
        return [session.observe(key) for key, session in self._sessions.items()]

    async def recover(self, key: str, generation: int, action: Action) -> Recovery:
        """Gets a session going again that was seen not to; what moved on since then is left alone."""
        found = next((pair for pair in self._sessions.items() if str(pair[0]) == key), None)
        if found is None or found[1].generation != generation:
            return Recovery(status="skipped", action=action, reason="it has moved on")
        name, session = found
        if action == "release":
            if session.observe(name).owned:
                return Recovery(status="skipped", action=action, reason="somebody works on it")
            return self._release(name, session)
        active = session.active
        if active is None:
            return Recovery(status="skipped", action=action, reason="its run has ended")
        active.stop("stalled")
        if await self._ends_within(active, SETTLE):
            return Recovery(status="aborted", action=action, reason="its run was stopped")
        active.given_up = True
        active.left.set()
        if active.place is not None:
            active.place.release()
        if await self._ends_within(active, SETTLE):
            return Recovery(status="released", action=action, reason="its run did not stop and was given up")
        return Recovery(status="failed", action=action, reason="its run can neither be stopped nor given up")

    def _release(self, key: SessionKey, session: SessionQueue) -> Recovery:
        """Hands what waits to a new worker; the old one, should it come back, has nothing left to do."""
        if session.active is not None and session.active.place is not None:
            session.active.place.release()
        lost = session.active.item.turn.run_id if session.active is not None else None
        fresh = SessionQueue()
        fresh.generation = session.generation + 1
        fresh.touched = self._clock.now()
        fresh.waiting, session.waiting = session.waiting, []
        fresh.dropped, session.dropped = session.dropped, []
        if fresh.waiting and not self._draining:
            self._sessions[key] = fresh
            self._start(key, fresh)
        else:
            del self._sessions[key]
        if lost is not None:
            # Its own end may be what never comes to be written down, so this one does not wait for the ledger.
            self._tell_end([lost], key, stopped_outcome("stalled"))
        return Recovery(status="released", action="release", reason="nobody was behind it")

    async def _ends_within(self, active: ActiveRun, seconds: float) -> bool:
        await wait_first(active.over.wait(), self._clock.sleep(seconds))
        return active.over.is_set()

    @property
    def busy(self) -> int:
        return sum(session.active is not None for session in self._sessions.values())

    @property
    def running(self) -> int:
        """How many conversations are worked on, here and on other nodes."""
        return self.busy

    async def drain(self, budget: float) -> int:
        """Accepts nothing more, waits for what runs, parks it after `budget` seconds; gives how many were parked."""
        self._draining = True
        tasks = {s.active.task for s in self._sessions.values() if s.active is not None and s.active.task is not None}
        if tasks and budget > 0:
            await asyncio.wait(tasks, timeout=budget)
        parked = 0
        for session in self._sessions.values():
            session.waiting.clear()
            if session.active is not None and session.active.task is not None and not session.active.task.done():
                session.active.stop("shutdown")
                parked += 1
        return parked

    # Placing an input: decided and done without a pause in between, so that two inputs never both "start".

    async def _place(self, item: QueuedRun) -> Literal["started", "queued", "steered"]:
        key = item.turn.key
        session = self._sessions.get(key)
        busy = session is not None and session.active is not None
        steerable = busy and session is not None and session.active is not None and session.active.steerable
        waiting = len(session.waiting) if session else 0
        match queue.decide(item.rules, busy=busy, steerable=bool(steerable), waiting=waiting):
            case StartRun():
                self._say(item.turn.run_id, key, RunAccepted(False, item.turn))
                self._enqueue(item)
                return "started"
            case SteerRun():
                assert session is not None and session.active is not None
                self._say(item.turn.run_id, key, RunAccepted(False, item.turn))
                session.active.steered[item.turn.run_id] = item
                session.active.steering.add(to_message(item.turn, millis(self._clock)))
                return "steered"
            case InterruptRun():
                assert session is not None
                self._say(item.turn.run_id, key, RunAccepted(False, item.turn))
                bring_along(session, item)
                if session.active is not None and session.active.why is None:
                    session.active.stop("interrupt")
                return "started"
            case EnqueueMessage():
                self._say(item.turn.run_id, key, RunAccepted(True, item.turn))
                self._enqueue(item)
                await self._shrink(key, item.rules)
                return "queued"
            case RejectMessage(why):
                await self._settle([item.turn.run_id], key, failed_outcome(why, "queue_full"), "dropped")
                raise InvalidRequest(why)

    def _enqueue(self, item: QueuedRun) -> None:
        key = item.turn.key
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = SessionQueue()
            session.waiting.append(item)
            session.touched = self._clock.now()
            self._start(key, session)
        elif item not in session.waiting:
            session.waiting.append(item)

    def _start(self, key: SessionKey, session: SessionQueue) -> None:
        if self._group is None:
            raise RuntimeError("runs are submitted inside serving()")
        session.worker = self._group.create_task(self._work(key, session), name=f"session:{key}")

    async def _shrink(self, key: SessionKey, rules: QueueRules) -> None:
        session = self._sessions[key]
        session.waiting, gone = queue.drop_overflow(session.waiting, rules)
        session.dropped += [each for each in gone if rules.drop == "summarize"]
        for each in gone:
            outcome = dropped_outcome(rules, session.waiting[-1].turn.run_id, millis(self._clock))
            await self._settle(each.ids, key, outcome, "dropped", (each.turn,))

    # Working a session off.

    async def _work(self, key: SessionKey, session: SessionQueue) -> None:
        """The lane of one session: lives while there is something to do, survives whatever a run does."""
        try:
            while session.waiting and not self._draining:
                item = await self._next(session)
                if item is None:
                    continue
                session.generation, now = session.generation + 1, self._clock.now()
                activity = Activity(now, now, partial(time_of_call, self._tools.current.exec.timeout_seconds))
                active = session.active = ActiveRun(item, activity)
                try:
                    await self._one(session, active)
                except Exception:
                    log.exception("run %s failed", item.turn.run_id)
                    outcome = failed_outcome(
                        "something went wrong inside OpenClaw; the log has the details", "internal"
                    )
                    await self._settle(item.ids, key, outcome, "failed")
                finally:
                    self._leave(session, active)
        finally:
            if self._sessions.get(key) is session:
                del self._sessions[key]

    async def _next(self, session: SessionQueue) -> QueuedRun | None:
        """The next turn: one input, or several put together once it has been quiet for a moment."""
        together = len(session.waiting) > 1 and session.waiting[0].rules.mode == "collect"
        while together:
            latest = max(item.arrived for item in session.waiting)
            pause = latest + session.waiting[0].rules.debounce_ms / 1000 - self._clock.now()
            if pause <= 0:
                break
            await self._clock.sleep(pause)
            together = len(session.waiting) > 1 and session.waiting[0].rules.mode == "collect"
        if not session.waiting:
            return None  # all of it was stopped meanwhile
        item, rest = queue.collect(session.waiting) if together else (session.waiting[0], session.waiting[1:])
        session.waiting = rest
        if session.dropped:
            text = f"{queue.overflow_note(session.dropped)}\n\n{item.turn.text}"
            item, session.dropped = structs.replace(item, turn=structs.replace(item.turn, text=text)), []
        return item

    def _leave(self, session: SessionQueue, active: ActiveRun) -> None:
        """Frees the session of a run that is over, once."""
        if session.active is active:
            session.active, session.touched = None, self._clock.now()
            active.over.set()
        # What came too late to be heard by the run becomes a turn of its own.
        while active.steering.waiting:
            late = active.steered.pop(run_of(active.steering.waiting.popleft()) or "", None)
            if late is not None:
                self._enqueue(late)

    async def _one(self, session: SessionQueue, active: ActiveRun) -> None:
        """One run, from waiting for its place to a stated end."""
        turn = active.item.turn
        with self._about(turn):
            active.task = asyncio.create_task(self._placed(session, active), name=f"run:{turn.run_id}")
        active.task.add_done_callback(lambda _: active.left.set())
        try:
            await active.left.wait()
        finally:
            if not active.task.done():
                active.task.cancel()
                if not active.given_up:
                    await asyncio.gather(active.task, return_exceptions=True)
        turn = active.item.turn
        if active.steered and active.why != "shutdown":  # it may have been stopped just when it took some up
            unheard = {run_of(user) for user in active.steering.waiting}
            await self._heard([name for name in active.steered if name in self._ends and name not in unheard], active)
        if not active.task.done():  # it does not stop: its end is not waited for, and stated all the same
            await self._settle(active.item.ids, turn.key, stopped_outcome("stalled"), "failed", active.item.asked)
            return
        if active.task.cancelled() and (active.why == "shutdown" or active.brought_along):
            return  # it stays in the ledger: the next start takes it up, or the message that brings it along ends it
        if active.task.cancelled():
            limit = turn.timeout if turn.timeout is not None else self._agents.current.defaults.timeout_seconds
            since, now = round(active.activity.since * 1000), millis(self._clock)
            outcome = structs.replace(stopped_outcome(active.why, limit), started_at=since, ended_at=now)
            await self._settle(active.item.ids, turn.key, outcome, "aborted", active.item.asked)
        else:
            outcome = active.task.result()
        if self._messages is not None and self._messages.hooks.any:
            self._messages.sent(turn, outcome.payloads)

    async def _placed(self, session: SessionQueue, active: ActiveRun) -> RunOutcome:
        """The run in its lane; its time counts from when it has a place."""
        turn = active.item.turn
        active.place = await self._lanes[turn.lane].place(turn.priority)
        try:
            active.activity.progress_at = active.activity.since = self._clock.now()
            await self._ledger.began(turn.run_id)
            limit = turn.timeout if turn.timeout is not None else self._agents.current.defaults.timeout_seconds
            limit_run(active, limit, self._clock, self._waited)
            outcome = await self._run(active)
        finally:
            if active.timer is not None:
                active.timer.cancel()
            active.place.release()
        if not active.given_up:
            active.settling, item = True, active.item  # here: the task of the session would have to wake first
            await asyncio.sleep(0)  # the last words go out without waiting for the disk
            state: Literal["done", "failed"] = "done" if outcome.status == "ok" else "failed"
            await self._settle(item.ids, item.turn.key, outcome, state, item.asked)
            self._leave(session, active)
        return outcome

    async def _run(self, active: ActiveRun) -> RunOutcome:
        """Everything a turn says, and the outcome it amounts to."""
        turn = active.item.turn
        started = millis(self._clock)
        functions = [tool.name for tool in turn.client_tools]
        proofread = partial(self._proofread, turn.key.agent) if self._proofread is not None else str
        shaper = ReplyShaper()
        outgoing: OutgoingMessage | None = None
        tally = RunTally(started)
        notice = INTERRUPTED if active.item.interrupted else turn.notice
        self._say(turn.run_id, turn.key, RunPhase("preparing_workspace"))
        try:
            assert self._toolset is not None, "runs are carried out inside serving()"
            async with aclosing(self._turns.run(turn, self._toolset, active.steering, notice)) as events:
                async for event in events:
                    if active.given_up:  # it woke up after its end was told: it does and says nothing more
                        return stopped_outcome("stalled")
                    tally.take(event)
                    match event:
                        case TextDelta():  # most of the events
                            pass
                        case SessionRepaired() | SessionRenewed() | RecordedEvent():
                            self._say(turn.run_id, turn.key, event)
                            continue
                        case TurnPrepared(options=options):
                            self._say(turn.run_id, turn.key, RunPhase("preparing_context"))
                            shaper = ReplyShaper(options, functions, proofread, turn.reply_to)
                            if self._messages is not None and self._messages.hooks.any:
                                outgoing = self._outgoing(active.item, self._messages)
                            continue
                        case ModelCalled():
                            if active.item.also and not active.begun:
                                # What they say is in the transcript from now on, and not before.
                                await self._merge(active.item.also, (*turn.earlier, *active.item.others), active)
                            active.steerable = active.begun = True
                        case Steered(message=message):
                            await self._heard([run_of(message)], active)
                        case RunEnded():
                            active.steerable = False
                    active.activity.take(event, self._clock.now())
                    for shown in shaper.take(event):
                        for allowed in (shown,) if outgoing is None else await outgoing.take(shown):
                            self._say(turn.run_id, turn.key, allowed)
        except OpenClawError as error:
            kind = error.reason if isinstance(error, ProviderError) else error.code.lower()
            return failed_outcome(error.message, kind, started=started, ended=millis(self._clock))
        outcome = tally.outcome(shaper, millis(self._clock), compacts=turn.compact is not None)
        return outcome if outgoing is None else await outgoing.settled(outcome)

    def _outgoing(self, item: QueuedRun, plugins: "MessageHooks") -> "OutgoingMessage | None":
        """The plugins that have a say in what the run says; when it was accepted, they may still have been starting."""
        if not item.told:
            plugins.received(item.turn)
        return plugins.outgoing(item.turn)

    async def _heard(self, run_ids: Sequence[str | None], active: ActiveRun) -> None:
        """Ends inputs that a run took up: they are in the transcript, and nobody asks them again."""
        for name in filter(None, run_ids):
            told = (active.steered[name].turn,) if name in active.steered else ()
            await self._merge([name], told, active)
            merged = merged_outcome(active.item.turn.run_id, millis(self._clock))
            self._tell_end([name], active.item.turn.key, merged)

    async def _merge(self, run_ids: Sequence[str], told: Sequence[RunRequest], active: ActiveRun) -> None:
        """Ends inputs that went into a run. Where they wait for an answer is on record with that run, should we die."""
        run_id, changed = active.item.turn.run_id, add_askers(active, told)
        also = [self._ledger.change_request(run_id, msgspec.json.encode(changed).decode())] if changed else []
        await self._ledger.ended(run_ids, "steered", merged_outcome(run_id, millis(self._clock)), also)

    async def _settle(
        self,
        run_ids: Sequence[str],
        key: SessionKey,
        outcome: RunOutcome,
        state: Literal["done", "failed", "aborted", "steered", "dropped"],
        asked: Sequence[RunRequest] = (),
    ) -> None:
        """Writes the end down first, with what it says to those who `asked`, and tells it second."""
        if not outcome.ended_at:  # it never got to run: it began and ended when that was decided
            now = millis(self._clock)
            outcome = structs.replace(outcome, started_at=outcome.started_at or now, ended_at=now)
        also: Sequence[Statement] = ()
        if self._outbox is not None and any(request.reply_to or request.report_to for request in asked):
            also = self._outbox.end_of_run(asked, outcome, run_ids[0], str(key))
        await self._ledger.ended(run_ids, state, outcome, also)
        if also and self._outbox is not None:
            await self._outbox.wake()
        self._tell_end(run_ids, key, outcome)

    def _tell_end(self, run_ids: Sequence[str], key: SessionKey, outcome: RunOutcome) -> None:
        for run_id in run_ids:
            end = self._ends.pop(run_id, None)
            if end is None:
                continue  # an end is told once
            # Messages that were put together end each for itself; what they are answered is shown with the first.
            shown = run_id == run_ids[0] or outcome.stop_reason == "aborted"
            self._say(run_id, key, RunSettled(outcome if shown else merged_outcome(run_ids[0], outcome.ended_at)))
            if not end.done():
                end.set_result(outcome)
            self._seq.pop(run_id, None)

    async def _give_up(self, taken: ResumedRun, why: str, turn: RunRequest | None = None) -> ResumedRun:
        outcome = failed_outcome(f"given up after a restart: {why}", "interrupted")
        asked, key = [turn] if turn is not None else [], taken.session_key
        also = self._outbox.end_of_run(asked, outcome, taken.run_id, key) if self._outbox is not None else ()
        await self._ledger.ended([taken.run_id], "failed", outcome, also)
        return structs.replace(taken, given_up=why)

    def _say(self, run_id: str, key: SessionKey, event: PublishedEvent) -> None:
        seq = self._seq[run_id] = self._seq.get(run_id, 0) + 1
        self._publish(RunEvent(run_id=run_id, key=key, seq=seq, at=millis(self._clock), event=event))
