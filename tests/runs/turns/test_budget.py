"""What a turn may cost, counted and not timed: Python calls, database statements, trips to a thread."""

import asyncio
import gc
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any, TypeVar

import pytest

from openclaw.testing import ScriptedModel, TemporaryHome, ask, says

pytestmark = pytest.mark.anyio

T = TypeVar("T")
CALLS = 2_800
"""Python functions entered in a turn of a short conversation."""
CALLS_FOR_A_MESSAGE = 18
"""How many more with each message that was said before."""
STATEMENTS = 32
TRIPS = 1
"""To make what was said survive a power cut."""


class Counting(ThreadPoolExecutor):
    trips = 0

    def submit(self, work: Callable[..., T], /, *args: Any, **more: Any) -> Future[T]:
        self.trips += 1
        return super().submit(work, *args, **more)


class Cost:
    """What happens while it is looked at."""

    def __init__(self) -> None:
        self.calls = 0
        self.statements = 0

    def _enter(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            self.calls += 1
        elif event == "c_call" and getattr(arg, "__qualname__", "") == "Connection.execute":
            self.statements += 1

    def __enter__(self) -> "Cost":
        sys.setprofile(self._enter)
        return self

    def __exit__(self, *ended: object) -> None:
        sys.setprofile(None)


@pytest.mark.sqlite
async def test_a_turn_stays_within_its_budget(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    openclaw_home.use_model()
    scripted_model.script(*(says("Nothing that cannot wait until tomorrow.") for _ in range(100)))
    trips = Counting(1)
    asyncio.get_running_loop().set_default_executor(trips)
    async with openclaw_home.assistant(scripted_model) as app:

        async def turns(count: int) -> Cost:
            with Cost() as cost:
                for _ in range(count):
                    await ask(app, "What is there to do today?")
            return cost

        await turns(10)  # by then what is made once has been made
        trips.trips = 0
        short = await turns(5)
        assert trips.trips <= 5 * TRIPS
        assert short.statements <= 5 * STATEMENTS, short.statements / 5
        assert short.calls <= 5 * CALLS, short.calls / 5
        await turns(80)
        long = await turns(5)
        growth = (long.calls - short.calls) / 5 / (2 * 85)
        assert growth <= CALLS_FOR_A_MESSAGE, growth
        assert long.statements <= 5 * STATEMENTS, long.statements / 5


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
            kept = {type(each).__name__ for each in gc.garbage}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert not kept & {"ModelRequest", "ModelCall", "Task", "frame"}, kept
