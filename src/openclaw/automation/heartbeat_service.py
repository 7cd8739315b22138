"""Runs heartbeats: at an interval, and at once when something wakes an agent.

Everything that can be known without a model is checked first; only then is one asked.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Struct, structs

from openclaw.agent.settings import agent_ids, default_agent
from openclaw.automation import heartbeat
from openclaw.automation.context import AutomationContext, read_task_file, run_to_end
from openclaw.automation.cron.probes import WatchProbes
from openclaw.automation.cron.watch import CommandWatch, DueWatch, FileWatch, HttpWatch, MailWatch, Watch
from openclaw.automation.heartbeat import DENIED_TOOLS, REMINDER, HeartbeatState, SkipBeat, WaitBeat
from openclaw.automation.settings import HeartbeatSettings
from openclaw.core.deferred import shlex
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.keys import SessionKey
from openclaw.core.text import Origin
from openclaw.process.tasks import supervise_once, wait_first
from openclaw.prompt.facts import DEFAULT_HEARTBEAT
from openclaw.runs.outbox import alert_of, reply_name
from openclaw.runs.request import AlertRules, RunRequest
from openclaw.security.scan import is_critical, scan

log = logging.getLogger(__name__)

COALESCE = 0.25
RETRY = 1.0
LONGEST_SLEEP = 60.0
LONGEST_RUN = 600.0
PREVIEW = 200
RECEIPT_SECONDS = 60.0
HAPPENED = (
    "The System lines above say what happened since this conversation was last active. Tell the person what they need "
    "to know of it; pass a reminder on as one. If nothing has to be said, reply exactly NO_REPLY."
)


class _Memory(Struct, frozen=True, kw_only=True):
    """What is stored of an agent's earlier heartbeats."""

    last_at: int = 0
    last_text: str = ""
    last_text_at: int = 0
    seen: Mapping[str, str] = {}


