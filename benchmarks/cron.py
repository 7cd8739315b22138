"""What ten thousand jobs cost while none is due, and how late one starts that is.

python benchmarks/cron.py
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from openclaw.automation.cron.jobs import build
from openclaw.automation.cron.schedule import CronSchedule, next_fire, plan_due_slot
from openclaw.automation.cron.store import CronStore, with_next_slot
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.storage.sqlite import Sqlite

JOBS = 10_000
LOOKS = 500


async def main() -> None:
    now = round(time.time() * 1000)
    with tempfile.TemporaryDirectory() as place:
        db = await Sqlite.open(Path(place) / "state.sqlite", STATE_MIGRATIONS)
        store = CronStore(db)
        jobs = [
            with_next_slot(
                build({"message": "x", "expr": f"{n % 60} {n % 24} * * *"}, job_id=str(n), now=now, local="UTC"), now
            )
            for n in range(JOBS)
        ]
        for start in range(0, JOBS, 1000):
            async with db.transaction() as tx:
                for job in jobs[start : start + 1000]:
                    await tx.write(
                        "INSERT INTO cron_jobs (job_id, job, name, enabled, next_run_at, updated_at) "
                        "VALUES (:id, :job, :name, 1, :next, :now)",
                        {
                            "id": job.id,
                            "job": msgspec.json.encode(job).decode(),
                            "name": job.name,
                            "next": (job.state.next_run_at_ms or now) + 86_400_000,
                            "now": now,
                        },
                    )
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(LOOKS):
            await store.due(now)
            await store.next_wake()
        looked = (time.perf_counter() - began) / LOOKS
        spent = (time.process_time() - cpu) / LOOKS
        await store.add(
            with_next_slot(build({"message": "x", "everyMs": 1000}, job_id="due", now=now, local="UTC"), now)
        )
        late = []
        for _ in range(100):
            started = time.perf_counter()
            (job,) = await store.due(now + 3_600_000)
            slot = job.state.next_run_at_ms or 0
            plan = plan_due_slot(job.schedule, slot, slot, job_id=job.id, misfire="once")
            fire = await store.take(job, plan, now=slot)
            assert fire is not None
            late.append(time.perf_counter() - started)
            await db.write("UPDATE cron_fires SET status = 'ok' WHERE run_id = :run", {"run": fire.run_id})
        await db.close()
    began = time.perf_counter()
    for n in range(1000):
        next_fire(CronSchedule(expr="30 2 * * 1-5", tz="Europe/Berlin"), now + n * 3_600_000)
    calendar = (time.perf_counter() - began) / 1000
    sys.stdout.write(
        f"{JOBS} jobs, none due: a look takes {looked * 1000:.2f} ms ({spent * 1000:.2f} ms CPU), one a minute\n"
        f"from due to taken: {sorted(late)[50] * 1000:.2f} ms median, {max(late) * 1000:.2f} ms worst\n"
        f"the next time of an expression: {calendar * 1e6:.0f} µs\n"
    )


asyncio.run(main())
