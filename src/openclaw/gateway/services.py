"""What answers around an `App`: runs, sessions, automation and the gateway's own tools, in dependency order."""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path

from msgspec import Struct

from openclaw.automation.service import Automation, build_automation
from openclaw.channels.tools import MessageTool
from openclaw.config.live import LiveConfig
from openclaw.config.tools import ConfigTool
from openclaw.core.clock import Clock
from openclaw.core.keys import SessionKey
from openclaw.core.text import Origin, make_origin, merge_origins
from openclaw.core.tool import Tool
from openclaw.gateway.app import App
from openclaw.gateway.logs import log_context
from openclaw.models.service import ModelService
from openclaw.plugins.registry import PluginRegistry
from openclaw.process.environment import Environment
from openclaw.runs.control import SessionControl
from openclaw.runs.events import RunEvent, RunPublisher
from openclaw.runs.hooks import RunHooks
from openclaw.runs.inbox import Inbox
from openclaw.runs.outbox import Outbox
from openclaw.runs.queue import Lanes
from openclaw.runs.request import RunRequest
from openclaw.runs.session_tools import SessionsHistory, SessionsList, SessionsSend, SessionStatus
from openclaw.runs.subagents import Subagent, SubagentLimits, SubagentService, SubagentStore
from openclaw.runs.tools import AgentsList, SessionsSpawn, SessionsYield, SubagentsTool
from openclaw.runs.toolset import Toolset
from openclaw.runs.worker import RunService
from openclaw.security.sandboxes.service import SandboxService
from openclaw.security.tool_policy import ToolLayer
from openclaw.sessions.index import SessionIndex
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.service import SessionService
from openclaw.storage.database import Database
from openclaw.workspace.seed import Workspaces

NEVER = ("gateway", "agents_list", "session_status", "update_plan", "cron", "message", "sessions_send")
LEAF = ("subagents", "sessions_list", "sessions_history", "sessions_spawn", "sessions_yield")
OWNER_ONLY = ("gateway",)
TOOLS = (
    SessionsList,
    SessionsHistory,
    SessionsSend,
    SessionStatus,
    AgentsList,
    SessionsSpawn,
    SessionsYield,
    SubagentsTool,
    ConfigTool,
    MessageTool,
)
NAMES = tuple(tool.spec.name for tool in TOOLS)
"""What a running gateway offers besides the tools of the machine."""


class GatewayTools:
    """Everything that sessions of this gateway can ask of it."""

    def __init__(
        self,
        sessions: SessionService,
        lifecycle: SessionLifecycle,
        runs: RunService,
        models: ModelService,
        index: SessionIndex,
        workspaces: Workspaces,
        plugins: PluginRegistry,
        db: Database,
        clock: Clock,
        run_hooks: RunHooks,
        sandboxes: SandboxService,
        live: LiveConfig,
        environment: Environment,
        restart: Callable[[str], None] | None = None,
        more: Sequence[Tool] = (),
        *,
        outbox: Outbox,
        offered: bool = True,
    ) -> None:
        """`more` are the tools of other packages. Without `offered` none is: the gateway ends with its command."""
        self._offered = offered
        self._sessions = sessions
        self._lifecycle = lifecycle
        self._index = index
        self._plugins = plugins
        self._live = live
        self.subagents = SubagentService(
            SubagentStore(db, clock),
            runs,
            clock,
            bounds=self._bounds,
            origins=self._origins,
            discard=self._discard,
            archive=self._archive,
        )
        roster = self.subagents.roster
        seen = (sessions, lifecycle, runs, models, index, clock, sandboxes, live.agents, live.tools, roster)
        self._tools: list[Tool] = [
            SessionsList(*seen),
            SessionsHistory(*seen),
            SessionsSend(*seen),
            SessionStatus(*seen),
            AgentsList(models, live.agents),
            SessionsSpawn(
                sessions, lifecycle, models, workspaces, sandboxes, live, live.agents, live.tools, self.subagents
            ),
            SessionsYield(sessions, self.subagents),
            SubagentsTool(sessions, self.subagents),
            ConfigTool(environment, restart),
            *more,
        ]
        self._message = MessageTool(run_hooks, plugins.channels, outbox)

    def tools(self, key: SessionKey) -> list[Tool]:
        if not self._offered:
            return []
        # Without a channel there is nobody to write to, and nothing to tell a model about it.
        return [*self._tools, *([self._message] if self._plugins.channels() else [])]

    async def refresh(self) -> None:
        await self.subagents.roster.refresh()

    def layers(self, key: SessionKey) -> list[ToolLayer]:
        """What a session may not have because of what it is; a sub-agent never has more than its starter."""
        if not key.is_subagent:
            return [] if self._is_owners(key) else [ToolLayer(name="owner only", deny=OWNER_ONLY)]
        roster = self.subagents.roster
        deep = roster.depth(key) >= self._bounds().depth
        narrow = self._live.config.tools.subagents.tools
        found = [
            ToolLayer(name="sub-agents", deny=(*NEVER, *LEAF) if deep else NEVER),
            ToolLayer(name="tools.subagents.tools", allow=narrow.allow or None, deny=narrow.deny),
        ]
        child = roster.by_key(str(key))
        if child is not None and child.tools is not None:
            # An empty list of names would allow everything, so a starter without tools is said in another way.
            found.append(ToolLayer(name="the session that started it", allow=child.tools or ("none",)))
        return found

    async def _origins(self, key: SessionKey) -> tuple[Origin, ...]:
        """Whose words a child's answer holds; those of an external agent are its own."""
        found = await self._sessions.origins(key)
        return merge_origins(found, (make_origin("external", "an external agent"),)) if key.is_acp else found

    def _is_owners(self, key: SessionKey) -> bool:
        """Whether only the owner can speak in a session, as far as its key tells."""
        route = key.route
        if route is None:
            return not (key.is_cron or key.is_hook)
        owners = {name.strip().rpartition(":")[2] for name in self._live.config.commands.owner_allow_from}
        return route.kind == "direct" and route.peer in owners - {"*", ""}

    def _bounds(self, agent_id: str = "") -> SubagentLimits:
        settings = self._live.config.agents.defaults.subagents
        return SubagentLimits(
            depth=settings.max_spawn_depth,
            children=settings.max_children_per_agent,
            archive_after=settings.archive_after_minutes * 60,
        )

    async def _discard(self, child: Subagent) -> None:
        if child.files:
            shutil.rmtree(Path(child.files), ignore_errors=True)
        if await self._index.get(child.session) is not None:
            await self._lifecycle.delete(child.session)
            await self._sessions.changed(child.session, "delete")

    async def _archive(self, child: Subagent) -> None:
        if await self._index.get(child.session) is not None:
            await self._lifecycle.prefer(child.session, {"archived": True})
            await self._sessions.changed(child.session, "patch")


