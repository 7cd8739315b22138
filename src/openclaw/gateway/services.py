"""What answers around an `App`: runs, sessions, automation and the tools they add, in dependency order."""

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager

from msgspec import Struct

from openclaw.automation.service import Automation, build_automation
from openclaw.config.live import LiveConfig
from openclaw.gateway.app import App
from openclaw.gateway.logs import log_context
from openclaw.gateway.tool_catalog import GatewayTools
from openclaw.runs.control import SessionControl
from openclaw.runs.events import RunEvent, RunPublisher
from openclaw.runs.inbox import Inbox
from openclaw.runs.queue import Lanes
from openclaw.runs.request import RunRequest
from openclaw.runs.subagents import SubagentService
from openclaw.runs.toolset import Toolset
from openclaw.runs.worker import RunService
from openclaw.sessions.service import SessionService


class Services(Struct, frozen=True, kw_only=True):
    """The services of one gateway."""

    inbox: Inbox
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
    inbox = Inbox(app.db, clock)
    lanes = lanes or Lanes(_lane_sizes(live))
    runs = RunService(
        app.turns,
        inbox,
        lanes,
        clock,
        publish,
        reply_options=app.preparer.options_of,
        proofread=app.memories.proofread,
        agents=live.agents,
        tools=live.tools,
        about=_run_context,
        messages=app.run_hooks.messages,
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
