"""What answers around an `App`: runs, sessions, automation and the gateway's own tools, in dependency order."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from openclaw.automation.context import AutomationContext, always
from openclaw.automation.service import Automation, build_automation
from openclaw.channels.media.voice import VoiceNotes
from openclaw.channels.messages import Attachments, MessageService
from openclaw.channels.tools import MessageTool
from openclaw.config.schema import Config
from openclaw.config.tools import ConfigTool
from openclaw.config.update import installation_update
from openclaw.core.deferred import shutil
from openclaw.core.keys import SessionKey
from openclaw.core.text import Origin, make_origin, merge_origins
from openclaw.core.tool import Tool
from openclaw.gateway.app import App
from openclaw.gateway.logs import log_context
from openclaw.runs.child_output import ChildThreads, ProgressNotes
from openclaw.runs.control import SessionControl
from openclaw.runs.events import RunEvent, RunPublisher
from openclaw.runs.hooks.calls import DeliveryTargets
from openclaw.runs.inbox import Inbox
from openclaw.runs.outbox import Outbox
from openclaw.runs.queue import Lanes, never_waited
from openclaw.runs.request import SessionRenewed
from openclaw.runs.session_tools import SessionsHistory, SessionsList, SessionsSearch, SessionsSend, SessionStatus
from openclaw.runs.subagents import Subagent, SubagentLimits, SubagentService, SubagentStore
from openclaw.runs.tools import AgentsList, SessionsSpawn, SessionsYield, SubagentsTool
from openclaw.runs.toolset import Toolset
from openclaw.runs.worker import RunService
from openclaw.security.tool_policy import ToolLayer, identify_speaker
from openclaw.sessions.maintenance import SessionMaintenance
from openclaw.sessions.send_policy import SendPolicy
from openclaw.sessions.service import SessionService
from openclaw.tools.settings import TtsSettings
from openclaw.tools.voice.speech import Speech, TtsTool
from openclaw.tools.voice.transcribe import Transcriber

if TYPE_CHECKING:
    from openclaw.gateway.cluster.service import ClusterService

NEVER = ("gateway", "agents_list", "session_status", "update_plan", "ask_user", "cron", "message", "sessions_send")
LEAF = ("subagents", "sessions_list", "sessions_history", "sessions_search", "sessions_spawn", "sessions_yield")
OWNER_ONLY = ("gateway",)
TOOLS = (
    SessionsList,
    SessionsHistory,
    SessionsSearch,
    SessionsSend,
    SessionStatus,
    AgentsList,
    SessionsSpawn,
    SessionsYield,
    SubagentsTool,
    ConfigTool,
    MessageTool,
    TtsTool,
)
NAMES = tuple(tool.spec.name for tool in TOOLS)
"""What a running gateway offers besides the tools of the machine."""


class GatewayTools:
    """Everything that sessions of this gateway can ask of it."""

    def __init__(
        self,
        app: App,
        sessions: SessionService,
        runs: RunService,
        restart: Callable[[str], None] | None,
        more: Sequence[Tool],
        *,
        inbox: Inbox,
        outbox: Outbox,
        messages: MessageService,
        voices: VoiceNotes,
        publish: RunPublisher,
        offered: bool,
    ) -> None:
        """`more` are the tools of other packages. Without `offered` the gateway ends with its command: only status."""
        live, models, lifecycle = app.live, app.models, app.lifecycle
        self._offered = offered
        self._sessions = sessions
        self._lifecycle = lifecycle
        self._index = app.index
        self._live = live
        roster = SubagentStore(app.db, app.clock)
        self.subagents = SubagentService(
            roster,
            runs,
            app.clock,
            bounds=self._bounds,
            origins=self._origins,
            fork=lifecycle.fork,
            prefer=lifecycle.prefer,
            discard=self._discard,
            archive=self._archive,
            target=DeliveryTargets(app.run_hooks.hooks, app.audit, outbox.routes, app.accounts).of,
            threads=ChildThreads(app.accounts, inbox, outbox.routes, app.index, roster, live.session),
            notes=ProgressNotes(publish, app.system_events, app.clock),
        )
        self.refresh = roster.refresh
        settings = (live.agents, live.tools, live.commands)
        parts = (sessions, lifecycle, runs, models, app.index, app.clock, app.sandboxes)
        seen = (*parts, *settings, roster, app.machine.timezone)
        spawn = SessionsSpawn(
            sessions, models, app.workspaces, app.sandboxes, live, live.agents, live.tools, self.subagents
        )
        self._status = SessionStatus(*seen)
        self._tools: list[Tool] = [
            SessionsList(*seen),
            SessionsHistory(*seen),
            SessionsSend(*seen),
            self._status,
            AgentsList(models, live.agents),
            spawn,
            SessionsYield(sessions, self.subagents),
            SubagentsTool(sessions, self.subagents),
            ConfigTool(app.environment, restart, installation_update(app.environment.environ)),
            SessionsSearch(*seen),
            *more,
        ]
        self._voices = voices
        self._speaking = [*self._tools, TtsTool(voices.speech, voices.send)]
        """With a voice, where there is one."""
        self._asked_about: TtsSettings | None = None
        self._offers = self._tools
        self.messages = messages
        self.attachments = Attachments(
            app.sandboxes, live.tools, app.workspaces, voices.speech.folder, live.commands, app.clock
        )
        self._inbox = inbox

    def tools(self, key: SessionKey) -> list[Tool]:
        if not self._offered:
            return [self._status]
        if self._asked_about is not self._live.config.tts:  # what can speak is looked up once for a configuration
            self._asked_about = self._live.config.tts
            self._offers = self._tools if self._voices.speech.speaker is None else self._speaking
        found = self._offers
        if not self.messages.channels:  # there is nobody to write to, and nothing to tell a model about it
            return found
        return [*found, MessageTool(self.messages, self.attachments, self._inbox)]

    def layers(self, key: SessionKey) -> list[ToolLayer]:
        """What a session may not have because of what it is; a sub-agent never has more than its starter."""
        roster = self.subagents.roster
        child = roster.by_key(str(key)) if key.is_subagent or key.is_acp else None
        starter: list[ToolLayer] = []
        if child is not None and child.tools is not None:
            # An empty list of names would allow everything, so a starter without tools is said in another way.
            starter = [ToolLayer(name="the session that started it", allow=child.tools or ("none",))]
        if not key.is_subagent:
            owners = self._live.config.commands.owner_allow_from
            theirs = identify_speaker(key, owners).owner
            return starter if theirs else [ToolLayer(name="owner only", deny=OWNER_ONLY), *starter]
        deep = roster.depth(key) >= self._bounds().depth
        narrow = self._live.config.tools.subagents.tools
        return [
            ToolLayer(name="sub-agents", deny=(*NEVER, *LEAF) if deep else NEVER),
            ToolLayer(name="tools.subagents.tools", allow=narrow.allow or None, deny=narrow.deny),
            *starter,
        ]

    async def _origins(self, key: SessionKey) -> tuple[Origin, ...]:
        """Whose words a child's answer holds; those of an external agent are its own."""
        found = await self._sessions.origins(key)
        return merge_origins(found, (make_origin("external", "an external agent"),)) if key.is_acp else found

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
    voices: VoiceNotes
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
    waited: Callable[[str], float] = never_waited,
    cluster: "ClusterService | None" = None,
) -> Services:
    """Builds the services around `app`; `subscribers` hear what runs say, `restart` starts the gateway anew."""
    live, clock, bus = app.live, app.clock, app.bus
    publish = RunPublisher(*subscribers)
    policy = SendPolicy(app.lifecycle, live.session)
    inbox = (cluster.inbox if cluster else Inbox)(app.db, clock)
    outbox = Outbox(app.db, clock, policy=policy, live=live)
    lanes = lanes or _build_lanes(live.config)
    runs = (cluster.runs if cluster else RunService)(
        app.turns,
        inbox,
        lanes,
        clock,
        publish,
        proofread=app.memories.proofread,
        agents=live.agents,
        tools=live.tools,
        about=log_context,
        messages=app.run_hooks.messages,
        outbox=outbox,
        waited=waited,
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
    holds = cluster.member.holds if cluster else always
    automation = _build_automation(app, runs, sessions, outbox, holds)
    messages = MessageService(app.accounts, outbox, app.run_hooks)
    voices = VoiceNotes(
        Speech(live.tts, live.models, live.variables, app.home.state / "media" / "voice"),
        Transcriber(live.tools, live.models, live.variables),
        messages,
        inbox,
        app.accounts,
    )
    tools = GatewayTools(
        app,
        sessions,
        runs,
        restart,
        [automation.tool],
        inbox=inbox,
        outbox=outbox,
        messages=messages,
        voices=voices,
        publish=publish,
        offered=background,
    )
    control = SessionControl(
        sessions, runs, tools.subagents, app.lifecycle, app.index, app.hook_files, app.workspaces, app.home.state, clock
    )
    publish.subscribe(control.take, SessionRenewed)
    return Services(
        inbox=inbox,
        outbox=outbox,
        lanes=lanes,
        publish=publish,
        runs=runs,
        sessions=sessions,
        automation=automation,
        voices=voices,
        tools=tools,
        toolset=app.toolset(tools),
        control=control,
    )


def _build_lanes(config: Config) -> Lanes:
    """How many runs of each kind are carried out at once."""
    defaults = config.agents.defaults
    return Lanes(
        {
            "main": defaults.max_concurrent or max(8, 4 * (os.cpu_count() or 1)),
            "subagent": defaults.subagents.max_concurrent,
            "cron-nested": config.cron.max_concurrent_runs,
        }
    )


def _build_automation(
    app: App, runs: RunService, sessions: SessionService, outbox: Outbox, holds: Callable[[str], bool]
) -> Automation:
    """What starts by itself: jobs, heartbeats, maintenance."""
    live = app.live
    return build_automation(
        AutomationContext(
            sessions=sessions,
            lifecycle=app.lifecycle,
            maintenance=SessionMaintenance(app.index, app.lifecycle, runs, app.clock, live.session),
            runs=runs,
            index=app.index,
            system_events=app.system_events,
            home=app.home,
            workspaces=app.workspaces,
            db=app.db,
            clock=app.clock,
            turns=app.turns,
            run_hooks=app.run_hooks,
            sandboxes=app.sandboxes,
            budget=app.budget,
            machine_tools=app.machine_tools,
            bus=app.bus,
            agents_settings=live.agents,
            cron_settings=live.cron,
            commands_settings=live.commands,
            channels=live.channels,
            outbox=outbox,
            platforms=app.accounts,
            environ=app.environment.environ,
            holds=holds,
        )
    )
