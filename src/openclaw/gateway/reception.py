"""What clients meet: the sockets, the methods, the addresses over HTTP, and who may use them."""

import logging
import time
import uuid
from functools import partial
from typing import Any

from starlette.routing import Route

from openclaw.approvals.grants import ApprovalFile
from openclaw.approvals.pending import PendingApprovals
from openclaw.core.clock import Clock, millis
from openclaw.devices import signature
from openclaw.devices.pairing import DevicePairing
from openclaw.devices.rate import AuthLimiter
from openclaw.gateway import figures, ports
from openclaw.gateway.access import shared_secret
from openclaw.gateway.app import App
from openclaw.gateway.audience import Connections
from openclaw.gateway.automation import automation
from openclaw.gateway.bus import EventBus
from openclaw.gateway.channelling import ChannelManager
from openclaw.gateway.commands import SlashCommands
from openclaw.gateway.daemon import GatewayLaunch
from openclaw.gateway.desk import SessionService
from openclaw.gateway.exposure import decide
from openclaw.gateway.filehistory import WorkspaceHistories
from openclaw.gateway.http import late, metrics, pages
from openclaw.gateway.http.auth import HttpAuth
from openclaw.gateway.http.hooks import WebhookEndpoint
from openclaw.gateway.http.hooks import routes as hook_routes
from openclaw.gateway.http.listening import RunFanout
from openclaw.gateway.http.plugins import PluginRoutes
from openclaw.gateway.internal_hooks import telling
from openclaw.gateway.links import LoginCodes
from openclaw.gateway.logs import LogFiles
from openclaw.gateway.methods import (
    agents,
    approvals,
    chat,
    config,
    cron,
    dashboard,
    devices,
    files,
    install,
    notes,
    plugins,
    prompt,
    runs,
    sessions,
    skills,
    subscriptions,
    system,
    transcripts,
    trust,
    usage,
)
from openclaw.gateway.presence import Presence
from openclaw.gateway.projection import EventProjection
from openclaw.gateway.reload import Reload
from openclaw.gateway.sockets import Sockets
from openclaw.gateway.tools.hall import GatewayTools
from openclaw.turns.agents import default_agent
from openclaw.turns.lanes import Lanes
from openclaw.turns.ledger import Inbox
from openclaw.turns.runs import RunService
from openclaw.version import __version__
from openclaw.wire.auth import AuthPolicy
from openclaw.wire.connection import GatewayAuthChanged
from openclaw.wire.frames import StateVersion
from openclaw.wire.hello import HelloSnapshot, Offer, SessionDefaults
from openclaw.wire.peer import client_ip, is_vouched
from openclaw.wire.rpc import MethodRegistry

log = logging.getLogger("openclaw.gateway")

EVENTS = (
    "agent",
    "chat",
    "config.changed",
    "connect.challenge",
    "cron",
    "device.pair.requested",
    "device.pair.resolved",
    "device.pair.setup.completed",
    "exec.approval.requested",
    "exec.approval.resolved",
    "health",
    "heartbeat",
    "plugins.changed",
    "presence",
    "session.long_running",
    "session.message",
    "session.recovery.completed",
    "session.recovery.requested",
    "session.stalled",
    "session.stuck",
    "sessions.changed",
    "shutdown",
    "tick",
)
CAPABILITIES = ("published-model-catalog",)


