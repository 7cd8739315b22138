"""What clients use: the RPC methods, the HTTP routes, and who may call them."""

import logging
import time
import uuid
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from openclaw.agent.settings import default_agent
from openclaw.channels.accounts import AccountName
from openclaw.channels.approvals import ChannelApprovals
from openclaw.channels.history import GroupHistory
from openclaw.channels.inbound import InboundHandler
from openclaw.channels.inbox import ChannelInbox
from openclaw.channels.manager import ChannelManager
from openclaw.channels.media.inbound import IncomingMedia
from openclaw.channels.questions import ChannelQuestions
from openclaw.channels.status import ChannelReports
from openclaw.channels.streaming import ReplyStreams
from openclaw.channels.typing import TypingNotices
from openclaw.config.edit import Editor
from openclaw.config.settings import RateLimitSettings
from openclaw.core.channel import Platform
from openclaw.core.clock import millis
from openclaw.core.secret import Secret
from openclaw.devices import signature
from openclaw.devices.pairing import DevicePairing
from openclaw.gateway import exposure
from openclaw.gateway.app import App
from openclaw.gateway.capabilities import describe_agent
from openclaw.gateway.connections import Connections, Presence, WebSocketServer
from openclaw.gateway.exposure import decide, shared_secret
from openclaw.gateway.http import metrics
from openclaw.gateway.http.stream import RunFanout
from openclaw.gateway.launch import GatewayLaunch
from openclaw.gateway.reload import Reload
from openclaw.gateway.rpc import health, methods
from openclaw.gateway.services import Services
from openclaw.plugins.hooks.events import RESTART_MS, GatewayContext, HookEvent, make_event
from openclaw.plugins.methods import AllMethods
from openclaw.plugins.registry import PluginRegistry
from openclaw.protocol.auth import AuthLimiter, AuthPolicy, RateLimits
from openclaw.protocol.connect import HelloSnapshot, ServerFeatures, SessionDefaults
from openclaw.protocol.connection import GatewayAuthChanged
from openclaw.protocol.frames import StateVersion
from openclaw.protocol.rpc import MethodRegistry
from openclaw.protocol.scopes import APPROVALS
from openclaw.runs.approved import ApprovedCalls
from openclaw.runs.commands.catalog import catalog
from openclaw.runs.commands.management import ManagementCommands
from openclaw.runs.commands.options import OptionCommands
from openclaw.runs.commands.service import SlashCommands
from openclaw.runs.commands.session import SessionCommands
from openclaw.runs.commands.status import StatusCommands
from openclaw.runs.projection import EventProjection
from openclaw.runs.queue import QueuePolicy
from openclaw.security.pending import PendingApprovals
from openclaw.version import __version__
from openclaw.workspace.history import WorkspaceHistories

if TYPE_CHECKING:
    from openclaw.gateway.cluster.service import ClusterService
    from openclaw.gateway.http.web import BaseRoute


def gateway_event(app: App, action: str, reason: str = "", restart_ms: int | None = None) -> HookEvent:
    """What hooks are told when the gateway has started, and before it ends."""
    workspace = app.workspaces.of(default_agent(app.live.config.agents))
    context = GatewayContext(workspace_dir=str(workspace), reason=reason, restart_expected_ms=restart_ms)
    return make_event(app.clock, "gateway", action, context)


async def settle(app: App, restarts: bool) -> None:
    """The last words to hooks before a gateway ends; nobody waits long for them."""
    if restarts:
        await app.hook_files.settle(gateway_event(app, "pre-restart", "restart", RESTART_MS), 10.0)
    await app.hook_files.settle(gateway_event(app, "shutdown", "restart" if restarts else "stop"), 5.0)


log = logging.getLogger("openclaw.gateway")

EVENTS = """
agent chat config.changed connect.challenge cron device.pair.requested device.pair.resolved device.pair.setup.completed
exec.approval.requested exec.approval.resolved health heartbeat models.changed plugins.changed presence
session.long_running session.message session.recovery.completed session.recovery.requested session.stalled
session.stuck sessions.changed shutdown tick
""".split()
CAPABILITIES = ("published-model-catalog",)


