"""The loop under load: tool calls one after another and side by side, a long session, a full list of sessions.

Run: python benchmarks/loop.py [turns of the long session, 1000]

The model answers from a script in this process, so the time is ours.
"""

import asyncio
import resource
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

from openclaw.core.events import Done, ModelEvent, TextDelta
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Assistant as Said
from openclaw.core.messages import Text, Usage
from openclaw.core.provider import ModelRequest
from openclaw.gateway.app import App
from openclaw.process.tasks import SystemClock
from openclaw.runs.reply import ReplyShaper
from openclaw.runs.request import RecordedEvent, RunRequest, SessionRenewed, SessionRepaired
from openclaw.runs.turn import TurnPrepared
from openclaw.testing import ScriptedModel, TemporaryHome, calls, says

CALLS = 10
ROUNDS = 20
TURNS = 1_000
SESSIONS = 10_000


class Brief(ScriptedModel):
    """Says one word, for ever."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("Noted.")
        yield Done(Said(content=(Text("Noted."),), usage=Usage(100, 2, 0, 0, 102)))


async def turn(app: App, key: SessionKey) -> float:
    """One turn, shaped as a client would get it; gives its seconds."""
    began = time.perf_counter()
    shaper = ReplyShaper()
    wanted = RunRequest(run_id=uuid.uuid4().hex, key=key, text="go on")
    async with aclosing(app.turns.run(wanted, app.toolset())) as events:
        async for event in events:
            if isinstance(event, TurnPrepared):
                shaper = ReplyShaper(event.options)
            elif not isinstance(event, SessionRepaired | SessionRenewed | RecordedEvent):
                shaper.take(event)
    return time.perf_counter() - began


async def tool_calls(root: Path) -> None:
    home = TemporaryHome(root)
    home.use_model()
    for number in range(CALLS):
        (home.workspace / f"{number}.txt").write_text("a line\n" * 20)
    model = ScriptedModel()
    async with home.assistant(model, clock=SystemClock()) as app:
        for name, replies in (
            ("one after another", [calls("read", path=f"{number}.txt") for number in range(CALLS)]),
            ("side by side", [[calls("read", path=f"{number}.txt") for number in range(CALLS)]]),
        ):
            spent = []
            for number in range(ROUNDS):
                model.script(*replies, says("Done."))
                spent.append(await turn(app, app.key(f"agent:main:{name.replace(' ', '-')}-{number}", None)))
            print(f"{CALLS} calls {name:<18} {statistics.median(spent) * 1000:>8.1f} ms a turn (median of {ROUNDS})")


async def long_session(root: Path, turns: int) -> None:
    home = TemporaryHome(root)
    home.use_model()
    async with home.assistant(Brief(), clock=SystemClock()) as app:
        key = app.key(None, None)
        spent, memory = [], []
        for _ in range(turns):
            spent.append(await turn(app, key))
            memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    tenth = max(1, turns // 10)
    print(f"a session of {turns} turns: {'turns':>12} {'ms a turn':>10} {'peak MiB':>9}")
    for start in (0, turns // 2, turns - tenth):
        part = spent[start : start + tenth]
        last = memory[min(start + tenth, turns) - 1]
        print(f"{'':>27} {f'{start + 1}-{start + tenth}':>12} {statistics.median(part) * 1000:>10.1f} {last:>9.0f}")


async def many_sessions(root: Path) -> None:
    home = TemporaryHome(root)
    home.use_model()
    async with home.assistant(Brief(), clock=SystemClock()) as app:
        began = time.perf_counter()
        for number in range(SESSIONS):
            row = await app.index.resolve(app.key(f"agent:main:s{number}", None))
            await app.index.started(row, f"run{number}", "hello")
        made = time.perf_counter() - began
        began = time.perf_counter()
        listed = await app.index.list()
        whole = time.perf_counter() - began
        began = time.perf_counter()
        await app.index.get(app.key("agent:main:s5000", None))
        one = time.perf_counter() - began
        answered = await turn(app, app.key("agent:main:s9999", None))
    print(f"{len(listed):,} sessions: made in {made:.1f} s, listed in {whole * 1000:.0f} ms, ", end="")
    print(f"one found in {one * 1000:.1f} ms, a turn in the last of them {answered * 1000:.1f} ms")


async def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    for part in (tool_calls, lambda root: long_session(root, turns), many_sessions):
        with tempfile.TemporaryDirectory() as root:
            await part(Path(root))


if __name__ == "__main__":
    asyncio.run(main())
