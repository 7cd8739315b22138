"""Mixed schedules in four time zones, slot by slot while clocks are changed, against an oracle that knows no cron."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from openclaw.automation.cron.jobs import JobResult, build
from openclaw.automation.cron.schedule import plan_due_slot
from openclaw.automation.cron.store import CronStore, with_next_slot
from tests.databases import open_database

pytestmark = pytest.mark.anyio

SPRING = (datetime(2027, 3, 10, tzinfo=UTC), datetime(2027, 4, 7, tzinfo=UTC))
AUTUMN = (datetime(2027, 9, 28, tzinfo=UTC), datetime(2027, 11, 10, tzinfo=UTC))
"""In each of them all three zones that change their clocks do so. `test_schedule` looks at whole years."""
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
"""The last one shifts its clock by half an hour."""
QUARTER = timedelta(minutes=15)

CRONS: dict[str, Callable[[datetime], bool]] = {
    "15 6 * * *": lambda t: (t.hour, t.minute) == (6, 15),
    "45 9,17 * * 1-5": lambda t: t.minute == 45 and t.hour in (9, 17) and t.weekday() < 5,
    "0 12 1 * *": lambda t: (t.day, t.hour, t.minute) == (1, 12, 0),
    "30 22 13 * 5": lambda t: (t.hour, t.minute) == (22, 30) and (t.day == 13 or t.weekday() == 4),
    "0 4 28-31 * *": lambda t: t.day >= 28 and (t.hour, t.minute) == (4, 0),
}


def millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def jobs(start: datetime, end: datetime) -> tuple[list[dict[str, Any]], dict[str, list[int]]]:
    """The jobs, and the moments each has to fire at."""
    made: list[dict[str, Any]] = []
    wanted: dict[str, list[int]] = {}
    moments = [start + QUARTER * step for step in range(1, (end - start) // QUARTER)]
    for zone in ZONES:
        local = [(moment, moment.astimezone(ZoneInfo(zone))) for moment in moments]
        for expr, matches in CRONS.items():
            name = f"{zone} {expr}"
            made.append({"id": name, "schedule": {"kind": "cron", "expr": expr, "tz": zone, "staggerMs": 0}})
            wanted[name] = [millis(moment) for moment, there in local if matches(there)]
    for hours in (7, 24):
        name = f"every {hours} hours"
        made.append({"id": name, "schedule": {"kind": "every", "everyMs": hours * 3_600_000}})
        step = timedelta(hours=hours)
        count = (end - start - timedelta(milliseconds=1)) // step
        wanted[name] = [millis(start + step * number) for number in range(1, count + 1)]
    made.append(
        {
            "id": "once",
            "schedule": {"kind": "at", "at": (start + timedelta(days=9, hours=10)).isoformat()},
            "deleteAfterRun": False,
        }
    )
    wanted["once"] = [millis(start + timedelta(days=9, hours=10))]
    return made, wanted


@pytest.mark.parametrize(("start", "end"), [SPRING, AUTUMN], ids=["spring", "autumn"])
async def test_nothing_is_missed_and_nothing_doubled(tmp_path: Path, start: datetime, end: datetime) -> None:
    made, wanted = jobs(start, end)
    db = await open_database(tmp_path / "state.sqlite")
    try:
        store = CronStore(db)
        for raw in made:
            name = raw.pop("id")
            job = build({"message": "x", **raw}, job_id=name, now=millis(start), local="UTC")
            await store.add(with_next_slot(job, millis(start)))
        fired: dict[str, list[int]] = {name: [] for name in wanted}
        now = millis(start)
        while (following := await store.next_wake()) is not None and following < millis(end):
            now = max(now, following)
            for job in await store.due(now):
                assert job.state.next_run_at_ms is not None
                plan = plan_due_slot(job.schedule, job.state.next_run_at_ms, now, job_id=job.id, misfire=job.misfire)
                fire = await store.take(job, plan, now=now)
                assert fire is not None and not plan.missed
                fired[job.id].append(fire.slot)
                result = JobResult(status="ok", started_at=now, ended_at=now, summary="done")
                assert await store.finish(fire, result, delivers=False) is not None
    finally:
        await db.close()
    for name, moments in wanted.items():
        assert fired[name] == moments, name
    assert sum(len(each) for each in fired.values()) > 400
