"""A gateway's inside without a port: the app and its services, with a model for each conversation."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from openclaw.automation.service import run_on_command_end
from openclaw.core.events import ModelEvent
from openclaw.core.messages import Assistant as Said
from openclaw.core.messages import ToolResult, User
from openclaw.core.provider import ModelRequest
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest
from openclaw.gateway.app import App, open_app
from openclaw.gateway.services import Services, build_services
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.runs.events import RunEvent, RunSettled
from openclaw.runs.queue import Lanes
from openclaw.runs.request import RunRequest
from openclaw.sessions import history
from openclaw.testing import ScriptedModel, TemporaryHome

SETTINGS: dict[str, Any] = {"tools": {"exec": {"security": "full", "ask": "off"}}}


class Cast:
    """A provider that answers each conversation from its own script, known by a word of its first message."""

    def __init__(self, **scripts: ScriptedModel) -> None:
        self.scripts = scripts

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        first = next(message.text for message in request.messages if isinstance(message, User))
        name = next(name for name in self.scripts if name in first)
        async for event in self.scripts[name].stream(request):
            yield event

    async def close(self) -> None:
        return None


class Owner:
    """Answers approvals and remembers what was asked."""

    def __init__(self, decision: str = "deny") -> None:
        self.decision = decision
        self.asked: list[ApprovalRequest] = []

    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        return ApprovalAnswer(self.decision)  # type: ignore[arg-type]


class House:
    def __init__(self, app: App, services: Services, events: list[RunEvent], changed: asyncio.Event) -> None:
        self.app = app
        self.runs = services.runs
        self.sessions = services.sessions
        self.lifecycle = app.lifecycle
        self.control = services.control
        self.tools = services.tools
        self.toolset = services.toolset
        self.subagents = services.subagents
        self.roster = services.subagents.roster
        self.events = events
        self._changed = changed

    async def say(self, run_id: str, text: str, key: str = "main", **more: Any) -> None:
        await self.runs.submit(RunRequest(run_id=run_id, key=self.sessions.key(key), text=text, **more))

    async def until(self, look: Callable[[], Any]) -> Any:
        """What `look` gives, as soon as it is something; looked at whenever something happens."""
        async with asyncio.timeout(120):
            while not (found := look()):
                self._changed.clear()
                try:
                    async with asyncio.timeout(0.05):
                        await self._changed.wait()
                except TimeoutError:
                    continue
            return found

    async def outcome(self, run_id: str) -> Any:
        def settled() -> Any:
            return next(
                (
                    event.event.outcome
                    for event in self.events
                    if event.run_id == run_id and isinstance(event.event, RunSettled)
                ),
                None,
            )

        return await self.until(settled)

    async def messages(self, key: str = "main") -> list[User | Said | ToolResult]:
        _, loaded = await self.sessions.load(self.sessions.key(key))
        return [row.message for row in history.rows_of(loaded.entries)] if loaded else []

    async def results(self, tool: str, key: str = "main") -> list[ToolResult]:
        return [said for said in await self.messages(key) if isinstance(said, ToolResult) and said.tool_name == tool]


@asynccontextmanager
async def house(home: TemporaryHome, model: Any, owner: Owner | None = None, children: int = 8) -> AsyncIterator[House]:
    clock = SystemClock()
    environment = Environment(environ=home.environ, home_dir=home.root, cwd=home.workspace)
    events: list[RunEvent] = []
    changed = asyncio.Event()

    def tell(event: RunEvent) -> None:
        events.append(event)
        changed.set()

    async with open_app(
        environment, clock=clock, approver=owner or Owner(), open_provider=lambda endpoint: model
    ) as app:
        services = build_services(app, tell, lanes=Lanes({"main": 8, "subagent": children}))
        async with services.serving() as runs:
            await services.subagents.roster.load()
            await runs.resume()
            async with services.subagents.serving(), asyncio.TaskGroup() as group:
                wakes = group.create_task(
                    run_on_command_end(services.sessions, runs, app.label_service, app.machine_tools, app.live.tools)
                )
                yield House(app, services, events, changed)
                wakes.cancel()
