"""Lanes: caps, order, and places that are never lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from openclaw.runs.queue import Lane, Lanes
from openclaw.runs.request import Priority

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def held(lane: Lane, priority: Priority = "normal") -> AsyncIterator[None]:
    slot = await lane.place(priority)
    try:
        yield
    finally:
        slot.release()


async def test_no_more_than_the_lane_has_places() -> None:
    lane = Lane("main", 3)
    running = peak = 0

    async def work() -> None:
        nonlocal running, peak
        async with held(lane):
            running += 1
            peak = max(peak, running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(work() for _ in range(50)))
    assert peak == 3 and lane.active == 0 and lane.waiting == 0


async def test_the_foreground_goes_first_and_within_it_the_first() -> None:
    lane = Lane("main", 1)
    order: list[str] = []

    async def work(name: str, priority: Priority) -> None:
        async with held(lane, priority):
            order.append(name)

    async with held(lane):
        arrivals: list[tuple[str, Priority]] = [
            ("b1", "background"),
            ("n1", "normal"),
            ("f1", "foreground"),
            ("n2", "normal"),
            ("f2", "foreground"),
        ]
        tasks = [asyncio.create_task(work(name, priority)) for name, priority in arrivals]
        while lane.waiting < 5:
            await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == ["f1", "f2", "n1", "n2", "b1"]


async def test_someone_who_leaves_the_queue_takes_no_place_with_them() -> None:
    lane = Lane("main", 1)
    async with held(lane):
        waiting = [asyncio.create_task(_hold(lane)) for _ in range(3)]
        while lane.waiting < 3:
            await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
    # The second is woken and cancelled in the same moment.
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert waiting[2].result() == "held"
    assert lane.active == 0 and lane.waiting == 0


async def _hold(lane: Lane) -> str:
    async with held(lane):
        return "held"


async def test_an_unknown_lane_has_one_place_and_cron_is_nested() -> None:
    lanes = Lanes({"main": 4})
    assert lanes["other"].places == 1
    assert lanes["cron"] is lanes["cron-nested"]
    async with held(lanes["main"]):
        assert lanes.busy() == {"main": (1, 0)}