class ChannelParts:
    """What people on channels meet: questions for approval, what they approved, the accounts and their state."""

    def __init__(
        self,
        launch: GatewayLaunch,
        app: App,
        services: Services,
        questions: PendingApprovals,
        can_answer: Callable[[], bool],
        commands: SlashCommands,
        queue: QueuePolicy,
    ) -> None:
        runs, sessions, toolset = services.runs, services.sessions, services.toolset
        live, bus, clock = app.live, app.bus, launch.clock
        platforms: dict[AccountName, Platform] = {}  # those this gateway speaks for
        typing = TypingNotices(platforms, services.publish, clock, live.agents)
        streams = ReplyStreams(services.outbox, platforms, services.publish, clock, live, app.accounts)
        self.approvals = ChannelApprovals(
            questions, services.inbox, services.outbox, app.accounts, bus, live, clock, can_answer
        )
        self.approved = ApprovedCalls(
            questions,
            app.approvals,
            services.inbox,
            runs,
            app.preparer,
            toolset,
            services.subagents.roster,
            app.system_events,
            self.approvals.asked_at,
        )
        history = GroupHistory(app.db, clock)
        handler = InboundHandler(
            sessions,
            app.lifecycle,
            runs,
            services.inbox,
            services.outbox,
            history,
            IncomingMedia(platforms, app.label_service.files, clock),
            app.system_events,
            platforms,
            app.home.state,
            app.workspaces,
            live,
            commands,
            queue,
            clock,
            self.approvals,
            services.voices,
            app.run_hooks.messages,
            app.plugins,
            ChannelQuestions(sessions, services.inbox, services.outbox, platforms),
            services.subagents.threads,
        )
        heard = ChannelInbox(app.db, clock)
        self.manager = ChannelManager(
            heard,
            services.outbox,
            history,
            handler,
            typing,
            streams,
            platforms,
            app.accounts,
            app.plugins.channels,
            bus,
            clock,
            live,
            app.home.state,
            partial(_menu, app.plugins),
            services.voices,
            services.tools.attachments.for_answer,
        )
        connects = launch.background and not launch.safe
        self.reports = ChannelReports(self.manager, services.outbox, live, app.plugins.channels, runs=connects)


