"""What hook points cost: one point with 0, 1 and 20 handlers in this process, and a whole turn with them everywhere.

Run: python benchmarks/hooks.py
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any

from openclaw.core.hook_points import POINTS
from openclaw.core.hooks import (
    AgentEnd,
    BeforePromptBuild,
    BeforeToolCall,
    HookContext,
    MessageSending,
    ToolResultPersist,
)
from openclaw.core.messages import Text, ToolResult
from openclaw.gateway.app import App
from openclaw.plugins.hooks import points
from openclaw.plugins.hooks.dispatch import HookDispatcher
from openclaw.plugins.hooks.points import HookRegistration
from openclaw.plugins.settings import HookSettings
from openclaw.process.tasks import SystemClock
from openclaw.security.audit import AuditChange
from openclaw.security.audit_log import AuditLog
from openclaw.testing import ScriptedModel, TemporaryHome, ask, calls, says

COUNTS = (0, 1, 20)
ROUNDS = 2_000
TURNS = 40
FREE = HookSettings(allow_conversation_access=True)
HERE = HookContext(session_key="agent:main:main")


async def looks(event: Any, context: HookContext) -> None:
    """An `async` handler that has nothing to say."""


def looks_at_once(event: Any, context: HookContext) -> None:
    """The same, as a plain function."""


def listening(hooks: HookDispatcher, count: int) -> None:
    for number in range(count):
        for name, point in POINTS.items():
            handler = looks_at_once if point.kind == "sync" else looks
            hooks.add(HookRegistration(plugin=f"p{number}", hook=name, handler=handler, settings=FREE))


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    """Microseconds of one round, the median of many."""
    spent = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await work()
        spent.append(time.perf_counter() - began)
    return median(spent) * 1e6


def rounds(hooks: HookDispatcher) -> dict[str, Callable[[], Awaitable[Any]]]:
    result = ToolResult(tool_call_id="c", tool_name="read", content=(Text("x" * 1_000),))
    persist = ToolResultPersist(tool_name="read", tool_call_id="c", message=result)
    prompt, call = BeforePromptBuild(prompt="hi"), BeforeToolCall(tool_name="read", params={"path": "x"})
    sending = MessageSending(to="webchat", content="hi")
    end = AgentEnd(run_id="r", messages=(), success=True)

    async def at_once() -> None:
        hooks.ask_now(points.RESULT, persist, HERE)

    return {
        "before_prompt_build": lambda: hooks.ask(points.PROMPT, prompt, HERE),
        "before_tool_call": lambda: hooks.ask(points.TOOL, call, HERE),
        "message_sending": lambda: hooks.ask(points.SENDING, sending, HERE),
        "tool_result_persist": at_once,
        "agent_end (waited for)": lambda: hooks.told("agent_end", end, HERE),
    }


async def one_point() -> None:
    print(f"one point, microseconds (median of {ROUNDS:,} rounds)")
    print(f"{'handlers':<24}" + "".join(f"{count:>10}" for count in COUNTS))
    table: dict[str, list[float]] = {}
    for count in COUNTS:
        hooks = HookDispatcher(SystemClock())
        listening(hooks, count)
        for name, work in rounds(hooks).items():
            table.setdefault(name, []).append(await timed(work))
        await hooks.close()
    for name, row in table.items():
        print(f"{name:<24}" + "".join(f"{value:>10.1f}" for value in row))


class Bench:
    """An assistant with a number of handlers at every point, or without anything of hooks (None)."""

    def __init__(self, root: Path, count: int | None) -> None:
        self.home = TemporaryHome(root)
        self.home.use_model()
        (self.home.workspace / "note.txt").write_text("a note\n")
        self.model = ScriptedModel()
        self.count = count
        self.spent: list[float] = []

    async def turn(self, app: App, number: int) -> None:
        self.model.script(calls("read", path="note.txt"), says("ok"))
        began = time.perf_counter()
        await ask(app, "hi", session=f"agent:main:s{number}")
        self.spent.append(time.perf_counter() - began)


async def whole_turn() -> None:
    """A turn with one tool call. The benches take turns, so that a busy machine is busy for all of them."""
    print(f"\na turn with one tool call, milliseconds (median and best of {TURNS} turns)")
    async with AsyncExitStack() as stack:
        benches = []
        for count in (None, *COUNTS):
            bench = Bench(Path(stack.enter_context(tempfile.TemporaryDirectory())), count)
            app = await stack.enter_async_context(bench.home.assistant(bench.model, clock=SystemClock()))
            if count is not None:
                listening(app.run_hooks.hooks, count)
            benches.append((bench, app))
        for number in range(TURNS):
            for bench, app in benches:
                await bench.turn(app, number)
        for bench, _ in benches:
            label = "no plugin" if bench.count is None else f"{bench.count} handlers a point"
            print(f"{label:<24}{median(bench.spent) * 1e3:>10.2f}{min(bench.spent) * 1e3:>10.2f}")


def audit() -> None:
    """What it costs to put one change on record, on the disk before it takes effect."""
    with tempfile.TemporaryDirectory() as root:
        log = AuditLog(Path(root), SystemClock())
        spent = []
        for _ in range(200):
            began = time.perf_counter()
            log.append([AuditChange(plugin="p", hook="before_prompt_build", field="prependContext", after="x" * 1_000)])
            spent.append(time.perf_counter() - began)
        began = time.perf_counter()
        checked = log.verify()
        took = time.perf_counter() - began
        print(f"\none change on record: {median(spent) * 1e3:.2f} ms")
        print(f"checking {checked.entries} entries: {took * 1e3:.1f} ms")


async def main() -> None:
    await one_point()
    await whole_turn()
    audit()


if __name__ == "__main__":
    asyncio.run(main())
