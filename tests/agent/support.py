"""A toolbox of fakes and a route of one model, to run the loop by hand."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from openclaw.agent.loop import EmbeddedHarness
from openclaw.agent.repeats import RepeatDetector, RepeatLimits
from openclaw.agent.tool_runner import ToolCatalog, ToolRunner
from openclaw.core.errors import ProviderError
from openclaw.core.events import Event, RunEnded, ToolEnded
from openclaw.core.harness import Attempt, RunJob, Steering
from openclaw.core.messages import ToolResult, User
from openclaw.core.provider import Model, ModelRequest, Provider, System
from openclaw.core.tool import Effects, Output, Tool, ToolContext, ToolSpec
from openclaw.testing import FakeClock, ScriptedModel

MODEL = Model(provider="scripted", id="scripted", api="openai-completions", base_url="http://127.0.0.1:9/v1")
Work = Callable[[Mapping[str, Any], ToolContext], Awaitable[Output]]


async def fine(args: Mapping[str, Any], context: ToolContext) -> Output:
    return Output.of(f"did {args.get('what', 'it')}")


class FakeTool:
    """A tool whose work is a function; `path` is what a call needs alone."""

    def __init__(self, name: str, work: Work = fine) -> None:
        self.spec = ToolSpec(
            name=name,
            label=name,
            description=f"{name} something",
            parameters={
                "type": "object",
                "properties": {"what": {"type": "string"}, "path": {"type": "string"}, "count": {"type": "integer"}},
            },
        )
        self.calls: list[Mapping[str, Any]] = []
        self._work = work

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.NONE

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset({args["path"]} if "path" in args else ())

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        self.calls.append(args)
        return await self._work(args, context)


class OpenGate:
    async def admit(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        return None


class OneModel:
    """A route that gives up at the first failure."""

    def __init__(self, provider: Provider, model: Model = MODEL, *, first: float = 0.0, idle: float = 0.0) -> None:
        self.attempt = Attempt(model=model, provider=provider, first_event_timeout=first, idle_timeout=idle)

    def failed(self, error: ProviderError) -> float | None:
        return None

    def answered(self) -> None:
        return None

    def verdict(self, error: ProviderError) -> str:
        return error.message


def toolbox(*tools: Tool, limits: RepeatLimits | None = None, cap: int = 16_000, gate: Any = None) -> ToolRunner:
    context = ToolContext(call_id="", workspace=Path("/nowhere"))
    repeats = RepeatDetector(limits or RepeatLimits())
    return ToolRunner(ToolCatalog(tools), context, [gate or OpenGate()], FakeClock(), repeats=repeats, cap=cap)


class Ran:
    """All that one run said."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events

    @property
    def end(self) -> RunEnded:
        last = self.events[-1]
        assert isinstance(last, RunEnded)
        return last

    @property
    def results(self) -> list[ToolResult]:
        return [event.result for event in self.events if isinstance(event, ToolEnded)]


async def play(
    model: ScriptedModel,
    box: ToolRunner,
    *,
    steering: Steering | None = None,
    route: OneModel | None = None,
    clock: FakeClock | None = None,
    seen: Callable[[Event], None] = lambda event: None,
) -> Ran:
    """One run of the loop on `go`; `seen` hears every event when it happens."""
    job = RunJob(system=System("be good"), messages=(User(content="go"),))
    running = EmbeddedHarness(route or OneModel(model), clock or FakeClock()).run(job, box, steering or Steering())
    events: list[Event] = []
    async with asyncio.timeout(120), aclosing(running) as stream:
        async for event in stream:
            events.append(event)
            seen(event)
    return Ran(events)


def answers(request: ModelRequest) -> list[ToolResult]:
    """The tool results a model was shown."""
    return [message for message in request.messages if isinstance(message, ToolResult)]
