"""`boot-md`: each workspace with a BOOT.md gets one run when the gateway starts, one after the other."""

import asyncio
import logging
import uuid
from pathlib import Path

from openclaw.core.errors import OpenClawError
from openclaw.core.keys import SessionKey
from openclaw.core.text import block
from openclaw.cron.heartbeat import is_empty
from openclaw.gateway.desk import SessionService
from openclaw.hooks.internal.events import NOTHING, HookEvent, HookFileAnswer
from openclaw.hooks.internal.settings import HookEntrySettings
from openclaw.turns.agents import agent_ids, default_agent
from openclaw.turns.queue import QueueRules
from openclaw.turns.turn import RunRequest
from openclaw.workspace.budget import PER_FILE, shorten

log = logging.getLogger(__name__)

FILE = "BOOT.md"
FILE_BYTES = 262_144
RUN_SECONDS = 600.0
PREFIX = "boot:"
TASK = (
    "The gateway has just started, and this is the list of things to do at a start, from {path}. Do what it says, "
    "using your tools; nobody is there to answer questions, and what you reply here is shown to nobody. When you are "
    "done, or when nothing needs doing, reply exactly NO_REPLY.\n\n{text}"
)


class BootRunner:
    def __init__(self, desk: SessionService) -> None:
        self._desk = desk

    async def __call__(self, event: HookEvent, entry: HookEntrySettings) -> HookFileAnswer:
        if event.name == "gateway:startup":
            for agent, path in self._places():
                await self._boot(agent, path)
        return NOTHING

    def _places(self) -> list[tuple[str, Path]]:
        """The agents, one for each workspace: the default agent where several share one."""
        agents = self._desk.app.config.agents
        first = default_agent(agents)
        found: dict[Path, str] = {}
        for agent in (first, *(each for each in agent_ids(agents) if each != first)):
            found.setdefault(self._desk.app.workspace(agent).resolve(), agent)
        return [(agent, path) for path, agent in found.items()]

    async def _boot(self, agent: str, workspace: Path) -> None:
        text = await asyncio.to_thread(_read, workspace / FILE)
        if text is None or is_empty(text):
            return
        if self._going_on(agent):
            log.info("%s of %s: a run of an earlier start goes on and counts for this one", FILE, agent)
            return
        limit = self._desk.app.config.agents.defaults.bootstrap_max_chars
        shown = shorten(block(text).strip(), FILE, limit if limit > 0 else PER_FILE)
        run_id = str(uuid.uuid4())
        turn = RunRequest(
            run_id=run_id,
            key=SessionKey(agent, f"{PREFIX}{run_id}"),
            text=TASK.format(path=workspace / FILE, text=shown),
            timeout=RUN_SECONDS,
        )
        runs = self._desk.runs
        try:
            await runs.submit(turn, rules=QueueRules(mode="followup"), lane="cron", priority="background")
            while (outcome := await runs.wait(run_id, RUN_SECONDS)) is None:
                pass
        except OpenClawError as error:
            log.warning("%s of %s was not run: %s", FILE, agent, error.message)
            return
        if outcome.status != "ok":
            log.warning("%s of %s failed: %s", FILE, agent, outcome.error)

    def _going_on(self, agent: str) -> bool:
        return any(seen.key.startswith(f"agent:{agent}:{PREFIX}") for seen in self._desk.runs.observe())


def _read(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES).decode(errors="replace")
    except OSError:
        return None
