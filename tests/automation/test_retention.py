"""What is kept of runs, and for how long."""

import pytest

from openclaw.automation.cron.jobs import JobResult
from openclaw.automation.cron.schedule import plan_due_slot
from openclaw.automation.cron.service import is_single_run
from openclaw.automation.cron.store import KEPT_RUNS
from openclaw.core.keys import SessionKey
from openclaw.runs.request import RunRequest
from openclaw.testing import FakeClock, ScriptedModel, TemporaryHome, says
from tests.automation.support import MAIN, START, place

pytestmark = pytest.mark.anyio


async def test_the_conversation_of_a_run_goes_after_a_day_and_peoples_stay(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("hello"), says("NO_REPLY"), says("NO_REPLY"))
    async with place(openclaw_home, scripted_model) as here:
        await here.runs.submit(RunRequest(run_id="r1", key=MAIN, text="hi"))
        await here.runs.wait("r1", 30)
        job = await here.scheduler.book.add({"message": "look", "at": "2027-01-15T09:00:00Z"})
        await here.pass_time(3_700)
        await here.until(here.ended(job.id))
        assert len(openclaw_home.transcripts()) == 2
        await here.pass_time(20 * 3_600, step=1_800)
        assert len(openclaw_home.transcripts()) == 2
        await here.pass_time(6 * 3_600, step=1_800)
        assert len(await here.app.index.list()) == 1
    files = sorted(path.name for path in (openclaw_home.state / "agents" / "main" / "sessions").iterdir())
    assert len(openclaw_home.transcripts()) == 1
    assert not [name for name in files if ".deleted." in name]


async def test_runs_are_kept_for_ever_when_that_is_wanted(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("NO_REPLY"))
    async with place(openclaw_home, scripted_model, cron={"sessionRetention": False}) as here:
        job = await here.scheduler.book.add({"message": "look", "at": "2027-01-15T08:01:00Z"})
        await here.pass_time(120)
        await here.until(here.ended(job.id))
        await here.pass_time(4 * 86_400, step=3_600)
        assert len(openclaw_home.transcripts()) == 1


async def test_a_span_that_is_none_is_said_and_nothing_is_lost(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    scripted_model.script(says("NO_REPLY"))
    async with place(openclaw_home, scripted_model, cron={"sessionRetention": "a while"}) as here:
        job = await here.scheduler.book.add({"message": "look", "at": "2027-01-15T08:01:00Z"})
        await here.pass_time(120)
        await here.until(here.ended(job.id))
        await here.pass_time(2 * 86_400, step=3_600)
        assert len(openclaw_home.transcripts()) == 1
    assert any("cron.sessionRetention" in record.message for record in caplog.records)


def test_only_conversations_of_single_runs_are_disposable() -> None:
    def key(rest: str) -> SessionKey:
        return SessionKey("main", rest)

    assert is_single_run(key("cron:j1:run:r1")) and is_single_run(key("boot:r1")) and is_single_run(key("heartbeat:r1"))
    assert not any(is_single_run(key(rest)) for rest in ("main", "cron:j1", "telegram:direct:1", "bootstrap", "hook:x"))


async def test_the_history_of_a_job_keeps_a_week_and_its_latest_runs(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with place(openclaw_home, scripted_model, fires=False, clock=FakeClock(START)) as here:
        store = here.scheduler.store
        now = round(START * 1000)
        job = await here.scheduler.book.add({"message": "x", "everyMs": 1_000, "misfire": "all"})
        quiet = await here.scheduler.book.add({"message": "y", "everyMs": 1_000})
        async with here.app.db.transaction() as tx:
            for number in range(KEPT_RUNS + 25):
                at = now + number * 1_000
                await tx.write(
                    "INSERT INTO cron_fires (job_id, slot, run_id, owner, status, fired_at, ended_at, "
                    "following, job, delivery, delivery_error) SELECT job_id, :at, :run, 'o', 'ok', :at, :at, NULL, "
                    "job, 'not-requested', '' FROM cron_jobs WHERE job_id = :id",
                    {"at": at, "run": f"run-{number}", "id": job.id},
                )
        later = now + (KEPT_RUNS + 25) * 1_000
        plan = plan_due_slot(quiet.schedule, quiet.state.next_run_at_ms or 0, later, job_id=quiet.id, misfire="once")
        fire = await store.take(quiet, plan, now=later)
        assert fire is not None
        await store.finish(fire, JobResult(status="ok", started_at=later, ended_at=later), delivers=False)
        await store.forget_old(later)
        kept, total = await store.runs(job.id, limit=1)
        assert total == KEPT_RUNS and kept[0].run_id == f"run-{KEPT_RUNS + 24}"
        assert (await store.runs(quiet.id))[1] == 1
        await store.forget_old(later + 8 * 86_400_000)
        assert (await store.runs(job.id))[1] == 0