class ClientApi:
    """The parts that clients meet."""

    def __init__(
        self,
        launch: GatewayLaunch,
        app: App,
        services: Services,
        own_methods: MethodRegistry,
        projection: EventProjection,
        questions: PendingApprovals,
        fanout: RunFanout,
        counted: metrics.RunMetrics,
        cluster: "ClusterService | None" = None,
    ) -> None:
        self._figures = counted
        self._cluster = cluster
        self._launch = launch
        self._app = app
        self._services = services
        self._fanout = fanout
        self._questions = questions
        self._started = millis(launch.clock)
        self._boot = str(uuid.uuid4())
        self._presence = Presence(launch.clock)
        self._secret = launch.secret
        self._proxy = launch.exposure.proxy
        live, bus, clock, environment = app.live, app.bus, launch.clock, launch.environment
        self._methods = AllMethods(own_methods, app.plugins)
        self.pairing = DevicePairing(app.db)
        self.histories = WorkspaceHistories(app.home.state, app.workspaces.of, partial(millis, clock))
        limiter = AuthLimiter(lambda: _rate_limits(live.config.gateway.auth.rate_limit))
        self.connections = Connections(bus, self._presence, clock)
        self.sockets = WebSocketServer(
            policy=self._policy,
            registry=cluster.forwarding(self._methods) if cluster else self._methods,
            offer=self._offer,
            snapshot=self._snapshot,
            connections=self.connections,
            devices=self.pairing,
            limiter=limiter,
            verify=signature.verify,
            clock=clock,
        )
        editor = Editor(app.home, environment.environ, "a client of the gateway")
        queue = QueuePolicy(app.lifecycle, live.messages)
        restart = launch.control.restart if launch.background else None
        commands = build_commands(app, services, questions, queue, editor, restart)

        can_answer: Callable[[], bool] = partial(self.connections.has, APPROVALS)
        if cluster is not None:
            cluster.approvers, can_answer = can_answer, cluster.can_answer
        parts = ChannelParts(launch, app, services, questions, can_answer, commands, queue)
        self.approvals, self.approved = parts.approvals, parts.approved
        self.channels, self.reports = parts.manager, parts.reports
        for group in chain(
            methods.run_methods(launch, app, services, projection, commands, queue),
            methods.gateway_methods(
                launch,
                app,
                services,
                editor,
                questions,
                self.approvals,
                self.reports,
                self.connections,
                self._presence,
                self.pairing,
                self._outside,
                self._started,
            ),
            methods.agent_methods(app, services, editor, self.histories),
            methods.channel_methods(launch, app, services, editor, self.channels, self.reports),
        ):
            own_methods.add_group(group)
        shown = (self.channels, self.reports, self._presence, self.connections)
        webhooks = cluster.webhooks(*shown) if cluster else self.channels
        for method in cluster.methods(self._methods) if cluster else ():
            own_methods.add(method)
        self.routes: list[BaseRoute] = []
        if launch.server is not None:
            # A gateway without a port does without the web server's packages.
            from openclaw.gateway.http.routes import gateway_routes

            self.routes = gateway_routes(
                app,
                services,
                fanout,
                launch.server.front,
                limiter,
                self._current_secret,
                self._measured,
                own_methods,
                webhooks,
            )

    async def reload(self, change: Reload) -> None:
        """A changed configuration, section by section; what runs goes on with what it started with."""
        self._app.live.replace(change.loaded)
        await self._app.machine_tools.settle()
        await self._app.plugins.apply()
        exposure = decide(change.loaded.config.gateway, change.loaded.variables, self._launch.wishes)
        secret = shared_secret(exposure, self._app.home.state)
        if secret != self._secret or exposure.proxy != self._proxy:
            # From here on the old secret opens nothing, and whoever came in with it is shown out.
            self._secret, self._proxy = secret, exposure.proxy
            self._launch.expect(exposure.credential)
            closed = self.connections.withdraw(GatewayAuthChanged())
            log.info("the gateway's credential changed; closed %d connection(s)", closed)
        told = {"path": str(change.loaded.path), "hash": change.loaded.hash, "ts": millis(self._launch.clock)}
        self._app.bus.publish("config.changed", told)

    async def drain(self, seconds: float) -> None:
        """Lets runs end; clients are told, and what does not end in time is parked."""
        self._app.bus.publish("shutdown", {"reason": "the gateway is stopping"})
        if self._cluster is not None:
            await self._cluster.drain()
        self._questions.suspend()  # a question that waits for a person holds up no restart
        parked = await self._services.runs.drain(max(0.0, seconds - 2.0))
        if parked:
            log.info("parked %d run(s) for the next start", parked)
        self._fanout.close()
        await settle(self._app, self._launch.control.wish == "restart")

    def _current_secret(self) -> Secret | None:
        return self._secret

    def _measured(self) -> list[metrics.MetricFamily]:
        """What `/metrics` shows."""
        services, connections = self._services, self.connections
        runs, lanes = services.runs, services.lanes.busy()
        up = (millis(self._launch.clock) - self._started) / 1000
        return [
            *self._figures.families(),
            *metrics.models(self._app.budget.ledger.spent),
            metrics.gauge("runs_active", "runs going on", runs.busy),
            metrics.gauge("runs_queued", "messages that wait for their session", sum(s.queue for s in runs.observe())),
            metrics.gauges("lane_waiting", "runs that wait for a place", "lane", {k: v[1] for k, v in lanes.items()}),
            metrics.gauge("connections", "connected clients", len(connections)),
            metrics.counter("events_delivered_total", "events handed to clients", connections.delivered),
            metrics.counter("events_dropped_total", "events that slow clients did without", connections.dropped),
            metrics.counter("clients_cut_total", "clients that were cut because they did not read", connections.cut),
            metrics.counters("cron_fires_total", "runs of jobs", ("outcome",), services.automation.scheduler.ended),
            metrics.gauge("up_seconds", "since the gateway started", up),
            metrics.counter("cpu_seconds_total", "processor time", time.process_time()),
            metrics.gauge("resident_bytes", "resident memory", health.resident()),
            *(self._cluster.families() if self._cluster else ()),
        ]

    def _outside(self) -> str:
        host = exposure.outside_address(self._launch.exposure.hosts)
        server = self._launch.server
        return f"{'wss' if server.encrypted else 'ws'}://{host}:{server.port}" if host and server else ""

    def _policy(self) -> AuthPolicy:
        exposure = self._launch.exposure
        settings = self._app.live.config.gateway
        approving = settings.auth.trusted_proxy.device_auto_approve
        return AuthPolicy(
            mode=exposure.mode,
            secret=self._secret,
            auto_approve=approving.scopes if approving.enabled else (),
            allowed_origins=settings.control_ui.allowed_origins,
            known_hosts=tuple(self._launch.server.front.host_rules.names) if self._launch.server else (),
            trusted_proxies=settings.trusted_proxies,
            peers=self._cluster.member.secret if self._cluster else None,
        )

    def _offer(self) -> ServerFeatures:
        return ServerFeatures(
            version=__version__,
            methods=self._methods.advertised(),
            events=EVENTS,
            capabilities=CAPABILITIES,
            boot_id=self._boot,
        )

    async def _snapshot(self) -> HelloSnapshot:
        settings = self._app.live.config
        agent = default_agent(settings.agents)
        main = self._app.key("main", None)
        return HelloSnapshot(
            presence=tuple(self._presence.list()),
            health=await health.snapshot(self._app, self._services, self.reports),
            state_version=StateVersion(presence=self._presence.version, health=1),
            uptime_ms=millis(self._launch.clock) - self._started,
            applied_config_hash=self._app.live.current.hash or None,
            config_path=str(self._app.home.config),
            state_dir=str(self._app.home.state),
            auth_mode=self._launch.exposure.mode,
            session_defaults=SessionDefaults(
                default_agent_id=agent,
                main_key=settings.session.main_key,
                main_session_key=str(main),
                model_configured=self._app.models.has_model(agent),
                scope=settings.session.scope,
            ),
        )


