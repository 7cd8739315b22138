"""What a plugin in a process of its own costs: starting it, a call through its pipe, a hook point, a whole turn.

Run: python benchmarks/plugins.py   (hook points inside the process: benchmarks/hooks.py)
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil  # type: ignore[import-untyped]

from openclaw.core.hooks import BeforeToolCall, HookContext
from openclaw.plugins.hooks import points
from openclaw.process.tasks import SystemClock
from openclaw.testing import ScriptedModel, TemporaryHome, ask, calls, says
from openclaw.testing.plugins import running_plugin

ROUNDS = 500
TURNS = 20
COUNTS = (0, 1, 20)
CALL = BeforeToolCall(tool_name="read", params={"path": "note.txt"})
CODE = """
from openclaw.plugin import Api; from openclaw.plugin import FunctionTool

async def looks(event, context):
    return None

async def run(args, context):
    return "x" * args.get("size", 10)

def register(api: Api) -> None:
    api.on("before_tool_call", looks)
    api.tool(FunctionTool("@NAME@", "Says something.", {}, run))
"""


def write(root: Path, name: str) -> Path:
    directory = root / name
    directory.mkdir(mode=0o755, parents=True)
    said = {
        "id": name,
        "configSchema": {"type": "object"},
        "hooks": ["before_tool_call"],
        "contracts": {"tools": [name]},
    }
    (directory / "openclaw.plugin.json").write_text(json.dumps(said))
    (directory / "plugin.py").write_text(CODE.replace("@NAME@", name))
    return directory


async def timed(work: Callable[[], Awaitable[Any]], rounds: int = ROUNDS) -> float:
    """Microseconds of one round, the median of many."""
    spent = []
    for _ in range(rounds):
        began = time.perf_counter()
        await work()
        spent.append(time.perf_counter() - began)
    return median(spent) * 1e6


async def one_plugin(root: Path) -> None:
    directory = write(root, "one")
    spent = []
    for _ in range(5):
        began = time.perf_counter()
        async with running_plugin(directory):
            spent.append(time.perf_counter() - began)
    print(f"start to registered: {median(spent) * 1e3:.0f} ms")
    async with running_plugin(directory) as plugin:
        process: Any = psutil.Process(plugin.status.pid)
        print(f"its memory: {process.memory_info().rss / 2**20:.1f} MiB")
        print(f"a hook handler: {await timed(lambda: plugin.hook(CALL)):.0f} µs")
        for size in (10, 10_000, 1_000_000):
            took = await timed(partial(plugin.tool, "one", size=size), 100)
            print(f"a tool call, {size:,} characters back: {took:.0f} µs")


async def many(root: Path) -> None:
    print(f"\nbefore_tool_call and a turn with one tool call, by plugins with a process each (median of {TURNS} turns)")
    print(f"{'plugins':<10}{'point, µs':>12}{'turn, ms':>12}{'start of all, ms':>20}")
    for count in COUNTS:
        place = root / f"set{count}"
        for number in range(count):
            write(place, f"p{number}")
        with tempfile.TemporaryDirectory() as top:
            home = TemporaryHome(Path(top))
            home.use_model(plugins={"load": {"paths": [str(place)] if count else []}})
            (home.workspace / "note.txt").write_text("a note\n")
            model = ScriptedModel()
            async with home.assistant(model, clock=SystemClock()) as app:
                began = time.perf_counter()
                await app.plugins.ready()
                started = time.perf_counter() - began
                point = await timed(partial(app.run_hooks.hooks.ask, points.TOOL, CALL, HookContext()), 200)
                spent = []
                for number in range(TURNS):
                    model.script(calls("read", path="note.txt"), says("ok"))
                    began = time.perf_counter()
                    await ask(app, "hi", session=f"agent:main:s{number}")
                    spent.append(time.perf_counter() - began)
        print(f"{count:<10}{point:>12.0f}{median(spent) * 1e3:>12.1f}{started * 1e3:>20.0f}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as top:
        await one_plugin(Path(top))
        await many(Path(top))


if __name__ == "__main__":
    asyncio.run(main())