class Services(Struct, frozen=True, kw_only=True):
    """The services of one gateway."""

    inbox: Inbox
    outbox: Outbox
    lanes: Lanes
    publish: RunPublisher
    runs: RunService
    sessions: SessionService
    automation: Automation
    tools: GatewayTools
    toolset: Toolset
    control: SessionControl

    @property
    def subagents(self) -> SubagentService:
        return self.tools.subagents

    def serving(self) -> AbstractAsyncContextManager[RunService]:
        """Runs are carried out for as long as the block lasts."""
        return self.runs.serving(self.toolset)


def build_services(
    app: App,
    *subscribers: Callable[[RunEvent], None],
    lanes: Lanes | None = None,
    restart: Callable[[str], None] | None = None,
    background: bool = True,
) -> Services:
    """Builds the services around `app`; `subscribers` hear what runs say, `restart` starts the gateway anew."""
    live, clock, bus = app.live, app.clock, app.bus
    publish = RunPublisher(*subscribers)
    inbox, outbox = Inbox(app.db, clock), Outbox(app.db, clock)
    lanes = lanes or Lanes(_lane_sizes(live))
    runs = RunService(
        app.turns,
        inbox,
        lanes,
        clock,
        publish,
        proofread=app.memories.proofread,
        agents=live.agents,
        tools=live.tools,
        about=_run_context,
        messages=app.run_hooks.messages,
        outbox=outbox,
    )
    sessions = SessionService(
        app.index,
        app.lifecycle,
        app.models,
        runs,
        bus,
        clock,
        agents=live.agents,
        settings=live.session,
        patched=app.hook_files.session_patched,
    )
    automation = build_automation(
        sessions,
        app.lifecycle,
        runs,
        app.index,
        app.system_events,
        app.home,
        app.workspaces,
        app.db,
        clock,
        app.turns,
        app.run_hooks,
        app.sandboxes,
        app.budget,
        app.machine_tools,
        bus,
        live.agents,
        live.cron,
        app.environment.environ,
    )
    tools = GatewayTools(
        sessions,
        app.lifecycle,
        runs,
        app.models,
        app.index,
        app.workspaces,
        app.plugins,
        app.db,
        clock,
        app.run_hooks,
        app.sandboxes,
        live,
        app.environment,
        restart,
        more=[automation.tool],
        outbox=outbox,
        offered=background,
    )
    control = SessionControl(
        sessions,
        runs,
        tools.subagents,
        app.lifecycle,
        app.index,
        app.hook_files,
        app.workspaces,
        app.home.state,
        clock,
    )
    publish.subscribe(control.take)
    return Services(
        inbox=inbox,
        outbox=outbox,
        lanes=lanes,
        publish=publish,
        runs=runs,
        sessions=sessions,
        automation=automation,
        tools=tools,
        toolset=app.toolset(tools),
        control=control,
    )


def _run_context(request: RunRequest) -> AbstractContextManager[None]:
    """What the log says of everything that happens in a run."""
    return log_context(run_id=request.run_id, session_key=str(request.key))


def _lane_sizes(live: LiveConfig) -> dict[str, int]:
    defaults = live.config.agents.defaults
    main = defaults.max_concurrent or max(8, 4 * (os.cpu_count() or 1))
    return {"main": main, "subagent": defaults.subagents.max_concurrent, "cron-nested": 4}
