"""Inputs and runs of a cluster: every node accepts, the holder of the agent carries out."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import structs

from openclaw.core.clock import millis
from openclaw.core.errors import StateError
from openclaw.core.keys import SessionKey, parse_session_key
from openclaw.gateway.cluster.member import INPUTS, ClusterMember
from openclaw.runs.events import RunSettled
from openclaw.runs.inbox import Inbox, InboxEntry, RunOutcome
from openclaw.runs.queue import QueuedRun, QueueRules
from openclaw.runs.request import ResumedRun, RunRequest, Submission, repeated_submission
from openclaw.runs.worker import RunService
from openclaw.storage.database import LeaseLost, Row

log = logging.getLogger("openclaw.cluster")

RETRY = 1.0
LOOK_AGAIN = 2.0
"""Seconds after which whoever waits for a run elsewhere looks whether it has ended."""
OF_THIS_MACHINE = ("state", "internal")
"""Kinds of errors that a disk without room causes."""
_FREE = "state IN ('queued', 'running') AND (owner = '' OR owner NOT IN (SELECT node_id FROM cluster_nodes))"


class ClusterInbox(Inbox):
    """The inputs of all nodes."""

    async def accept_for(self, turn: RunRequest, rules: QueueRules | None) -> tuple[InboxEntry, bool]:
        """Writes an input down that another node carries out."""
        now, request = millis(self._clock), msgspec.json.encode(turn).decode()
        new = await self._db.write(
            "INSERT INTO inputs (run_id, session_key, state, request, accepted_at, updated_at, owner, rules) "
            "VALUES (:run, :key, 'queued', :request, :now, :now, '', :rules) ON CONFLICT (run_id) DO NOTHING",
            {
                "run": turn.run_id,
                "key": str(turn.key),
                "request": request,
                "now": now,
                "rules": msgspec.json.encode(rules).decode() if rules is not None else "",
            },
        )
        entry = None if new else await self.get(turn.run_id)
        return entry or InboxEntry(
            run_id=turn.run_id, session_key=str(turn.key), state="queued", request=request, accepted_at=now
        ), bool(new)

    async def take_free(self, agents: Collection[str]) -> list[tuple[InboxEntry, QueueRules | None]]:
        """The inputs for `agents` that nobody alive has in work, ours from now on, oldest first."""
        found: list[tuple[InboxEntry, QueueRules | None]] = []
        listed = {"agents": msgspec.json.encode(sorted(agents)).decode()}
        among = "agent IN (SELECT a.name FROM json_array_elements_text(CAST(:agents AS json)) AS a (name))"
        rows = await self._db.read(
            f"SELECT * FROM inputs WHERE {_FREE} AND {among} ORDER BY accepted_at, run_id",  # noqa: S608
            listed,
        )
        for row in rows:
            took = await self._db.write(
                f"UPDATE inputs SET owner = :me WHERE run_id = :run AND owner = :was AND {_FREE}",  # noqa: S608
                {"me": self._owned.me, "run": row["run_id"], "was": row["owner"]},
            )
            if took:
                found.append((_entry(row), _rules(row)))
        return found

    def is_elsewhere(self, entry: InboxEntry) -> bool:
        return entry.outcome is None and entry.owner != self._owned.me


def _entry(row: Row) -> InboxEntry:
    names = ("run_id", "session_key", "state", "request", "accepted_at", "attempts", "owner")
    return InboxEntry(**{name: row[name] for name in names})


def _rules(row: Row) -> QueueRules | None:
    return msgspec.json.decode(row["rules"], type=QueueRules) if row["rules"] else None


class ClusterRuns(RunService):
    """Carries out the runs of the agents that this node holds; accepts those of all."""

    def __init__(self, *parts: Any, cluster: ClusterMember, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.cluster = cluster
        self.forward_abort: Callable[[SessionKey, str | None], Awaitable[list[str]]] | None = None
        self.prepare: Callable[[], Awaitable[None]] | None = None
        """Reads what other nodes know of sub-agents, before one of them is run here."""
        self._accepting: Counter[str] = Counter()
        self._looking = asyncio.Lock()
        self._ended: dict[str, asyncio.Event] = {}
        self._elsewhere: dict[SessionKey, dict[str, None]] = {}
        """Runs of other nodes that go on, as far as we heard."""
        self._noted: list[tuple[SessionKey, str, bool]] | None = None
        """What is heard of them while they are read."""

    @property
    def _inbox(self) -> ClusterInbox:
        assert isinstance(self._ledger, ClusterInbox)
        return self._ledger

    async def submit(self, turn: RunRequest, *, rules: QueueRules | None = None) -> Submission:
        agent = turn.key.agent
        if self.cluster.holds(agent) and not self._draining:
            self._accepting[agent] += 1
            try:
                return await super().submit(turn, rules=rules)
            finally:
                self._accepting[agent] -= 1
        if self._outbox is not None:
            route = await self._outbox.routes.follow(str(turn.key), turn.trigger, turn.reply_to, turn.reply_to_id)
            turn = turn if route is turn.reply_to else structs.replace(turn, reply_to=route)
        entry, new = await self._inbox.accept_for(turn, rules)
        if not new and entry.outcome is not None:
            return repeated_submission(entry, turn.key)
        await self.tell(agent)
        if not new:
            return repeated_submission(entry, turn.key)
        return Submission(run_id=turn.run_id, key=turn.key, status="queued", accepted_at=entry.accepted_at)

    async def tell(self, agent: str) -> None:
        """Says to the holder of an agent that there is something for it."""
        holder = self.cluster.holder(agent)
        if holder is None or holder.guest:
            await self.cluster.take([agent])  # no gateway is there: this command answers for itself
        elif agent not in self.cluster.placed:
            self.cluster.changed.set()
        holder = self.cluster.holder(agent)
        if holder is not None:
            await self.cluster.db.notify(INPUTS + holder.id, agent)

    async def resume(self) -> list[ResumedRun]:
        """Nothing yet: inputs are taken up with the agents they are for."""
        return []

    async def take_up(self, agents: Collection[str]) -> None:
        """Carries out what waits for these agents."""
        async with self._looking:
            ours = [agent for agent in agents if self.cluster.holds(agent)]
            if not ours or self._draining or self._group is None:
                return
            for entry, rules in await self._inbox.take_free(ours):
                if entry.attempts or entry.owner:
                    taken = await self._take_up(entry)
                    log.info("took up the run %s: %s", entry.run_id, taken.given_up or "goes on here")
                    if taken.given_up and (ended := await self._inbox.get(entry.run_id)) and ended.outcome:
                        # Clients of other nodes have seen it begin.
                        self._say(entry.run_id, parse_session_key(entry.session_key), RunSettled(ended.outcome))
                else:
                    await self._begin(entry, rules)
                if entry.run_id in self._ended:
                    self._ended[entry.run_id].set()  # whoever waits for it waits here from now on

    async def _begin(self, entry: InboxEntry, rules: QueueRules | None) -> None:
        """An input that another node accepted and nobody has worked on."""
        try:
            turn = msgspec.json.decode(entry.request, type=RunRequest)
        except msgspec.DecodeError:
            await self._take_up(entry)
            return
        if turn.key.is_subagent and self.prepare is not None:
            await self.prepare()
        told = self._messages is not None and self._messages.hooks.any
        if told and self._messages is not None:
            self._messages.received(turn)
        self._ends[turn.run_id] = asyncio.get_running_loop().create_future()
        item = QueuedRun(turn=turn, rules=rules or QueueRules(), arrived=self._clock.now(), told=told)
        await self._place(item)

    async def follow_inputs(self) -> None:
        """Takes up what other nodes accepted for our agents, until it is cancelled."""
        async with self.cluster.db.listen(INPUTS + self.cluster.me) as heard:
            looking = asyncio.create_task(self._look_again(), name="cluster:inputs")
            try:
                async for agent in heard:
                    await self.take_up([agent])
            finally:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)

    async def _look_again(self) -> None:
        """Takes up inputs that nobody told us of."""
        while True:
            await self.cluster.waiting.wait()
            self.cluster.waiting.clear()
            await self.take_up(self.cluster.held())

    def is_idle(self, agent: str) -> bool:
        """Whether nothing of an agent is in our hands."""
        return not self._accepting[agent] and all(key.agent != agent for key in self._sessions)

    async def abort(self, key: SessionKey, run_id: str | None = None) -> list[str]:
        """Stops runs wherever they are."""
        if self.cluster.holds(key.agent) or self.forward_abort is None or key in self._sessions:
            return await super().abort(key, run_id)
        return await self.forward_abort(key, run_id)

    async def abort_here(self, key: SessionKey, run_id: str | None = None) -> list[str]:
        return await super().abort(key, run_id)

    async def wait(self, run_id: str, timeout: float) -> RunOutcome | None:
        """Also of a run elsewhere: its end is heard, and looked for now and then."""
        loop = asyncio.get_running_loop()
        deadline, ended = loop.time() + timeout, self._ended.setdefault(run_id, asyncio.Event())
        try:
            while True:
                if (end := self._ends.get(run_id)) is not None:
                    await asyncio.wait({end}, timeout=max(0.0, deadline - loop.time()))
                    if not end.cancelled():
                        return end.result() if end.done() else None
                entry = await self._inbox.get(run_id)
                left = deadline - loop.time()
                if entry is None or entry.outcome is not None or left <= 0:
                    return entry.outcome if entry else None
                if run_id in self._ends:
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(LOOK_AGAIN, left)):
                        await ended.wait()
                ended.clear()
        finally:
            self._ended.pop(run_id, None)

    def note(self, key: SessionKey, run_id: str, *, going: bool) -> None:
        """A run began or ended on another node."""
        if self._noted is not None:
            self._noted.append((key, run_id, going))
        runs = self._elsewhere.setdefault(key, {})
        if going:
            runs[run_id] = None
            return
        runs.pop(run_id, None)
        if not runs:
            del self._elsewhere[key]
        if run_id in self._ended:
            self._ended[run_id].set()

    async def look_elsewhere(self) -> None:
        """Reads which runs go on elsewhere: what was said of them while there was no link is not known."""
        noted: list[tuple[SessionKey, str, bool]] = []
        self._noted = noted
        try:
            rows = await self.cluster.db.read(
                "SELECT run_id, session_key FROM inputs WHERE state IN ('queued', 'running') "
                "AND owner <> '' AND owner <> :me",
                {"me": self.cluster.me},
            )
        finally:
            self._noted = None
        self._elsewhere = {}
        for row in rows:
            self.note(parse_session_key(row["session_key"]), row["run_id"], going=True)
        for key, run_id, going in noted:
            self.note(key, run_id, going=going)

    @property
    def running(self) -> int:
        return self.busy + len(self._elsewhere)

    def active(self, key: SessionKey) -> tuple[str, ...]:
        if key in self._sessions or self.cluster.holds(key.agent):
            return super().active(key)
        return tuple(self._elsewhere.get(key, ()))

    def is_running(self, key: SessionKey) -> bool:
        return super().is_running(key) or bool(self.active(key))

    async def _settle(self, run_ids: Sequence[str], key: SessionKey, outcome: RunOutcome, *parts: Any) -> None:
        """Waits for a database that is away; what another node carries out by now, or can, is not ended here."""
        while True:
            try:
                if outcome.error_kind in OF_THIS_MACHINE and await self.cluster.look_for_trouble():
                    await self._hand_over(run_ids)
                else:
                    await super()._settle(run_ids, key, outcome, *parts)
                return
            except LeaseLost:
                log.warning("the end of %s is not written: another node has it", ", ".join(run_ids))
                return
            except StateError as error:
                log.error("the end of %s cannot be written yet: %s", ", ".join(run_ids), error.message)
                await self._clock.sleep(RETRY)

    async def _hand_over(self, run_ids: Sequence[str]) -> None:
        """Puts runs down that this machine cannot carry out; whoever holds their agent next takes them up."""
        log.warning("%s cannot be carried out here and goes on elsewhere", ", ".join(run_ids))
        await self._inbox.release(run_ids)
        for run_id in run_ids:
            if (end := self._ends.pop(run_id, None)) is not None:
                end.cancel()

    def abandon(self) -> int:
        """Others carry out our runs by now: ours end without a word."""
        self._draining = True
        count = len(self._ends)
        for session in self._sessions.values():
            session.waiting.clear()
            if session.active is not None and session.active.task is not None:
                session.active.stop("shutdown")
        self._ends.clear()
        return count
