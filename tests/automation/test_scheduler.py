"""Jobs in a gateway: fired on time, once, with their result where it belongs."""

import json

import pytest

from openclaw.automation.cron.schedule import DueSlots
from openclaw.automation.cron.store import CronStore
from openclaw.core.errors import RateLimited
from openclaw.core.messages import ToolResult
from openclaw.storage.owners import Owner
from openclaw.testing import FakeClock, ScriptedModel, TemporaryHome, calls, fails, says
from tests.automation.support import MAIN, START, place

pytestmark = pytest.mark.anyio


async def test_a_job_runs_at_its_time_in_a_conversation_of_its_own_and_tells_the_main_one(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("Three mails, none urgent."))
    async with place(openclaw_home, scripted_model) as here:
        job = await here.scheduler.book.add({"name": "mail", "message": "check my mail", "everyMs": 3_600_000})
        await here.pass_time(3_540)
        assert scripted_model.requests == []
        await here.pass_time(61)
        await here.until(here.ended(job.id))
        (done,) = here.of(job.id, "finished")
        assert done["status"] == "ok" and done["summary"] == "Three mails, none urgent."
        assert done["nextRunAtMs"] == START * 1000 + 7_200_000
        key = f"agent:main:cron:{job.id}:run:{done['runId']}"
        assert here.said(key)[0].startswith(f"[cron:{job.id} mail] check my mail")
        assert here.said() == ["[mail] Three mails, none urgent."]
        (run,), _ = await here.scheduler.store.runs(job.id)
        assert run.delivery == "delivered" and run.result is not None and run.result.output_tokens > 0


