"""What the assistant says by itself goes to the chat where its person last wrote, once, and nowhere else."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from openclaw.automation.cron.store import run_to_json
from openclaw.channels.delivery import Sender
from openclaw.channels.settings import DeliverySettings
from openclaw.core.channel import Address, MessageRefused, TryLater
from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import SessionKey
from openclaw.core.settings import Fixed
from openclaw.runs.request import RunRequest
from openclaw.testing import FakeClock, ScriptedModel, TemporaryHome, calls, says
from tests.automation.support import MAIN, START, Place, place
from tests.channels.fake_platform import Slate

pytestmark = pytest.mark.anyio

ADA = Address(channel="slate", to="ada")
NIGHT = {"start": "09:00", "end": "10:00", "timezone": "UTC"}
"""The clock of these tests begins at 08:00."""


@asynccontextmanager
async def chatting(home: TemporaryHome, model: ScriptedModel, **settings: Any) -> AsyncIterator[tuple[Place, Slate]]:
    """A gateway whose owner has just written from a slate, and was answered there."""
    if not settings.get("configured"):
        model.script(says("Hello."))
    async with place(home, model, **settings) as here:
        slate = Slate()
        context = here.scheduler.context
        assert isinstance(context.platforms, dict)
        context.platforms["slate", "default"] = slate
        sender = Sender(context.outbox, context.platforms, here.clock, Fixed(DeliverySettings()))
        sending = asyncio.create_task(sender.keep())
        try:
            if not settings.get("configured"):
                await here.runs.submit(
                    RunRequest(run_id="hi", key=MAIN, text="hi", channel="slate", reply_to=ADA, reply_to_id="m0")
                )
                await until(here, lambda: slate.texts() == ["Hello."])
            yield here, slate
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def until(here: Place, check: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not check():
            await here.clock.advance(1)
            await here.quiet()


async def delivered(here: Place, job_id: str) -> str:
    runs, _ = await here.scheduler.store.runs(job_id)
    return runs[0].delivery if runs else ""


# The sources of speech. Each makes the model say "News." once.


async def wake(here: Place) -> None:
    await here.heartbeats.add_event(MAIN, "the door bell rang", "now")


async def reminder(here: Place) -> None:
    await here.scheduler.book.add({"text": "Reminder: tea", "at": "1s"})


async def job(here: Place) -> None:
    await here.scheduler.book.add({"message": "look", "at": "1s"})


async def explicit_job(here: Place) -> None:
    await here.scheduler.book.add({"message": "look", "at": "1s", "delivery": {"mode": "announce", "to": "slate:ada"}})


async def heartbeat(here: Place) -> None:
    (here.home.workspace / "HEARTBEAT.md").write_text("- look after the plants\n")
    await here.pass_time(1_800)


async def finished_work(here: Place) -> None:
    """As a sub-agent, a background command and `sessions_yield` go on: a run that the system starts."""
    await here.runs.submit(RunRequest(run_id="sub", key=MAIN, text="[result] 1,022 stars", trigger="system"))


async def webhook(here: Place) -> None:
    hook = SessionKey("main", "hook:bell")
    address = await here.scheduler.context.address_of(MAIN, None)
    await here.runs.submit(
        RunRequest(run_id="hook", key=hook, text="bell", trigger="system", reply_to=address, report_to=MAIN)
    )


SOURCES = (wake, reminder, job, explicit_job, heartbeat, finished_work, webhook)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
async def test_it_reaches_the_chat_once(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, source: Callable[[Place], Awaitable[None]]
) -> None:
    async with chatting(openclaw_home, scripted_model, defaults={"heartbeat": {"every": "30m"}}) as (here, slate):
        scripted_model.script(says("News."))
        await source(here)
        await until(here, lambda: slate.texts() == ["Hello.", "News."])
        await here.pass_time(120)
        assert slate.texts() == ["Hello.", "News."] and scripted_model.left == 0


@pytest.mark.parametrize("source", (wake, reminder, job, heartbeat, finished_work), ids=lambda source: source.__name__)
async def test_without_a_channel_it_stands_in_the_main_conversation_once(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, source: Callable[[Place], Awaitable[None]]
) -> None:
    async with place(openclaw_home, scripted_model, defaults={"heartbeat": {"every": "30m"}}) as here:
        scripted_model.script(says("News."))
        await source(here)
        await until(here, lambda: any("News." in line for line in here.said()))
        await here.pass_time(120)
        assert sum("News." in line for line in here.said()) == 1


async def test_the_result_of_a_webhook_without_a_channel_is_told_at_once(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with place(openclaw_home, scripted_model) as here:
        scripted_model.script(says("The bell rang."), says("Somebody is at the door."))
        turn = RunRequest(
            run_id="hook",
            key=SessionKey("main", "hook:bell"),
            text="bell",
            trigger="system",
            report_to=MAIN,
            report_wakes="hook:bell",
        )
        await here.runs.submit(turn)
        await until(here, lambda: "Somebody is at the door." in here.said())
        assert any("The bell rang." in line for line in here.said())


async def test_what_a_killed_gateway_was_about_to_tell_is_told_by_the_next_once(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with chatting(openclaw_home, scripted_model, fires=False) as (here, _):
        # The job is done with when its line is on record; the look at it, a moment later, is not.
        await here.app.system_events.add(MAIN, "Reminder: tea", "run-1", (), "cron:tea")
    scripted_model.script(says("Your tea is ready."))
    clock = FakeClock(START + 60)
    async with chatting(openclaw_home, scripted_model, configured=True, clock=clock) as (here, slate):
        await until(here, lambda: slate.texts() == ["Your tea is ready."])
        await here.pass_time(180)
        assert slate.texts() == ["Your tea is ready."] and scripted_model.left == 0


async def test_a_receipt_makes_a_result_delivered_and_a_refusal_says_why(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with chatting(openclaw_home, scripted_model) as (here, slate):
        slate.gate = asyncio.Event()
        scripted_model.script(says("News."))
        made = await here.scheduler.book.add({"message": "look", "at": "1s", "deleteAfterRun": False})
        await until(here, lambda: any(call.text == "News." for call in slate.calls))
        assert await delivered(here, made.id) == "unknown"
        slate.gate.set()
        async with asyncio.timeout(60):
            while await delivered(here, made.id) != "delivered":
                await here.quiet()


async def test_a_run_that_has_written_there_itself_is_not_announced_again(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with chatting(openclaw_home, scripted_model) as (here, slate):
        sends = calls("message", action="send", channel="slate", target="ada", message="All is well.")
        scripted_model.script(sends, says("I told Ada."))
        made = await here.scheduler.book.add({"message": "look", "at": "1s", "deleteAfterRun": False})
        await until(here, lambda: bool(here.of(made.id, "finished")))
        async with asyncio.timeout(60):
            while await delivered(here, made.id) != "delivered":
                await here.quiet()
        assert slate.texts() == ["Hello.", "All is well."]


# Heartbeats: where alerts go, and when.


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, {"ada": ["Hello.", "News."]}),
        ({"isolatedSession": True}, {"ada": ["Hello.", "News."]}),
        ({"target": "none"}, {"ada": ["Hello."]}),
        ({"target": "slate", "to": "club"}, {"ada": ["Hello."], "club": ["News."]}),
        ({"directPolicy": "block"}, {"ada": ["Hello."]}),
        ({"target": "slate", "to": "club", "directPolicy": "block"}, {"ada": ["Hello."], "club": ["News."]}),
        ({"target": "slate", "to": "ben", "directPolicy": "block"}, {"ada": ["Hello."], "ben": []}),
        ({"activeHours": NIGHT}, {"ada": ["Hello."]}),
    ],
    ids=str,
)
async def test_where_and_when_an_alert_goes(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, settings: dict[str, Any], told: dict[str, list[str]]
) -> None:
    channels = {"slate": {"groupPolicy": "allowlist", "groups": {"club": {}}}}
    defaults = {"heartbeat": {"every": "30m", **settings}}
    async with chatting(openclaw_home, scripted_model, defaults=defaults, channels=channels) as (here, slate):
        scripted_model.script(says("News."))
        await heartbeat(here)
        await until(here, lambda: here.heartbeats.last is not None)
        await here.pass_time(60)
        assert {name: slate.texts(name) for name in told} == told


async def test_a_reminder_comes_at_its_time_also_in_quiet_hours_and_what_can_wait_comes_after_them(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    block = {"every": "4h", "activeHours": NIGHT, "target": "none", "directPolicy": "block"}
    async with chatting(openclaw_home, scripted_model, defaults={"heartbeat": block}) as (here, slate):
        await here.heartbeats.add_event(MAIN, "the build is red", "now")
        await here.pass_time(120)
        assert scripted_model.left == 0 and slate.texts() == ["Hello."]
        scripted_model.script(says("Your tea is ready, and the build is red."))
        await reminder(here)
        await until(here, lambda: len(slate.texts()) == 2)
        scripted_model.script(says("The door."))
        await here.heartbeats.add_event(MAIN, "the door bell rang", "now")
        await here.pass_time(60)
        assert scripted_model.left == 1
        await here.pass_time(3_600)
        await until(here, lambda: scripted_model.left == 0 and "The door." in here.said())


# Jobs that keep failing.


async def failing(here: Place, **job: Any) -> str:
    made = await here.scheduler.book.add(
        {"name": "gone", "message": "x", "model": "nobody/none", "everyMs": 1_000} | job
    )
    return made.id


@pytest.mark.parametrize(
    ("alerts", "own", "runs", "told"),
    [
        ({}, {}, 1, {"ada": []}),
        ({}, {}, 2, {"ada": ["The job 'gone' has failed 2 times"]}),
        ({"after": 1}, {}, 1, {"ada": ["The job 'gone' has failed 1 times"]}),
        ({"enabled": False}, {}, 2, {"ada": []}),
        ({"after": 1}, {"failureAlert": False}, 2, {"ada": []}),
        ({"after": 3, "cooldownMs": 0}, {"failureAlert": {"after": 1}}, 2, {"ada": ["failed 1", "failed 2"]}),
        ({"channel": "slate", "to": "club"}, {}, 2, {"ada": [], "club": ["failed 2"]}),
        (
            {"channel": "slate", "to": "club"},
            {"failureAlert": {"to": "slate:ben"}},
            2,
            {"club": [], "ben": ["failed 2"]},
        ),
        (
            {"channel": "slate", "to": "club"},
            {"delivery": {"mode": "announce", "failureDestination": {"channel": "slate", "to": "ben"}}},
            2,
            {"club": [], "ben": ["failed 2"]},
        ),
    ],
    ids=str,
)
async def test_a_job_that_keeps_failing_is_told_as_the_settings_say(
    openclaw_home: TemporaryHome,
    scripted_model: ScriptedModel,
    alerts: dict[str, Any],
    own: dict[str, Any],
    runs: int,
    told: dict[str, list[str]],
) -> None:
    async with chatting(openclaw_home, scripted_model, cron={"failureAlert": alerts}) as (here, slate):
        job_id = await failing(here, **own)
        await until(here, lambda: len(here.of(job_id, "finished")) >= runs)
        await here.pass_time(2, step=1)
        for name, wanted in told.items():
            found = [text for text in slate.texts(name) if text != "Hello."]
            assert len(found) == len(wanted) and all(part in text for part, text in zip(wanted, found, strict=True))


@pytest.mark.parametrize(
    ("more", "says_so"),
    [
        ({"delivery": {"mode": "announce", "completionDestination": {"mode": "webhook", "to": "x"}}}, "completionDest"),
        ({"payload": {"kind": "agentTurn", "message": "x", "fallbacks": ["a/b"]}}, "fallbacks"),
        ({"failureAlert": {"includeSkipped": True}}, "includeSkipped"),
        ({"failureAlert": {"mode": "webhook", "to": "club"}}, "http"),
    ],
    ids=str,
)
async def test_what_a_job_cannot_do_is_refused_by_name(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, more: dict[str, Any], says_so: str
) -> None:
    async with place(openclaw_home, scripted_model, fires=False) as here:
        with pytest.raises(InvalidRequest, match=says_so):
            await here.scheduler.book.add({"payload": {"kind": "agentTurn", "message": "x"}, "at": "20m"} | more)


async def test_best_effort_forgives_a_result_that_did_not_arrive(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with place(openclaw_home, scripted_model) as here:
        found = []
        for careless in (False, True):
            scripted_model.script(says("News."))
            delivery = {"mode": "announce", "channel": "pigeon", "to": "ada", "bestEffort": careless}
            made = await here.scheduler.book.add(
                {"message": "x", "at": "1s", "deleteAfterRun": False, "delivery": delivery}
            )
            await here.pass_time(3, step=1)
            await here.until(here.ended(made.id))
            (run,), _ = await here.scheduler.store.runs(made.id)
            found.append((run_to_json(run)["deliveryStatus"], run_to_json(run)["completionStatus"]))
        assert found == [("not-delivered", "failed"), ("not-delivered", "succeeded")]


@pytest.mark.parametrize(("refused", "status"), [("", "delivered"), ("no such chat", "not-delivered")])
async def test_the_end_of_a_run_says_what_became_of_its_result(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, refused: str, status: str
) -> None:
    async with chatting(openclaw_home, scripted_model) as (here, slate):
        scripted_model.script(says("News."))
        slate.faults["send"] = [MessageRefused(refused)] if refused else []
        made = await here.scheduler.book.add({"message": "look", "at": "1s"})
        await until(here, lambda: bool(here.of(made.id, "finished")))
        (told,) = here.of(made.id, "finished")
        assert told["deliveryStatus"] == status and told.get("deliveryError", "") == refused


async def test_a_late_receipt_is_told_afterwards(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    async with chatting(openclaw_home, scripted_model) as (here, slate):
        scripted_model.script(says("News."))
        slate.faults["send"] = [TryLater("busy", after=90.0)]
        made = await here.scheduler.book.add({"message": "look", "at": "1s", "deleteAfterRun": False})
        await until(here, lambda: bool(here.of(made.id, "finished")))
        assert here.of(made.id, "finished")[0]["deliveryStatus"] == "unknown"
        await until(here, lambda: slate.texts()[-1] == "News." and bool(here.of(made.id, "updated")))
        assert here.of(made.id, "updated")[-1]["job"]["state"]["lastDeliveryStatus"] == "delivered"
