"""Providers at their worst: every run ends in a stated way, nothing stays behind, the conversation can go on."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from openclaw.core.errors import BadResponse, Overloaded, ProviderError, ServerFailed
from openclaw.core.events import Done, ModelEvent, TextDelta, ThinkingDelta, ToolEnded
from openclaw.core.messages import Assistant, Text, Thinking, ToolCall, ToolResult, Usage
from openclaw.core.provider import ModelRequest
from openclaw.runs.events import RunEvent
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.reply import TextShaped, ThoughtShaped
from openclaw.testing import FakeClock, ScriptedModel, Step, TemporaryHome, calls, fails, hangs_up, says, stalls, thinks
from openclaw.testing.server import Answers, Breaks, Hangs, MockModelServer, Reply
from tests.gateway.chaos.support import Hall, hall

pytestmark = pytest.mark.anyio


async def ended(place: Hall, run_id: str, clock: FakeClock, step: float = 10.0) -> RunOutcome:
    """The end of a run whose pauses pass in no time."""
    await place.say(run_id, "hello")
    waiting = asyncio.create_task(place.runs.wait(run_id, 60))
    while not (await asyncio.wait({waiting}, timeout=0.005))[0]:
        await clock.advance(step)
    outcome = waiting.result()
    assert outcome is not None, "the run has no end"
    return outcome


async def check(place: Hall) -> None:
    place.assert_free()
    place.assert_valid_everywhere()


@pytest.mark.parametrize(
    ("replies", "kind"),
    [
        ([[says("Half a sen"), fails(ServerFailed("gone"))]] * 20, "server_error"),
        ([[says("Half a sen"), hangs_up()]] * 20, "server_error"),
        ([fails(Overloaded("busy"))] * 40, "overloaded"),
        ([says("")] * 20, "empty_response"),
        ([fails(BadResponse("that was no JSON"))] * 20, "server_error"),
        ([fails(ProviderError("no idea"))] * 20, "unknown"),
    ],
    ids=["fails mid-token", "hangs up", "overloaded", "says nothing", "garbles", "unknown"],
)
async def test_a_provider_that_keeps_failing_ends_the_run_with_its_reason(
    openclaw_home: TemporaryHome, fake_clock: FakeClock, replies: list[Step | list[Step]], kind: str
) -> None:
    model = ScriptedModel(*replies)
    async with hall(openclaw_home, model, clock=fake_clock) as place:
        outcome = await ended(place, "r1", fake_clock)
        assert (outcome.status, outcome.error_kind) == ("error", kind) and outcome.error
        await check(place)


async def test_a_provider_that_stalls_is_given_up_and_the_next_answer_counts(
    openclaw_home: TemporaryHome, fake_clock: FakeClock
) -> None:
    model = ScriptedModel([says("Let me"), stalls()], says("Here."))
    async with hall(openclaw_home, model, clock=fake_clock, models=("scripted/one", "backup/two")) as place:
        outcome = await ended(place, "r1", fake_clock)
        assert (outcome.status, outcome.texts) == ("ok", ("Here.",))
        await check(place)


async def test_a_provider_that_drops_once_is_asked_again_and_nothing_is_said_twice(
    openclaw_home: TemporaryHome, fake_clock: FakeClock
) -> None:
    model = ScriptedModel([says("The answer is fo"), fails(ServerFailed("gone"))], says("The answer is four."))
    async with hall(openclaw_home, model, clock=fake_clock) as place:
        outcome = await ended(place, "r1", fake_clock, step=0.5)
        assert outcome.texts == ("The answer is four.",)
        said = [message.text for message in place.messages() if isinstance(message, Assistant)]
        assert said == ["The answer is four."]
        await check(place)


async def test_unknown_tools_are_answered_and_cannot_go_on_for_ever(
    openclaw_home: TemporaryHome, fake_clock: FakeClock
) -> None:
    model = ScriptedModel(*[calls("teleport", to="Mars")] * 60)
    async with hall(openclaw_home, model, clock=fake_clock) as place:
        outcome = await ended(place, "r1", fake_clock)
        assert (outcome.status, outcome.error_kind) == ("error", "tool_loop")
        results = [message for message in place.messages() if isinstance(message, ToolResult)]
        assert results and all(result.is_error for result in results)
        await check(place)


async def test_a_model_that_never_stops_calling_is_stopped(openclaw_home: TemporaryHome, fake_clock: FakeClock) -> None:
    model = ScriptedModel(*[calls("ls", path=".")] * 200)
    async with hall(openclaw_home, model, clock=fake_clock) as place:
        outcome = await ended(place, "r1", fake_clock)
        assert (outcome.status, outcome.error_kind) == ("error", "tool_loop")
        assert len(model.requests) < 60
        await check(place)


async def test_a_hundred_calls_at_once_get_a_hundred_results_in_order(
    openclaw_home: TemporaryHome, fake_clock: FakeClock
) -> None:
    for number in range(100):
        (openclaw_home.workspace / f"f{number}.txt").write_text(f"file {number}")
    model = ScriptedModel([calls("read", path=f"f{number}.txt") for number in range(100)], says("All read."))
    async with hall(openclaw_home, model, clock=fake_clock) as place:
        outcome = await ended(place, "r1", fake_clock)
        assert outcome.texts == ("All read.",)
        results = [message for message in place.messages() if isinstance(message, ToolResult)]
        assert len(results) == 100
        asked = model.requests[1].messages[-100:]
        assert all(f"file {number}" in message.text for number, message in enumerate(asked))
        await check(place)


async def test_broken_arguments_are_an_answer_to_the_model(openclaw_home: TemporaryHome, fake_clock: FakeClock) -> None:
    class Garbles(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            self.requests.append(request)
            if len(self.requests) == 1:
                call = ToolCall(id="", name="read", broken='{"path": "x')
                yield Done(Assistant(content=(call, call), stop_reason="toolUse"))
            else:
                yield Done(Assistant(content=(Text("I see."),)))

    model = Garbles()
    async with hall(openclaw_home, model, clock=fake_clock) as place:
        outcome = await ended(place, "r1", fake_clock)
        assert outcome.texts == ("I see.",)
        results = [message for message in place.messages() if isinstance(message, ToolResult)]
        assert len({result.tool_call_id for result in results}) == 2 and all(result.is_error for result in results)
        await check(place)


@pytest.mark.parametrize("tagged", [False, True], ids=["in its own channel", "in tags"])
async def test_ten_megabytes_of_thinking_reach_nobody_and_hold_up_nothing(
    openclaw_home: TemporaryHome, fake_clock: FakeClock, tagged: bool
) -> None:
    class Broods(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            piece = "and then again it might be otherwise, " * 256
            count = 10_000_000 // len(piece) + 1
            if tagged:
                yield TextDelta("<think>")
            for _ in range(count):
                yield TextDelta(piece) if tagged else ThinkingDelta(piece)
            whole = piece * count
            if tagged:
                yield TextDelta("</think>Yes.")
                yield Done(Assistant(content=(Text(f"<think>{whole}</think>Yes."),)))
            else:
                yield TextDelta("Yes.")
                yield Done(Assistant(content=(Thinking(whole), Text("Yes."))))

    async with hall(openclaw_home, Broods(), clock=fake_clock) as place:
        outcome = await ended(place, "r1", fake_clock)
        assert outcome.texts == ("Yes.",)
        assert "".join(each.event.text for each in place.events if isinstance(each.event, TextShaped)) == "Yes."
        assert not [each for each in place.events if isinstance(each.event, ThoughtShaped)]
        await check(place)


@pytest.mark.parametrize(
    "usage",
    [Usage(input=-5, output=-7, total_tokens=-12), Usage(input=10**15, output=10**15, total_tokens=10**15), Usage()],
    ids=["less than nothing", "more than there is", "none at all"],
)
async def test_a_provider_that_lies_about_usage_is_believed_by_nothing_that_matters(
    openclaw_home: TemporaryHome, fake_clock: FakeClock, usage: Usage
) -> None:
    class Lies(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            self.requests.append(request)
            yield TextDelta("Fine.")
            yield Done(Assistant(content=(Text("Fine."),), usage=usage))

    async with hall(openclaw_home, Lies(), clock=fake_clock) as place:
        for number in range(3):
            outcome = await ended(place, f"r{number}", fake_clock)
            assert (outcome.status, outcome.texts) == ("ok", ("Fine.",))
        await check(place)


async def test_a_model_that_repeats_itself_is_heard_once_a_message(
    openclaw_home: TemporaryHome, fake_clock: FakeClock
) -> None:
    model = ScriptedModel(
        [says("Again. "), says("Again. "), calls("ls", path=".")], [says("Again. "), says("NO_REPLY")]
    )
    async with hall(openclaw_home, model, clock=fake_clock) as place:
        outcome = await ended(place, "r1", fake_clock)
        assert outcome.texts == ("Again. Again.", "Again.")
        await check(place)


async def test_stopping_in_the_middle_of_anything_leaves_nothing_behind(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(
        [thinks("hm"), says("I will do it"), stalls()],
        [calls("exec", command="sleep 30"), calls("ls", path=".")],
        says("Back."),
    )
    async with hall(openclaw_home, scripted_model, approve=True) as place:
        key = place.app.key("main", None)
        for run_id, moment in (("r1", TextShaped), ("r2", ToolEnded)):
            await place.say(run_id, "go")
            await place.until(partial(_is, run_id, moment))
            await place.runs.abort(key)
            outcome = await place.runs.wait(run_id, 20)
            assert outcome is not None and (outcome.stop_reason, outcome.error_kind) == ("aborted", "aborted")
            place.assert_free()
        assert (await place.outcome("r3")).texts == ("Back.",)
        await check(place)


def _is(run_id: str, kind: type, told: RunEvent) -> bool:
    return told.run_id == run_id and isinstance(told.event, kind)


# The same with a real server on a real socket.


@asynccontextmanager
async def served(home: TemporaryHome, replies: list[Reply | list[Step]], **provider: Any) -> AsyncIterator[Hall]:
    with MockModelServer(replies) as server:
        settings = server.settings()
        settings["models"]["providers"]["mock"] |= provider
        async with hall(home, None, settings=settings) as place:
            yield place


def sse(*events: Any) -> str:
    return "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)


@pytest.mark.parametrize(
    "first",
    [
        Breaks("Half an ans"),
        Answers(200, "<html>not a stream</html>"),
        Answers(200, sse("{not json", "[DONE]"), content_type="text/event-stream"),
        Answers(200, sse({"choices": "what?"}, [1, 2], "null", "[DONE]"), content_type="text/event-stream"),
        Answers(200, "", content_type="text/event-stream"),
        Answers(500, "<h1>oops</h1>"),
        Answers(503, '{"error": {"message": "busy"}}', retry_after="0"),
    ],
    ids=["breaks", "html", "broken json", "wrong json", "nothing", "500", "503"],
)
async def test_bad_bytes_from_a_real_server_are_survived(openclaw_home: TemporaryHome, first: Reply) -> None:
    async with served(openclaw_home, [first, says("Recovered.")]) as place:
        outcome = await place.outcome("r1")
        assert (outcome.status, outcome.texts) == ("ok", ("Recovered.",)), outcome.error
        await check(place)


async def test_a_server_that_hangs_is_left_when_the_run_is_out_of_time(openclaw_home: TemporaryHome) -> None:
    async with served(openclaw_home, [Hangs("Let me see")]) as place:
        outcome = await place.outcome("r1", timeout=0.7)
        assert outcome.status == "error" and outcome.error_kind == "timeout"
        await asyncio.sleep(0)
        await check(place)