class HeartbeatService:
    """The heartbeats of all agents. Use as `async with HeartbeatService(…).serving(…)`."""

    def __init__(self, context: AutomationContext) -> None:
        self._context = context
        self._clock = context.clock
        self._due: dict[str, tuple[int, int]] = {}
        """By agent: its interval and its next look."""
        self._woken: dict[SessionKey, str] = {}
        self._beating: dict[SessionKey, asyncio.Task[None]] = {}
        self._stir = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._others: set[asyncio.Task[None]] = set()
        self.enabled = True
        self.last: dict[str, Any] | None = None

    @asynccontextmanager
    async def serving(self, *, beats: bool) -> AsyncIterator["HeartbeatService"]:
        async with asyncio.TaskGroup() as group:
            self._group = group
            loop = group.create_task(self._loop(group), name="heartbeats") if beats else None
            try:
                yield self
            finally:
                for task in (*self._beating.values(), *self._others, *((loop,) if loop else ())):
                    task.cancel()

    def wake(self, key: SessionKey, reason: str) -> None:
        """Requests a heartbeat now; several within a moment are one, and a reminder among them makes it one."""
        if key not in self._woken or reason.startswith(REMINDER):
            self._woken[key] = reason
        self._stir.set()

    def look(self) -> None:
        """Looks at once whether there are lines that are to be told."""
        self._stir.set()

    async def add_event(self, key: SessionKey, text: str, mode: str, origins: Sequence[Origin] = ()) -> None:
        """Adds an event to a session; in mode `now` it also wakes the agent."""
        why = "wake" if mode == "now" else ""
        await self._context.system_events.add(key, text, str(uuid.uuid4()), origins, why)
        if why:
            self.wake(key, why)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something for as long as heartbeats are served."""
        if self._group is None:
            raise RuntimeError("nothing is started outside serving()")
        task = self._group.create_task(supervise_once(work, "a heartbeat's errand"))
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    def enrolled(self) -> dict[str, HeartbeatSettings]:
        """The agents that have heartbeats, and how."""
        agents = self._context.agents_settings.current
        own = {entry.id: entry.heartbeat for entry in agents.list if entry.heartbeat is not None}
        if own:
            return {agent: own[agent] for agent in agent_ids(agents) if agent in own}
        shared = agents.defaults.heartbeat
        return {default_agent(agents): shared} if shared is not None else {}

    def next_at(self, agent_id: str) -> int | None:
        """When an agent's next regular heartbeat is due."""
        due = self._due.get(agent_id)
        return due[1] if due is not None and self.enabled else None

    async def _loop(self, group: asyncio.TaskGroup) -> None:
        while True:
            now = self._context.now
            following = self._plan(now)
            await self._wake_waiting()
            for agent, (every, at) in self._due.items():
                if at <= now:
                    self._due[agent] = (every, at + ((now - at) // every + 1) * every)
                    if not self._context.holds(agent):
                        continue
                    self._start(group, self._context.sessions.key("main", agent), "interval", woken=False)
            wait = min([LONGEST_SLEEP, *(max(0.0, (at - now) / 1000) for at in following if at > now)])
            await wait_first(self._clock.sleep(wait), self._stir.wait())
            if self._stir.is_set():
                await self._clock.sleep(COALESCE)
                self._stir.clear()
                for key, reason in self._woken.items():
                    self._start(group, key, reason, woken=True)
                self._woken.clear()

    async def _wake_waiting(self) -> None:
        """Wakes for lines that nobody was woken for: a killed gateway left them, or quiet hours held them back."""
        for key, reason in (await self._context.system_events.waking()).items():
            running = self._beating.get(key)
            free = key not in self._woken and (running is None or running.done())
            if free and self._context.holds(key.agent) and not self._is_quiet(key, reason):
                self.wake(key, reason)

    def _is_quiet(self, key: SessionKey, reason: str) -> bool:
        """Whether nothing would come of waking for this reason now."""
        hours = self._hours(self.enrolled().get(key.agent) or HeartbeatSettings())
        pulse = HeartbeatState(
            now=self._context.now,
            enabled=self.enabled,
            hours=hours,
            events=(reason,),
            woken=True,
            reminder=reason.startswith(REMINDER),
        )
        return isinstance(heartbeat.decide(pulse), SkipBeat)

    def _plan(self, now: int) -> list[int]:
        """Updates the next due times from the settings."""
        wanted: dict[str, tuple[int, int]] = {}
        for agent, settings in self.enrolled().items():
            try:
                every = heartbeat.parse_interval(settings.every)
            except OpenClawError as error:
                log.warning("the heartbeat of %s stays off: %s", agent, error.message)
                continue
            if every > 0:
                known = self._due.get(agent)
                at = known[1] if known and known[0] == every else heartbeat.phase(agent, every, now)
                wanted[agent] = (every, at)
        self._due = wanted
        return [at if at > now else at + every for every, at in wanted.values()]

    def _start(self, group: asyncio.TaskGroup, key: SessionKey, reason: str, *, woken: bool) -> None:
        running = self._beating.get(key)
        if running is not None and running.done():
            running = None
        if running is None or woken:
            beat = supervise_once(self._beat(key, reason, running, woken=woken), f"heartbeat of {key}")
            self._beating[key] = group.create_task(beat, name=f"heartbeat:{key}")

    async def _beat(self, key: SessionKey, reason: str, running: asyncio.Task[None] | None, *, woken: bool) -> None:
        if running is not None:
            await asyncio.wait({running})
        began = self._context.now
        try:
            settings = self.enrolled().get(key.agent) or HeartbeatSettings()
            pulse, looks_now, memory = await self._collect(key, settings, reason, woken=woken)
            apart = settings.isolated_session and not woken
            if apart and pulse.events:  # what happened is told where it happened, in a turn of its own
                self.wake(key, reason)
                pulse = structs.replace(pulse, events=())
            while isinstance(verdict := heartbeat.decide(pulse), WaitBeat):
                if not pulse.events:
                    verdict = SkipBeat(verdict.reason)
                    break
                await self._clock.sleep(RETRY)
                events = await self._context.system_events.waiting(key)
                pulse = structs.replace(pulse, now=self._context.now, busy=self._busy(key), events=events)
            if isinstance(verdict, SkipBeat):
                await self._keep(key.agent, structs.replace(memory, seen=looks_now))
                self._record(began, "skipped", verdict.reason)
                return
            await self._ask(key, settings, pulse, structs.replace(memory, seen=looks_now), began)
        except OpenClawError as error:
            log.warning("the heartbeat of %s failed (%s): %s", key.agent, reason, error.message)
            self._record(began, "failed", error.message)

    async def _collect(
        self, key: SessionKey, settings: HeartbeatSettings, reason: str, *, woken: bool
    ) -> tuple[HeartbeatState, dict[str, str], _Memory]:
        """Collects everything `decide` needs: watches, HEARTBEAT.md, waiting events, whether the session is busy."""
        memory, context = await self._recall(key.agent), self._context
        workspace = context.workspaces.of(key.agent)
        found: list[str] | None = None
        seen, watches = dict(memory.seen), _watches(settings)
        if watches and not woken:
            probes = WatchProbes(workspace, context.environ, context.clock, 0, context.budget.ledger.zone)
            seen, found = await probes.changes(watches, seen)
        pulse = HeartbeatState(
            now=self._context.now,
            enabled=self.enabled,
            hours=self._hours(settings),
            tasks=await asyncio.to_thread(read_task_file, workspace / "HEARTBEAT.md"),
            events=await self._context.system_events.waiting(key),
            changes=found,
            busy=self._busy(key),
            woken=woken,
            reminder=reason.startswith(REMINDER),
            last_run=memory.last_at,
        )
        return pulse, seen, memory

    def _busy(self, key: SessionKey) -> str:
        return "requests-in-flight" if self._context.runs.active(key) else ""

    def _hours(self, settings: HeartbeatSettings) -> heartbeat.Hours | None:
        rule = settings.active_hours
        if rule is None:
            return None
        zone = rule.timezone if rule.timezone not in (None, "user", "local") else None
        return heartbeat.parse_hours(rule.start, rule.end, zone or self._context.zone)

    async def _ask(
        self, key: SessionKey, settings: HeartbeatSettings, pulse: HeartbeatState, memory: _Memory, began: int
    ) -> None:
        prompt = settings.prompt or DEFAULT_HEARTBEAT.text
        if settings.prompt and is_critical(scan(settings.prompt)):
            log.error("agents.defaults.heartbeat.prompt looks like an attack and is held back: openclaw prompt lint")
            self._record(began, "skipped", "prompt-held-back")
            return
        regular = not pulse.woken and (pulse.changes or not heartbeat.is_empty(pulse.tasks or ""))
        moment = f"Current time: {self._context.time_told()}"
        parts = (prompt if regular else HAPPENED, *(pulse.changes or ()), moment)
        every = heartbeat.parse_interval(settings.every) / 1000
        if pulse.reminder:  # it was asked for, so it goes where its person is, whatever holds for alerts
            address = await self._context.address_of(key, "last")
        else:
            address = await self._context.address_of(key, settings.target, settings.to, settings.account_id)
            if address is not None and settings.direct_policy == "block" and await self._context.is_direct(address):
                self._record(began, "skipped", "dm-blocked")
                return
        young = self._context.now - memory.last_text_at < heartbeat.DUPLICATE_MS
        before = memory.last_text if young else ""
        rules = AlertRules(ack_chars=settings.ack_max_chars, said_before=before, light=settings.light_context)
        run_id = str(uuid.uuid4())
        apart = settings.isolated_session and not pulse.woken
        turn = RunRequest(
            run_id=run_id,
            key=SessionKey(key.agent, f"heartbeat:{run_id}") if apart else key,
            text="\n\n".join(parts),
            model=settings.model,
            timeout=settings.timeout_seconds or min(every or LONGEST_RUN, LONGEST_RUN),
            tools_allow=settings.tools.allow or None,
            tools_deny=(*DENIED_TOOLS, *settings.tools.deny),
            trigger="heartbeat",
            reply_to=address,
            alert=rules,
            lane="cron",
            priority="background",
        )
        await self._keep(key.agent, structs.replace(memory, last_at=self._context.now))
        outcome = await run_to_end(self._context.runs, turn)
        now = self._context.now
        if outcome.status != "ok":
            self._record(began, "failed", outcome.error or "")
            return
        alert, said = alert_of(rules, outcome), outcome.texts[-1] if outcome.texts else ""
        if alert is None:
            repeated = said.strip() and said.strip() == rules.said_before.strip()
            quiet = "ok-token" if said or outcome.acknowledged else "ok-empty"
            self._record(began, "skipped" if repeated else quiet, "duplicate" if repeated else "")
            return
        await self._keep(key.agent, structs.replace(memory, last_at=now, last_text=alert.text, last_text_at=now))
        if apart:
            said = "\n".join((alert.text, *(f"MEDIA:{each}" for each in alert.media)))
            await self._context.say(key, said, run_id, await self._context.sessions.origins(turn.key))
        if address is None:
            self._record(began, "shown", "no-route", alert.text)
        else:
            self.spawn(self._confirm(began, alert.text, reply_name(turn.run_id, address)))

    async def _confirm(self, began: int, text: str, name: str) -> None:
        """Says that an alert was sent once there is a receipt."""
        entry = await self._context.outbox.settled(name, RECEIPT_SECONDS)
        match entry.state:
            case "sent":
                self._record(began, "sent", "", text)
            case "refused":
                self._record(began, "failed", entry.error, text)
            case _:
                self._record(began, "pending", entry.error or "waits for the channel", text)

    def _record(self, began: int, status: str, reason: str, text: str = "") -> None:
        now = self._context.now
        self.last = {
            "ts": now,
            "status": status,
            "preview": text[:PREVIEW],
            "reason": reason,
            "hasMedia": False,
            "durationMs": now - began,
            "message": text,
        }
        self._context.bus.publish("heartbeat", self.last)

    async def _recall(self, agent: str) -> _Memory:
        rows = await self._context.db.read("SELECT * FROM heartbeats WHERE agent_id = :agent", {"agent": agent})
        if not rows:
            return _Memory()
        fields = {name: rows[0][name] for name in ("last_at", "last_text", "last_text_at")}
        return _Memory(**fields, seen=msgspec.json.decode(rows[0]["seen"], type=dict[str, str]))

    async def _keep(self, agent: str, memory: _Memory) -> None:
        await self._context.db.write(
            "INSERT INTO heartbeats (agent_id, last_at, last_text, last_text_at, seen) "
            "VALUES (:agent, :last_at, :last_text, :last_text_at, :seen) ON CONFLICT (agent_id) DO UPDATE SET "
            "last_at = :last_at, last_text = :last_text, last_text_at = :last_text_at, seen = :seen",
            {"agent": agent, **structs.asdict(memory), "seen": msgspec.json.encode(memory.seen).decode()},
        )


def _watches(settings: HeartbeatSettings) -> list[Watch]:
    watch = settings.watch
    return [
        *(FileWatch(path=path) for path in watch.files),
        *(CommandWatch(argv=_words(line)) for line in watch.commands),
        *(HttpWatch(url=url) for url in watch.urls),
        *(MailWatch(path=path) for path in watch.maildirs),
        *([DueWatch()] if watch.due else []),
    ]


def _words(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise InvalidRequest(f"{line!r} in heartbeat.watch.commands is not a command line: {error}") from None
