"""Sub-agents: runs in sessions of their own, whose results are announced to the session that started them.

A child is recorded before it starts and until its parent has been told, so a restart neither loses a result nor
announces it twice. Depth, number and tools are limited by the parent's limits and only ever shrink.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from openclaw.core.channel import Address
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError
from openclaw.core.keys import SessionKey, parse_session_key
from openclaw.core.text import Origin, merge_origins
from openclaw.process.tasks import supervise_once
from openclaw.runs.child_output import SKIP, ChildThreads, ProgressNotes, announcement, first_message, show_result
from openclaw.runs.events import RunEvent
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.queue import QueueRules
from openclaw.runs.request import RunRequest
from openclaw.runs.worker import RunService
from openclaw.storage.database import Database
from openclaw.storage.owners import OwnedRows, Owner

Status = Literal["running", "ok", "error", "timeout", "killed", "unknown"]
KEPT_MS = 7 * 86_400_000


# The record.


class Subagent(Struct, frozen=True, kw_only=True):
    """One sub-agent."""

    run_id: str
    """Its first run, and its id for good."""
    current: str
    """The run whose end is its end: another one after it was steered or got its own children's results."""
    key: str
    parent: str
    parent_run: str
    depth: int
    task: str
    label: str = ""
    task_name: str = ""
    tools: tuple[str, ...] | None = None
    """The tools of the run that started it: it never gets more."""
    keeps: bool = True
    expected: bool = True
    """Whether its parent wants to hear of its end."""
    together: bool = False
    """Its parent waits for all children at once."""
    files: str = ""
    thread: bool = False
    """It has a thread of a chat, in which it stays to be spoken to."""
    streams: bool = False
    """Its starter is told what it does."""
    created_at: int = 0
    ended_at: int = 0
    status: Status = "running"
    result: str = ""
    tokens: int = 0
    cost: float | None = None
    told: bool = False
    archived: bool = False

    @property
    def session(self) -> SessionKey:
        return parse_session_key(self.key)

    @property
    def name(self) -> str:
        return self.label or self.task_name or " ".join(self.task.split())[:60]


