"""What clients use: the RPC methods, the HTTP routes, and who may call them."""

import logging
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from openclaw.agent.settings import default_agent
from openclaw.automation.cron import rpc
from openclaw.budget import rpc as budget_rpc
from openclaw.channels import rpc as channels_rpc
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
from openclaw.config import model_setup
from openclaw.config import rpc as config_rpc
from openclaw.config.edit import Editor
from openclaw.config.settings import RateLimitSettings
from openclaw.core.channel import Platform
from openclaw.core.clock import millis
from openclaw.core.errors import OpenClawError
from openclaw.core.secret import Secret
from openclaw.devices import rpc as devices_rpc
from openclaw.devices import signature
from openclaw.devices.pairing import DevicePairing
from openclaw.gateway import exposure
from openclaw.gateway import rpc as gateway_rpc
from openclaw.gateway.app import App
from openclaw.gateway.capabilities import capabilities, describe_agent
from openclaw.gateway.connections import Connections, Presence, WebSocketServer
from openclaw.gateway.exposure import decide, shared_secret
from openclaw.gateway.http import metrics
from openclaw.gateway.http.stream import RunFanout
from openclaw.gateway.launch import GatewayLaunch
from openclaw.gateway.reload import Reload
from openclaw.gateway.services import Services
from openclaw.memory import rpc as memory_rpc
from openclaw.plugins import rpc as plugins_rpc
from openclaw.plugins.hooks.events import RESTART_MS, GatewayContext, HookEvent, make_event
from openclaw.plugins.registry import PluginRegistry
from openclaw.prompt import rpc as prompt_rpc
from openclaw.protocol.auth import AuthLimiter, AuthPolicy, RateLimits
from openclaw.protocol.connect import HelloSnapshot, ServerFeatures, SessionDefaults
from openclaw.protocol.connection import GatewayAuthChanged
from openclaw.protocol.frames import StateVersion
from openclaw.protocol.rpc import MethodRegistry, RpcMethod
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
from openclaw.runs.rpc import agent as runs_rpc
from openclaw.runs.rpc import chat as chat_rpc
from openclaw.runs.rpc import record as record_rpc
from openclaw.runs.rpc import tools as tools_rpc
from openclaw.runs.rpc.preview import preview_next
from openclaw.security import rpc as security_rpc
from openclaw.security.pending import PendingApprovals
from openclaw.sessions import rpc as sessions_rpc
from openclaw.skills import rpc as skills_rpc
from openclaw.tools.mcp import rpc as mcp_rpc
from openclaw.tools.mcp.schema import AcceptedServer
from openclaw.version import __version__
from openclaw.workspace import rpc as workspace_rpc
from openclaw.workspace.history import WorkspaceHistories
from openclaw.workspace.pins import BootstrapPins

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
        self._methods = plugins_rpc.AllMethods(own_methods, app.plugins)
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
        groups = chain(self._run_methods(projection, commands, queue), self._other_methods(editor, questions))
        for method in chain.from_iterable(groups):
            own_methods.add(method)
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

    def _run_methods(
        self, projection: EventProjection, commands: SlashCommands, queue: QueuePolicy
    ) -> Iterator[list[RpcMethod]]:
        """The methods about runs, chats and sessions."""
        app, services, launch = self._app, self._services, self._launch
        sessions, runs, toolset = services.sessions, services.runs, services.toolset
        live, clock, environment = app.live, launch.clock, launch.environment
        session_parts = (sessions, services.control, app.lifecycle, runs, app.models, app.index)
        offered: tools_rpc.OfferedSkills = {}
        yield runs_rpc.run_methods(
            sessions,
            app.lifecycle,
            runs,
            app.index,
            app.workspaces,
            live.agents,
            commands,
            queue,
            offered,
            services.outbox.routes,
            app.archive,
        )
        yield chat_rpc.send_methods(
            sessions,
            services.control,
            runs,
            app.workspaces,
            app.turns,
            app.bus,
            commands,
            queue,
            offered,
            live.session,
        )
        yield chat_rpc.history_methods(sessions, runs, app.models, app.index, app.plugins, app.memories, projection)
        yield sessions_rpc.sessions_methods(
            sessions, app.lifecycle, app.models, app.index, app.home.state, app.memories
        )
        yield runs_rpc.session_methods(*session_parts, queue)
        yield runs_rpc.agent_methods(sessions, app.models, app.workspaces, live, environment)
        yield tools_rpc.tool_methods(sessions, app.plugins, toolset, app.preparer, live.agents, live.tools)
        yield tools_rpc.lend_methods(sessions, app.preparer, toolset)
        yield tools_rpc.offer_methods(offered)
        yield sessions_rpc.transcript_methods(sessions, app.lifecycle, runs, app.index, app.home.state)
        yield prompt_rpc.prompt_methods(
            sessions,
            app.archive,
            live.agents,
            partial(preview_next, app.preparer, toolset, services.outbox.routes, live),
            live=launch.background,
        )
        yield record_rpc.record_methods(sessions, app.db, app.budget.recorder, app.routes, app.models, live, clock)

    def _other_methods(self, editor: Editor, questions: PendingApprovals) -> Iterator[list[RpcMethod]]:
        """The methods about everything else."""
        app, services, launch = self._app, self._services, self._launch
        sessions, automation = services.sessions, services.automation
        live, bus, clock, environment = app.live, app.bus, launch.clock, launch.environment
        granted = app.home.state / "exec-approvals.json"
        yield gateway_rpc.system_methods(app, services, self.reports, self._presence, self._started)
        yield rpc.cron_methods(sessions, automation.scheduler)
        yield rpc.heartbeat_methods(sessions, automation.heartbeats)
        yield budget_rpc.usage_methods(sessions, app.db, app.budget)
        yield gateway_rpc.subscriptions_methods(app, sessions, self.connections)
        yield workspace_rpc.files_methods(app.workspaces, live.agents, self.histories, BootstrapPins(app.home.state))
        yield memory_rpc.memory_methods(sessions, app.memories)
        yield memory_rpc.note_methods(sessions, app.memories, clock)
        yield skills_rpc.skill_methods(sessions, app.workspaces, app.skills, editor, clock)
        yield skills_rpc.status_methods(sessions, app.home.state, app.workspaces, app.skills)
        yield config_rpc.config_methods(sessions, live, environment, bus)
        yield config_rpc.schema_methods()
        opens, follows = app.open_provider, launch.background
        connector = model_setup.ModelConnector(app.models, opens, editor, live, bus, clock, follows=follows)
        yield model_setup.model_setup_methods(connector)
        yield security_rpc.approvals_methods(questions, app.approvals, str(granted), self.approvals.nobody_here)
        yield devices_rpc.devices_methods(self.pairing, self.connections, bus, clock, self._outside)
        yield security_rpc.audit_methods(app.audit, partial(_prompt_texts, app), app.archive.witnessed)
        yield mcp_rpc.mcp_methods(partial(_look_at_server, app))
        yield gateway_rpc.capability_methods(live.agents, partial(capabilities, app, app.toolset()))
        yield plugins_rpc.plugins_methods(app.plugins)
        yield plugins_rpc.install_methods(app.plugins, app.run_hooks.hooks, app.audit)
        yield channels_rpc.account_methods(self.reports, self.channels, services.outbox, clock)
        yield channels_rpc.setup_methods(self.reports, self.channels, live, editor)
        yield channels_rpc.pairing_methods(self.reports, services.outbox, live, editor, app.home.state, clock)
        yield channels_rpc.sending_methods(
            services.tools.messages, services.tools.attachments, app.workspaces, live, runs=launch.background
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
            metrics.gauge("resident_bytes", "resident memory", gateway_rpc.resident()),
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
            health=await gateway_rpc.snapshot(self._app, self._services, self.reports),
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


async def _prompt_texts(app: App, run_id: str) -> list[str]:
    """The sections and first messages that a run was sent, as far as they are on record."""
    pieces: list[str] = []
    with suppress(OpenClawError):
        pieces += [piece.text for piece in (await app.archive.find(run_id)).prompt.sections]
        for call in (await app.budget.recorder.calls(run_id))[:1]:
            pieces += [message.text for message in call.request.messages]
    return pieces


async def _look_at_server(app: App, name: str) -> AcceptedServer:
    return await app.machine_tools.mcp.look(name)


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
