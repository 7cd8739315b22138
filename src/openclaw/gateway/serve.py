"""What the gateway serves: the assistant, its runs and its clients, put together. Reads like a list of parts."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from openclaw.automation.service import BootRunner, wake_sessions
from openclaw.core.clock import millis
from openclaw.core.harness import OpenProvider
from openclaw.core.keys import SessionKey
from openclaw.core.messages import ToolCall
from openclaw.devices import rpc
from openclaw.gateway import client_api, metrics
from openclaw.gateway.app import App, assistant
from openclaw.gateway.client_api import ClientApi
from openclaw.gateway.http.stream import RunFanout
from openclaw.gateway.launch import GatewayLaunch, GatewayParts
from openclaw.gateway.logs import about
from openclaw.plugins.registry import begin
from openclaw.process.tasks import supervise
from openclaw.protocol.events import EventBus
from openclaw.runs.hooks import HookFileSubscriber
from openclaw.runs.inbox import Inbox
from openclaw.runs.lanes import Lanes
from openclaw.runs.projection import EventProjection
from openclaw.runs.recovery import Diagnosis, StuckMonitor, report_resumed
from openclaw.runs.stuck import StuckLimits
from openclaw.runs.worker import RunEvent, RunService
from openclaw.security import rpc as security_rpc
from openclaw.security.approvals import PendingApprovals

if TYPE_CHECKING:
    from openclaw.memory.index import MemoryIndex

log = logging.getLogger("openclaw.gateway")


@asynccontextmanager
async def compose(launch: GatewayLaunch, open_provider: OpenProvider | None = None) -> AsyncIterator[GatewayParts]:
    """Everything behind the port, alive for as long as the block lasts."""
    clock = launch.clock
    bus = EventBus()
    questions = PendingApprovals(
        clock,
        lambda question: security_rpc.tell_asked(bus, question),
        lambda question, end: security_rpc.tell_resolved(bus, question, end),
    )

    def proofread(key: SessionKey, text: str) -> str:
        return app.proofread(key, text)

    projector = EventProjection(proofread)
    fanout = RunFanout()
    counted = metrics.RunMetrics()

    def tell(event: RunEvent) -> None:
        fanout.tell(event)
        counted.hear(event)
        listening.take(event)
        for notice in projector.project(event):
            bus.publish(notice.event, notice.payload, notice.session_key)

    async with assistant(
        launch.surroundings, clock=clock, approver=questions, open_provider=open_provider, loaded=launch.loaded
    ) as app:
        app.extensions.off = "safe mode" if launch.safe else ""
        listening = HookFileSubscriber(app.internal_hooks, clock)
        app.internal_hooks.resting = launch.safe
        ledger = Inbox(app.db, clock)
        if launch.background:
            await ledger.forget_old()
            await app.accounts.forget_old()
        running = RunService(
            app.turns,
            ledger,
            lanes := Lanes(_places(app)),
            clock,
            tell,
            manner_of=lambda turn: app.manner(turn.key, turn.model),
            proofread=lambda turn, text: app.proofread(turn.key, text),
            deadline_of=partial(_deadline, app),
            about=lambda turn: about(run_id=turn.run_id, session_key=str(turn.key)),
            longest=lambda: app.config.agents.defaults.timeout_seconds,
            messages=lambda: app.plugged.messages if app.plugged else None,
            accepted=listening.heard,
        )
        async with running.serving() as active:
            gateway = ClientApi(launch, app, active, bus, projector, questions, ledger, fanout, counted, lanes)
            app.internal_hooks.enroll("boot-md", BootRunner(gateway.desk))
            skips = launch.surroundings.environ.get("OPENCLAW_SKIP_CRON") == "1"
            fires = launch.background and not (launch.safe or skips)
            # Before anything runs on: what a sub-agent may do is on the roster.
            await gateway.hall.subagents.roster.load()
            if launch.background:
                await report_resumed(gateway.desk, await active.resume())
            async with (
                gateway.hall.subagents.serving(resumes=launch.background),
                gateway.automation.serving(fires=fires),
                app.internal_hooks.serving(),
                asyncio.TaskGroup() as group,
            ):

                def beside(work: Callable[[], Awaitable[None]], name: str) -> None:
                    tasks.append(group.create_task(supervise(work, name, clock), name=name))

                def follow(memory: "MemoryIndex") -> None:
                    """Notes are followed from the first turn that has them on: nobody asked for them before."""
                    from openclaw.memory.service import watch

                    if memory.settings.sync.watch:
                        beside(partial(watch, memory, log.warning), "notes")

                tasks: list[asyncio.Task[None]] = []
                beside(partial(wake_sessions, gateway.desk), "ended commands")
                beside(gateway.audience.keep, "events")
                if launch.background:
                    # Without it plugins start with the first run that needs them, and nobody hears of a start.
                    port = launch.server.port if launch.server else 0
                    tasks.append(group.create_task(_plug(app, port), name="plugins"))
                    beside(lambda: rpc.tell_requests(app.db, gateway.pairing, bus, clock), "pairing requests")
                    beside(lambda: rpc.tell_setups(app.db, bus, clock), "setup codes")
                    beside(partial(gateway.histories.follow, bus), "file versions")
                    beside(gateway.channels.keep, "channels")
                    beside(_watchman(app, active, questions, bus).keep, "watchman")
                    app.remembers = follow
                    app.internal_hooks.tell(client_api.gateway(app, "startup"))
                yield GatewayParts(
                    connection=gateway.sockets.serve,
                    routes=gateway.routes,
                    reload=gateway.reload,
                    drains=(gateway.drain,),
                )
                if launch.background and app.plugged is not None:
                    await app.plugged.gateway_stops(launch.control.wish or "stop", app.index)
                for task in tasks:
                    task.cancel()


async def _plug(app: App, port: int) -> None:
    """Starts the plugins, beside everything else; those that want to know are told that the gateway is there."""
    await begin(app.extensions)
    if app.plugged is not None:
        app.plugged.gateway_started(port)


def _watchman(app: App, active: RunService, questions: PendingApprovals, bus: EventBus) -> StuckMonitor:
    def limits() -> StuckLimits:
        settings = app.config.diagnostics
        if not settings.enabled:
            return StuckLimits(warn=inf, abort=inf)
        return StuckLimits.of(settings.stuck_session_warn_ms, settings.stuck_session_abort_ms)

    def tell(found: Diagnosis) -> None:
        shown = {"sessionKey": found.session_key, "ts": millis(app.clock), **found.data}
        bus.publish(found.event, shown, found.session_key)

    def asked() -> set[str]:
        return {question.request.session_key for question in questions.list()}

    return StuckMonitor(active, app.clock, limits=limits, asked=asked, tell=tell)


def _deadline(app: App, call: ToolCall) -> float | None:
    """How long a call may take before it ends by itself; a command says so, or its settings do."""
    if call.name != "exec":
        return None
    asked = call.arguments.get("timeout")
    if isinstance(asked, int | float) and asked > 0:
        return float(asked)
    return app.config.tools.exec.timeout_seconds or inf


def _places(app: App) -> dict[str, int]:
    main = app.config.agents.defaults.max_concurrent or max(8, 4 * (os.cpu_count() or 1))
    return {"main": main, "subagent": app.config.agents.defaults.subagents.max_concurrent, "cron-nested": 4}
