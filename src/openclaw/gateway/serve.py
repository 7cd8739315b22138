"""What the gateway serves: the parts of the app, its runs and its clients, with their lifetimes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from openclaw.automation.service import BootRunner, run_on_command_end
from openclaw.config.live import LiveConfig
from openclaw.core.clock import Clock, millis
from openclaw.core.provider import OpenProvider
from openclaw.devices.events import publish_requests, publish_setups
from openclaw.gateway.app import App, build_app
from openclaw.gateway.client_api import ClientApi, gateway_event
from openclaw.gateway.http import metrics
from openclaw.gateway.http.stream import RunFanout
from openclaw.gateway.launch import GatewayLaunch, GatewayParts
from openclaw.gateway.services import Services, build_services
from openclaw.gateway.state import open_state
from openclaw.plugins.registry import PluginRegistry, start_plugins
from openclaw.process.tasks import supervise
from openclaw.protocol.events import EventBus
from openclaw.protocol.rpc import MethodRegistry
from openclaw.runs.events import RunEvent, RunPhase, RunSettled
from openclaw.runs.hooks.calls import ChildHooks
from openclaw.runs.hooks.runs import HookFileSubscriber, RunHooks
from openclaw.runs.projection import EventProjection
from openclaw.runs.recovery import Diagnosis, StuckLimits, StuckMonitor, report_resumed
from openclaw.runs.worker import RunService
from openclaw.security.pending import PendingApprovals, tell_asked, tell_resolved
from openclaw.storage.database import Database, LeaseLost
from openclaw.workspace.history import WorkspaceHistories

if TYPE_CHECKING:
    from openclaw.gateway.cluster.service import ClusterService


@asynccontextmanager
async def compose(launch: GatewayLaunch, open_provider: OpenProvider | None = None) -> AsyncIterator[GatewayParts]:
    """Everything behind the port, alive for as long as the block lasts."""
    clock, environment = launch.clock, launch.environment
    bus = EventBus()
    methods = MethodRegistry()
    # A gateway that begins anew by itself has nobody who would start it again.
    patient, store = launch.control.began_anew, launch.loaded.config.store
    async with open_state(environment.home, clock, store, launch.report, patient=patient) as (db, index):
        told = partial(tell_asked, bus), partial(tell_resolved, bus)
        cluster = _join_cluster(db, bus, clock)
        questions = (cluster.approvals if cluster else PendingApprovals)(db, clock, *told)
        try:
            async with (
                questions.serving(take_over=launch.background),
                build_app(
                    environment,
                    launch.loaded,
                    db,
                    index,
                    clock,
                    questions,
                    bus,
                    open_provider,
                    methods=methods,
                    safe=launch.safe,
                ) as app,
                _serving(launch, app, bus, methods, questions, cluster) as parts,
            ):
                yield parts
        except* LeaseLost:
            # Other nodes have taken over from this one: what it wanted to write at its end is theirs by now.
            logging.getLogger("openclaw.gateway").warning("this node ends without having written everything")


def _join_cluster(db: Database, bus: EventBus, clock: Clock) -> "ClusterService | None":
    """What makes this gateway a node of many; None when it has its database alone."""
    member = getattr(db, "cluster", None)
    if member is None:
        return None
    from openclaw.gateway.cluster.service import ClusterService

    return ClusterService(member, bus, clock)


@asynccontextmanager
async def _serving(
    launch: GatewayLaunch,
    app: App,
    bus: EventBus,
    methods: MethodRegistry,
    questions: PendingApprovals,
    cluster: "ClusterService | None",
) -> AsyncIterator[GatewayParts]:
    """The runs and clients of `app`, alive for as long as the block lasts."""
    clock, environment, live = launch.clock, launch.environment, app.live
    projection = EventProjection(app.memories.proofread)
    counted = metrics.RunMetrics()
    services = build_services(
        app,
        partial(projection.publish, bus),
        *([cluster.relay.tell] if cluster else []),
        restart=launch.control.restart,
        background=launch.background,
        waited=questions.waited,
        cluster=cluster,
    )
    # Most of what runs say is words of an answer, which neither of these is about.
    services.publish.subscribe(counted.hear, *counted.kinds)
    hook_files = HookFileSubscriber(app.hook_files, clock)
    services.publish.subscribe(hook_files.take, *hook_files.kinds)
    children = ChildHooks(app.run_hooks.hooks, services.publish)
    runs, sessions, subagents = services.runs, services.sessions, services.subagents
    if launch.background:
        await services.inbox.forget_old()
        await app.budget.forget_old()
    if cluster is not None:
        cluster.attach(app, services, questions, projection)
    fanout = RunFanout(services.publish)
    api = ClientApi(launch, app, services, methods, projection, questions, fanout, counted, cluster)
    async with services.serving():
        skips = environment.environ.get("OPENCLAW_SKIP_CRON") == "1"
        fires = launch.background and not (launch.safe or skips)
        # Before anything runs on: what a sub-agent may do is in its store.
        await subagents.roster.load(take_over=launch.background and cluster is None)
        if launch.background:
            await report_resumed(sessions, app.system_events, app.turns, await runs.resume())
        if cluster is not None:
            await cluster.enter(launch)
        holds = [cluster.member.holds] if cluster else []
        boot = BootRunner(runs, app.workspaces, live.agents, app.label_service, *holds)
        async with (
            subagents.serving(),
            services.automation.serving(fires=fires),
            app.hook_files.serving({"boot-md": boot}),
            asyncio.TaskGroup() as group,
        ):
            tasks: list[asyncio.Task[None]] = []
            jobs: Work = ("changes of jobs", partial(children.follow_jobs, bus))
            by_itself = _by_itself(app, services, api, questions, launch)
            shared = cluster.work(launch) if cluster else ()
            for name, work in (jobs, *_always(app, services, api), *by_itself, *shared):
                tasks.append(group.create_task(supervise(work, name, clock), name=name))
            if launch.background:
                # Without it plugins start with the first run that needs them, and nobody hears of a start.
                port = launch.server.port if launch.server else 0
                tasks.append(group.create_task(_start_plugins(app.plugins, app.run_hooks, port), name="plugins"))
                app.hook_files.tell(gateway_event(app, "startup"))
            try:
                yield GatewayParts(connection=api.sockets.serve, routes=api.routes, reload=api.reload, drain=api.drain)
            finally:
                questions.suspend()
            if launch.background:
                await app.run_hooks.gateway_stops(launch.control.wish or "stop", app.index)
            for task in tasks:
                task.cancel()


Work = tuple[str, Callable[[], Awaitable[None]]]
"""A background task: its name, and what is done until it is cancelled."""


def _always(app: App, services: Services, api: ClientApi) -> Iterator[Work]:
    """What every gateway does beside its runs."""
    wake = partial(
        run_on_command_end, services.sessions, services.runs, app.label_service, app.machine_tools, app.live.tools
    )
    yield "ended commands", wake
    yield "events", api.connections.keep
    yield "approved calls", api.approved.keep
    yield "renewed sessions", services.control.follow_renewals


def _by_itself(
    app: App, services: Services, api: ClientApi, questions: PendingApprovals, launch: GatewayLaunch
) -> Iterator[Work]:
    """What only the gateway does that stays: listen, follow, watch."""
    if not launch.background:
        return
    bus, clock = app.bus, app.clock
    yield "pairing requests", partial(publish_requests, app.db, api.pairing, bus, clock)
    yield "setup codes", partial(publish_setups, app.db, bus, clock)
    services.publish.subscribe(partial(_look_at_files, api.histories), RunPhase, RunSettled)
    yield "file versions", api.histories.keep
    if not launch.safe:
        yield "channels", api.channels.keep
        yield "approvals on channels", api.approvals.keep
    yield "stuck sessions", _stuck_monitor(app.live, clock, services.runs, questions, bus).keep
    yield "notes", app.memories.follow
    yield "keys and model servers", partial(app.models.watch, bus, clock)


def _look_at_files(histories: WorkspaceHistories, said: RunEvent) -> None:
    """Notices what was changed before a run, and by it."""
    match said.event:
        case RunPhase(phase="preparing_context"):
            histories.look(said.key.agent, "elsewhere")
        case RunSettled(outcome) if outcome.status != "ok" or outcome.tools or outcome.turns > 1:  # it may have acted
            histories.look(said.key.agent, "run")


async def _start_plugins(plugins: PluginRegistry, hooks: RunHooks, port: int) -> None:
    """Starts the plugins, beside everything else; those that want to know are told that the gateway is there."""
    await start_plugins(plugins)
    hooks.gateway_started(port)


def _stuck_monitor(
    live: LiveConfig, clock: Clock, runs: RunService, questions: PendingApprovals, bus: EventBus
) -> StuckMonitor:
    def limits() -> StuckLimits:
        settings = live.config.diagnostics
        if not settings.enabled:
            return StuckLimits(warn=inf, abort=inf)
        return StuckLimits.of(settings.stuck_session_warn_ms, settings.stuck_session_abort_ms)

    def tell(found: Diagnosis) -> None:
        shown = {"sessionKey": found.session_key, "ts": millis(clock), **found.data}
        bus.publish(found.event, shown, found.session_key)

    return StuckMonitor(runs, clock, limits=limits, asked=questions.holding, tell=tell)
