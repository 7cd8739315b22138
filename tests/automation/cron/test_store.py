"""Slots: taken once, whoever dies when; and the lines a conversation is told."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from openclaw.automation.cron.jobs import JobResult, build
from openclaw.automation.cron.schedule import plan_due_slot
from openclaw.automation.cron.store import CronJobs, CronStore, JobFire, run_id_of, with_next_slot
from openclaw.core.errors import Conflict, NotFound
from openclaw.core.keys import SessionKey
from openclaw.sessions.system_events import MOST, SystemEvents
from openclaw.storage.database import Database
from openclaw.storage.owners import Owner
from openclaw.testing import FakeClock
from tests.databases import open_database

pytestmark = pytest.mark.anyio

NOW = 1_800_000_000_000


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    found = await open_database(tmp_path / "state.sqlite")
    yield found
    await found.close()


def dead(life: int) -> Owner:
    """A process of the past: no system gives out such an id."""
    return Owner(2**30 + life, "long ago")


async def take_due(store: CronStore, now: int) -> list[JobFire]:
    taken = []
    for job in await store.due(now):
        assert job.state.next_run_at_ms is not None
        plan = plan_due_slot(job.schedule, job.state.next_run_at_ms, now, job_id=job.id, misfire=job.misfire)
        fire = await store.take(job, plan, now=now)
        taken += [fire] if fire else []
    return taken


def minutely(job_id: str = "j1", misfire: str = "all") -> object:
    raw = {"message": "x", "everyMs": 60_000, "misfire": misfire}
    return with_next_slot(build(raw, job_id=job_id, now=NOW, local="UTC"), NOW)


def good(now: int) -> JobResult:
    return JobResult(status="ok", started_at=now, ended_at=now, summary="done")


async def test_a_thousand_deaths_between_firing_and_recording_miss_and_double_nothing(db: Database) -> None:
    """Each death is a new owner that knows only the store; a run is what the ledger of runs would run."""
    store = CronStore(db, dead(0))
    await store.add(minutely())  # type: ignore[arg-type]
    dice = random.Random(7)
    ran: list[str] = []
    deaths = life = 0
    now = NOW
    recorded: set[int] = set()
    while deaths < 1000:
        now += 20_000
        for fire in [*await store.take_over(), *await take_due(store, now)]:
            if dice.random() < 0.4:
                break  # died after taking the slot, before the run was asked for
            if fire.run_id not in ran:  # the ledger answers a repeated run id without running it
                ran.append(fire.run_id)
            if dice.random() < 0.4:
                break  # died after the run, before it was recorded
            assert await store.finish(fire, good(now), delivers=False) is not None
            recorded.add(fire.slot)
        else:
            continue
        deaths += 1
        life += 1
        store = CronStore(db, dead(life))
    now += 10 * 60_000
    store = CronStore(db)
    for _ in range(40):
        for fire in [*await store.take_over(), *await take_due(store, now)]:
            ran += [] if fire.run_id in ran else [fire.run_id]
            await store.finish(fire, good(now), delivers=False)
            recorded.add(fire.slot)
    slots = sorted(recorded)
    assert slots == list(range(NOW + 60_000, slots[-1] + 1, 60_000))
    assert now - slots[-1] < 60_000
    assert sorted(ran) == sorted(run_id_of("j1", slot) for slot in slots)


async def test_two_gateways_on_one_store_share_the_slots(db: Database, tmp_path: Path) -> None:
    other_db = await open_database(tmp_path / "state.sqlite")
    try:
        one, other = CronStore(db, dead(1)), CronStore(other_db)
        for n in range(20):
            await one.add(minutely(f"j{n}"))  # type: ignore[arg-type]
        now = NOW + 61_000
        seen = await one.due(now)
        theirs = await take_due(other, now)
        mine = []
        for job in seen:
            plan = plan_due_slot(job.schedule, NOW + 60_000, now, job_id=job.id, misfire="all")
            mine.append(await one.take(job, plan, now=now))
        assert len(theirs) == 20 and mine == [None] * 20
        assert await one.take_over() == []  # the other is alive
        await other.release([fire.run_id for fire in theirs[:5]])
        assert len(await one.take_over()) == 5
        assert len(await other.take_over()) == 5  # and the one is not
    finally:
        await other_db.close()


async def test_a_clock_that_is_set_back_repeats_nothing(db: Database) -> None:
    store = CronStore(db)
    await store.add(minutely())  # type: ignore[arg-type]
    (fire,) = await take_due(store, NOW + 60_000)
    await store.finish(fire, good(NOW + 60_000), delivers=False)
    assert await take_due(store, NOW + 60_000 - 86_400_000) == []
    (fire,) = await take_due(store, NOW + 120_000)
    assert fire.slot == NOW + 120_000


async def test_a_job_does_not_overlap_itself(db: Database) -> None:
    store = CronStore(db)
    await store.add(minutely())  # type: ignore[arg-type]
    (fire,) = await take_due(store, NOW + 60_000)
    assert await take_due(store, NOW + 180_000) == [] and await store.next_wake() is None
    await store.finish(fire, good(NOW + 180_000), delivers=False)
    assert [each.slot for each in await take_due(store, NOW + 180_000)] == [NOW + 120_000]


async def test_a_result_is_recorded_once(db: Database) -> None:
    store = CronStore(db)
    await store.add(minutely())  # type: ignore[arg-type]
    (fire,) = await take_due(store, NOW + 60_000)
    assert await store.finish(fire, good(NOW), delivers=False) is not None
    assert await store.finish(fire, good(NOW), delivers=False) is None
    runs, total = await store.runs("j1")
    assert total == 1 and runs[0].result == good(NOW)


async def test_a_job_is_found_by_id_beginning_or_name_and_changed_under_its_version(db: Database) -> None:
    def ignore(*told: object) -> None:
        pass

    book = CronJobs(CronStore(db), FakeClock(NOW / 1000), local_zone="UTC", check_agent=ignore, publish=ignore)
    made = await book.add({"name": "tea", "message": "x", "everyMs": 60_000})
    assert await book.find("tea") == await book.find(made.id[:6]) == made
    off = await book.update("tea", {"enabled": False})
    assert off.state.next_run_at_ms is None
    with pytest.raises(Conflict):
        await book.update("tea", {"enabled": True}, expected="0")
    assert await book.remove("tea")
    with pytest.raises(NotFound):
        await book.find("tea")


async def test_lines_are_told_once_and_told_again_to_the_same_run_only(db: Database) -> None:
    events = SystemEvents(db, FakeClock(NOW / 1000))
    key = SessionKey("main", "main")
    assert await events.add(key, "the bell\nrang", "e1")
    assert not await events.add(key, "the bell rang", "e2")
    first = await events.take(key, "run-1")
    assert first == ("System: [2027-01-15 08:00:00 UTC] the bell rang", ())
    assert await events.take(key, "run-1") == first
    assert await events.take(key, "run-2") == ("", ())
    for n in range(MOST + 5):
        await events.add(key, f"line {n}", f"n{n:03}")
    assert (await events.waiting(key))[0] == "line 5" and len(await events.waiting(key)) == MOST
