"""The RPC methods of the gateway by the module that answers them, which is loaded when one of them is called first.

The names stand here because every client is told them when it connects. A group that builds others is refused at its
first use, and `tests/gateway/test_methods.py` builds them all.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from openclaw.channels.approvals import ChannelApprovals
from openclaw.channels.manager import ChannelManager
from openclaw.channels.status import ChannelReports
from openclaw.config.edit import Editor
from openclaw.core.deferred import Deferred
from openclaw.core.errors import OpenClawError
from openclaw.devices.pairing import DevicePairing
from openclaw.gateway.app import App
from openclaw.gateway.connections import Connections, Presence
from openclaw.gateway.launch import GatewayLaunch
from openclaw.gateway.services import Services
from openclaw.protocol.rpc import MethodGroup, RpcMethod
from openclaw.runs.commands.service import SlashCommands
from openclaw.runs.projection import EventProjection
from openclaw.runs.queue import QueuePolicy
from openclaw.security.pending import PendingApprovals
from openclaw.workspace.history import WorkspaceHistories
from openclaw.workspace.pins import BootstrapPins

if TYPE_CHECKING:
    from openclaw.automation.cron import rpc as cron_rpc
    from openclaw.budget import rpc as budget_rpc
    from openclaw.channels import rpc as channels_rpc
    from openclaw.config import model_setup
    from openclaw.config import rpc as config_rpc
    from openclaw.devices import rpc as devices_rpc
    from openclaw.gateway import capabilities
    from openclaw.gateway.rpc import system as gateway_rpc
    from openclaw.memory import rpc as memory_rpc
    from openclaw.plugins import rpc as plugins_rpc
    from openclaw.prompt import rpc as prompt_rpc
    from openclaw.runs.rpc import agent as runs_rpc
    from openclaw.runs.rpc import chat as chat_rpc
    from openclaw.runs.rpc import preview
    from openclaw.runs.rpc import record as record_rpc
    from openclaw.runs.rpc import tools as tools_rpc
    from openclaw.security import rpc as security_rpc
    from openclaw.sessions import rpc as sessions_rpc
    from openclaw.skills import rpc as skills_rpc
    from openclaw.tools.mcp import rpc as mcp_rpc
    from openclaw.tools.mcp.schema import AcceptedServer
    from openclaw.workspace import rpc as workspace_rpc
else:
    cron_rpc = Deferred("openclaw.automation.cron.rpc")
    budget_rpc = Deferred("openclaw.budget.rpc")
    channels_rpc = Deferred("openclaw.channels.rpc")
    model_setup = Deferred("openclaw.config.model_setup")
    config_rpc = Deferred("openclaw.config.rpc")
    devices_rpc = Deferred("openclaw.devices.rpc")
    capabilities = Deferred("openclaw.gateway.capabilities")
    gateway_rpc = Deferred("openclaw.gateway.rpc.system")
    memory_rpc = Deferred("openclaw.memory.rpc")
    plugins_rpc = Deferred("openclaw.plugins.rpc")
    prompt_rpc = Deferred("openclaw.prompt.rpc")
    runs_rpc = Deferred("openclaw.runs.rpc.agent")
    chat_rpc = Deferred("openclaw.runs.rpc.chat")
    preview = Deferred("openclaw.runs.rpc.preview")
    record_rpc = Deferred("openclaw.runs.rpc.record")
    tools_rpc = Deferred("openclaw.runs.rpc.tools")
    security_rpc = Deferred("openclaw.security.rpc")
    sessions_rpc = Deferred("openclaw.sessions.rpc")
    skills_rpc = Deferred("openclaw.skills.rpc")
    mcp_rpc = Deferred("openclaw.tools.mcp.rpc")
    workspace_rpc = Deferred("openclaw.workspace.rpc")


def _group(names: str, build: Callable[[], Iterable[RpcMethod]], unlisted: str = "") -> MethodGroup:
    return MethodGroup(tuple(names.split()), build, tuple(unlisted.split()))


def run_methods(
    launch: GatewayLaunch,
    app: App,
    services: Services,
    projection: EventProjection,
    commands: SlashCommands,
    queue: QueuePolicy,
) -> Iterator[MethodGroup]:
    """The methods about runs, chats and sessions."""
    sessions, runs, toolset, routes = services.sessions, services.runs, services.toolset, services.outbox.routes
    live, lifecycle, index, models, workspaces = app.live, app.lifecycle, app.index, app.models, app.workspaces
    control, preparer, state = services.control, app.preparer, app.home.state
    offered: tools_rpc.OfferedSkills = {}
    yield _group(
        "chat.send chat.abort chat.inject",
        lambda: chat_rpc.send_methods(
            sessions, control, runs, workspaces, app.turns, app.bus, commands, queue, offered, live.session
        ),
    )
    yield _group(
        "chat.history chat.startup chat.message.get chat.metadata",
        lambda: chat_rpc.history_methods(sessions, runs, models, index, app.plugins, app.memories, projection),
    )
    yield _group(
        "agent agent.wait agent.identity.get",
        lambda: runs_rpc.run_methods(
            sessions, lifecycle, runs, index, workspaces, live.agents, commands, queue, offered, routes, app.archive
        ),
    )
    yield _group(
        "agents.list agents.create models.list models.authStatus",
        lambda: runs_rpc.agent_methods(sessions, models, workspaces, live, launch.environment),
    )
    yield _group(
        "sessions.create sessions.send sessions.abort sessions.compact sessions.reset sessions.delete",
        lambda: runs_rpc.session_methods(sessions, control, lifecycle, runs, models, index, queue),
    )
    yield _group(
        "sessions.list sessions.describe sessions.resolve sessions.preview sessions.get sessions.patch",
        lambda: sessions_rpc.sessions_methods(sessions, lifecycle, models, index, state, app.memories),
    )
    yield _group(
        "sessions.search sessions.overview sessions.rewind chat.images.get progressCard.get",
        lambda: sessions_rpc.transcript_methods(sessions, lifecycle, runs, index, state),
    )
    yield _group(
        "tools.catalog tools.effective tools.invoke commands.list",
        lambda: tools_rpc.tool_methods(sessions, app.plugins, toolset, preparer, live.agents, live.tools),
    )
    yield _group("tools.borrow tools.call", lambda: tools_rpc.lend_methods(sessions, preparer, toolset))
    yield _group("skills.offer", lambda: tools_rpc.offer_methods(offered))
    yield _group(
        "prompt.report prompt.preview prompt.runs",
        lambda: prompt_rpc.prompt_methods(
            sessions,
            app.archive,
            live.agents,
            partial(preview.preview_next, preparer, toolset, routes, live),
            live=launch.background,
        ),
    )
    yield _group(
        "runs.list runs.get runs.replay runs.compare runs.export",
        lambda: record_rpc.record_methods(
            sessions, app.db, app.budget.recorder, app.routes, models, live, launch.clock
        ),
    )


def gateway_methods(
    launch: GatewayLaunch,
    app: App,
    services: Services,
    editor: Editor,
    questions: PendingApprovals,
    approvals: ChannelApprovals,
    reports: ChannelReports,
    connections: Connections,
    presence: Presence,
    pairing: DevicePairing,
    outside: Callable[[], str],
    started: int,
) -> Iterator[MethodGroup]:
    """The methods about the gateway itself: its state, configuration, models, plugins, and who may use it."""
    sessions, live, bus, clock, state = services.sessions, app.live, app.bus, launch.clock, app.home.state
    yield _group(
        "health status system-presence system.info logs.tail doctor.check doctor.repair security.audit"
        " security.audit.repair",
        lambda: gateway_rpc.system_methods(app, services, reports, presence, started),
    )
    yield _group(
        "sessions.subscribe sessions.unsubscribe sessions.messages.subscribe sessions.messages.unsubscribe",
        lambda: gateway_rpc.subscriptions_methods(app, sessions, connections),
    )
    yield _group(
        "agents.capabilities",
        lambda: gateway_rpc.capability_methods(live.agents, partial(capabilities.capabilities, app, app.toolset())),
    )
    yield _group(
        "exec.approval.list exec.approval.get exec.approval.resolve exec.approval.unattended exec.approvals.get"
        " exec.approvals.set plugin.approval.list",
        lambda: security_rpc.approvals_methods(
            questions, app.approvals, str(state / "exec-approvals.json"), approvals.nobody_here
        ),
    )
    yield _group(
        "audit.list audit.verify",
        lambda: security_rpc.audit_methods(app.audit, partial(_prompt_texts, app), app.archive.witnessed),
    )
    yield _group(
        "device.pair.list device.pair.approve device.pair.reject device.pair.setupCode device.pair.setupStatus"
        " device.pair.remove device.pair.rename device.token.rotate device.token.revoke",
        lambda: devices_rpc.devices_methods(pairing, connections, bus, clock, outside),
        unlisted="device.pair.setupCode device.pair.setupStatus",
    )
    yield _group(
        "config.get config.set config.patch config.apply",
        lambda: config_rpc.config_methods(sessions, live, launch.environment, bus),
    )
    yield _group("config.schema config.schema.lookup", lambda: config_rpc.schema_methods())  # noqa: PLW0108 - the module is not loaded yet
    yield _group(
        "models.setup models.connect models.login.start models.login.finish models.test",
        lambda: model_setup.model_setup_methods(
            model_setup.ModelConnector(
                app.models, app.open_provider, editor, live, bus, clock, follows=launch.background
            )
        ),
    )
    yield _group("mcp.test", lambda: mcp_rpc.mcp_methods(partial(_look_at_server, app)))
    yield _group("plugins.list plugins.reload", lambda: plugins_rpc.plugins_methods(app.plugins))
    yield _group("install.check", lambda: plugins_rpc.install_methods(app.plugins, app.run_hooks.hooks, app.audit))


def agent_methods(app: App, services: Services, editor: Editor, histories: WorkspaceHistories) -> Iterator[MethodGroup]:
    """The methods about what agents have: jobs, files, notes, skills, and what they cost."""
    sessions, automation, live, clock, state = (
        services.sessions,
        services.automation,
        app.live,
        app.clock,
        app.home.state,
    )
    yield _group(
        "cron.list cron.status cron.get cron.parse cron.add cron.update cron.remove cron.run cron.runs",
        lambda: cron_rpc.cron_methods(sessions, automation.scheduler),
    )
    yield _group(
        "wake last-heartbeat heartbeats.status set-heartbeats",
        lambda: cron_rpc.heartbeat_methods(sessions, automation.heartbeats),
    )
    yield _group(
        "usage.status usage.cost sessions.usage", lambda: budget_rpc.usage_methods(sessions, app.db, app.budget)
    )
    yield _group(
        "agents.files.list agents.files.get agents.files.set agents.files.history agents.files.version",
        lambda: workspace_rpc.files_methods(app.workspaces, live.agents, histories, BootstrapPins(state)),
    )
    yield _group(
        "memory.search memory.explain memory.status memory.index memory.reset",
        lambda: memory_rpc.memory_methods(sessions, app.memories),
    )
    yield _group(
        "memory.notes.list memory.notes.get memory.notes.set memory.notes.lines memory.forget",
        lambda: memory_rpc.note_methods(sessions, app.memories, clock),
    )
    yield _group(
        "skills.trust.show skills.trust.set skills.update",
        lambda: skills_rpc.skill_methods(sessions, app.workspaces, app.skills, editor, clock),
    )
    yield _group("skills.status", lambda: skills_rpc.status_methods(sessions, state, app.workspaces, app.skills))


def channel_methods(
    launch: GatewayLaunch,
    app: App,
    services: Services,
    editor: Editor,
    channels: ChannelManager,
    reports: ChannelReports,
) -> Iterator[MethodGroup]:
    """The methods about channels and the people on them."""
    outbox, tools, live, clock, state = services.outbox, services.tools, app.live, launch.clock, app.home.state
    yield _group(
        "channels.status channels.start channels.stop channels.held channels.release channels.drop",
        lambda: channels_rpc.account_methods(reports, channels, outbox, clock),
    )
    yield _group(
        "channels.available channels.add channels.logout channels.remove",
        lambda: channels_rpc.setup_methods(reports, channels, live, editor),
    )
    yield _group(
        "channels.pairing.list channels.pairing.approve channels.pairing.dismiss",
        lambda: channels_rpc.pairing_methods(reports, outbox, live, editor, state, clock),
    )
    yield _group(
        "send message.action",
        lambda: channels_rpc.sending_methods(
            tools.messages, tools.attachments, app.workspaces, live, runs=launch.background
        ),
    )


async def _prompt_texts(app: App, run_id: str) -> list[str]:
    """The sections and first messages that a run was sent, as far as they are on record."""
    pieces: list[str] = []
    with suppress(OpenClawError):
        pieces += [piece.text for piece in (await app.archive.find(run_id)).prompt.sections]
        for call in (await app.budget.recorder.calls(run_id))[:1]:
            pieces += [message.text for message in call.request.messages]
    return pieces


async def _look_at_server(app: App, name: str) -> "AcceptedServer":
    return await app.machine_tools.mcp.look(name)
