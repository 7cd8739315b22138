"""Runs: accepted once, answered once, one at a time, stopped when told, taken up again after a crash."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from openclaw.core.errors import InvalidRequest, ModelRefused, Unavailable
from openclaw.core.events import ModelCalled, ToolStarted
from openclaw.core.messages import Assistant, User
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest
from openclaw.gateway.app import App, open_app
from openclaw.gateway.services import build_services
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.runs.events import RunEvent, RunSettled
from openclaw.runs.queue import Lanes, QueueRules
from openclaw.runs.reply import ReplyShaped, TextShaped
from openclaw.runs.request import RunRequest
from openclaw.runs.settings import QueueMode
from openclaw.runs.worker import INTERRUPTED, RunService
from openclaw.sessions.files import load
from openclaw.sessions.transcript import build_context
from openclaw.testing import FakeClock, ScriptedModel, TemporaryHome, calls, fails, says, stalls

pytestmark = pytest.mark.anyio

SCRIPTED = {
    "models": {
        "providers": {
            "scripted": {
                "baseUrl": "http://127.0.0.1:9/v1",
                "api": "openai-completions",
                "models": [{"id": "scripted"}],
            }
        }
    },
    "agents": {"defaults": {"model": "scripted/scripted"}},
}


class Nobody:
    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        return ApprovalAnswer("deny")


class Hall:
    """Runs with everything a test wants to see."""

    def __init__(self, app: App, model: ScriptedModel) -> None:
        self.app = app
        self.model = model
        self.events: list[RunEvent] = []
        self._changed = asyncio.Event()
        self._followers: list[Callable[[RunEvent], None]] = []
        self.runs: RunService

    def tell(self, event: RunEvent) -> None:
        self.events.append(event)
        self._changed.set()
        for follower in self._followers:
            follower(event)

    def follow(self, follower: Callable[[RunEvent], None]) -> None:
        self._followers.append(follower)

    async def until(self, wanted: Callable[[RunEvent], bool]) -> RunEvent:
        async with asyncio.timeout(120):
            while True:
                for event in self.events:
                    if wanted(event):
                        return event
                self._changed.clear()
                await self._changed.wait()

    async def say(self, run_id: str, text: str, key: str = "main", **more: Any) -> Any:
        turn = RunRequest(run_id=run_id, key=self.app.key(key, None), text=text, timeout=more.pop("timeout", None))
        return await self.runs.submit(turn, **more)

    def messages(self, home: TemporaryHome) -> list[Any]:
        (path,) = home.transcripts()
        context = build_context(load(path).entries)
        assert not context.problems
        return list(context.messages)


@asynccontextmanager
async def hall(home: TemporaryHome, model: ScriptedModel, clock: Any = None) -> AsyncIterator[Hall]:
    home.configure(SCRIPTED)
    environment = Environment(environ=home.environ, home_dir=home.root, cwd=home.root)
    clock = clock or SystemClock()
    async with open_app(environment, clock=clock, approver=Nobody(), open_provider=lambda _: model) as app:
        place = Hall(app, model)
        services = build_services(app, place.tell, lanes=Lanes({"main": 4}))
        async with services.serving() as place.runs:
            yield place


def spoken(run_id: str) -> Callable[[RunEvent], bool]:
    return lambda event: event.run_id == run_id and isinstance(event.event, TextShaped)


def settled(run_id: str) -> Callable[[RunEvent], bool]:
    return lambda event: event.run_id == run_id and isinstance(event.event, RunSettled)


async def test_an_input_is_accepted_at_once_and_answered(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("Hello there."))
    async with hall(openclaw_home, scripted_model) as place:
        first = await place.say("r1", "hi")
        assert first.status == "started"
        outcome = await place.runs.wait("r1", 10)
        assert outcome is not None and outcome.status == "ok" and outcome.texts == ("Hello there.",)
        again = await place.say("r1", "hi")
        assert again.status == "ok" and again.outcome is not None and again.outcome.texts == ("Hello there.",)
        assert await place.runs.wait("unknown", 0) is None
        await place.until(settled("r1"))
    seqs = [event.seq for event in place.events if event.run_id == "r1"]
    assert seqs == list(range(1, len(seqs) + 1))
    assert len(scripted_model.requests) == 1


async def test_the_last_words_go_out_before_the_end_is_written_down(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("Hello there."))
    steps: list[list[RunEvent]] = []
    async with hall(openclaw_home, scripted_model) as place:
        loop, open_step = asyncio.get_running_loop(), list[bool]()

        def tell(event: RunEvent) -> None:
            if not open_step:
                open_step.append(True)
                steps.append([])
                loop.call_soon(open_step.clear)
            steps[-1].append(event)

        place.follow(tell)
        await place.say("r1", "hi")
        await place.until(settled("r1"))
    words, end = (
        next(number for number, step in enumerate(steps) if any(isinstance(each.event, kind) for each in step))
        for kind in (ReplyShaped, RunSettled)
    )
    assert words < end


async def test_the_same_key_while_running_is_in_flight(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    go = asyncio.Event()
    scripted_model.script([says("wait"), stalls(go), says(" done")])
    async with hall(openclaw_home, scripted_model) as place:
        await place.say("r1", "hi")
        await place.until(spoken("r1"))
        assert (await place.say("r1", "hi")).status == "in_flight"
        assert await place.runs.wait("r1", 0.01) is None
        go.set()
        outcome = await place.runs.wait("r1", 10)
    assert outcome is not None and outcome.status == "ok" and len(scripted_model.requests) == 1


async def test_a_message_while_busy_is_heard_by_the_run(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    go = asyncio.Event()
    scripted_model.script([says("Painting it red."), stalls(go)], says("Blue, then."))
    async with hall(openclaw_home, scripted_model) as place:
        await place.say("r1", "paint it red")
        await place.until(spoken("r1"))
        assert (await place.say("r2", "no, blue")).status == "steered"
        go.set()
        outcome = await place.runs.wait("r1", 10)
        await place.until(settled("r2"))
    assert outcome is not None and outcome.texts[-1] == "Blue, then."
    assert scripted_model.saw("no, blue")
    texts = [message.text for message in place.messages(openclaw_home)]
    assert texts == ["paint it red", "Painting it red.", "no, blue", "Blue, then."]


async def test_followups_wait_their_turn(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    go = asyncio.Event()
    scripted_model.script([says("one"), stalls(go)], says("two"), says("three"))
    rules = QueueRules(mode="followup")
    async with hall(openclaw_home, scripted_model) as place:
        await place.say("r1", "first", rules=rules)
        await place.until(spoken("r1"))
        assert (await place.say("r2", "second", rules=rules)).status == "queued"
        assert (await place.say("r3", "third", rules=rules)).status == "queued"
        assert place.runs.active(place.app.key("main", None)) == ("r1", "r2", "r3")
        go.set()
        last = await place.runs.wait("r3", 10)
    assert last is not None and last.texts == ("three",)
    assert [m.text for m in place.messages(openclaw_home)] == ["first", "one", "second", "two", "third", "three"]


async def test_collected_messages_become_one_turn_after_a_quiet_moment(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    go = asyncio.Event()
    scripted_model.script([says("one"), stalls(go)], says("both"))
    rules = QueueRules(mode="collect", debounce_ms=20)
    async with hall(openclaw_home, scripted_model) as place:
        await place.say("r1", "first", rules=rules)
        await place.until(spoken("r1"))
        await place.say("r2", "apples", rules=rules)
        await place.say("r3", "pears", rules=rules)
        go.set()
        outcome = await place.runs.wait("r3", 10)
        await place.until(settled("r2"))
    assert outcome is not None and len(scripted_model.requests) == 2
    assert scripted_model.saw("Queued #2")


async def test_interrupt_stops_the_run_and_starts_the_newest(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script([says("on my way"), stalls()], says("new answer"))
    rules = QueueRules(mode="interrupt")
    async with hall(openclaw_home, scripted_model) as place:
        await place.say("r1", "first", rules=rules)
        await place.until(spoken("r1"))
        await place.say("r2", "second", rules=rules)
        old, new = await place.runs.wait("r1", 10), await place.runs.wait("r2", 10)
    assert old is not None and old.stop_reason == "aborted"
    assert new is not None and new.texts == ("new answer",)


async def test_stopping_everything_while_messages_are_being_collected_leaves_the_session_usable(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    clock = FakeClock()
    go = asyncio.Event()
    scripted_model.script([says("one"), stalls(go)], says("fresh"))
    rules = QueueRules(mode="collect", debounce_ms=500)
    async with hall(openclaw_home, scripted_model, clock) as place:
        key = place.app.key("main", None)
        await place.say("r1", "first", rules=rules)
        await place.until(spoken("r1"))
        await place.say("r2", "apples", rules=rules)
        await place.say("r3", "pears", rules=rules)
        go.set()
        await place.until(settled("r1"))
        assert await place.runs.abort(key) == ["r2", "r3"]
        await place.say("r4", "again", rules=rules)
        await clock.advance(1)
        outcome = await place.runs.wait("r4", 30)
    assert outcome is not None and outcome.texts == ("fresh",)


@pytest.mark.sqlite
async def test_a_run_that_is_stopped_while_it_takes_up_a_message_ends_that_too(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    go = asyncio.Event()
    scripted_model.script(says("hello"), [says("one"), stalls(go)], says("never said"))
    async with hall(openclaw_home, scripted_model) as place:
        key = place.app.key("main", None)
        await place.say("r0", "the first call of an hour tidies up")
        assert await place.runs.wait("r0", 60)
        await place.say("r1", "first")
        await place.until(spoken("r1"))
        assert (await place.say("r2", "second")).status == "steered"
        async with place.app.db.transaction():  # so that the end of r2 cannot be written down yet
            go.set()
            async with asyncio.timeout(120):
                while "second" not in [each.text for each in place.messages(openclaw_home)]:
                    await asyncio.sleep(0.01)
            assert await place.runs.abort(key) == ["r1"]
            await asyncio.sleep(0.05)
        first, second = await place.runs.wait("r1", 60), await place.runs.wait("r2", 60)
    assert first is not None and first.stop_reason == "aborted"
    assert second is not None and second.steered_into == "r1"
    assert len(scripted_model.requests) == 2


async def test_what_was_collected_and_never_asked_is_taken_up_after_a_restart(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    go, rules = asyncio.Event(), QueueRules(mode="collect", debounce_ms=0)
    for _ in range(4):
        scripted_model.script([says("x"), stalls()])
    scripted_model.script([says("one"), stalls(go)])
    async with hall(openclaw_home, scripted_model) as place:
        await place.say("r1", "first", rules=rules)
        await place.until(spoken("r1"))
        await place.say("r2", "apples", rules=rules)
        await place.say("r3", "pears", rules=rules)
        for number in range(4):
            await place.say(f"o{number}", "hi", key=f"s{number}")
        await place.until(spoken("o2"))
        await place.runs.abort(place.app.key("main", None), "r1")
        # Its place goes to another session; what was collected waits for one.
        await place.until(spoken("o3"))
        await place.runs.drain(0.0)
    scripted_model.script(*(says("ok") for _ in range(6)))
    async with hall(openclaw_home, scripted_model) as place:
        assert {"apples", "pears"} <= {each.text for each in await place.runs.resume()}


async def test_abort_stops_what_runs_and_what_waits(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script([says("half"), stalls()], says("fresh"))
    rules = QueueRules(mode="followup")
    async with hall(openclaw_home, scripted_model) as place:
        key = place.app.key("main", None)
        await place.say("r1", "first", rules=rules)
        await place.until(spoken("r1"))
        await place.say("r2", "second", rules=rules)
        assert sorted(await place.runs.abort(key)) == ["r1", "r2"]
        outcome = await place.runs.wait("r1", 10)
        assert outcome is not None and outcome.stop_reason == "aborted"
        assert await place.runs.abort(key) == []
        await place.say("r3", "again", rules=rules)
        after = await place.runs.wait("r3", 10)
    assert after is not None and after.texts == ("fresh",)
    said = place.messages(openclaw_home)
    assert isinstance(said[1], Assistant) and (said[1].text, said[1].stop_reason) == ("half", "aborted")


async def test_a_run_ends_at_its_deadline(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    clock = FakeClock()
    scripted_model.script([says("half"), stalls()])
    async with hall(openclaw_home, scripted_model, clock) as place:
        await place.say("r1", "hi", timeout=30.0)
        await place.until(spoken("r1"))
        await clock.advance(31)
        outcome = await place.runs.wait("r1", 10)
    assert outcome is not None and outcome.stop_reason == "timeout" and "30 s" in (outcome.error or "")


async def test_sessions_run_side_by_side_within_the_cap(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    go = asyncio.Event()
    for _ in range(6):
        scripted_model.script([says("x"), stalls(go)])
    async with hall(openclaw_home, scripted_model) as place:
        for number in range(6):
            await place.say(f"r{number}", "hi", key=f"s{number}")
        async with asyncio.timeout(120):
            while len({event.run_id for event in place.events if isinstance(event.event, ModelCalled)}) < 4:
                await asyncio.sleep(0.01)
        assert place.runs.busy == 6 and len(scripted_model.requests) == 4
        go.set()
        outcomes = [await place.runs.wait(f"r{number}", 10) for number in range(6)]
    assert all(outcome is not None and outcome.status == "ok" for outcome in outcomes)


async def test_a_full_queue_says_so(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    scripted_model.script([says("x"), stalls()])
    rules = QueueRules(mode="followup", cap=1, drop="new")
    async with hall(openclaw_home, scripted_model) as place:
        await place.say("r1", "a", rules=rules)
        await place.until(spoken("r1"))
        await place.say("r2", "b", rules=rules)
        with pytest.raises(InvalidRequest, match="already waiting"):
            await place.say("r3", "c", rules=rules)
        dropped = await place.runs.wait("r3", 0)
        assert dropped is not None and dropped.status == "error"


async def test_what_was_accepted_survives_a_stop_and_is_answered_once(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    rules = QueueRules(mode="followup")
    scripted_model.script([says("half an ans"), stalls()])
    async with hall(openclaw_home, scripted_model) as place:
        await place.say("r1", "first", rules=rules)
        await place.until(spoken("r1"))
        await place.say("r2", "second", rules=rules)
        assert await place.runs.drain(0.0) == 1
        with pytest.raises(Unavailable):
            await place.say("r3", "third")
    scripted_model.script(says("whole answer"), says("second answer"))
    async with hall(openclaw_home, scripted_model) as place:
        assert [each.begun for each in await place.runs.resume()] == [True, False]
        one, two = await place.runs.wait("r1", 10), await place.runs.wait("r2", 10)
        assert one is not None and one.texts == ("whole answer",) and one.notices == (INTERRUPTED,)
        assert two is not None and two.texts == ("second answer",) and two.notices == ()
    async with hall(openclaw_home, scripted_model) as place:
        assert await place.runs.resume() == []
    asked = [message.text for message in place.messages(openclaw_home) if isinstance(message, User)]
    assert asked == ["first", "second"]


async def test_an_answer_that_was_written_down_is_not_asked_for_again(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("the answer"))
    async with hall(openclaw_home, scripted_model) as place:
        await place.say("r1", "question")
        await place.runs.wait("r1", 10)
        # As if the process had died between writing the answer and closing the books.
        await place.app.db.write("UPDATE inputs SET state = 'running', outcome = NULL WHERE run_id = 'r1'")
    async with hall(openclaw_home, scripted_model) as place:
        assert len(await place.runs.resume()) == 1
        outcome = await place.runs.wait("r1", 10)
    assert outcome is not None and outcome.texts == ("the answer",)
    assert len(scripted_model.requests) == 1


async def test_a_run_that_keeps_dying_is_given_up(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    scripted_model.script(says("x"))
    async with hall(openclaw_home, scripted_model) as place:
        await place.say("r1", "question")
        await place.runs.wait("r1", 10)
        await place.app.db.write(
            "UPDATE inputs SET state = 'running', outcome = NULL, attempts = 3, owner = '99999999@x'"
        )
    async with hall(openclaw_home, scripted_model) as place:
        (taken,) = await place.runs.resume()
        assert taken.given_up == "it did not finish in 3 attempts" and taken.text == "question"
        outcome = await place.runs.wait("r1", 0)
    assert outcome is not None and outcome.status == "error" and "3 attempts" in (outcome.error or "")


async def test_a_run_that_orderly_stops_interrupt_is_never_given_up(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(*[stalls()] * 5, says("at last"))
    for _ in range(5):
        async with hall(openclaw_home, scripted_model) as place:
            asked = len(scripted_model.requests)
            for taken in await place.runs.resume():
                assert not taken.given_up and taken.begun
            await place.say("r1", "question")
            async with asyncio.timeout(60):
                while len(scripted_model.requests) == asked:
                    await asyncio.sleep(0.005)
    async with hall(openclaw_home, scripted_model) as place:
        await place.runs.resume()
        outcome = await place.runs.wait("r1", 60)
    assert outcome is not None and outcome.texts == ("at last",)


async def test_a_tool_that_runs_is_stopped_with_its_run(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(calls("grep", pattern="x"), says("y"))
    async with hall(openclaw_home, scripted_model) as place:
        await place.say("r1", "go")
        await place.until(lambda event: isinstance(event.event, ToolStarted))
        await place.runs.abort(place.app.key("main", None))
        outcome = await place.runs.wait("r1", 10)
        assert outcome is not None
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith(("tool:", "run:"))]
    place.messages(openclaw_home)


async def test_a_run_that_waits_for_a_place_can_be_stopped(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    go = asyncio.Event()
    for _ in range(4):
        scripted_model.script([says("x"), stalls(go)])
    async with hall(openclaw_home, scripted_model) as place:
        for number in range(5):
            await place.say(f"r{number}", "hi", key=f"s{number}")
        async with asyncio.timeout(120):
            while len(scripted_model.requests) < 4:
                await asyncio.sleep(0.01)
        assert await place.runs.abort(place.app.key("s4", None)) == ["r4"]
        outcome = await place.runs.wait("r4", 10)
        assert outcome is not None and outcome.stop_reason == "aborted"
        go.set()
        assert all([await place.runs.wait(f"r{number}", 10) for number in range(4)])
    assert len(scripted_model.requests) == 4


async def test_a_late_word_keeps_its_own_wishes(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    """A message handed to a run that ends before it listens again becomes a turn as its sender asked for it."""
    go = asyncio.Event()
    scripted_model.script([says("one"), stalls(go), fails(ModelRefused("no"))], says("two"))
    async with hall(openclaw_home, scripted_model) as place:
        key = place.app.key("main", None)
        await place.runs.submit(RunRequest(run_id="r1", key=key, text="first", extra="Only for the first."))
        await place.until(spoken("r1"))
        late = RunRequest(run_id="r2", key=key, text="second", thinking="off")
        assert (await place.runs.submit(late)).status == "steered"
        go.set()
        outcome = await place.runs.wait("r2", 10)
    assert outcome is not None and outcome.texts == ("two",)
    assert "Only for the first." in scripted_model.requests[0].system.text
    assert "Only for the first." not in scripted_model.requests[1].system.text


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_the_modes_every_message_is_said_once_and_every_input_ends(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, seed: int
) -> None:
    chance = random.Random(seed)
    modes: tuple[QueueMode, ...] = ("steer", "followup", "interrupt", "collect")
    scripted_model.script(*([says("a"), says("b")] for _ in range(80)))
    async with hall(openclaw_home, scripted_model) as place:
        for number in range(25):
            rules = QueueRules(mode=chance.choice(modes), debounce_ms=5, cap=100)
            await place.say(f"r{number}", f"<message {number}>", rules=rules)
            await asyncio.sleep(chance.choice((0, 0, 0.002, 0.02)))
        outcomes = [await place.runs.wait(f"r{number}", 30) for number in range(25)]
        assert all(outcome is not None for outcome in outcomes)
    said = "".join(message.text for message in place.messages(openclaw_home) if isinstance(message, User))
    assert [said.count(f"<message {number}>") for number in range(25)] == [1] * 25
