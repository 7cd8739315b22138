"""Runs cron jobs: delivery of results, cleanup of old sessions and sandboxes, and the scheduler with its one timer."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from msgspec import structs

from openclaw.agent.settings import AgentsSettings, agent_ids
from openclaw.automation.cron.jobs import AgentTurn, CronJob, Delivery, JobResult, is_deferred
from openclaw.automation.cron.probes import WatchProbes, watch_origins
from openclaw.automation.cron.schedule import parse_duration, plan_due_slot
from openclaw.automation.cron.store import CronJobs, CronStore, JobFire, job_to_json, run_to_json
from openclaw.automation.cron.watch import changed_results
from openclaw.automation.heartbeat import visible_answer
from openclaw.automation.settings import CronSettings
from openclaw.budget.service import BudgetService
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    OpenClawError,
    ProviderError,
    SessionBusy,
    StateError,
    Unavailable,
)
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Assistant, Text
from openclaw.core.settings import Live
from openclaw.core.text import Origin, merge_origins
from openclaw.process.environment import Home, local_timezone
from openclaw.process.tasks import supervise, supervise_once
from openclaw.protocol.events import EventBus
from openclaw.runs.hooks import RunHooks
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.queue import QueueRules
from openclaw.runs.request import RunRequest
from openclaw.runs.toolset import MachineTools
from openclaw.runs.turn import TurnRunner
from openclaw.runs.worker import RunService
from openclaw.security.sandboxes.service import SandboxService
from openclaw.sessions.index import SessionIndex, SessionRow
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.service import SessionService
from openclaw.sessions.system_events import SystemEvents
from openclaw.storage.database import Database
from openclaw.tools.web_guard import AddressRules
from openclaw.workspace.seed import Workspaces

WEBHOOK_SECONDS = 15.0
HERE = (None, "last", "webchat", "main")


# Delivery.


class JobDelivery:
    """Delivers results; what cannot be delivered raises an error with the reason."""

    def __init__(
        self,
        sessions: SessionService,
        turns: TurnRunner,
        run_hooks: RunHooks,
        cron_settings: Live[CronSettings],
        resolve: Any = None,
    ) -> None:
        self._sessions = sessions
        self._turns = turns
        self._run_hooks = run_hooks
        self._cron_settings = cron_settings
        self._resolve = resolve
        """Looks names up in place of the system."""

    async def deliver(self, fire: JobFire, delivery: Delivery, text: str) -> None:
        if delivery.mode == "announce":
            if delivery.channel not in HERE:
                raise InvalidRequest(f"the channel {delivery.channel} is not connected: leave delivery.channel out")
            to, what = "main", f"[{fire.job.name}] {text}"
        elif delivery.mode == "webhook":
            to, what = delivery.to or "", text
        else:
            return
        what = await self._allowed(to, what)
        if delivery.mode == "announce":
            key = SessionKey(
                self._sessions.key("main", fire.job.agent_id).agent, f"cron:{fire.job.id}:run:{fire.run_id}"
            )
            heard = await self._sessions.origins(key)
            await self.say(fire.job.agent_id, what, f"cron:{fire.run_id}", heard)
        else:
            await self._post(to, {**run_to_json(fire), "summary": what})
        self._run_hooks.messages.tell_sent(to, what, self._run_hooks.errand("cron"))

    async def _allowed(self, to: str, text: str) -> str:
        """The words that plugins agree to; one that cancels them is an error with its reason."""
        merged = await self._run_hooks.messages.decided(to, text, self._run_hooks.errand("cron"))
        if merged.cancelled is not None:
            raise Conflict(f"not delivered: the plugin {merged.cancelled.plugin} cancelled it: {merged.cancelled.text}")
        return merged.content

    async def say(self, agent_id: str | None, text: str, writer: str, origins: tuple[Origin, ...] = ()) -> None:
        """A message of the assistant in the agent's main conversation, with the labels of what it was made from."""
        key = self._sessions.key("main", agent_id)
        message = Assistant(
            content=(Text(text),), provider="openclaw", model="cron", timestamp=self._sessions.now, origins=origins
        )
        await self._turns.inject(key, message, writer)
        await self._sessions.changed(key, "inject")

    async def _post(self, url: str, document: dict[str, Any]) -> None:
        """Posts a result; private addresses are refused unless the owner allows them."""
        import httpx2  # slow to import, and few installations post results

        settings = self._cron_settings.current
        token = settings.webhook_token
        headers = {"authorization": f"Bearer {token.reveal()}"} if token else {}
        from openclaw.tools.web_fetch import GuardedTransport, system_resolve

        fence = AddressRules(allow_private=settings.webhook_allow_private)
        transport = GuardedTransport(fence, self._resolve or system_resolve)
        try:
            async with httpx2.AsyncClient(
                timeout=WEBHOOK_SECONDS, follow_redirects=False, transport=transport
            ) as client:
                response = await client.post(url, json=document, headers=headers)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unavailable(f"the webhook did not answer ({type(error).__name__})") from error
        except OpenClawError as error:
            host = urlsplit(url).hostname or ""
            hint = "set cron.webhookAllowPrivate to send results there"
            raise InvalidRequest(f"{host} is inside your network ({error.message}): {hint}") from error
        if response.status_code >= 300:
            raise StateError(f"the webhook answered {response.status_code}")