class SubagentStore:
    """All sub-agents of the last days, in memory and in the database.

    Each is followed by the process that started it; those of processes that are gone are taken over at a start.
    """

    def __init__(self, db: Database, clock: Clock, me: Owner | None = None) -> None:
        self._db = db
        self._clock = clock
        self._owned = OwnedRows(db, "subagents", key="run_id", in_work="state = 'open'", me=me)
        self._children: dict[str, Subagent] = {}
        self._ours: set[str] = set()
        self._seen = 0
        """The latest change of another process that we know."""

    async def load(self, *, take_over: bool = True) -> None:
        """Reads what other processes wrote; what ended long ago is dropped, what nobody follows is ours from now on."""
        await self._db.write(
            "DELETE FROM subagents WHERE state = 'over' AND updated_at < :before",
            {"before": millis(self._clock) - KEPT_MS},
        )
        if take_over:
            self._ours |= {row["run_id"] for row in await self._owned.take()}
        rows = await self._db.read("SELECT record, updated_at FROM subagents ORDER BY created_at, run_id")
        found = [msgspec.json.decode(row["record"], type=Subagent) for row in rows]
        self._seen = max((row["updated_at"] for row in rows), default=0)
        self._children = {child.run_id: child for child in found}

    async def take(self, agents: Collection[str]) -> list[str]:
        """Those that sessions of `agents` started and nobody follows, ours from now on."""
        rows = await self._owned.take(fits=lambda row: parse_session_key(row["parent_key"]).agent in agents)
        for row in rows:
            self._ours.add(row["run_id"])
            self._children[row["run_id"]] = msgspec.json.decode(row["record"], type=Subagent)
        return [row["run_id"] for row in rows]

    async def refresh(self) -> None:
        """Reads what other processes have changed since: what a sub-agent may do holds wherever it is spoken to."""
        rows = await self._db.look(
            "SELECT record, updated_at FROM subagents WHERE updated_at >= :since AND owner <> :me",
            {"since": self._seen, "me": self._owned.me},
        )
        for row in rows:
            child = msgspec.json.decode(row["record"], type=Subagent)
            if child.run_id not in self._ours:
                self._children[child.run_id] = child
            self._seen = max(self._seen, row["updated_at"])

    async def release(self) -> None:
        """Puts down those we follow and have not seen through: the next start follows them."""
        await self._owned.release(list(self._ours))

    async def put(self, child: Subagent) -> Subagent:
        """Writes `child` down, new or changed."""
        if child.run_id not in self._children:
            self._ours.add(child.run_id)
        self._children[child.run_id] = child
        over = child.told and child.archived
        await self._db.write(
            "INSERT INTO subagents (run_id, parent_key, child_key, state, record, created_at, updated_at, owner) "
            "VALUES (:run, :parent, :key, :state, :record, :created, :now, :me) ON CONFLICT (run_id) DO UPDATE SET "
            "state = excluded.state, record = excluded.record, updated_at = excluded.updated_at, "
            "owner = CASE WHEN excluded.state = 'over' THEN '' ELSE subagents.owner END",
            {
                "run": child.run_id,
                "parent": child.parent,
                "key": child.key,
                "state": "over" if over else "open",
                "record": msgspec.json.encode(child).decode(),
                "created": child.created_at,
                "now": millis(self._clock),
                "me": self._owned.me,
            },
        )
        return child

    async def change(self, run_id: str, **changes: object) -> Subagent:
        return await self.put(structs.replace(self._children[run_id], **changes))

    def get(self, run_id: str) -> Subagent:
        return self._children[run_id]

    def all(self) -> list[Subagent]:
        return list(self._children.values())

    def unsettled(self) -> list[Subagent]:
        """Those we follow for which something is left to do."""
        ours = (child for child in self._children.values() if child.run_id in self._ours)
        return [child for child in ours if not (child.told and child.archived)]

    def of(self, parent: str) -> list[Subagent]:
        """The children of a session, the oldest first."""
        return [child for child in self._children.values() if child.parent == parent]

    def running(self, parent: str) -> list[Subagent]:
        return [child for child in self.of(parent) if child.status == "running"]

    def by_key(self, key: str) -> Subagent | None:
        return next((child for child in self._children.values() if child.key == key), None)

    def depth(self, key: SessionKey) -> int:
        """The nesting depth of a session: 0 for one that people talk to."""
        child = self.by_key(str(key))
        return child.depth if child else int(key.is_subagent)

    def below(self, key: str) -> list[Subagent]:
        """All descendants of `key`."""
        found: list[Subagent] = []
        for child in self.of(key):
            found += [child, *self.below(child.key)]
        return found


def select_children(children: Sequence[Subagent], target: str) -> list[Subagent]:
    """The children `target` names: `all`, `last`, a number from 1, a task name, a label, a run id or a session key."""
    wanted = target.strip()
    if wanted.lower() == "all":
        return list(children)
    if not children:
        raise NotFound("this session has no sub-agents")
    if wanted.lower() == "last":
        return [children[-1]]
    if wanted.isdigit() and len(wanted) < 6 and 1 <= int(wanted) <= len(children):
        return [children[int(wanted) - 1]]
    found = [each for each in children if wanted in (each.run_id, each.key, each.task_name, each.label)]
    found = found or [each for each in children if len(wanted) >= 4 and each.run_id.startswith(wanted)]
    if not found:
        raise NotFound(f"no sub-agent {wanted!r}: subagents list shows them")
    if len(found) > 1:
        raise InvalidRequest(f"{wanted!r} fits {len(found)} sub-agents: give its run id")
    return found


# The service.

LOOK_AGAIN = 3_600.0
RETRY = (1.0, 5.0, 30.0, 120.0)


class SubagentLimits(Struct, frozen=True, kw_only=True):
    """How far sub-agents of an agent may go."""

    depth: int = 5
    children: int = 5
    archive_after: float = 3_600.0
    """Seconds until a kept child leaves the list; 0 keeps it there."""


