"""What a turn may cost, counted and not timed: calls, statements, commits, writes, trips to a thread, generators."""

import asyncio
import gc
import inspect
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import pytest

import openclaw
from openclaw.core.events import ModelEvent
from openclaw.core.provider import ModelRequest
from openclaw.testing import ScriptedModel, TemporaryHome, ask, calls, says

pytestmark = pytest.mark.anyio

T = TypeVar("T")
HOUSE = str(Path(openclaw.__file__).parent)


class Budget(dict[str, float]):
    """The most of each kind."""


TURN = Budget(calls=950, statements=23, commits=4, writes=4, syncs=0, trips=0, blocks=100)
"""Of a turn of a conversation, however long: two commits, and two more where the machine is slow to get there.

Two writes are of the transcript, and two of its lock's file, which names its holder and then nobody."""
MORE_FOR_A_MESSAGE = 0.1
"""Calls for each message that was said before: nothing looks at them."""
TOOL_CALL = Budget(calls=900, statements=11, commits=3, writes=2, syncs=0, trips=1, blocks=20)
"""What a call of a tool adds to it, the model's next answer included; `read` is in a thread."""
SESSIONS, MOST_GROWTH = 30, 1 << 20
"""Of so many conversations, when their text has grown by 2.6 MiB, which unbounded would be there several times."""
LAYERS = 5
"""Async generators that a word of the model passes."""


class Counting(ThreadPoolExecutor):
    trips = 0

    def submit(self, work: Callable[..., T], /, *args: Any, **more: Any) -> Future[T]:
        self.trips += 1
        return super().submit(work, *args, **more)


class Cost:
    """What happens while it is looked at; `of` gives it for each of so many turns."""

    def __init__(self, trips: Counting) -> None:
        self._trips = trips
        self._counts = dict.fromkeys(("calls", "statements", "commits", "writes", "syncs", "errands"), 0)

    def _enter(self, frame: FrameType, event: str, arg: Any) -> None:
        counts = self._counts
        if event == "call":
            counts["calls"] += 1
            counts["commits"] += frame.f_code.co_name == "_on_commit"
            counts["errands"] += frame.f_code.co_qualname == "WorkThreads.start"
        elif event == "c_call":
            name = getattr(arg, "__qualname__", "")
            counts["statements"] += name == "Connection.execute"
            if arg.__module__ == "posix":
                counts["writes"] += name == "write"
                counts["syncs"] += name in ("fsync", "fdatasync")

    def __enter__(self) -> "Cost":
        self._began = self._trips.trips
        gc.collect()
        self._blocks = sys.getallocatedblocks()
        sys.setprofile(self._enter)
        return self

    def __exit__(self, *ended: object) -> None:
        sys.setprofile(None)
        gc.collect()
        trips = self._trips.trips - self._began + self._counts.pop("errands")
        self._counts |= {"trips": trips, "blocks": sys.getallocatedblocks() - self._blocks}

    def of(self, turns: int) -> Budget:
        return Budget({name: count / turns for name, count in self._counts.items()})


def check(spent: Budget, budget: Budget) -> None:
    over = {name: spent[name] for name, most in budget.items() if spent[name] > most}
    assert not over, f"{over} of {budget}"


@pytest.mark.sqlite
async def test_a_turn_stays_within_its_budget(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    openclaw_home.use_model()
    (openclaw_home.workspace / "note.txt").write_text("a line\n")
    trips = Counting(1)
    asyncio.get_running_loop().set_default_executor(trips)
    async with openclaw_home.assistant(scripted_model) as app:

        async def turns(count: int, *reads: str) -> Budget:
            for _ in range(count):
                scripted_model.script(*(calls("read", path=path) for path in reads), says("Nothing that cannot wait."))
            with Cost(trips) as cost:
                for _ in range(count):
                    await ask(app, "What is there to do today?")
            return cost.of(count)

        await turns(10, "note.txt")  # by then what is made once has been made
        short = await turns(10)
        check(short, TURN)
        long = await turns(10, *["note.txt"] * 4)
        check(Budget({name: (long[name] - short[name]) / 4 for name in long}), TOOL_CALL)
        await turns(80)
        late = await turns(10)
        check(late, TURN)
        assert (late["calls"] - short["calls"]) / (2 * 80) <= MORE_FOR_A_MESSAGE


class Deep(ScriptedModel):
    """Counts the generators between it and whoever reads the turn."""

    layers = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async for event in super().stream(request):
            frame, self.layers = inspect.currentframe(), 0
            while (frame := frame.f_back if frame else None) is not None:
                self.layers += (
                    bool(frame.f_code.co_flags & inspect.CO_ASYNC_GENERATOR) and HOUSE in frame.f_code.co_filename
                )
            yield event


async def test_a_word_passes_few_generators(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = Deep()
    model.script(says("Nothing."))
    async with openclaw_home.assistant(model) as app:
        await ask(app, "What is there to do?")
    assert 0 < model.layers <= LAYERS


@pytest.mark.sqlite  # the driver of PostgreSQL leaves its own
async def test_a_turn_leaves_nothing_to_the_collector(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    """A cycle would keep the request, and with it every message that it quotes, until the next full collection."""
    openclaw_home.use_model()
    scripted_model.script(*(says("Nothing.") for _ in range(10)))
    async with openclaw_home.assistant(scripted_model) as app:
        for _ in range(5):
            await ask(app, "What is there to do?")
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                await ask(app, "What is there to do?")
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            # The thread of an earlier test may have kept the runner of that test until now.
            ours = [
                each for each in gc.garbage if not isinstance(each, asyncio.Task | FrameType) or HOUSE in repr(each)
            ]
            kept = {type(each).__name__ for each in ours}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert not kept & {"ModelRequest", "ModelCall", "Task", "frame"}, kept


@pytest.mark.sqlite
async def test_what_stays_in_memory_does_not_grow_with_what_was_said(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    openclaw_home.use_model()
    async with openclaw_home.assistant(scripted_model) as app:

        async def held(rounds: int) -> int:
            """The bytes in memory after as many turns in each of the sessions."""
            for number in range(rounds * SESSIONS):
                scripted_model.script(says("Nothing."))
                await ask(app, f"{number} " + "a long message " * 3_000, session=f"s{number % SESSIONS}")
            scripted_model.requests.clear()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before, after = await held(3), await held(2)
        finally:
            tracemalloc.stop()
    assert after - before < MOST_GROWTH