log = logging.getLogger(__name__)

SWEPT_AT_ONCE = 200
"""The most sessions one sweep removes; the next one continues."""


# Cleanup.


async def prune_sandboxes(
    clock: Clock, sandboxes: SandboxService, machine_tools: MachineTools, agents_settings: Live[AgentsSettings]
) -> None:
    """Empties sandboxes that nobody uses any more (`sandbox.prune`)."""
    agents = list(agent_ids(agents_settings.current))
    try:
        roots = {sandboxes.root(sandboxes.rules(agent)) for agent in agents}
    except OpenClawError as error:
        log.warning("sandboxes are left as they are: %s", error.message)
        return
    if not any([await asyncio.to_thread(root.is_dir) for root in roots]):
        return
    # Most homes have no sandbox: import only when there is one.
    from openclaw.security.sandboxes.service import prune

    busy = machine_tools.standing.background.boxed() if machine_tools.has_standing.is_set() else set()
    await prune(sandboxes, agents, busy, clock)


async def remove_old_sessions(
    lifecycle: SessionLifecycle, runs: RunService, index: SessionIndex, clock: Clock, cron_settings: Live[CronSettings]
) -> int:
    """Removes what is older than `cron.sessionRetention`, transcript and all; gives how many went."""
    kept = cron_settings.current.session_retention
    if kept is False:
        return 0
    try:
        before = millis(clock) - parse_duration("24h" if kept is True else kept)
    except OpenClawError as error:
        log.warning("cron.sessionRetention: %s", error.message)
        return 0
    gone = 0
    for row in await index.list():
        key = SessionKey(row.agent_id, row.session_key.removeprefix(f"agent:{row.agent_id}:"))
        if not is_single_run(key) or row.updated_at >= before or runs.active(key):
            continue
        gone += await _remove(lifecycle, index, key, row)
        if gone >= SWEPT_AT_ONCE:
            break
    if gone:
        log.info("removed %d conversation(s) of single runs", gone)
    return gone


def is_single_run(key: SessionKey) -> bool:
    """Whether a session was for one run only: of a job, or of BOOT.md."""
    return key.is_cron_run or key.rest.startswith("boot:")


async def _remove(lifecycle: SessionLifecycle, index: SessionIndex, key: SessionKey, row: SessionRow) -> bool:
    try:
        aside = await lifecycle.delete(key, row.session_id)
    except (NotFound, SessionBusy):
        return False  # removed by another process, or in use after all
    if aside is not None:
        path = index.path(row.agent_id, row.session_id).with_name(aside)
        await asyncio.to_thread(path.unlink, True)
    return True


LONGEST_SLEEP = 60.0
"""A changed clock, or a job another process adds, is noticed within this many seconds."""
TURN_SECONDS = 3_600.0
AT_ONCE = 5
SPACING = 5.0
DEFERRED_LOOK = 1.0
"""While missed jobs are deferred, due jobs are checked this often."""
SWEEP_MS = 3_600_000
LATE_MS = 60_000
"""A job this late was missed; many of those are started one by one."""
UNATTENDED = (
    "This run is unattended: nobody answers questions. Your final reply is what gets delivered; if there is nothing "
    "worth telling, reply exactly NO_REPLY."
)


