"""Sessions that do not get on: every judgement on its own, and the watchman with real runs on a simulated clock."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs

from openclaw.core.events import CallDelta, MessageEnded, ModelCalled, RunEnded, ToolEnded, ToolStarted
from openclaw.core.messages import Assistant, ToolCall, ToolResult
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.runs.events import RunSettled
from openclaw.runs.inbox import Inbox, RunOutcome, State, Statement
from openclaw.runs.queue import Activity
from openclaw.runs.recovery import (
    FIRST_REPEAT,
    KEPT_FOR,
    MOST_KEPT,
    Diagnosis,
    LongRunning,
    NotStuck,
    Recovery,
    SessionActivity,
    Stalled,
    Stuck,
    StuckLimits,
    StuckMonitor,
    StuckReports,
    classify,
)
from openclaw.testing import FakeClock, ScriptedModel, TemporaryHome, calls, says, stalls
from tests.commandline import PATIENCE
from tests.gateway.chaos.support import Hall, hall

LIMITS = StuckLimits(warn=120, abort=300)
SEEN = SessionActivity(key="k", state="processing", generation=1, progress_at=0.0, since=0.0, work="model_call")
UNHURRIED = 2.0
"""Seconds that a busy machine has to end a run before the clock goes on."""


def judge(now: float, asked: bool = False, **changes: Any) -> str:
    verdict = classify(structs.replace(SEEN, **changes), now, LIMITS, asked=asked)
    return f"Stalled:{verdict.abort}" if isinstance(verdict, Stalled) else type(verdict).__name__


def test_limits_come_from_the_settings_or_from_each_other() -> None:
    assert StuckLimits.of(None, None) == StuckLimits(warn=120, abort=360)
    assert StuckLimits.of(60_000, None) == StuckLimits(warn=60, abort=300)
    assert StuckLimits.of(200_000, None) == StuckLimits(warn=200, abort=600)
    assert StuckLimits.of(1_000, 2_000) == StuckLimits(warn=1, abort=2)


@pytest.mark.parametrize(
    ("now", "changes", "verdict"),
    [
        (120, {}, "NotStuck"),
        (121, {}, "LongRunning"),
        (299, {}, "LongRunning"),
        (300, {}, "Stalled:True"),
        (500, {"progress_at": 490}, "LongRunning"),
        (100, {"progress_at": 90}, "NotStuck"),
        (121, {"work": "tool_call", "tool": "exec"}, "Stalled:False"),
        (300, {"work": "tool_call", "tool": "exec"}, "Stalled:True"),
        (1_000, {"work": "tool_call", "tool": "exec", "deadline": 1_800.0}, "LongRunning"),
        (1_801, {"work": "tool_call", "tool": "exec", "deadline": 1_800.0}, "Stalled:True"),
        (121, {"work": "embedded_run"}, "Stalled:False"),
        (300, {"work": "embedded_run"}, "Stalled:True"),
        (120, {"owned": False}, "NotStuck"),
        (121, {"owned": False}, "Stuck"),
        (121, {"owned": False, "work": "tool_call"}, "Stuck"),
        (9_999, {"state": "waiting"}, "NotStuck"),
        (9_999, {"state": "idle"}, "NotStuck"),
        (9_999, {"state": "idle", "queue": 2}, "NotStuck"),
        (9_999, {"state": "idle", "queue": 2, "owned": False}, "Stuck"),
        (9_999, {"state": "idle", "queue": 0, "owned": False}, "NotStuck"),
    ],
)
def test_each_state_has_its_judgement(now: float, changes: dict[str, Any], verdict: str) -> None:
    assert judge(now, **changes) == verdict


def test_a_session_that_waits_for_a_person_is_left_in_peace() -> None:
    assert judge(9_999, asked=True) == judge(9_999, asked=True, owned=False) == "NotStuck"


def test_activity_is_read_from_events() -> None:
    call = ToolCall(id="c", name="exec")
    activity = Activity(0, 0, lambda call: 60.0)
    assert activity.work == "embedded_run"
    activity.take(ModelCalled("p", "m"), 10)
    assert (activity.work, activity.progress_at) == ("model_call", 10)
    activity.take(CallDelta("c", "exec", "{"), 20)
    activity.take(MessageEnded(Assistant()), 30)
    assert (activity.work, activity.progress_at, activity.deadline) == ("embedded_run", 30, None)
    activity.take(ToolStarted(call), 40)
    assert (activity.work, activity.tool, activity.deadline) == ("tool_call", "exec", 100)
    activity.take(ToolEnded(call, ToolResult("c", "exec")), 50)
    assert activity.work == "embedded_run"


def test_the_same_news_is_told_ever_more_rarely() -> None:
    reports = StuckReports()
    told = [now for now in range(0, 3_600, 30) if reports.worth("k", "session.stuck", 1, now)]
    assert told[0] == 0 and told[1] == FIRST_REPEAT
    gaps = [later - earlier for earlier, later in pairwise(told)]
    assert gaps == sorted(gaps) and gaps[-1] >= 8 * FIRST_REPEAT
    assert reports.worth("k", "session.stalled", 1, 3_600) and reports.worth("k", "session.stalled", 2, 3_601)


def test_what_was_told_is_forgotten_in_time() -> None:
    reports = StuckReports()
    for number in range(MOST_KEPT + 50):
        reports.worth(f"k{number}", "session.stuck", 1, 0)
    assert len(reports) == MOST_KEPT
    reports.worth("new", "session.stuck", 1, KEPT_FOR + 1)
    assert len(reports) == 1


class Ward:
    """Sessions on paper."""

    def __init__(self, *seen: SessionActivity, result: Recovery | None = None) -> None:
        self.seen = list(seen)
        self.recovered: list[tuple[str, int, str]] = []
        self.result = result or Recovery(status="released", action="release", reason="done")

    def observe(self) -> list[SessionActivity]:
        return self.seen

    async def recover(self, key: str, generation: int, action: str) -> Recovery:
        self.recovered.append((key, generation, action))
        return self.result


def watchman(ward: Any, clock: FakeClock, told: list[Diagnosis], asked: set[str] | None = None) -> StuckMonitor:
    return StuckMonitor(ward, clock, limits=lambda: LIMITS, asked=lambda: asked or set(), tell=told.append)


@pytest.mark.anyio
async def test_logs_back_off_but_recovery_is_tried_every_time() -> None:
    clock, told = FakeClock(1_000.0), list[Diagnosis]()
    failed = Recovery(status="failed", action="release", reason="no")
    ward = Ward(structs.replace(SEEN, owned=False), result=failed)
    keeper = watchman(ward, clock, told)
    for _ in range(20):
        await keeper.look()
        await clock.advance(30)
    names = [each.event for each in told]
    assert len(ward.recovered) == 20 == names.count("session.recovery.requested")
    assert names.count("session.recovery.completed") == 20
    assert 1 < names.count("session.stuck") < 8


@pytest.mark.anyio
async def test_the_watchman_looks_every_thirty_seconds() -> None:
    clock, told = FakeClock(0.0), list[Diagnosis]()
    ward = Ward(structs.replace(SEEN, work="embedded_run"))
    keeping = asyncio.create_task(watchman(ward, clock, told).keep())
    await clock.advance(149)
    assert told == []
    await clock.advance(1)
    assert [each.event for each in told] == ["session.stalled"] and ward.recovered == []
    await clock.advance(150)
    assert ward.recovered == [("k", 1, "abort")]
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


@pytest.mark.anyio
async def test_a_question_that_came_up_meanwhile_stops_the_recovery() -> None:
    clock, told, asked = FakeClock(1_000.0), list[Diagnosis](), set[str]()

    class Late(Ward):
        def observe(self) -> list[SessionActivity]:
            return [self.seen[0]]

    ward = Late(structs.replace(SEEN, owned=False))
    answers = iter([set[str](), {"k"}])
    keeper = StuckMonitor(ward, clock, limits=lambda: LIMITS, asked=lambda: next(answers), tell=told.append)
    await keeper.look()
    assert ward.recovered == [] and told[-1].data["status"] == "skipped" and not asked


# With real runs.


@asynccontextmanager
async def watched(
    home: TemporaryHome, model: ScriptedModel, clock: FakeClock, **more: Any
) -> AsyncIterator[tuple[Hall, list[Diagnosis], StuckMonitor]]:
    async with hall(home, model, clock=clock, **more) as place:
        told: list[Diagnosis] = []
        yield place, told, watchman(place.runs, clock, told)


async def until(place: Hall, clock: FakeClock, keeper: StuckMonitor, seconds: int) -> None:
    """Lets time pass with the watchman on duty; only what does not end by itself makes it pass while he helps."""
    for _ in range(seconds // 30):
        await clock.advance(30)
        looking = asyncio.create_task(keeper.look())
        await asyncio.wait([looking], timeout=UNHURRIED)
        while not looking.done():
            await clock.advance(1)
            await asyncio.sleep(0.001)
        await looking


@pytest.mark.anyio
async def test_a_silent_model_is_slow_first_then_stopped_and_the_next_message_gets_through(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, fake_clock: FakeClock
) -> None:
    # After its first word a model on this machine may take its time: the watchman alone ends this.
    scripted_model.script([says("Let me"), stalls()], says("Better."))
    async with watched(openclaw_home, scripted_model, fake_clock, local=True) as (place, told, keeper):
        await place.say("r1", "hello?")
        await place.until(lambda event: isinstance(event.event, ModelCalled))
        await until(place, fake_clock, keeper, 180)
        assert {each.event for each in told} == {"session.long_running"}
        await until(place, fake_clock, keeper, 150)
        outcome = await place.runs.wait("r1", 5)
        assert outcome is not None and outcome.error_kind == "stalled"
        assert told[-1].event == "session.recovery.completed" and told[-1].data["status"] == "aborted"
        await place.say("r2", "and now?")
        again = await place.runs.wait("r2", 20)
        assert again is not None and again.texts == ("Better.",)
        place.assert_free()


class Deaf:
    """A tool that does not listen to being cancelled."""

    spec = ToolSpec(name="deaf", label="Deaf", description="never stops", parameters={"type": "object"})

    def __init__(self) -> None:
        self.free = asyncio.Event()

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.NONE

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        while not self.free.is_set():
            try:
                await self.free.wait()
            except asyncio.CancelledError:
                continue
        return Output.of("late")


@pytest.mark.anyio
async def test_a_run_that_cannot_be_stopped_is_given_up_and_holds_no_lane(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, fake_clock: FakeClock
) -> None:
    deaf = Deaf()
    scripted_model.script(calls("deaf"))
    async with watched(openclaw_home, scripted_model, fake_clock, tools=[deaf]) as (place, told, keeper):
        await place.say("r1", "go")
        await place.until(lambda event: isinstance(event.event, ToolStarted))
        await until(place, fake_clock, keeper, 330)
        outcome = await place.runs.wait("r1", 5)
        assert outcome is not None and outcome.error_kind == "stalled"
        assert told[-1].data["status"] == "released"
        assert place.lanes.busy() == {} and place.runs.busy == 0
        before = len(place.events)
        deaf.free.set()
        async with asyncio.timeout(120):
            while any(task.get_name() == "run:r1" for task in asyncio.all_tasks()):
                await fake_clock.advance(0.1)
        # Woken up late, it neither speaks nor asks the model again.
        assert len(place.events) == before and len(scripted_model.requests) == 1


class Jammed(Inbox):
    """A ledger that never gets the first end written down."""

    async def ended(
        self, run_ids: Sequence[str], state: State, outcome: RunOutcome, also: Sequence[Statement] = ()
    ) -> None:
        if "r1" in run_ids:
            await asyncio.Event().wait()
        await super().ended(run_ids, state, outcome, also)


@pytest.mark.anyio
async def test_a_session_that_nobody_works_on_is_freed_and_goes_on_with_what_waits(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, fake_clock: FakeClock
) -> None:
    scripted_model.script(says("One."), says("Two."))
    async with watched(openclaw_home, scripted_model, fake_clock, ledger=Jammed) as (place, told, keeper):
        await place.say("r1", "first")
        await place.until(lambda event: isinstance(event.event, RunEnded))
        await place.say("r2", "second")
        # The ledger writes in a thread: how much of our time passes until then is not ours to say.
        async with asyncio.timeout(PATIENCE):
            while not told or told[-1].event != "session.recovery.completed":
                await until(place, fake_clock, keeper, 30)
        assert "session.stuck" in [each.event for each in told]
        assert (told[-1].event, told[-1].data["status"]) == ("session.recovery.completed", "released")
        second = await place.runs.wait("r2", 20)
        assert second is not None and second.texts == ("Two.",)
        first = [each.event for each in place.events if each.run_id == "r1" and isinstance(each.event, RunSettled)]
        assert len(first) == 1 and place.lanes.busy() == {}
        for task in asyncio.all_tasks():
            if task.get_name() == "session:agent:main:main":
                task.cancel()


@pytest.mark.anyio
async def test_a_session_that_moved_on_is_not_touched(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, fake_clock: FakeClock
) -> None:
    scripted_model.script(stalls())
    async with watched(openclaw_home, scripted_model, fake_clock) as (place, _, _):
        await place.say("r1", "hello?")
        await place.until(lambda event: isinstance(event.event, ModelCalled))
        (seen,) = place.runs.observe()
        assert (seen.state, seen.work, seen.owned) == ("processing", "model_call", True)
        other = await place.runs.recover(seen.key, seen.generation - 1, "abort")
        owned = await place.runs.recover(seen.key, seen.generation, "release")
        unknown = await place.runs.recover("agent:main:nobody", 1, "abort")
        assert [each.status for each in (other, owned, unknown)] == ["skipped"] * 3
        assert place.runs.busy == 1
        assert isinstance(classify(seen, fake_clock.now(), LIMITS), NotStuck | LongRunning)
        assert not isinstance(classify(seen, fake_clock.now(), LIMITS), Stuck)
