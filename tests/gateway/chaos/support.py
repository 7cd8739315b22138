"""The whole assistant with runs, and the questions every chaotic run must answer: did it end, is everything free?"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import structs

from openclaw.agent.repeats import RepeatDetector, RepeatLimits
from openclaw.agent.tool_runner import ToolCatalog, ToolRunner
from openclaw.core.messages import Message
from openclaw.core.provider import Model, ModelApi, ModelRequest, Provider, System
from openclaw.core.tool import Tool, ToolContext
from openclaw.gateway.app import App, open_app
from openclaw.models.providers import anthropic, google, ollama, openai_chat, openai_responses
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.runs.events import RunEvent
from openclaw.runs.inbox import Inbox, RunOutcome
from openclaw.runs.queue import Lanes
from openclaw.runs.request import RunRequest
from openclaw.runs.toolset import Toolset
from openclaw.runs.turn import OpenedSession, PreparedTurn, TurnRunner
from openclaw.runs.worker import RunService
from openclaw.sessions.files import load
from openclaw.sessions.transcript import build_context
from openclaw.testing import ScriptedApprover, TemporaryHome

JUDGES: dict[ModelApi, Callable[[ModelRequest], dict[str, Any]]] = {
    "anthropic-messages": anthropic.encode,
    "google-generative-ai": google.encode,
    "ollama": ollama.encode,
    "openai-completions": openai_chat.encode,
    "openai-responses": openai_responses.encode,
}


class Hall:
    """Runs with everything a test wants to see."""

    def __init__(self, app: App, home: TemporaryHome, lanes: Lanes) -> None:
        self.app = app
        self.home = home
        self.lanes = lanes
        self.events: list[RunEvent] = []
        self._changed = asyncio.Event()
        self.runs: RunService
        self.before = list(_children())
        """What other tests of this process have left running."""

    def tell(self, event: RunEvent) -> None:
        self.events.append(event)
        self._changed.set()

    async def until(self, wanted: Callable[[RunEvent], bool]) -> RunEvent:
        async with asyncio.timeout(120):
            while True:
                found = next((event for event in self.events if wanted(event)), None)
                if found is not None:
                    return found
                self._changed.clear()
                await self._changed.wait()

    async def say(self, run_id: str, text: str, key: str = "main", **more: Any) -> None:
        await self.runs.submit(RunRequest(run_id=run_id, key=self.app.key(key, None), text=text, **more))

    async def outcome(self, run_id: str, text: str = "hello", **more: Any) -> RunOutcome:
        """Asks, and gives the stated end; a run without one fails the test."""
        await self.say(run_id, text, **more)
        ended = await self.runs.wait(run_id, 30)
        assert ended is not None, "the run has no end"
        return ended

    def assert_free(self) -> None:
        """No lane held, no session busy, no task of a run left, no program of ours alive."""
        assert self.lanes.busy() == {} and self.runs.busy == 0
        left = [task.get_name() for task in asyncio.all_tasks() if not task.done()]
        ours = ("run:", "tool:", "deadline:", "watchdog:", "given up:", "approval:")
        assert [name for name in left if name.startswith(ours)] == []
        assert [each for each in _children() if each not in self.before] == []

    def messages(self) -> list[Message]:
        """The conversation on disk: it must be whole."""
        (path,) = self.home.transcripts()
        loaded = load(path)
        context = build_context(loaded.entries)
        assert (loaded.problems, context.problems, context.unanswered) == ((), (), ())
        return list(context.messages)

    def assert_valid_everywhere(self) -> None:
        """Every provider can be sent the conversation as it is."""
        for api, encode in JUDGES.items():
            model = Model(provider="judge", id="judge", api=api, base_url="http://127.0.0.1:9", max_tokens=1_000)
            request = ModelRequest(model=model, system=System("be brief"), messages=tuple(self.messages()))
            body = encode(request)
            assert body, api
            if api == "anthropic-messages":
                _assert_paired(body["messages"])


def _assert_paired(messages: list[dict[str, Any]]) -> None:
    """Anthropic's rule: calls are answered in the very next message, all of them, and nothing else is."""
    asked: list[str] = []
    for message in messages:
        blocks = message["content"] if isinstance(message["content"], list) else []
        answered = [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
        assert sorted(answered) == sorted(asked), (asked, answered)
        asked = [block["id"] for block in blocks if block.get("type") == "tool_use"]
    assert asked == []


def _children() -> Iterator[str]:
    """The programs this process has started and that still run."""
    for task in Path("/proc/self/task").glob("*/children"):
        try:
            pids = task.read_text().split()
        except OSError:  # a thread that ended while we looked
            continue
        for pid in pids:
            try:
                stat = Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue
            if stat.rpartition(")")[2].split()[0] not in "ZX":
                yield Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


class Anything:
    """A gate that lets every call through."""

    async def admit(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        return None


def _with_tools(app: App, tools: Sequence[Tool]) -> TurnRunner:
    """Turns of `app` in which the model has these tools and no others."""

    class Prepares:
        async def prepare(self, turn: RunRequest, session: OpenedSession, toolset: Toolset) -> PreparedTurn:
            context = ToolContext(call_id="", workspace=app.workspaces.of("main"))
            repeats = RepeatDetector(RepeatLimits())
            box = ToolRunner(ToolCatalog(tools), context, [Anything()], app.clock, repeats=repeats, cap=16_000)
            return structs.replace(await app.preparer.prepare(turn, session, toolset), tools=box)

    return TurnRunner(app.index, app.locks, app.clock, app.workspaces.of, Prepares())


@asynccontextmanager
async def hall(
    home: TemporaryHome,
    model: Provider | None,
    *,
    clock: Any = None,
    tools: Sequence[Tool] = (),
    local: bool = False,
    approve: bool = False,
    ledger: type[Inbox] = Inbox,
    models: tuple[str, ...] = ("scripted/scripted",),
    settings: dict[str, Any] | None = None,
    sections: dict[str, Any] | None = None,
) -> AsyncIterator[Hall]:
    """Runs around `model`; without one the models of `settings` are opened for real.

    A `local` model may be silent as long as it likes: its stream has no watchdog.
    """
    if settings is not None:
        home.configure(settings)
    else:
        home.use_model(*models, **(sections or {}))
    if not local and settings is None:
        text = home.config_path.read_text().replace("http://127.0.0.1:9/v1", "https://models.example.com/v1")
        home.config_path.write_text(text)
    clock = clock or SystemClock()
    environment = Environment(environ=home.environ, home_dir=home.root, cwd=home.workspace)
    opened = (lambda _: model) if model is not None else None
    async with open_app(
        environment, clock=clock, approver=ScriptedApprover("allow-once" if approve else "deny"), open_provider=opened
    ) as app:
        lanes = Lanes({"main": 4})
        place = Hall(app, home, lanes)
        turns = _with_tools(app, tools) if tools else app.turns
        running = RunService(
            turns,
            ledger(app.db, clock),
            lanes,
            clock,
            place.tell,
        )
        async with running.serving(app.toolset()) as place.runs:
            yield place
