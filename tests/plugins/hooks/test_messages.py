"""Messages in and out, sessions and the gateway itself, as plugins hear of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from openclaw.core.hooks import (
    HookContext,
    HookName,
    MessageReceived,
    MessageSent,
    SessionEnd,
)
from openclaw.gateway import app as application
from openclaw.gateway.services import build_services
from openclaw.plugins.hooks.points import HookRegistration
from openclaw.plugins.settings import HookSettings
from openclaw.process.tasks import SystemClock
from openclaw.runs.events import RunEvent
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.queue import Lanes
from openclaw.runs.reply import ReplyShaped, TextShaped
from openclaw.runs.request import RunRequest
from openclaw.runs.worker import RunService
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.testing import ScriptedModel, TemporaryHome, ask, says
from tests.gateway.support import written

pytestmark = pytest.mark.anyio

FREE = HookSettings(allow_conversation_access=True)


def plug(app: application.App, hook: HookName, handler: Any, plugin: str = "p", **more: Any) -> None:
    assert (
        app.run_hooks.hooks.add(HookRegistration(plugin=plugin, hook=hook, handler=handler, settings=FREE, **more))
        == ""
    )


class Place:
    def __init__(self, app: application.App) -> None:
        self.app = app
        self.events: list[RunEvent] = []
        self.runs: RunService

    async def say(self, text: str, **turn: Any) -> RunOutcome:
        run_id = f"r{len(self.events)}"
        await self.runs.submit(RunRequest(run_id=run_id, key=self.app.key("main", None), text=text, **turn))
        outcome = await self.runs.wait(run_id, 60)
        assert outcome is not None
        return outcome

    @property
    def shown(self) -> str:
        """All that a person who watches has read."""
        return "".join(event.event.text for event in self.events if isinstance(event.event, TextShaped))


@asynccontextmanager
async def place(home: TemporaryHome, model: ScriptedModel) -> AsyncIterator[Place]:
    home.use_model()
    clock = SystemClock()
    async with home.assistant(model, clock=clock) as app:
        found = Place(app)
        services = build_services(app, found.events.append, lanes=Lanes({"main": 4}))
        async with services.serving() as found.runs:
            yield found


async def test_what_people_write_and_what_is_delivered_is_told(openclaw_home: TemporaryHome) -> None:
    told: list[Any] = []
    async with place(openclaw_home, ScriptedModel(says("Hello."), says("Tick."))) as here:
        for hook in ("message_received", "message_sent"):
            plug(here.app, hook, lambda event, context: told.append((event, context.channel)))
        await here.say("hi", channel="webchat")
        await here.say("time passed", trigger="heartbeat")
        await here.app.run_hooks.hooks.close(30)
    (received, channel), (sent, _), (tick, _) = told
    assert isinstance(received, MessageReceived) and (received.sender, received.content) == ("webchat", "hi")
    assert channel == "webchat"
    assert isinstance(sent, MessageSent) and (sent.content, sent.success) == ("Hello.", True)
    assert tick.content == "Tick."


async def test_an_answer_is_held_until_it_is_agreed_to_and_delivered_as_it_was_reworded(
    openclaw_home: TemporaryHome,
) -> None:
    asked: list[str] = []

    async def mask(event: Any, context: HookContext) -> Any:
        asked.append(event.content)
        assert here.shown == ""
        return {"content": event.content.replace("hunter2", "•••")}

    async with place(openclaw_home, ScriptedModel(says("The password is hunter2, as you know."))) as here:
        plug(here.app, "message_sending", mask, "mask")
        outcome = await here.say("what is it?")
        (entry,) = here.app.audit.entries()
    clean = "The password is •••, as you know."
    assert asked == ["The password is hunter2, as you know."]
    assert (outcome.texts, [payload.text for payload in outcome.payloads]) == ((clean,), [clean])
    assert here.shown == clean
    assert [event.event.text for event in here.events if isinstance(event.event, ReplyShaped)] == [clean]
    assert (entry.hook, entry.field, entry.plugin) == ("message_sending", "content", "mask")
    assert "hunter2" in written(openclaw_home)[-1].text


async def test_a_cancelled_answer_reaches_nobody(openclaw_home: TemporaryHome) -> None:
    sent: list[Any] = []
    async with place(openclaw_home, ScriptedModel(says("I should not say this."))) as here:
        plug(here.app, "message_sending", lambda event, context: {"cancel": True, "cancelReason": "no"}, "guard")
        plug(here.app, "message_sending", lambda event, context: {"cancel": False}, "lax", priority=-1)
        plug(here.app, "message_sent", lambda event, context: sent.append(event))
        outcome = await here.say("hi")
        assert [entry.field for entry in here.app.audit.entries()] == ["cancel"]
        await here.app.run_hooks.hooks.close(30)
    assert (outcome.status, outcome.texts, outcome.payloads, outcome.silent) == ("ok", (), (), True)
    assert here.shown == "" and sent == []


async def test_without_a_guard_an_answer_is_shown_word_by_word(openclaw_home: TemporaryHome) -> None:
    async with place(openclaw_home, ScriptedModel(says("One, two, three, four."))) as here:
        plug(here.app, "message_sent", lambda event, context: None)
        await here.say("count")
    assert sum(isinstance(event.event, TextShaped) for event in here.events) > 1


async def test_a_guard_that_fails_does_not_silence_the_assistant(openclaw_home: TemporaryHome) -> None:
    def breaks(event: Any, context: HookContext) -> Any:
        raise RuntimeError("boom")

    async with place(openclaw_home, ScriptedModel(says("Still here."))) as here:
        plug(here.app, "message_sending", breaks)
        assert (await here.say("hi")).texts == ("Still here.",)
    assert here.shown == "Still here."


async def test_a_turn_that_a_plugin_silences_is_silent_to_everyone(openclaw_home: TemporaryHome) -> None:
    async with place(openclaw_home, ScriptedModel()) as here:
        plug(here.app, "before_agent_reply", lambda event, context: {"handled": True}, "hush")
        outcome = await here.say("spam")
    assert (outcome.status, outcome.texts, outcome.silent) == ("ok", (), True)
    assert here.shown == ""


async def test_the_end_of_a_session_is_told_with_its_reason(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    told: list[tuple[SessionEnd, HookContext]] = []
    async with openclaw_home.assistant(ScriptedModel(*(says("ok") for _ in range(4)))) as app:
        plug(app, "session_end", lambda event, context: told.append((event, context)))
        lifecycle: SessionLifecycle = app.lifecycle
        key = app.key("main", None)
        await ask(app, "one")
        await lifecycle.reset(key, why="new")
        await ask(app, "two")
        await lifecycle.reset(key)
        await ask(app, "three")
        await lifecycle.delete(key)
        await ask(app, "four", session="agent:main:other")
        await app.run_hooks.gateway_stops("stop", app.index)
    assert [(event.reason, event.message_count) for event, _ in told] == [
        ("new", 2),
        ("reset", 2),
        ("deleted", 2),
        ("shutdown", 2),
    ]
    assert told[-1][1].session_key == "agent:main:other"
    assert len({event.session_id for event, _ in told}) == 4


async def test_the_gateway_tells_that_it_starts_and_waits_when_it_stops(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    told: list[Any] = []

    async def slowly(event: Any, context: HookContext) -> None:
        await asyncio.sleep(0.01)
        told.append(event)

    async with openclaw_home.assistant(ScriptedModel(), clock=SystemClock()) as app:
        plug(app, "gateway_start", slowly)
        plug(app, "gateway_stop", slowly)
        app.run_hooks.gateway_started(18789)
        assert told == []
        await app.run_hooks.gateway_stops("restart", app.index)
        assert told[-1].reason == "restart"
        await app.run_hooks.hooks.close(30)
    assert {type(event).__name__ for event in told} == {"GatewayStart", "GatewayStop"}


async def test_a_goodbye_that_hangs_does_not_hold_up_the_stop(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()

    async def hangs(event: Any, context: HookContext) -> None:
        await asyncio.Event().wait()

    async with openclaw_home.assistant(ScriptedModel(says("hi")), clock=SystemClock()) as app:
        plug(app, "session_end", hangs)
        await ask(app, "hi")
        async with asyncio.timeout(120):
            await app.run_hooks.gateway_stops("stop", app.index)


@pytest.mark.parametrize(
    ("answer", "said", "delivery"),
    [
        ({"content": "(nothing to see)"}, ["[mail] (nothing to see)"], "delivered"),
        ({"cancel": True, "cancelReason": "quiet hours"}, [], "not-delivered"),
    ],
)
async def test_what_a_job_announces_is_asked_about_too(
    openclaw_home: TemporaryHome, answer: Any, said: list[str], delivery: str
) -> None:
    from tests.automation.support import place as automated

    async with automated(openclaw_home, ScriptedModel(says("Three mails."))) as here:
        # Asked about the job's run too, which says it in a conversation of its own.
        plug(here.app, "message_sending", lambda event, context: answer if event.to == "main" else None, "guard")
        job = await here.scheduler.book.add({"name": "mail", "message": "check", "everyMs": 3_600_000})
        await here.pass_time(3_601)
        await here.until(here.ended(job.id), deadline=60)
        await here.quiet()
        assert here.said() == said
        (run,), _ = await here.scheduler.store.runs(job.id)
        assert run.delivery == delivery
        if delivery != "delivered":
            assert "guard cancelled it: quiet hours" in run.delivery_error


async def test_a_compaction_waits_for_those_who_want_to_look_first(openclaw_home: TemporaryHome) -> None:
    from tests.sessions.compaction.support import Model, compactions, configure

    configure(openclaw_home)
    model = Model()
    told: list[Any] = []
    there: list[int] = []

    async def before(event: Any, context: HookContext) -> None:
        await asyncio.sleep(0)
        there.append(len(compactions(openclaw_home)))
        told.append(event)

    async with openclaw_home.assistant(model) as app:
        plug(app, "before_compaction", before)
        plug(app, "after_compaction", lambda event, context: told.append(event))
        model.talk.script(says("one"), says("two"))
        await ask(app, "first " + "word " * 24_000)
        await ask(app, "second " + "word " * 12_000)
    first, second = told
    assert there == [0] and len(compactions(openclaw_home)) == 1
    assert first.message_count == 2 and first.session_file.endswith(".jsonl")
    assert second.compacted_count >= 1 and second.token_count < first.token_count