# The scheduler.


class Scheduler:
    """Use as `async with Scheduler(…).serving(fires=True)`; without `fires` jobs can be managed and run by hand."""

    def __init__(
        self,
        sessions: SessionService,
        lifecycle: SessionLifecycle,
        runs: RunService,
        index: SessionIndex,
        system_events: SystemEvents,
        home: Home,
        workspaces: Workspaces,
        db: Database,
        clock: Clock,
        turns: TurnRunner,
        run_hooks: RunHooks,
        sandboxes: SandboxService,
        budget: BudgetService,
        machine_tools: MachineTools,
        bus: EventBus,
        agents_settings: Live[AgentsSettings],
        cron_settings: Live[CronSettings],
        wake: Callable[[SessionKey, str], None],
        environ: Mapping[str, str],
    ) -> None:
        self._sessions = sessions
        self._lifecycle = lifecycle
        self._runs = runs
        self._index = index
        self._system_events = system_events
        self._home = home
        self._workspaces = workspaces
        self._clock = clock
        self._sandboxes = sandboxes
        self._budget = budget
        self._machine_tools = machine_tools
        self._bus = bus
        self._agents_settings = agents_settings
        self._cron_settings = cron_settings
        self._wake = wake
        self._environ = environ
        self.announcer = JobDelivery(sessions, turns, run_hooks, cron_settings)
        self.store = CronStore(db)
        zone = agents_settings.current.defaults.user_timezone or local_timezone(environ) or "UTC"
        self.book = CronJobs(
            self.store,
            clock,
            local_zone=zone,
            check_agent=lambda agent: sessions.key("main", agent),
            told=self._told,
        )
        self.ended: Counter[tuple[str, ...]] = Counter()
        """How many runs of jobs ended how, since the start."""
        self._changed = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_work: set[str] = set()
        """The runs of slots that are in our hands."""
        self.firing = False

    @asynccontextmanager
    async def serving(self, *, fires: bool) -> AsyncIterator["Scheduler"]:
        """Jobs can be run inside this block; with `fires` they run by themselves."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self.firing = fires
                loop = group.create_task(supervise(self._fire, "cron", self._clock), name="cron") if fires else None
                try:
                    yield self
                finally:
                    if loop is not None:
                        loop.cancel()
                    for task in self._tasks:
                        task.cancel()
        finally:
            # The process may live on and start again: what is in its hands would be nobody else's to take.
            await self.store.release(list(self._in_work))

    async def run_now(self, name: str, *, only_due: bool = False) -> str | None:
        """Runs a job outside its schedule; gives the run's id, or None when `only_due` and it is not due."""
        job = await self.book.find(name)
        now = millis(self._clock)
        if only_due and not (job.enabled and (job.state.next_run_at_ms or now + 1) <= now):
            return None
        fire = await self.store.force(job, now=now)
        self._start(fire, forced=True)
        return fire.run_id

    async def status(self) -> dict[str, Any]:
        home = self._home
        path = str(home.state / "state" / "openclaw-py.sqlite")
        return {
            "enabled": self.firing and self._enabled,
            "triggersEnabled": False,
            "storePath": path,
            "storage": "sqlite",
            "sqlitePath": path,
            "jobs": await self.store.count(),
            "nextWakeAtMs": await self.store.next_wake(),
        }

    @property
    def _enabled(self) -> bool:
        return self._cron_settings.current.enabled

    def _told(self, action: str, job_id: str, job: CronJob | None, more: Mapping[str, Any]) -> None:
        payload: dict[str, Any] = {"jobId": job_id, "action": action, **more}
        if job is not None:
            payload["job"] = job_to_json(job)
            if job.state.next_run_at_ms is not None:
                payload["nextRunAtMs"] = job.state.next_run_at_ms
        self._bus.publish("cron", payload)
        self._changed.set()

    # The loop: take due slots, sleep until the next one.

    async def _fire(self) -> None:
        await self._take_over()
        late = 0
        swept = 0
        began = millis(self._clock)
        while True:
            waits = False
            self._changed.clear()
            now = millis(self._clock)
            if now - swept >= SWEEP_MS:
                swept = now
                await self.store.forget_old(now)
                await remove_old_sessions(self._lifecycle, self._runs, self._index, self._clock, self._cron_settings)
                await prune_sandboxes(self._clock, self._sandboxes, self._machine_tools, self._agents_settings)
            for job in await self.store.due(now) if self._enabled else ():
                if is_deferred(job, began, now):
                    waits = True
                    continue
                started = await self._take(job)
                late += started and now - (job.state.next_run_at_ms or now) > LATE_MS
                if started and late > AT_ONCE:
                    await self._clock.sleep(SPACING)
            await self._pause(DEFERRED_LOOK if waits else LONGEST_SLEEP)

    async def _pause(self, longest: float) -> None:
        following = await self.store.next_wake() if self._enabled else None
        wait = longest
        if following is not None and longest == LONGEST_SLEEP:  # else a deferred job is next, which is overdue
            wait = min(wait, max(0.0, (following - millis(self._clock)) / 1000))
        await wait_first(self._clock.sleep(wait), self._changed.wait())
        await self._take_over()

    async def _take_over(self) -> None:
        """Goes on with what other processes had in work when they died."""
        for fire in await self.store.take_over():
            if fire.status == "running":
                log.info("taking up the job %s again: whoever ran it is gone", fire.job.name)
                self._start(fire)
            else:
                self._spawn(self._deliver(fire, fire.result), fire)

    async def _take(self, job: CronJob) -> bool:
        now = millis(self._clock)
        slot = job.state.next_run_at_ms
        assert slot is not None
        skip = self._cron_settings.current.skip_missed_jobs
        try:
            plan = plan_due_slot(job.schedule, slot, now, job_id=job.id, misfire="skip" if skip else job.misfire)
        except OpenClawError as error:  # the time zone database may have changed under a stored job
            log.error("the job %s is switched off: %s", job.name, error.message)
            await self.book.update(job.id, {"enabled": False})
            return False
        fire = await self.store.take(job, plan, now=now)
        if fire is None:
            return False
        if plan.missed:
            missed = JobResult(
                status="skipped", started_at=now, ended_at=now, error="missed: the gateway was not running"
            )
            await self._finish(fire, missed)
            return False
        self._start(fire)
        return True

    def _start(self, fire: JobFire, *, forced: bool = False) -> None:
        self._told("started", fire.job.id, fire.job, {"runId": fire.run_id, "runAtMs": fire.fired_at})
        self._spawn(self._run(fire, forced=forced), fire)

    def _spawn(self, work: Coroutine[Any, Any, None], fire: JobFire) -> None:
        if self._group is None:
            raise RuntimeError("jobs are run inside serving()")
        self._in_work.add(fire.run_id)
        through = self._see_through(work, fire.run_id)
        task = self._group.create_task(supervise_once(through, f"cron run {fire.run_id}"), name=f"cron:{fire.run_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _see_through(self, work: Coroutine[Any, Any, None], run_id: str) -> None:
        await work
        self._in_work.discard(run_id)

    # One run.

    async def _run(self, fire: JobFire, *, forced: bool) -> None:
        started = millis(self._clock)
        try:
            result = await self._carry_out(fire, started, forced=forced)
        except ProviderError as error:
            result = self._failed(started, error.message, error.reason)
        except OpenClawError as error:
            result = self._failed(started, error.message, error.code.lower())
        await self._finish(fire, result)

    def _failed(self, started: int, why: str, kind: str) -> JobResult:
        return JobResult(status="error", started_at=started, ended_at=millis(self._clock), error=why, error_kind=kind)

    async def _carry_out(self, fire: JobFire, started: int, *, forced: bool) -> JobResult:
        job = fire.job
        key = self._sessions.key("main", job.agent_id)
        seen: dict[str, str] | None = None
        news: list[str] = []
        if job.watch:
            seen, news = await self._look(job, key)
            if not news and not forced:
                return JobResult(
                    status="skipped",
                    started_at=started,
                    ended_at=millis(self._clock),
                    error="nothing changed",
                    seen=seen,
                )
        if isinstance(job.payload, AgentTurn):
            outcome = await self._turn(fire, key.agent, job.payload, news)
            return structs.replace(self._amounts_to(outcome, started), seen=seen)
        text = "\n".join((job.payload.text, *news))
        origins = merge_origins(job.origins, watch_origins(job.watch) if news else ())
        await self._system_events.add(key, text, fire.run_id, origins)
        if job.wake_mode == "now":
            self._wake(key, f"cron:{job.id}")
        return JobResult(
            status="ok", started_at=started, ended_at=millis(self._clock), summary=job.payload.text, seen=seen
        )

    async def _look(self, job: CronJob, key: SessionKey) -> tuple[dict[str, str], list[str]]:
        row = await self._index.get(key)
        contact = row.updated_at if row else 0
        looking = WatchProbes(
            self._workspaces.of(key.agent), self._environ, self._clock, contact, self._budget.ledger.zone
        )
        looks = await looking.all(job.watch)
        found = changed_results(looks, job.state.seen)
        seen = {**job.state.seen, **{look.name: look.mark for look in looks if look.mark}}
        return seen, [f"Changed: {look.name}. {look.says}" for look in found]

    async def _turn(self, fire: JobFire, agent: str, payload: AgentTurn, news: list[str]) -> RunOutcome:
        job = fire.job
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%d %H:%M UTC")
        text = "\n\n".join((f"[cron:{job.id} {job.name}] {payload.message}", *news, f"Current time: {now}"))
        limit = payload.timeout_seconds
        turn = RunRequest(
            run_id=fire.run_id,
            key=SessionKey(agent, f"cron:{job.id}:run:{fire.run_id}"),
            text=text,
            model=payload.model,
            thinking=payload.thinking,
            timeout=TURN_SECONDS if limit is None else limit,
            extra=UNATTENDED,
            tools_allow=payload.tools_allow or None,
            tools_deny=("*",) if payload.tools_allow == () else (),
            origins=merge_origins(job.origins, watch_origins(job.watch) if news else ()),
            trigger="cron",
            lane="cron",
            priority="background",
        )
        runs = self._runs
        submitted = await runs.submit(turn, rules=QueueRules(mode="followup"))
        outcome = submitted.outcome
        while outcome is None:
            outcome = await runs.wait(fire.run_id, LONGEST_SLEEP)
            if outcome is None and not runs.active(turn.key):
                await self._clock.sleep(1.0)  # another process runs it
        return outcome

    def _amounts_to(self, outcome: RunOutcome, started: int) -> JobResult:
        usage = outcome.usage
        return JobResult(
            status="ok" if outcome.status == "ok" else "error",
            started_at=outcome.started_at or started,
            ended_at=outcome.ended_at or millis(self._clock),
            error=outcome.error,
            error_kind=outcome.error_kind,
            summary=outcome.texts[-1] if outcome.texts else "",
            provider=outcome.provider,
            model=outcome.model,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cost_usd=usage.cost.total if usage.cost else None,
        )

    async def _finish(self, fire: JobFire, result: JobResult) -> None:
        text = visible_answer(result.summary) if result.status == "ok" else ""
        delivers = bool(text) and fire.job.delivery.mode != "none" and isinstance(fire.job.payload, AgentTurn)
        after = await self.store.finish(fire, result, delivers=delivers)
        if after is None:
            return
        self.ended[(result.status,)] += 1
        ended = structs.replace(fire, status=result.status, ended_at=result.ended_at, result=result)
        if delivers:
            await self._deliver(ended, result)
        if after.alert:
            await self._alert(fire, after.alert)
        self._told("finished", fire.job.id, after.job, run_to_json(ended))

    async def _deliver(self, fire: JobFire, result: JobResult | None) -> None:
        try:
            await self.announcer.deliver(fire, fire.job.delivery, visible_answer(result.summary) if result else "")
        except OpenClawError as error:
            log.warning("the result of the job %s was not delivered: %s", fire.job.name, error.message)
            await self.store.delivered(fire, "not-delivered", error.message)
        else:
            await self.store.delivered(fire, "delivered")

    async def _alert(self, fire: JobFire, text: str) -> None:
        log.warning("%s", text)
        # The agent may be gone from the configuration; its jobs fail, and the log has said so.
        with suppress(NotFound):
            await self.announcer.say(fire.job.agent_id, text, f"cron-alert:{fire.run_id}")


async def wait_first(*waits: Any) -> None:
    """Waits until the first of several waits is over."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