class SubagentTask(Struct, frozen=True, kw_only=True):
    """What to start a sub-agent with."""

    parent: SessionKey
    parent_run: str
    agent: str
    task: str
    label: str = ""
    task_name: str = ""
    model: str | None = None
    thinking: str | None = None
    timeout: float | None = None
    tools: tuple[str, ...] | None = None
    keeps: bool = True
    expected: bool = True
    files: str = ""
    thread: Address | None = None
    """Where it answers, and people go on with it."""
    streams: bool = False
    notes: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()
    """Labels of what the parent had read: the task may come from there."""
    external: bool = False
    """An external agent runs it: it gets the task and nothing of our instructions."""
    fork: bool = False
    """It begins with the conversation of its parent."""
    preferences: Mapping[str, Any] = {}
    """What holds in its session from its first turn on."""


class SubagentService:
    """Starts, follows and stops sub-agents. Use as `async with subagents.serving()`, inside that of the runs."""

    def __init__(
        self,
        roster: SubagentStore,
        runs: RunService,
        clock: Clock,
        *,
        bounds: Callable[[str], SubagentLimits],
        origins: Callable[[SessionKey], Awaitable[tuple[Origin, ...]]],
        fork: Callable[[SessionKey, SessionKey], Awaitable[None]],
        prefer: Callable[[SessionKey, Mapping[str, Any]], Awaitable[Any]],
        discard: Callable[[Subagent], Awaitable[None]],
        archive: Callable[[Subagent], Awaitable[None]],
        target: Callable[[str, str, SessionKey], Awaitable[Address | None]],
        threads: ChildThreads,
        notes: ProgressNotes,
    ) -> None:
        self.roster = roster
        self._runs = runs
        self._clock = clock
        self._bounds = bounds
        self._origins = origins
        self._fork = fork
        self._prefer = prefer
        self._discard = discard
        self._archive = archive
        self._target = target
        """Where the result of a child is told, if not where its starter is."""
        self.threads = threads
        self._notes = notes
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._moved = asyncio.Event()
        self._telling = asyncio.Lock()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["SubagentService"]:
        """Follows every child that is ours and not settled, those taken over from earlier processes included."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for child in self.roster.unsettled():
                    if child.streams and child.status == "running":
                        self._relay(child, child.current)
                    self._follow(child.run_id)
                try:
                    yield self
                finally:
                    self._group = None
                    for task in self._tasks:
                        task.cancel()
        finally:
            await self.roster.release()

    async def take_over(self, agents: Collection[str]) -> None:
        """Follows what another gateway had set to work for `agents`."""
        for run_id in await self.roster.take(agents):
            self._follow(run_id)

    def check_room(self, parent: SessionKey) -> None:
        """Raises with the limit that forbids another sub-agent."""
        bounds = self._bounds(parent.agent)
        if self.roster.depth(parent) >= bounds.depth:
            raise InvalidRequest(f"sub-agents may be {bounds.depth} deep (subagents.maxSpawnDepth): do it yourself")
        if len(self.roster.running(str(parent))) >= bounds.children:
            raise InvalidRequest(
                f"{bounds.children} sub-agents are running already (subagents.maxChildrenPerAgent): wait for one to end"
            )

    async def spawn(self, errand: SubagentTask) -> Subagent:
        """Starts a sub-agent, or raises with the limit that forbids it."""
        self.check_room(errand.parent)
        bounds, depth = self._bounds(errand.parent.agent), self.roster.depth(errand.parent) + 1
        run_id = str(uuid.uuid4())
        key = SessionKey(errand.agent, f"{'acp' if errand.external else 'subagent'}:{uuid.uuid4()}")
        child = await self.roster.put(
            Subagent(
                run_id=run_id,
                current=run_id,
                key=str(key),
                parent=str(errand.parent),
                parent_run=errand.parent_run,
                depth=depth,
                task=errand.task,
                label=errand.label,
                task_name=errand.task_name,
                tools=errand.tools,
                keeps=errand.keeps,
                expected=errand.expected,
                files=errand.files,
                thread=errand.thread is not None,
                streams=errand.streams,
                created_at=millis(self._clock),
            )
        )
        text = first_message(
            errand.task,
            depth=depth,
            deepest=bounds.depth,
            parent=str(errand.parent),
            notes=errand.notes,
            threaded=child.thread,
        )
        if errand.external:
            text = "\n\n".join((errand.task, *errand.notes))
        turn = RunRequest(
            run_id=run_id,
            key=key,
            text=text,
            model=errand.model,
            thinking=errand.thinking,
            timeout=errand.timeout,
            origins=errand.origins,
            trigger="system",
            lane="subagent",
            reply_to=errand.thread,
        )
        about = {"label": errand.label or None, "spawned_by": child.parent, "parent_session_key": child.parent}
        try:
            if errand.fork:
                await self._fork(errand.parent, key)
            await self._prefer(key, {**about, **errand.preferences})
            if errand.thread is not None:
                await self.threads.bind(key, errand.thread)
            if errand.streams:
                self._relay(child, run_id)
            await self._runs.submit(turn)
        except OpenClawError as error:
            await self.roster.change(run_id, status="error", result=error.message, told=True, archived=True)
            raise
        self._follow(run_id)
        return child

    async def steer(self, child: Subagent, message: str, origins: tuple[Origin, ...] = ()) -> Subagent:
        """Interrupts a child and continues it with `message`."""
        if child.status != "running":
            raise InvalidRequest(f"{child.name} has ended already: start another sub-agent")
        run_id = str(uuid.uuid4())
        # Recorded first: then the end of the interrupted run is not taken for the child's end.
        child = await self.roster.change(child.run_id, current=run_id)
        turn = RunRequest(
            run_id=run_id, key=child.session, text=message, origins=origins, trigger="system", lane="subagent"
        )
        if child.streams:
            self._relay(child, run_id)
        await self._runs.submit(turn, rules=QueueRules(mode="interrupt"))
        return child

    async def kill(self, child: Subagent) -> int:
        """Stops a child and its descendants, without an announcement; gives how many were stopped."""
        doomed = [each for each in (child, *self.roster.below(child.key)) if each.status == "running"]
        for each in doomed:
            await self.roster.change(
                each.run_id, status="killed", result="stopped", told=True, ended_at=millis(self._clock)
            )
        for each in doomed:
            await self._runs.abort(each.session)
        self._stir()
        return len(doomed)

    async def let_go(self, child: Subagent) -> None:
        """Takes its thread from a child: it is spoken to there no more."""
        await self.threads.release(child.session)
        await self.roster.change(child.run_id, thread=False)
        self._stir()

    async def stop_below(self, key: SessionKey) -> int:
        """Stops every sub-agent of a session that was stopped."""
        return sum([await self.kill(child) for child in self.roster.running(str(key))])

    async def wait_together(self, parent: SessionKey, parent_run: str) -> list[Subagent]:
        """The running children of a turn, from now on announced together; the others of the session if it has none."""
        running = self.roster.running(str(parent))
        own = [child for child in running if child.parent_run == parent_run]
        for child in own:
            await self.roster.change(child.run_id, together=True)
        return own

    async def settled(self, children: Sequence[Subagent], seconds: float) -> bool:
        """Waits for all of them; whether they ended within `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while any(self.roster.get(child.run_id).status == "running" for child in children):
                    await self._moved.wait()
        return all(self.roster.get(child.run_id).status != "running" for child in children)

    def _follow(self, run_id: str) -> None:
        self._start(self._see_through, run_id)

    def _relay(self, child: Subagent, run_id: str) -> None:
        """Has the starter of a child told what it does in a run."""
        self._start(self._note, child, self._notes.listen(run_id))

    async def _note(self, child: Subagent, heard: "asyncio.Queue[RunEvent]") -> None:
        await self._notes.relay(child, heard, await self._origins(child.session))

    def _start(self, work: Callable[..., Coroutine[Any, Any, None]], *given: Any) -> None:
        if self._group is None:
            return
        task = self._group.create_task(supervise_once(work(*given), "a sub-agent"), name=f"subagent:{work.__name__}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _see_through(self, run_id: str) -> None:
        """Follows a child from its start until it is announced."""
        await self._ended(run_id)
        await self._announce(run_id)
        while not (child := self.roster.get(run_id)).told:
            await self._moved.wait()
        if not child.keeps:
            await self._discard(child)
        else:
            while (end := await self._ends_at(self.roster.get(run_id))) is None or end > self._clock.now():
                if end is None:
                    return
                await self._clock.sleep(end - self._clock.now())
            await self._archive(child)
        if child.thread:
            await self.threads.release(child.session)
        await self.roster.change(run_id, archived=True, told=True)

    async def _ends_at(self, child: Subagent) -> float | None:
        """When a child that has ended leaves the list; None for never."""
        if child.thread:
            return await self.threads.ends_at(child)
        pause = self._bounds(parse_session_key(child.parent).agent).archive_after
        return child.ended_at / 1000 + pause if pause > 0 else None

    async def _ended(self, run_id: str) -> None:
        """Waits until a child has really ended: not only interrupted, and not waiting for children of its own."""
        while (child := self.roster.get(run_id)).status == "running":
            outcome = await self._runs.wait(child.current, LOOK_AGAIN)
            now = self.roster.get(run_id)
            if now.status != "running" or now.current != child.current:
                continue
            if outcome is None:
                if child.current in self._runs.active(child.session):
                    continue
                outcome = RunOutcome(status="error", stop_reason="error", error="interrupted by a restart")
            if outcome.steered_into:
                await self.roster.change(run_id, current=outcome.steered_into)
                continue
            # News of its own children that came too late for the run is a turn of its own: the child goes on with it.
            left = [name for name in self._runs.active(child.session) if name != child.current]
            if left:
                await self.roster.change(run_id, current=left[0])
                continue
            if self.roster.running(child.key) or self._untold(child.key):
                await self._moved.wait()
                continue
            await self._finish(run_id, outcome)

    async def _finish(self, run_id: str, outcome: RunOutcome) -> None:
        await self.roster.change(
            run_id,
            status=_status(outcome),
            result="\n\n".join(outcome.texts[-1:]) or outcome.error or "",
            tokens=outcome.usage.total_tokens,
            cost=outcome.usage.cost.total if outcome.usage.cost else None,
            ended_at=millis(self._clock),
        )
        self._stir()

    def _untold(self, parent: str) -> bool:
        return any(each.expected and not each.told for each in self.roster.of(parent))

    async def _announce(self, run_id: str) -> None:
        """Announces to the parent, once; children it waits for together are announced together."""
        for pause in (*RETRY, None):
            async with self._telling:
                child = self.roster.get(run_id)
                if child.told:
                    return
                family = self._family(child)
                if not family:
                    return  # a sibling still runs; the last of them announces for all
                try:
                    await self._tell(family)
                    return
                except OpenClawError:
                    if pause is None:
                        raise
            await self._clock.sleep(pause)

    def _family(self, child: Subagent) -> list[Subagent]:
        """The children to announce now that `child` has ended."""
        if not child.together:
            return [child]
        same = [each for each in self.roster.of(child.parent) if each.parent_run == child.parent_run and each.together]
        if any(each.status == "running" for each in same):
            return []
        return [each for each in same if not each.told]

    async def _tell(self, family: Sequence[Subagent]) -> None:
        heard = [child for child in family if child.expected and child.result.strip() != SKIP]
        if heard:
            parent = parse_session_key(heard[0].parent)
            found = [await self._origins(child.session) for child in heard]
            text = announcement(heard, [show_result(*each) for each in zip(heard, found, strict=True)])
            # The run id is made from the children's, so that a repeated announcement is one message.
            name = f"announce:{heard[0].run_id}"
            above = self.roster.by_key(str(parent))
            turn = RunRequest(
                run_id=name,
                key=parent,
                text=text,
                origins=merge_origins(*found),
                trigger="system",
                reply_to=None if above else await self._target(heard[0].key, heard[0].run_id, parent),
                lane="subagent" if above else "main",
            )
            submission = await self._runs.submit(turn)
            if above is not None and above.status == "running" and submission.status != "steered":
                await self.roster.change(above.run_id, current=turn.run_id)
        for child in family:
            await self.roster.change(child.run_id, told=True)
        self._stir()

    def _stir(self) -> None:
        """Wakes everyone who waits for a change."""
        self._moved.set()
        self._moved = asyncio.Event()


def _status(outcome: RunOutcome) -> Status:
    if outcome.status == "ok":
        return "ok"
    return "timeout" if outcome.error_kind == "timeout" else "error"
