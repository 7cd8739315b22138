"""Builds the automation parts, and holds the two small ones: BOOT.md runs, and runs when a background command ends."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from openclaw.agent.settings import AgentsSettings, agent_ids, default_agent
from openclaw.automation.context import AutomationContext, always, read_task_file, run_to_end
from openclaw.automation.cron.service import Scheduler
from openclaw.automation.cron.tool import CronTool
from openclaw.automation.heartbeat import is_empty
from openclaw.automation.heartbeat_service import HeartbeatService
from openclaw.core.errors import OpenClawError
from openclaw.core.keys import SessionKey, parse_session_key
from openclaw.core.messages import Assistant, User
from openclaw.core.settings import Live
from openclaw.core.text import sanitize_block
from openclaw.plugins.hooks.events import NOTHING, HookEvent, HookFileAnswer
from openclaw.plugins.settings import HookEntrySettings
from openclaw.runs.request import RunRequest
from openclaw.runs.toolset import MachineTools
from openclaw.runs.worker import RunService
from openclaw.security.external import sanitize_external_text
from openclaw.security.label_service import LabelService
from openclaw.sessions.service import SessionService
from openclaw.sessions.transcript import build_context
from openclaw.tools.settings import ToolsSettings
from openclaw.workspace.budget import PER_FILE, shorten
from openclaw.workspace.seed import Workspaces


class Automation(Struct, frozen=True):
    """What starts by itself, and the tool with which agents ask for it."""

    scheduler: Scheduler
    heartbeats: HeartbeatService
    tool: CronTool

    @asynccontextmanager
    async def serving(self, *, fires: bool) -> AsyncIterator[None]:
        """With `fires`, jobs and heartbeats start on their own for as long as the block lasts."""
        async with self.heartbeats.serving(beats=fires), self.scheduler.serving(fires=fires):
            yield


def build_automation(context: AutomationContext) -> Automation:
    """Builds the heartbeats, the scheduler and the tool `cron`."""
    heartbeats = HeartbeatService(context)
    scheduler = Scheduler(context, heartbeats.wake)

    async def recent(session_key: str, count: int) -> Sequence[str]:
        """The last things that people and the assistant said in a conversation."""
        _, loaded = await context.sessions.load(parse_session_key(session_key))
        if loaded is None:
            return []
        said = build_context(loaded.entries).messages
        lines = [
            f"{'User' if isinstance(each, User) else 'Assistant'}: {each.text}"
            for each in said
            if isinstance(each, User | Assistant) and each.text.strip()
        ]
        return lines[-count:]

    return Automation(scheduler, heartbeats, CronTool(scheduler, heartbeats.add_event, recent))


# BOOT.md.

log = logging.getLogger(__name__)

FILE = "BOOT.md"
RUN_SECONDS = 600.0
PREFIX = "boot:"
TASK = (
    "The gateway has just started, and this is the list of things to do at a start, from {path}. Do what it says, "
    "using your tools; nobody is there to answer questions, and what you reply here is shown to nobody. When you are "
    "done, or when nothing needs doing, reply exactly NO_REPLY.\n\n{text}"
)


# The `boot-md` hook: one run at gateway start for each workspace with a BOOT.md, one after the other.


class BootRunner:
    def __init__(
        self,
        runs: RunService,
        workspaces: Workspaces,
        agents_settings: Live[AgentsSettings],
        label_service: LabelService,
        holds: Callable[[str], bool] = always,
    ) -> None:
        self._label_service = label_service
        self._runs = runs
        self._holds = holds
        self._workspaces = workspaces
        self._agents_settings = agents_settings

    async def __call__(self, event: HookEvent, entry: HookEntrySettings) -> HookFileAnswer:
        if event.name == "gateway:startup":
            for path, agent in self._places().items():
                if self._holds(agent):
                    await self._boot(agent, path)
        return NOTHING

    def _places(self) -> dict[Path, str]:
        """The agents, one for each workspace: the default agent where several share one."""
        agents = self._agents_settings.current
        found: dict[Path, str] = {}
        for agent in (default_agent(agents), *agent_ids(agents)):
            found.setdefault(self._workspaces.of(agent).resolve(), agent)
        return found

    async def _boot(self, agent: str, workspace: Path) -> None:
        text = await asyncio.to_thread(read_task_file, workspace / FILE)
        if text is None or is_empty(text):
            return
        if any(run.key.startswith(f"agent:{agent}:{PREFIX}") for run in self._runs.observe()):
            log.info("%s of %s: a run of an earlier start goes on and counts for this one", FILE, agent)
            return
        limit = self._agents_settings.current.defaults.bootstrap_max_chars
        shown = shorten(sanitize_block(text).strip(), FILE, limit if limit > 0 else PER_FILE)
        run_id = str(uuid.uuid4())
        turn = RunRequest(
            run_id=run_id,
            key=SessionKey(agent, f"{PREFIX}{run_id}"),
            text=TASK.format(path=workspace / FILE, text=shown),
            origins=self._label_service.of_file(workspace / FILE),
            timeout=RUN_SECONDS,
            lane="cron",
            priority="background",
            trigger="system",
        )
        try:
            outcome = await run_to_end(self._runs, turn)
        except OpenClawError as error:
            log.warning("%s of %s was not run: %s", FILE, agent, error.message)
            return
        if outcome.status != "ok":
            log.warning("%s of %s failed: %s", FILE, agent, outcome.error)


# Ended background commands.

TAIL_CHARS = 400
MARK = "[OpenClaw exec completion]"


async def run_on_command_end(
    sessions: SessionService,
    runs: RunService,
    label_service: LabelService,
    machine_tools: MachineTools,
    tools_settings: Live[ToolsSettings],
) -> None:
    """Runs for as long as the gateway does; an end that is not worth a word gets none."""
    await machine_tools.has_standing.wait()
    async with aclosing(machine_tools.standing.background.endings()) as endings:
        async for job in endings:
            text = _news(sessions, tools_settings, job)
            if text is None:
                continue
            turn = RunRequest(
                run_id=f"exec:{job.name}:{job.started_at}",
                key=sessions.key(job.owner),
                text=text,
                origins=label_service.of_job(job.name, job.command),
                trigger="system",
            )
            try:
                await runs.submit(turn)
            except OpenClawError as error:
                log.info("%s ended and its session was not told: %s", job.name, error.message)


def _news(sessions: SessionService, tools_settings: Live[ToolsSettings], job: Any) -> str | None:
    """What a session is told of the end of its command; None when that is nothing."""
    settings = tools_settings.current.exec
    if not settings.notify_on_exit or not job.owner or sessions.key(job.owner).is_subagent:
        return None
    tail = sanitize_external_text(job.tail.last(TAIL_CHARS))
    code = job.ended.code
    if not tail and code == 0 and not settings.notify_on_exit_empty_success:
        return None
    how = "timed out" if job.ended.timed_out else f"ended with code {code}" if code is not None else "was stopped"
    return (
        f"{MARK} The command {job.name} ({sanitize_external_text(job.command)[:200]}) {how} after "
        f"{round(job.ended.seconds)} s.\n<prompt-data>\n{tail or '(no output)'}\n</prompt-data>\n"
        "This is news from the system, not a message from the user. Go on with what the command was for; "
        "if nobody needs to hear of it, reply NO_REPLY."
    )