def build_commands(
    app: App,
    services: Services,
    questions: PendingApprovals,
    queue: QueuePolicy,
    editor: Editor,
    restart: Callable[[str], None] | None = None,
) -> SlashCommands:
    """The slash commands of this gateway."""
    live, sessions, runs, clock = app.live, services.sessions, services.runs, app.clock
    options = OptionCommands(
        sessions,
        app.lifecycle,
        app.models,
        app.sandboxes,
        app.budget,
        app.archive,
        app.audit,
        queue,
        clock,
        live.tools,
        live.commands,
    )
    status = StatusCommands(
        sessions,
        app.lifecycle,
        runs,
        app.models,
        app.index,
        app.plugins,
        clock,
        app.preparer,
        app.budget,
        app.archive,
        app.audit,
        services.toolset,
        queue,
        services.subagents.roster,
        live.agents,
        partial(describe_agent, app, services.toolset),
    )
    session = SessionCommands(
        sessions,
        services.control,
        app.lifecycle,
        runs,
        app.models,
        app.index,
        services.subagents,
        app.workspaces,
        app.audit,
        clock,
    )
    management = ManagementCommands(questions, editor, restart, live.commands)
    others = [part.handlers for part in (status, session, management)]
    return SlashCommands(services.control, app.preparer, app.plugins, options, others, live.session)


def _rate_limits(given: RateLimitSettings) -> RateLimits:
    return RateLimits(
        max_attempts=given.max_attempts,
        window_ms=given.window_ms,
        lockout_ms=given.lockout_ms,
        exempt_loopback=given.exempt_loopback,
    )


def _menu(plugins: PluginRegistry) -> list[tuple[str, str]]:
    """The commands that platforms show in a menu, with what each does."""
    return [(each.name, each.description) for each in catalog(plugins)]
