"""Runs cron jobs: delivery of results, cleanup of old sessions and sandboxes, and the scheduler with its one timer."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from msgspec import structs

from openclaw.agent.settings import agent_ids
from openclaw.automation.context import AutomationContext
from openclaw.automation.cron.jobs import (
    AgentTurn,
    CronJob,
    Delivery,
    DeliveryStatus,
    JobResult,
    Status,
    alert_delivery,
    is_deferred,
)
from openclaw.automation.cron.probes import WatchProbes, watch_origins
from openclaw.automation.cron.schedule import parse_duration, plan_due_slot
from openclaw.automation.cron.store import CronJobs, CronStore, JobFire, job_to_json, run_to_json
from openclaw.automation.heartbeat import REMINDER, visible_answer
from openclaw.core.channel import Outbound
from openclaw.core.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    OpenClawError,
    ProviderError,
    StateError,
    Unavailable,
)
from openclaw.core.keys import SessionKey, parse_session_key
from openclaw.core.text import Origin, merge_origins
from openclaw.process.tasks import supervise, supervise_once, wait_first
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.queue import QueueRules
from openclaw.runs.request import RunRequest
from openclaw.security.sandboxes.service import prune
from openclaw.storage.locks import shared_homes
from openclaw.tools.web_guard import AddressRules

WEBHOOK_SECONDS = 15.0


# Delivery.


class JobDelivery:
    """Delivers results; what cannot be delivered raises an error with the reason."""

    def __init__(self, context: AutomationContext, resolve: Any = None) -> None:
        self.context = context
        self._sessions = context.sessions
        self._resolve = resolve
        """Looks names up in place of the system."""

    async def deliver(self, fire: JobFire, delivery: Delivery, text: str) -> str:
        """Delivers a result, or puts it into the outbox: then its name there."""
        if delivery.mode == "none":
            return ""
        announces, address = delivery.mode == "announce", None
        main = self._sessions.key("main", fire.job.agent_id)
        if announces:
            address = await self.context.address_of(
                main, delivery.channel, delivery.to, delivery.account_id, delivery.thread_id
            )
        to = address.to if address else "main" if announces else delivery.to or ""
        hooks = self.context.run_hooks
        merged = await hooks.messages.decided(to, text, hooks.errand("cron"))
        if merged.cancelled is not None:
            raise Conflict(f"not delivered: the plugin {merged.cancelled.plugin} cancelled it: {merged.cancelled.text}")
        name = f"cron:{fire.run_id}"
        if announces:
            heard = await self._sessions.origins(_session_of(fire, main.agent))
            await self.context.say(main, f"[{fire.job.name}] {merged.content}", name, heard)
            if address is not None:
                said = await self.context.outbox.said_by_tool(fire.run_id, address)
                if said is not None:  # the run has written there itself
                    return said
                await self.context.outbox.put(Outbound(to=address, text=merged.content), name, key=str(main))
        else:
            await self._post(to, {**run_to_json(fire), "summary": merged.content})
        hooks.messages.tell_sent(to, merged.content, hooks.errand("cron"))
        return "" if address is None else name

    async def alert(self, fire: JobFire, text: str) -> None:
        """Tells the owner how a job is doing: in the main conversation, and where alerts of the job go."""
        name, main = f"cron-alert:{fire.run_id}", self._sessions.key("main", fire.job.agent_id)
        await self.context.say(main, text, name)
        where = alert_delivery(fire.job, self.context.cron_settings.current.failure_alert)
        if where.mode == "webhook":
            await self._post(where.to or "", {"jobId": fire.job.id, "jobName": fire.job.name, "text": text})
            return
        address = await self.context.address_of(main, where.channel, where.to, where.account_id, where.thread_id)
        if address is not None:
            await self.context.outbox.put(Outbound(to=address, text=text), name, key=str(main))

    async def _post(self, url: str, document: dict[str, Any]) -> None:
        """Posts a result; private addresses are refused unless the owner allows them."""
        # Slow to import, and few installations post results.
        import httpx2

        from openclaw.tools.web_client import GuardedTransport, system_resolve

        settings = self.context.cron_settings.current
        token = settings.webhook_token
        headers = {"authorization": f"Bearer {token.reveal()}"} if token else {}
        fence = AddressRules(allow_private=settings.webhook_allow_private)
        transport = GuardedTransport(fence, self._resolve or system_resolve)
        posting = httpx2.AsyncClient(timeout=WEBHOOK_SECONDS, follow_redirects=False, transport=transport)
        try:
            async with posting as client:
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


async def prune_sandboxes(context: AutomationContext) -> None:
    """Empties sandboxes that nobody uses any more (`sandbox.prune`)."""
    sandboxes, machine_tools = context.sandboxes, context.machine_tools
    agents = list(agent_ids(context.agents_settings.current))
    try:
        roots = {sandboxes.root(sandboxes.rules(agent)) for agent in agents}
    except OpenClawError as error:
        log.warning("sandboxes are left as they are: %s", error.message)
        return
    if not any([await asyncio.to_thread(root.is_dir) for root in roots]):
        return
    busy = machine_tools.standing.background.boxed() if machine_tools.has_standing.is_set() else set()
    await prune(sandboxes, agents, busy, context.clock)


async def remove_old_sessions(context: AutomationContext) -> None:
    """Removes the conversations of single runs older than `cron.sessionRetention`, transcript and all."""
    kept = context.cron_settings.current.session_retention
    if kept is False:
        return
    try:
        before = context.now - parse_duration("24h" if kept is True else kept)
    except OpenClawError as error:
        log.warning("cron.sessionRetention: %s", error.message)
        return
    gone = 0
    for row in await context.index.list():
        if not is_single_run(row.key) or row.updated_at >= before or context.runs.active(row.key):
            continue
        gone += await context.lifecycle.erase(row.key, row.session_id)
        if gone >= SWEPT_AT_ONCE:
            break
    if gone:
        log.info("removed %d conversation(s) of single runs", gone)


def is_single_run(key: SessionKey) -> bool:
    """Whether a session was for one run only: of a job, of BOOT.md, or a heartbeat."""
    return key.is_cron_run or key.is_single


def _conversation(job: CronJob, main: SessionKey) -> SessionKey:
    """Where a reminder is heard: in the conversation on a channel that asked for it, else in the main one."""
    asked = job.session_key or (job.owner.session_key if job.owner else None)
    key = parse_session_key(asked, main.agent) if asked else main
    return key if key.route is not None else main


def _session_of(fire: JobFire, agent: str) -> SessionKey:
    """The session of one run of a job."""
    return SessionKey(agent, f"cron:{fire.job.id}:run:{fire.run_id}")


UNSETTLED = ("pending", "sending", "unsure")
RECEIPT_SECONDS = 20.0
"""So long the end of a run waits to say whether its result has arrived."""
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

    def __init__(self, context: AutomationContext, wake: Callable[[SessionKey, str], None]) -> None:
        self.context = context
        self._clock = context.clock
        self._wake = wake
        self.delivery = JobDelivery(context)
        self.store = CronStore(context.db)
        check_agent = partial(context.sessions.key, "main")
        self.book = CronJobs(
            self.store, context.clock, local_zone=context.zone, check_agent=check_agent, publish=self._publish
        )
        self.ended: Counter[tuple[str, ...]] = Counter()
        """How many runs of jobs ended how, since the start."""
        self._changed = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_work: list[str] = []
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
            await self.store.release(self._in_work)

    async def run_now(self, name: str, *, only_due: bool = False) -> str | None:
        """Runs a job outside its schedule; gives the run's id, or None when `only_due` and it is not due."""
        job = await self.book.find(name)
        now = self.context.now
        if only_due and not (job.enabled and (job.state.next_run_at_ms or now + 1) <= now):
            return None
        fire = await self.store.force(job, now=now)
        self._start(fire, forced=True)
        return fire.run_id

    async def status(self) -> dict[str, Any]:
        path = str(self.context.home.state / "state" / "openclaw-py.sqlite")
        shared = self.context.home.state in shared_homes
        return {
            "enabled": self.firing and self.context.cron_settings.current.enabled,
            "triggersEnabled": False,
            **({"storage": "postgresql"} if shared else {"storePath": path, "storage": "sqlite", "sqlitePath": path}),
            "jobs": await self.store.count(),
            "nextWakeAtMs": await self.store.next_wake(),
        }

    def _publish(self, action: str, job_id: str, job: CronJob | None, more: Mapping[str, Any]) -> None:
        payload: dict[str, Any] = {"jobId": job_id, "action": action, **more}
        if job is not None:
            payload["job"] = job_to_json(job)
            if job.state.next_run_at_ms is not None:
                payload["nextRunAtMs"] = job.state.next_run_at_ms
        self.context.bus.publish("cron", payload)
        self._changed.set()

    # The loop: take due slots, sleep until the next one.

    async def _fire(self) -> None:
        await self._take_over()
        late, swept, began = 0, 0, self.context.now
        while True:
            waits = False
            self._changed.clear()
            now = self.context.now
            if now - swept >= SWEEP_MS:
                swept = now
                await self.store.forget_old(now)
                await remove_old_sessions(self.context)
                await self.context.maintenance.sweep()
                await prune_sandboxes(self.context)
            for job in await self.store.due(now) if self.context.cron_settings.current.enabled else ():
                if is_deferred(job, began, now):
                    waits = True
                    continue
                started = await self._take(job)
                late += started and now - (job.state.next_run_at_ms or now) > LATE_MS
                if started and late > AT_ONCE:
                    await self._clock.sleep(SPACING)
            following = await self.store.next_wake() if self.context.cron_settings.current.enabled else None
            wait = DEFERRED_LOOK if waits else LONGEST_SLEEP
            if following is not None and not waits:  # else a deferred job is next, which is overdue
                wait = min(wait, max(0.0, (following - self.context.now) / 1000))
            await wait_first(self._clock.sleep(wait), self._changed.wait())
            await self._take_over()

    async def _take_over(self) -> None:
        """Goes on with what other processes had in work when they died."""
        for fire in await self.store.take_over():
            if fire.status == "running":
                log.info("taking up the job %s again: whoever ran it is gone", fire.job.name)
                self._start(fire)
            else:
                self._spawn(self._deliver_late(fire), fire)

    async def _take(self, job: CronJob) -> bool:
        now = self.context.now
        slot = job.state.next_run_at_ms
        assert slot is not None
        skip = self.context.cron_settings.current.skip_missed_jobs
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
            await self._finish(fire, self._ended("skipped", now, error="missed: the gateway was not running"))
            return False
        self._start(fire)
        return True

    def _start(self, fire: JobFire, *, forced: bool = False) -> None:
        self._publish("started", fire.job.id, fire.job, {"runId": fire.run_id, "runAtMs": fire.fired_at})
        self._spawn(self._run(fire, forced=forced), fire)

    def _spawn(self, work: Coroutine[Any, Any, None], fire: JobFire) -> None:
        if self._group is None:
            raise RuntimeError("jobs are run inside serving()")
        self._in_work.append(fire.run_id)

        async def see_through() -> None:
            await work
            self._in_work.remove(fire.run_id)

        through = supervise_once(see_through(), f"cron run {fire.run_id}")
        task = self._group.create_task(through, name=f"cron:{fire.run_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # One run.

    async def _run(self, fire: JobFire, *, forced: bool) -> None:
        started = self.context.now
        try:
            result = await self._carry_out(fire, started, forced=forced)
        except ProviderError as error:
            result = self._ended("error", started, error=error.message, error_kind=error.reason)
        except OpenClawError as error:
            result = self._ended("error", started, error=error.message, error_kind=error.code.lower())
        await self._finish(fire, result)

    def _ended(self, status: Status, started: int, **more: Any) -> JobResult:
        return JobResult(status=status, started_at=started, ended_at=self.context.now, **more)

    async def _carry_out(self, fire: JobFire, started: int, *, forced: bool) -> JobResult:
        job, context = fire.job, self.context
        key = context.sessions.key("main", job.agent_id)
        seen: dict[str, str] | None = None
        news: list[str] = []
        if job.watch:
            row = await context.index.get(key)
            contact = row.updated_at if row else 0
            workspace, zone = context.workspaces.of(key.agent), context.budget.ledger.zone
            probes = WatchProbes(workspace, context.environ, context.clock, contact, zone)
            seen, news = await probes.changes(job.watch, job.state.seen)
            if not news and not forced:
                return self._ended("skipped", started, error="nothing changed", seen=seen)
        origins = merge_origins(job.origins, watch_origins(job.watch) if news else ())
        if isinstance(job.payload, AgentTurn):
            outcome = await self._turn(fire, key.agent, job.payload, news, origins)
            return structs.replace(self._result_of(outcome, started), seen=seen)
        heard_in = _conversation(job, key)
        why = f"{REMINDER}{job.id}" if job.wake_mode == "now" else ""
        await context.system_events.add(heard_in, "\n".join((job.payload.text, *news)), fire.run_id, origins, why)
        if why:
            self._wake(heard_in, why)
        return self._ended("ok", started, summary=job.payload.text, seen=seen)

    async def _turn(
        self, fire: JobFire, agent: str, payload: AgentTurn, news: list[str], origins: tuple[Origin, ...]
    ) -> RunOutcome:
        job, runs = fire.job, self.context.runs
        now = f"Current time: {self.context.time_told()}"
        said = (f"[cron:{job.id} {job.name}] {payload.message}", *news, now)
        text = "\n\n".join((payload.message, *news) if payload.light_context else said)
        turn = RunRequest(
            run_id=fire.run_id,
            key=_session_of(fire, agent),
            text=text,
            model=payload.model,
            thinking=payload.thinking,
            timeout=TURN_SECONDS if payload.timeout_seconds is None else payload.timeout_seconds,
            extra=UNATTENDED,
            light=payload.light_context,
            tools_allow=payload.tools_allow or None,
            tools_deny=("*",) if payload.tools_allow == () else (),
            origins=origins,
            trigger="cron",
            lane="cron",
            priority="background",
        )
        outcome = (await runs.submit(turn, rules=QueueRules(mode="followup"))).outcome
        while outcome is None:
            outcome = await runs.wait(fire.run_id, LONGEST_SLEEP)
            if outcome is None and not runs.active(turn.key):
                await self._clock.sleep(1.0)  # another process runs it
        return outcome

    def _result_of(self, outcome: RunOutcome, started: int) -> JobResult:
        usage = outcome.usage
        return JobResult(
            status="ok" if outcome.status == "ok" else "error",
            started_at=outcome.started_at or started,
            ended_at=outcome.ended_at or self.context.now,
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
        alerts = self.context.cron_settings.current.failure_alert
        after = await self.store.finish(fire, result, delivers=delivers, alerts=alerts)
        if after is None:
            return
        self.ended[(result.status,)] += 1
        ended = structs.replace(fire, status=result.status, ended_at=result.ended_at, result=result)
        if delivers:
            ended = await self._deliver(ended, result)
        if after.alert:
            log.warning("%s", after.alert)
            try:
                await self.delivery.alert(fire, after.alert)
            except (NotFound, Unavailable, InvalidRequest, StateError) as error:
                # Its agent may be gone from the configuration, or its channel; the log has said how the job is doing.
                log.warning("the alert about the job %s reached nobody: %s", fire.job.name, error.message)
        self._publish("finished", fire.job.id, after.job, run_to_json(ended))

    async def _deliver(self, fire: JobFire, result: JobResult | None) -> JobFire:
        """Delivers a result; gives the run with what became of it, `unknown` when no receipt came soon."""
        try:
            text = visible_answer(result.summary) if result else ""
            name = await self.delivery.deliver(fire, fire.job.delivery, text)
        except OpenClawError as error:
            return await self._delivered(fire, error.message)
        if not name:
            return await self._delivered(fire)
        entry = await self.context.outbox.settled(name, RECEIPT_SECONDS)
        if entry.state in UNSETTLED:
            self._spawn(self._confirm(fire, name), fire)
            return structs.replace(fire, delivery="unknown")
        return await self._delivered(fire, "" if entry.state == "sent" else entry.error or entry.state)

    async def _deliver_late(self, fire: JobFire) -> None:
        await self._deliver(fire, fire.result)

    async def _confirm(self, fire: JobFire, name: str) -> None:
        """Waits for a receipt that is late; after a restart the same message is waited for."""
        outbox = self.context.outbox
        while (entry := await outbox.settled(name, LONGEST_SLEEP)).state in UNSETTLED:
            pass
        await self._delivered(fire, "" if entry.state == "sent" else entry.error or entry.state)
        with suppress(NotFound):  # its job may be gone
            self._publish("updated", fire.job.id, await self.store.get(fire.job.id), {})

    async def _delivered(self, fire: JobFire, why: str = "") -> JobFire:
        """Records what became of a result, and why it was not delivered."""
        if why:
            log.warning("the result of the job %s was not delivered: %s", fire.job.name, why)
        status: DeliveryStatus = "not-delivered" if why else "delivered"
        await self.store.delivered(fire, status, why)
        return structs.replace(fire, delivery=status, delivery_error=why)