class ClientApi:
    """The parts that clients meet."""

    def __init__(
        self,
        launch: GatewayLaunch,
        app: App,
        active: RunService,
        bus: EventBus,
        projector: EventProjection,
        questions: PendingApprovals,
        ledger: Inbox,
        fanout: RunFanout,
        counted: figures.RunMetrics,
        lanes: Lanes,
    ) -> None:
        self._figures = counted
        self._lanes = lanes
        self._launch = launch
        self._app = app
        self._runs = active
        self._bus = bus
        self._fanout = fanout
        self._started = millis(launch.clock)
        self._boot = str(uuid.uuid4())
        self._presence = Presence(launch.clock)
        self._secret = launch.secret
        self._proxy = launch.exposure.proxy
        self.desk = SessionService(app, app.lifecycle, active, bus)
        self.hall = GatewayTools(self.desk, launch.surroundings, launch.control.restart)
        self.desk.stop_below = self.hall.subagents.stop_below
        app.tools.serve_in(self.hall)
        self.automation = automation(self.desk, launch.surroundings.environ)
        self.pairing = DevicePairing(app.db)
        self.histories = WorkspaceHistories(app.home.state, app.workspace, lambda: millis(launch.clock))
        self._registry = MethodRegistry()
        limiter = AuthLimiter()
        self.audience = Connections(bus, self._presence, launch.clock)
        self.sockets = Sockets(
            policy=self._policy,
            registry=self._registry,
            offer=self._offer,
            snapshot=self._snapshot,
            audience=self.audience,
            devices=self.pairing,
            limiter=limiter,
            verify=signature.verify,
            clock=launch.clock,
        )
        commands = SlashCommands(self.desk, questions)
        granted = app.home.state / "exec-approvals.json"
        logs = LogFiles.of(app.home.state, app.config.logging.file)
        for group in (
            system.methods(self.desk, self._presence, lambda: logs.files()[-1:], self._started, launch.surroundings),
            runs.methods(self.desk, commands),
            chat.methods(self.desk, projector, commands),
            sessions.methods(self.desk),
            cron.methods(self.desk, self.automation.scheduler, self.automation.heartbeats),
            usage.methods(self.desk),
            subscriptions.methods(self.desk, self.audience),
            agents.methods(self.desk, launch.surroundings),
            files.methods(self.desk, self.histories),
            notes.methods(self.desk),
            transcripts.methods(self.desk),
            trust.methods(self.desk, launch.surroundings),
            config.methods(self.desk, launch.surroundings, bus),
            skills.methods(self.desk),
            approvals.methods(questions, ApprovalFile(granted), str(granted)),
            devices.methods(self.pairing, self.audience, bus, launch.clock, self._outside),
            prompt.methods(self.desk),
            plugins.methods(self.desk),
            install.methods(self.desk),
        ):
            for method in group:
                self._registry.add(method)
        self.channels = ChannelManager(self.desk, commands, app.extensions.channels, launch.clock)
        plugins.serve_methods(app.extensions, self._registry, bus, self.channels.changed)
        gatekeeping = self._gatekeeping(limiter)
        hooks = WebhookEndpoint(self.desk, self.automation.heartbeats, gatekeeping)
        self.routes = [
            *late.routes(partial(_surface, app, active, ledger, fanout, gatekeeping)),
            *hook_routes(hooks, app.config.hooks.path),
            metrics.route(self._measured, gatekeeping),
            PluginRoutes(app.extensions.route, gatekeeping),
            *self._pages(gatekeeping),
        ]

    async def reload(self, change: Reload) -> None:
        """A changed configuration, section by section; what runs goes on with what it started with."""
        self._app.reconfigure(change.loaded)
        await self._app.tools.settle()
        await self._app.extensions.apply()
        exposure = decide(change.loaded.config.gateway, change.loaded.variables, self._launch.wishes)
        secret = shared_secret(exposure, self._app.home.state)
        if secret != self._secret or exposure.proxy != self._proxy:
            # From here on the old secret opens nothing, and whoever came in with it is shown out.
            self._secret, self._proxy = secret, exposure.proxy
            closed = self.audience.withdraw(GatewayAuthChanged())
            log.info("the gateway's credential changed; closed %d connection(s)", closed)
        self._bus.publish(
            "config.changed",
            {"path": str(change.loaded.path), "hash": change.loaded.hash, "ts": millis(self._launch.clock)},
        )

    async def drain(self, seconds: float) -> None:
        """Lets runs end; clients are told, and what does not end in time is parked."""
        self._bus.publish("shutdown", {"reason": "the gateway is stopping"})
        parked = await self._runs.drain(max(0.0, seconds - 2.0))
        if parked:
            log.info("parked %d run(s) for the next start", parked)
        self._fanout.close()
        await telling.settle(self._app, self._launch.control.wish == "restart")

    def _gatekeeping(self, limiter: AuthLimiter) -> HttpAuth:
        """HTTP asks for the same secret as the sockets, and counts failures in the same book."""
        front = self._launch.server.front
        return HttpAuth(
            secret=lambda: self._secret,
            limiter=_Failures(limiter, self._launch.clock),
            address=lambda scope: client_ip(front.peer(scope), self._app.config.gateway.trusted_proxies),
            vouched=lambda scope: is_vouched(front.peer(scope)),
        )

    def _pages(self, gatekeeping: HttpAuth) -> list[Route]:
        """The web page and the links that open it, when it is served."""
        settings = self._app.config.gateway.control_ui
        if not settings.enabled:
            return []
        links = LoginCodes()
        base = pages.base_path(settings.base_path)
        for method in dashboard.methods(links, base, self._launch.clock):
            self._registry.add(method)
        return pages.routes(
            pages.WebParts(
                base_path=base,
                redeem=lambda code: links.redeem(code, millis(self._launch.clock)),
                secret=lambda: self._secret,
                gatekeeping=gatekeeping,
                bootstrap=self._bootstrap,
            )
        )

    async def _bootstrap(self) -> dict[str, Any]:
        agent = default_agent(self._app.config.agents)
        identity = runs.identity_of(self.desk, agent)
        return {"assistantName": identity["name"], "assistantAgentId": agent, "serverVersion": __version__}

    def _measured(self) -> list[figures.MetricFamily]:
        """What `/metrics` shows."""
        audience, runs, lanes = self.audience, self._runs, self._lanes.busy()
        up = (millis(self._launch.clock) - self._started) / 1000
        return [
            *self._figures.families(),
            *figures.models(self._app.accounts.ledger.spent),
            figures.gauge("runs_active", "runs going on", runs.busy),
            figures.gauge("runs_queued", "messages that wait for their session", sum(s.queue for s in runs.observe())),
            figures.gauges("lane_waiting", "runs that wait for a place", "lane", {k: v[1] for k, v in lanes.items()}),
            figures.gauge("connections", "connected clients", len(audience)),
            figures.counter("events_delivered_total", "events handed to clients", audience.delivered),
            figures.counter("events_dropped_total", "events that slow clients did without", audience.dropped),
            figures.counter("clients_cut_total", "clients that were cut because they did not read", audience.cut),
            figures.counters("cron_fires_total", "runs of jobs", ("outcome",), self.automation.scheduler.ended),
            figures.gauge("up_seconds", "since the gateway started", up),
            figures.counter("cpu_seconds_total", "processor time", time.process_time()),
            figures.gauge("resident_bytes", "resident memory", system.resident()),
        ]

    def _outside(self) -> str:
        host = ports.outside(self._launch.exposure.hosts)
        server = self._launch.server
        return f"{'wss' if server.encrypted else 'ws'}://{host}:{server.port}" if host else ""

    def _policy(self) -> AuthPolicy:
        exposure = self._launch.exposure
        settings = self._app.config.gateway
        approving = settings.auth.trusted_proxy.device_auto_approve
        return AuthPolicy(
            mode=exposure.mode,
            secret=self._secret,
            auto_approve=approving.scopes if approving.enabled else (),
            allowed_origins=settings.control_ui.allowed_origins,
            known_hosts=tuple(self._launch.server.front.fences.names),
            trusted_proxies=settings.trusted_proxies,
        )

    def _offer(self) -> Offer:
        return Offer(
            version=__version__,
            methods=self._registry.advertised(),
            events=EVENTS,
            capabilities=CAPABILITIES,
            boot_id=self._boot,
        )

    async def _snapshot(self) -> HelloSnapshot:
        settings = self._app.config
        agent = default_agent(settings.agents)
        main = self._app.key("main", None)
        return HelloSnapshot(
            presence=tuple(self._presence.list()),
            health=await system.snapshot(self.desk),
            state_version=StateVersion(presence=self._presence.version, health=1),
            uptime_ms=millis(self._launch.clock) - self._started,
            applied_config_hash=self._app.loaded.hash or None,
            config_path=str(self._app.home.config),
            state_dir=str(self._app.home.state),
            auth_mode=self._launch.exposure.mode,
            session_defaults=SessionDefaults(
                default_agent_id=agent,
                main_key=settings.session.main_key,
                main_session_key=str(main),
                model_configured=True,
                scope=settings.session.scope,
            ),
        )


def _surface(app: App, active: RunService, ledger: Inbox, fanout: RunFanout, gatekeeping: HttpAuth) -> list[Route]:
    """The interfaces that other programs know from elsewhere."""
    from openclaw.gateway.http.surface import EndpointSwitches, routes
    from openclaw.gateway.http.wiring import parts_of

    endpoints = app.config.gateway.http.endpoints
    switches = EndpointSwitches(
        chat_completions=endpoints.chat_completions.enabled, responses=endpoints.responses.enabled
    )
    return routes(parts_of(app, active, ledger, fanout, app.embed), switches, gatekeeping)


class _Failures:
    """The limiter of the sockets as HTTP asks it."""

    def __init__(self, limiter: AuthLimiter, clock: Clock) -> None:
        self._limiter = limiter
        self._clock = clock

    def locked_for(self, address: str) -> float:
        return self._limiter.wait_ms(address, millis(self._clock)) / 1000

    def failed(self, address: str) -> None:
        self._limiter.fail(address, millis(self._clock))

    def succeeded(self, address: str) -> None:
        self._limiter.clear(address)
