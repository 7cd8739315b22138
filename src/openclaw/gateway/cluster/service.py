"""The parts of a gateway that make it a node: built around its services, alive as long as they are."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import msgspec
from msgspec import structs

from openclaw.agent.settings import agent_ids
from openclaw.channels.accounts import AccountName
from openclaw.channels.manager import AccountStatus, ChannelManager
from openclaw.channels.status import ChannelReports
from openclaw.core.channel import ChannelWebhook, ChannelWebhookAnswer, WebhookEntry
from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError
from openclaw.core.keys import SessionKey
from openclaw.gateway.app import App
from openclaw.gateway.cluster.approvals import ClusterApprovals
from openclaw.gateway.cluster.disk import disk_trouble
from openclaw.gateway.cluster.member import MOVING, ClusterMember
from openclaw.gateway.cluster.methods import ForwardingMethods, cluster_methods, peer_methods
from openclaw.gateway.cluster.peers import PeerLinks
from openclaw.gateway.cluster.relay import PRESENCE, EventRelay, RelayedNotice
from openclaw.gateway.cluster.runs import ClusterInbox, ClusterRuns
from openclaw.gateway.cluster.setups import NodeSetup, describe_setup
from openclaw.gateway.connections import Connections, Presence
from openclaw.gateway.exposure import outside_address
from openclaw.gateway.http import metrics
from openclaw.gateway.launch import Control, GatewayLaunch
from openclaw.gateway.server import ServerFront
from openclaw.gateway.services import Services
from openclaw.protocol.events import EventBus
from openclaw.protocol.rpc import FindsMethods, RpcMethod
from openclaw.runs.events import RunAccepted, RunEvent, RunResumed, RunSettled
from openclaw.runs.inbox import ROUTES
from openclaw.runs.projection import EventProjection
from openclaw.security.pending import PendingApprovals, approval_to_json

log = logging.getLogger("openclaw.cluster")
SETUP_SECONDS = 10.0


class ClusterWebhooks:
    """Calls of platforms, handed to the node that speaks for the account."""

    def __init__(self, channels: ChannelManager, member: ClusterMember, links: PeerLinks) -> None:
        self._channels = channels
        self._member = member
        self._links = links

    def has_webhook(self, path: str) -> bool:
        return self._channels.has_webhook(path) or bool(self._elsewhere(path))

    async def take_webhook(self, path: str, call: ChannelWebhook) -> ChannelWebhookAnswer:
        answer = ChannelWebhookAnswer(status=404)
        if self._channels.has_webhook(path):
            answer = await self._channels.take_webhook(path, call)
        for node in self._elsewhere(path):
            if answer.status not in (401, 404):  # accounts that share a path are told apart by their secrets
                break
            told = await self._links.call(node, "cluster.webhook", {"path": path, "call": call})
            answer = msgspec.convert(told, ChannelWebhookAnswer)
        return answer

    def _elsewhere(self, path: str) -> list[str]:
        """The nodes that have such an account."""
        found = ((node.id, msgspec.json.decode(node.figures)) for node in self._member.nodes.values())
        return [name for name, told in found if name != self._member.me and path in told.get("webhooks", ())]


class ClusterService:
    """One node: what it tells the others and hears of them, and what it does for the agents it holds."""

    approvals = ClusterApprovals
    inbox = ClusterInbox

    def __init__(self, member: ClusterMember, bus: EventBus, clock: Clock) -> None:
        self.member = member
        self.runs = partial(ClusterRuns, cluster=member)
        self.relay = EventRelay(bus, self._hear_run)
        self.links = PeerLinks(member, clock, self.relay.hear)
        self._bus = bus
        self._clock = clock
        self._asked = asyncio.Event()
        self._relinked = asyncio.Event()
        self._setup = NodeSetup()
        self.approvers: Callable[[], bool] = lambda: False
        """Whether a client of this node can answer questions."""

    def attach(self, app: App, services: Services, questions: PendingApprovals, projection: EventProjection) -> None:
        """Connects the node to the services of its gateway."""
        member, runs = self.member, services.runs
        assert isinstance(runs, ClusterRuns)
        assert isinstance(questions, ClusterApprovals)
        self._projection = projection
        self._app, self._runs, self._services, self._questions = app, runs, services, questions
        member.agents = lambda: agent_ids(app.live.agents.current)
        member.is_idle = runs.is_idle
        member.taken = self._taken
        member.figures = self._figures
        member.find_trouble = partial(disk_trouble, app.environment.home.state)
        runs.forward_abort = self._abort
        runs.prepare = services.tools.refresh
        questions.ask = self.links.call
        self.relay.on_notice = self._hear_notice
        self.relay.on_link = self._link_node
        self.relay.on_loss = self._lose_node

    def forwarding(self, local: FindsMethods) -> ForwardingMethods:
        return ForwardingMethods(local, self.member, self.links, self._agent_of)

    def webhooks(
        self, channels: ChannelManager, reports: ChannelReports, presence: Presence, connections: Connections
    ) -> WebhookEntry:
        """Where calls of platforms come in, for the accounts of all nodes; what clients are shown speaks of all."""
        self._channels, self._connections = channels, connections
        presence.node = reports.node = self.member.name
        reports.elsewhere = self._accounts
        self.relay.presence = presence.here
        return ClusterWebhooks(channels, self.member, self.links)

    def methods(self, local: FindsMethods) -> list[RpcMethod]:
        services = self._services
        peers = peer_methods(local, self.relay, self._runs, services.subagents, self._questions, self._channels)
        return [*peers, *cluster_methods(self.member, self.links)]

    def work(self, launch: GatewayLaunch) -> Iterator[tuple[str, Any]]:
        """What a node does all the time."""
        yield "cluster", self.member.keep
        yield "cluster inputs", self._runs.follow_inputs
        yield "cluster links", self.links.keep
        yield "cluster events", self.relay.keep
        yield "cluster approvals", self._follow_approvals
        yield "cluster runs", self._follow_runs
        yield "cluster setup", self._look_at_setup
        yield "cluster routes", self._follow_routes
        yield "cluster fence", partial(self._watch, launch.control)
        if launch.server is not None:
            yield "cluster readiness", partial(self._report, launch.server.front)

    async def enter(self, launch: GatewayLaunch) -> None:
        """From now on agents are placed here, and other nodes find this one."""
        server = launch.server
        if server is None or not launch.background:
            return
        given = launch.environment.environ.get("OPENCLAW_NODE_ADDRESS", "").strip()
        host = outside_address(launch.exposure.hosts) or "127.0.0.1"
        scheme = "wss" if server.encrypted else "ws"
        await self.member.serve(given or f"{scheme}://{host}:{server.port}", server.fingerprint)
        await self.member.settle()

    async def drain(self) -> None:
        """Moves agents away before a stop."""
        if not self.member.fenced.is_set():
            await self.member.drain()

    async def _watch(self, control: Control) -> None:
        """A node that others took for gone begins anew, as another one."""
        await self.member.fenced.wait()
        count = self._runs.abandon()
        log.error("this node was taken for gone and starts again; %d run(s) go on elsewhere", count)
        control.restart("another node has taken over")
        control.hurry.set()

    async def _report(self, front: ServerFront) -> None:
        """Says on `/readyz` whether requests should come here."""
        while True:
            member = self.member
            why = "database" if member.away else "disk" if member.trouble else "draining" if member.draining else ""
            front.report(why)
            await self._clock.sleep(MOVING)

    async def _taken(self, agents: Collection[str]) -> None:
        log.info("this node holds %s now", ", ".join(sorted(agents)))
        await self._questions.take_up(agents)
        await self._services.subagents.take_over(agents)
        await self._runs.take_up(agents)

    def _hear_run(self, told: RunEvent) -> None:
        self._projection.publish(self._bus, told, here=False)
        self._services.publish.hear_elsewhere(told)
        match told.event:
            case RunAccepted() | RunResumed():
                self._runs.note(told.key, told.run_id, going=True)
            case RunSettled():
                self._runs.note(told.key, told.run_id, going=False)

    def _link_node(self) -> None:
        self._asked.set()
        self._relinked.set()

    def _lose_node(self, node: str) -> None:
        self._channels.lose_node(node)
        self._connections.hear_presence(node, [])
        self._relinked.set()

    def _hear_notice(self, node: str, notice: RelayedNotice) -> None:
        if notice.event == PRESENCE:
            self._connections.hear_presence(node, notice.payload)
            return
        if notice.event == "heartbeat":
            self._services.automation.heartbeats.last = notice.payload
        # A question is shown once it is read: also one that was asked before there was a link.
        if notice.event.startswith("exec.approval."):
            self._asked.set()
        if notice.event != "exec.approval.requested":
            self._bus.publish(notice.event, notice.payload, notice.session_key, here=False)

    async def _follow_routes(self) -> None:
        """Where people were heard last is known on all nodes."""
        async with self.member.db.listen(ROUTES) as heard:
            async for _ in heard:
                self._services.outbox.routes.reload()

    async def _follow_runs(self) -> None:
        while True:
            await self._relinked.wait()
            self._relinked.clear()
            await self._runs.look_elsewhere()

    async def _look_at_setup(self) -> None:
        """Keeps what the others are told of our configuration and credentials up to date."""
        while True:
            app = self._app
            self._setup = await asyncio.to_thread(describe_setup, app.live.current, app.home.state)
            await self._clock.sleep(SETUP_SECONDS)

    async def _follow_approvals(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            for question in await self._questions.look():
                shown = approval_to_json(question)
                self._bus.publish("exec.approval.requested", shown, question.request.session_key, here=False)

    async def _abort(self, key: SessionKey, run_id: str | None) -> list[str]:
        node = self.member.holder(key.agent)
        if node is None or node.id == self.member.me:
            return []
        params = {"key": str(key), **({"runId": run_id} if run_id else {})}
        told = await self.links.call(node.id, "cluster.abort", params)
        return list(told["runs"])

    def _agent_of(self, key: str | None, agent: str | None) -> str:
        try:
            return self._app.key(key, agent).agent
        except OpenClawError:
            return ""  # whatever is wrong with it is said where it is looked at

    def can_answer(self) -> bool:
        """Whether a client is connected, here or to another node, that can answer questions."""
        others = (msgspec.json.decode(node.figures) for node in self.member.nodes.values() if node.id != self.member.me)
        return self.approvers() or any(figures.get("approvers") for figures in others)

    def _accounts(self) -> dict[AccountName, AccountStatus]:
        """The accounts that other nodes speak for, as they told last."""
        found = {}
        for node in self.member.nodes.values():
            told = msgspec.json.decode(node.figures).get("accounts", ()) if node.id != self.member.me else ()
            for status in msgspec.convert(told, list[AccountStatus]):
                found[status.channel, status.account] = structs.replace(status, node=node.name)
        return found

    def _figures(self) -> dict[str, Any]:
        accounts = self._channels.held()
        return {
            "agents": len(self.member.held()),
            "runs": self._runs.busy,
            "approvers": self.approvers(),
            "webhooks": sorted(self._channels.webhook_paths()),
            "setup": msgspec.to_builtins(self._setup),
            "accounts": msgspec.to_builtins(accounts),
            "connected": sorted(f"{each.channel}:{each.account}" for each in accounts if each.connected),
            "cpuSeconds": round(time.process_time(), 1),
            "trips": self.member.db.trips,
        }

    def families(self) -> list[metrics.MetricFamily]:
        """What `/metrics` says about this node as one of many."""
        member, relay = self.member, self.relay
        nodes = sum(not each.guest for each in member.nodes.values())
        return [
            metrics.gauge("cluster_nodes", "nodes of the cluster", nodes),
            metrics.gauge("cluster_agents_held", "agents that this node holds", len(member.held())),
            metrics.counter("cluster_takeovers_total", "agents taken over from nodes that were gone", member.takeovers),
            metrics.counter("cluster_forwarded_total", "requests passed on to other nodes", self.links.forwarded),
            metrics.counter("cluster_events_sent_total", "events told to other nodes", relay.sent),
            metrics.counter("cluster_events_received_total", "events heard from other nodes", relay.received),
            metrics.counter("cluster_events_missed_total", "events that a slow link did without", relay.missed),
            metrics.counter("database_trips_total", "trips to the database", member.db.trips),
        ]