async def test_nothing_worth_telling_is_not_told(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    scripted_model.script(says("NO_REPLY"))
    async with place(openclaw_home, scripted_model) as here:
        job = await here.scheduler.book.add({"message": "check", "at": "2027-01-15T08:01:00Z"})
        await here.pass_time(61)
        await here.until(here.ended(job.id))
        assert here.said() == []
        assert await here.scheduler.store.count() == 0  # done, so gone


async def test_a_reminder_is_told_in_the_main_conversation(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("A reminder: water the plants!"))
    async with place(openclaw_home, scripted_model) as here:
        await here.scheduler.book.add({"text": "Reminder: water the plants", "at": "2027-01-15T08:20:00Z"})
        await here.pass_time(1_205)
        await here.clock.drive(here.until(lambda notice: notice.event == "heartbeat"))
        question, answer = here.said()
        assert question.startswith("System: [2027-01-15 08:20:00 UTC] Reminder: water the plants")
        assert answer == "A reminder: water the plants!"


async def test_a_failing_job_waits_longer_each_time_and_people_are_told(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with place(openclaw_home, scripted_model) as here:
        job = await here.scheduler.book.add({"name": "gone", "message": "x", "model": "nobody/none", "everyMs": 1_000})
        for count, seconds in ((1, 2), (2, 32)):
            await here.pass_time(seconds, step=1)
            await here.until(here.ended(job.id, count))
        await here.quiet()
        found = await here.scheduler.store.get(job.id)
        assert found.state.consecutive_errors == 2 and "nobody" in (found.state.last_error or "")
        assert any("has failed 2 times" in line for line in here.said())
        assert scripted_model.requests == []


async def test_a_rate_limit_on_a_single_job_is_tried_again(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(*[fails(RateLimited("slow down"))] * 20)
    async with place(openclaw_home, scripted_model) as here:
        job = await here.scheduler.book.add({"message": "x", "at": "2027-01-15T08:00:10Z"})
        await here.clock.drive(here.until(here.ended(job.id)))
        found = await here.scheduler.store.get(job.id)
        assert found.enabled and found.state.next_run_at_ms is not None


async def test_what_an_earlier_life_took_and_did_not_run_is_run_once(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("done"), says("not again"))
    async with place(openclaw_home, scripted_model, fires=False) as here:
        job = await here.scheduler.book.add({"message": "x", "at": "2027-01-15T08:00:10Z"})
        gone = CronStore(here.app.db, Owner(2**30, "an earlier life"))
        slot = DueSlots(slot=job.state.next_run_at_ms or 0, following=None)
        fire = await gone.take(job, slot, now=1_800_000_010_000)
        assert fire is not None
    async with place(openclaw_home, scripted_model, clock=FakeClock(START + 20), configured=True) as here:
        await here.until(here.ended(job.id))
    async with place(openclaw_home, scripted_model, clock=FakeClock(START + 40), configured=True) as here:
        await here.pass_time(120)
    assert len(scripted_model.requests) == 1
    assert here.said() == ["[x] done"]


async def test_what_was_missed_and_asks_a_model_waits_until_the_start_is_over(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("mail done"), says("on time"))
    clock = FakeClock(START)
    async with place(openclaw_home, scripted_model, clock=clock, fires=False) as here:
        turn = await here.scheduler.book.add({"name": "mail", "message": "check my mail", "everyMs": 3_600_000})
        event = await here.scheduler.book.add(
            {"name": "note", "text": "the bin is full", "everyMs": 3_600_000, "wakeMode": "next-heartbeat"}
        )
    await clock.advance(7_300)
    async with place(openclaw_home, scripted_model, clock=clock, configured=True) as here:
        await here.until(here.ended(event.id))  # it asks no model
        timely = await here.scheduler.book.add({"name": "soon", "message": "now", "at": "2027-01-15T10:02:30Z"})
        await here.pass_time(60, step=1)
        await here.until(here.ended(timely.id))  # what is due after the start is not held up
        assert here.of(turn.id, "started") == []
        await here.pass_time(55, step=1)
        assert here.of(turn.id, "started") == []
        await here.pass_time(10, step=1)
        await here.until(here.ended(turn.id))
        assert len(here.of(turn.id, "started")) == 1
    assert len(scripted_model.requests) == 2


async def test_many_missed_jobs_start_one_after_the_other(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    clock = FakeClock(START)
    async with place(openclaw_home, scripted_model, clock=clock, fires=False) as here:
        note = {"text": "x", "everyMs": 3_600_000, "wakeMode": "next-heartbeat"}
        jobs = [await here.scheduler.book.add({**note, "name": str(number)}) for number in range(8)]
    await clock.advance(7_300)
    began = clock.now()
    async with place(openclaw_home, scripted_model, clock=clock, configured=True) as here:
        waits: list[float] = []
        for count in range(1, 9):
            while sum(bool(here.of(job.id, "started")) for job in jobs) < count:
                await here.quiet()
                if sum(bool(here.of(job.id, "started")) for job in jobs) < count:
                    await clock.advance(1)
            waits.append(clock.now() - began)
    assert waits[:6] == [waits[0]] * 6 and [round(each - waits[0]) for each in waits[6:]] == [5, 10]


async def test_recurring_jobs_that_were_missed_can_be_left_out(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("NO_REPLY"))
    clock = FakeClock(START)
    skips = {"skipMissedJobs": True}
    async with place(openclaw_home, scripted_model, clock=clock, fires=False, cron=skips) as here:
        job = await here.scheduler.book.add({"message": "check my mail", "everyMs": 3_600_000})
    await clock.advance(7_300)
    async with place(openclaw_home, scripted_model, clock=clock, configured=True) as here:
        await here.pass_time(600)
        assert scripted_model.requests == []
        (run,) = (await here.scheduler.store.runs(job.id))[0]
        assert run.result is not None and run.result.status == "skipped" and "missed" in (run.result.error or "")
        await here.pass_time(3_600)
        assert len(scripted_model.requests) == 1


async def test_a_job_with_watches_costs_nothing_until_one_changes(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("The inbox has a new file."))
    inbox = openclaw_home.workspace / "inbox"
    inbox.mkdir()
    async with place(openclaw_home, scripted_model) as here:
        job = await here.scheduler.book.add(
            {"message": "sort it", "everyMs": 60_000, "watch": [{"kind": "file", "path": "inbox"}]}
        )
        for count in range(1, 6):
            await here.pass_time(60)
            await here.until(here.ended(job.id, count))
        assert scripted_model.requests == []
        (inbox / "letter.txt").write_text("hello")
        await here.pass_time(60)
        await here.until(here.ended(job.id, 6))
        await here.pass_time(60)
        await here.until(here.ended(job.id, 7))
        assert len(scripted_model.requests) == 1 and scripted_model.saw("Changed: file inbox")
        assert [each["status"] for each in here.of(job.id, "finished")] == ["skipped"] * 5 + ["ok", "skipped"]


async def test_the_assistant_sets_a_reminder_with_what_was_said(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    job = {"schedule": {"kind": "at", "at": "2027-01-16T08:00:00Z"}, "payload": {"text": "Reminder: call Ann"}}
    scripted_model.script(calls("cron", action="add", job=job, contextMessages=2), says("I will remind you."))
    async with place(openclaw_home, scripted_model) as here:
        from openclaw.runs.request import RunRequest

        await here.runs.submit(RunRequest(run_id="r1", key=MAIN, text="remind me to call Ann about the boat"))
        await here.runs.wait("r1", 10)
        (found,) = await here.scheduler.store.all()
        assert found.payload.text.splitlines()[0] == "Reminder: call Ann"  # type: ignore[union-attr]
        assert "- User: remind me to call Ann about the boat" in found.payload.text  # type: ignore[union-attr]
        assert found.owner is not None and found.owner.session_key == "agent:main:main"


async def test_a_scheduled_run_cannot_make_more_of_itself(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(calls("cron", action="add", job={"message": "x", "everyMs": 1000}), says("NO_REPLY"))
    async with place(openclaw_home, scripted_model) as here:
        job = await here.scheduler.book.add({"message": "breed", "at": "2027-01-15T08:00:10Z"})
        await here.pass_time(11)
        await here.until(here.ended(job.id))
        assert await here.scheduler.store.count() == 0
        assert scripted_model.saw("may list jobs and remove its own")


async def test_among_ten_thousand_jobs_only_the_one_that_is_due_runs(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("NO_REPLY"))
    async with place(openclaw_home, scripted_model) as here:
        job = await here.scheduler.book.add({"message": "x", "at": "2027-01-15T08:00:30Z"})
        async with here.app.db.transaction() as tx:
            for number in range(10_000):
                await tx.write(
                    "INSERT INTO cron_jobs (job_id, job, name, enabled, next_run_at, updated_at) "
                    "SELECT :id, job, :id, 1, :next, 0 FROM cron_jobs WHERE job_id = :like",
                    {"id": f"other-{number}", "next": round(START * 1000) + 86_400_000 + number, "like": job.id},
                )
        await here.pass_time(60)
        await here.until(here.ended(job.id), 30)
        assert len(scripted_model.requests) == 1 and await here.scheduler.store.count() == 10_000


async def test_nothing_fires_when_it_is_switched_off(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with place(openclaw_home, scripted_model, cron={"enabled": False}) as here:
        job = await here.scheduler.book.add({"message": "x", "everyMs": 60_000})
        await here.pass_time(600)
        assert here.of(job.id, "started") == [] and not (await here.scheduler.status())["enabled"]


async def test_the_assistant_pages_through_jobs_and_runs_one_only_when_it_is_due(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with place(openclaw_home, scripted_model) as here:
        names = ("a", "b", "c")
        raw = {"message": "x", "everyMs": 60_000, "agentId": "main"}
        jobs = [await here.scheduler.book.add({"name": name, **raw}) for name in names]
        scripted_model.script(
            calls("cron", action="list", limit=2, agentId="main"),
            calls("cron", action="list", limit=2, offset=2),
            calls("cron", action="get", jobId="b"),
            calls("cron", action="run", jobId="b", runMode="due"),
            calls("cron", action="list", agentId="nobody"),
            says("done"),
        )
        from openclaw.runs.request import RunRequest

        await here.runs.submit(RunRequest(run_id="r1", key=MAIN, text="look"))
        await here.runs.wait("r1", 30)
        told = [message.text for message in scripted_model.requests[-1].messages if isinstance(message, ToolResult)]
        first, second, got, run, nobody = (json.loads(text) for text in told)
        assert [each["name"] for each in first["jobs"]] == ["a", "b"] and first["nextOffset"] == 2
        assert [each["name"] for each in second["jobs"]] == ["c"] and second["total"] == 3
        assert got["id"] == jobs[1].id
        assert run == {"ok": True, "ran": False, "reason": "it is not due"}
        assert nobody["jobs"] == []


async def test_a_light_job_is_its_message_without_workspace_files(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("No mail."), says("No mail."))
    async with place(openclaw_home, scripted_model) as here:
        (openclaw_home.workspace / "AGENTS.md").write_text("RULES OF THE HOUSE")
        for light in (True, False):
            job = {"message": "check my mail", "at": "1s", "lightContext": light, "delivery": {"mode": "none"}}
            made = await here.scheduler.book.add({**job, "deleteAfterRun": False})
            await here.pass_time(3, step=1)
            await here.until(here.ended(made.id))
    light_one, full_one = scripted_model.requests
    assert light_one.messages[-1].text == "check my mail"
    assert "RULES OF THE HOUSE" not in light_one.system.text and "## Safety" in light_one.system.text
    assert full_one.messages[-1].text.startswith("[cron:") and "RULES OF THE HOUSE" in full_one.system.text
