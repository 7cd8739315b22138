"""The loop: ask, act, ask again; what people add meanwhile; what it does with a model that misbehaves."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from openclaw.agent.repeats import RepeatLimits
from openclaw.core.clock import Timer
from openclaw.core.errors import RateLimited, StateError
from openclaw.core.events import (
    Done,
    MessageEnded,
    ModelEvent,
    RunNotice,
    Steered,
    TextDelta,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
)
from openclaw.core.harness import Steering
from openclaw.core.messages import Assistant, Image, Text, ToolCall, User
from openclaw.core.provider import ModelRequest
from openclaw.core.tool import Output, Tool, ToolContext
from openclaw.testing import FakeClock, ScriptedModel, calls, fails, hangs_up, says, stalls
from tests.agent.support import FakeTool, OneModel, answers, play, toolbox

pytestmark = pytest.mark.anyio


async def test_the_answer_of_a_tool_is_in_the_next_request() -> None:
    model = ScriptedModel(calls("draw", what="a cat"), says("There is your cat."))
    ran = await play(model, toolbox(FakeTool("draw")))
    assert [result.text for result in answers(model.requests[1])] == ["did a cat"]
    assert ran.end.stop_reason == "stop"
    assert ran.end.turns == 2


async def test_two_calls_run_side_by_side_and_are_answered_in_the_order_of_the_calls() -> None:
    second_done = asyncio.Event()

    async def work(args: Mapping[str, Any], context: ToolContext) -> Output:
        if args["what"] == "first":
            await second_done.wait()  # would wait for ever if they ran one after the other
        else:
            second_done.set()
        return Output.of(args["what"])

    model = ScriptedModel([calls("draw", what="first"), calls("draw", what="second")], says("ok"))
    ran = await play(model, toolbox(FakeTool("draw", work)))
    assert [result.text for result in ran.results] == ["second", "first"]
    assert [result.text for result in answers(model.requests[1])] == ["first", "second"]


async def test_calls_that_need_the_same_file_run_one_after_the_other_in_order() -> None:
    at_work = 0
    order: list[str] = []

    async def work(args: Mapping[str, Any], context: ToolContext) -> Output:
        nonlocal at_work
        at_work += 1
        assert at_work == 1
        await asyncio.sleep(0)
        order.append(args["what"])
        at_work -= 1
        return Output.of("ok")

    model = ScriptedModel([calls("draw", what=str(n), path="/same") for n in range(5)], says("ok"))
    ran = await play(model, toolbox(FakeTool("draw", work)))
    assert order == ["0", "1", "2", "3", "4"]
    assert not any(result.is_error for result in ran.results)


async def test_an_unknown_tool_is_answered_with_the_names_there_are() -> None:
    model = ScriptedModel(calls("dance"), says("sorry"))
    ran = await play(model, toolbox(FakeTool("draw"), FakeTool("write")))
    assert ran.results[0].text == "Tool dance not found. Available: draw, write."
    assert ran.results[0].is_error


async def test_wrong_arguments_are_answered_with_what_is_wrong_and_what_came() -> None:
    tool = FakeTool("draw")
    model = ScriptedModel(calls("draw", count="many", colour="red"), says("sorry"))
    ran = await play(model, toolbox(tool))
    assert ran.results[0].text == (
        'Validation failed for tool "draw":\n'
        "- count: expected integer, got string\n"
        "- colour: unknown parameter (known: what, path, count)\n"
        "\n"
        "Received arguments:\n"
        '{\n  "count": "many",\n  "colour": "red"\n}'
    )
    assert tool.calls == []


class OneReply(ScriptedModel):
    """Gives one prepared message, then says goodbye."""

    def __init__(self, message: Assistant) -> None:
        super().__init__(says("bye"))
        self._message: Assistant | None = message

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if self._message is not None:
            self.requests.append(request)
            message, self._message = self._message, None
            yield Done(message)
            return
        async for event in super().stream(request):
            yield event


async def test_broken_arguments_never_run() -> None:
    tool = FakeTool("draw")
    call = ToolCall(id="c1", name="draw", arguments={}, broken='{"what": "a c')
    ran = await play(OneReply(Assistant(content=(call,), stop_reason="toolUse")), toolbox(tool))
    assert tool.calls == []
    assert ran.results[0].text.startswith('Validation failed for tool "draw":\n- the arguments are not a JSON object')
    assert ran.results[0].text.endswith('Received arguments:\n{"what": "a c')


async def test_calls_with_the_same_id_or_none_are_told_apart() -> None:
    same = tuple(ToolCall(id=one, name="draw", arguments={"what": str(n)}) for n, one in enumerate(["a", "a", "", ""]))
    model = OneReply(Assistant(content=same, stop_reason="toolUse"))
    await play(model, toolbox(FakeTool("draw")))
    assert [(result.tool_call_id, result.text) for result in answers(model.requests[1])] == [
        ("a", "did 0"),
        ("a_2", "did 1"),
        ("call", "did 2"),
        ("call_2", "did 3"),
    ]


async def test_an_id_used_in_an_earlier_reply_is_not_used_again() -> None:
    class Forgetful(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            async for event in super().stream(request):
                if isinstance(event, Done):
                    blocks = [
                        ToolCall(id="call_0", name=block.name) if isinstance(block, ToolCall) else block
                        for block in event.message.content
                    ]
                    event = Done(Assistant(content=tuple(blocks), stop_reason=event.message.stop_reason))
                yield event

    model = Forgetful(calls("draw"), calls("draw"), says("ok"))
    await play(model, toolbox(FakeTool("draw")))
    assert [result.tool_call_id for result in answers(model.requests[2])] == ["call_0", "call_0_2"]


async def test_a_tool_that_raises_is_that_calls_failure_and_nobody_elses(caplog: pytest.LogCaptureFixture) -> None:
    async def explode(args: Mapping[str, Any], context: ToolContext) -> Output:
        raise ZeroDivisionError("by zero")

    async def refuse(args: Mapping[str, Any], context: ToolContext) -> Output:
        raise StateError("the disk is full")

    model = ScriptedModel([calls("bad"), calls("full"), calls("good")], says("ok"))
    with caplog.at_level(logging.ERROR):
        await play(model, toolbox(FakeTool("bad", explode), FakeTool("full", refuse), FakeTool("good")))
    bad, full, good = answers(model.requests[1])
    assert json.loads(bad.text) == {"status": "error", "tool": "bad", "error": "ZeroDivisionError: by zero"}
    assert json.loads(full.text) == {"status": "error", "tool": "full", "error": "the disk is full"}
    assert bad.is_error and full.is_error and not good.is_error
    assert [record.getMessage() for record in caplog.records] == ["tool bad failed"]


async def test_a_gate_that_fails_stops_its_call_and_not_the_run() -> None:
    class Broken:
        async def admit(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str | None:
            raise StateError("exec-approvals.json cannot be read")

    model = ScriptedModel(calls("draw"), says("ok"))
    ran = await play(model, toolbox(FakeTool("draw"), gate=Broken()))
    assert "exec-approvals.json cannot be read" in ran.results[0].text


async def test_what_a_tool_returns_can_always_be_written_down() -> None:
    async def odd(args: Mapping[str, Any], context: ToolContext) -> Output:
        return Output(content=(Text("half \ud800 pair"),), details={"object": object()})

    ran = await play(ScriptedModel(calls("draw"), says("ok")), toolbox(FakeTool("draw", odd)))
    assert ran.results[0].text == "half ? pair"
    assert ran.results[0].details is None


async def test_a_tool_without_output_says_so() -> None:
    async def silent(args: Mapping[str, Any], context: ToolContext) -> Output:
        return Output()

    ran = await play(ScriptedModel(calls("draw"), says("ok")), toolbox(FakeTool("draw", silent)))
    assert ran.results[0].text == "(no output)"


async def test_progress_is_seen_between_the_start_and_the_end_of_its_call() -> None:
    async def slow(args: Mapping[str, Any], context: ToolContext) -> Output:
        context.report("half way")
        return Output.of("done")

    ran = await play(ScriptedModel(calls("draw"), says("ok")), toolbox(FakeTool("draw", slow)))
    kinds = [type(event) for event in ran.events if isinstance(event, ToolStarted | ToolUpdated | ToolEnded)]
    assert kinds == [ToolStarted, ToolUpdated, ToolEnded]


async def test_a_long_result_is_cut_and_says_by_how_much() -> None:
    async def long(args: Mapping[str, Any], context: ToolContext) -> Output:
        return Output(content=(Text("x" * 900), Image("aGk=", "image/png"), Text("y" * 300)))

    ran = await play(ScriptedModel(calls("draw"), says("ok")), toolbox(FakeTool("draw", long), cap=1000))
    assert ran.results[0].text == (
        "x" * 900 + "\n" + "y" * 100 + "\n[... 200 more characters truncated; rerun with narrower args if needed]"
    )
    assert any(isinstance(block, Image) for block in ran.results[0].content)


async def test_a_tool_goes_by_its_other_name_too() -> None:
    for name, other in (("exec", "Bash"), ("image", "view_image")):
        tool = FakeTool(name)
        await play(ScriptedModel(calls(other, what="x"), says("ok")), toolbox(tool))
        assert tool.calls == [{"what": "x"}]


# What people add while the run is busy.


async def test_a_message_while_busy_is_seen_before_the_next_step() -> None:
    steering = Steering()

    def hear(event: object) -> None:
        if isinstance(event, ToolStarted):
            steering.add(User(content="no, blue"))

    model = ScriptedModel(calls("draw"), says("Blue, then."))
    ran = await play(model, toolbox(FakeTool("draw")), steering=steering, seen=hear)
    assert [type(message).__name__ for message in model.requests[1].messages] == [
        "User",
        "Assistant",
        "ToolResult",
        "User",
    ]
    assert model.requests[1].messages[-1] == User(content="no, blue")
    assert ran.results[0].text == "did it"  # a running tool is not disturbed


async def test_calls_that_have_not_begun_are_skipped_when_someone_waits_to_be_heard() -> None:
    steering = Steering()
    tool = FakeTool("draw")

    def hear(event: object) -> None:
        if isinstance(event, MessageEnded) and event.message.calls:
            steering.add(User(content="stop that"))

    model = ScriptedModel([calls("draw", what="1"), calls("draw", count="wrong")], says("Stopped."))
    ran = await play(model, toolbox(tool), steering=steering, seen=hear)
    skipped, invalid = answers(model.requests[1])
    assert skipped.text == "Skipped to process an incoming message."
    assert skipped.is_error
    assert invalid.text.startswith("Validation failed")  # decided before, so it keeps its own answer
    assert tool.calls == []
    started = [event.call.id for event in ran.events if isinstance(event, ToolStarted)]
    ended = [event.call.id for event in ran.events if isinstance(event, ToolEnded)]
    assert sorted(started) == sorted(ended) == sorted(result.tool_call_id for result in (skipped, invalid))


async def test_a_call_waiting_for_its_turn_is_skipped_while_the_running_one_ends() -> None:
    steering = Steering()

    async def work(args: Mapping[str, Any], context: ToolContext) -> Output:
        for _ in range(5):
            await asyncio.sleep(0)  # until the other call stands in line
        steering.add(User(content="enough"))
        return Output.of("done")

    tool = FakeTool("draw", work)
    model = ScriptedModel([calls("draw", path="/a"), calls("draw", path="/a")], says("ok"))
    await play(model, toolbox(tool), steering=steering)
    assert [result.text for result in answers(model.requests[1])] == [
        "done",
        "Skipped to process an incoming message.",
    ]


async def test_each_of_several_messages_gets_an_answer_of_its_own() -> None:
    steering = Steering()
    steering.add(User(content="one"))
    steering.add(User(content="two"))
    model = ScriptedModel(says("first"), says("second"))
    ran = await play(model, toolbox(), steering=steering)
    heard = [event.message.text if isinstance(event, MessageEnded | Steered) else "" for event in ran.events]
    assert [text for text in heard if text] == ["one", "first", "two", "second"]


# Models that misbehave.


async def test_a_stream_that_ends_in_the_middle_is_an_error_that_says_so() -> None:
    ran = await play(ScriptedModel([says("half an ans"), hangs_up()]), toolbox())
    assert ran.end.stop_reason == "error"
    assert ran.end.error == "scripted/scripted ended its answer without finishing it"


async def test_an_empty_reply_is_an_error_that_says_so() -> None:
    ran = await play(ScriptedModel(says("   ")), toolbox())
    assert (ran.end.error_code, ran.end.error) == ("empty_response", "scripted/scripted gave an empty answer")


async def test_a_model_that_acts_and_says_nothing_is_asked_for_words_with_its_hands_tied() -> None:
    model = ScriptedModel(calls("draw", what="a cat"), says(" "), says("A cat is on the paper."))
    ran = await play(model, toolbox(FakeTool("draw")))
    assert ran.end.stop_reason == "stop" and ran.end.error is None
    assert [request.tool_choice for request in model.requests] == ["auto", "auto", "none"]
    # The tools are still told: a conversation that holds calls cannot be read without them.
    assert [len(request.tools) for request in model.requests] == [1, 1, 1]
    assert model.requests[1].messages == model.requests[2].messages


async def test_a_model_that_never_says_what_it_did_ends_with_a_word_of_ours() -> None:
    model = ScriptedModel(calls("draw", what="a cat"), *[says("")] * 5)
    ran = await play(model, toolbox(FakeTool("draw")))
    assert ran.end.stop_reason == "stop" and ran.end.error is None
    (notice,) = [event.text for event in ran.events if isinstance(event, RunNotice)]
    assert "no summary" in notice
    assert len(model.requests) == 4  # its turn, the silence, and two more chances


async def test_a_circle_that_goes_on_after_a_compaction_ends_the_run() -> None:
    model = ScriptedModel(*(calls("look", what="the same") for _ in range(10)), says("never"))
    box = toolbox(FakeTool("look"))
    box.compacted()
    ran = await play(model, box)
    assert ran.end.error_code == "compaction_loop_persisted"
    assert len(model.requests) == 3


async def test_work_that_goes_on_after_a_compaction_is_left_alone() -> None:
    model = ScriptedModel(*(calls("look", what=name) for name in "aab"), *[calls("look", what="a")] * 2, says("done"))
    box = toolbox(FakeTool("look"))
    box.compacted()
    ran = await play(model, box)
    assert (ran.end.stop_reason, ran.end.error) == ("stop", None)


async def test_a_failing_provider_ends_the_run_with_its_reason() -> None:
    ran = await play(ScriptedModel(fails(RateLimited("slow down"))), toolbox())
    assert (ran.end.stop_reason, ran.end.error_code, ran.end.error) == ("error", "rate_limit", "slow down")


# Silence.


async def silence(
    model: ScriptedModel, seconds: float, *, first: float = 0.0, idle: float = 0.0
) -> tuple[FakeClock, "asyncio.Task[Any]"]:
    clock = FakeClock()
    task = asyncio.create_task(play(model, toolbox(), route=OneModel(model, first=first, idle=idle), clock=clock))
    await clock.advance(seconds)
    return clock, task


async def test_a_model_that_never_answers_is_given_up_after_the_first_limit() -> None:
    clock, task = await silence(ScriptedModel(stalls()), 119.0, first=120.0, idle=60.0)
    assert not task.done()
    await clock.advance(1.5)
    ran = await task
    assert ran.end.error_code == "timeout"
    assert ran.end.error.startswith("scripted/scripted said nothing for 120 s.")


async def test_a_model_that_falls_silent_is_given_up_after_the_idle_limit_and_not_the_longer_first_one() -> None:
    word = asyncio.Event()
    clock, task = await silence(ScriptedModel([stalls(word), says("well"), stalls()]), 100.0, first=300.0, idle=10.0)
    word.set()
    await clock.advance(9.0)
    assert not task.done()
    await clock.advance(11.0)
    ran = await task
    assert ran.end.error.startswith("scripted/scripted said nothing for 10 s.")


async def test_words_in_time_keep_a_slow_model_alive() -> None:
    words = [asyncio.Event() for _ in range(3)]
    model = ScriptedModel([step for word in words for step in (stalls(word), says("and "))])
    clock, task = await silence(model, 0.0, first=10.0, idle=10.0)
    for word in words:
        await clock.advance(9.0)
        word.set()
    await clock.advance(0.1)
    assert (await task).end.stop_reason == "stop"


async def test_without_a_limit_a_model_may_be_silent_for_hours() -> None:
    word = asyncio.Event()
    clock, task = await silence(ScriptedModel([stalls(word), says("at last")]), 9 * 3600.0)
    assert not task.done()
    word.set()
    assert (await task).end.stop_reason == "stop"
    assert clock.now() > 0


async def test_a_stop_at_the_very_moment_of_the_silence_limit_is_still_a_stop() -> None:
    class Noon(FakeClock):
        """The limit is reached, and the person gives up, in the same tick."""

        moment = 0.0

        def now(self) -> float:
            return self.moment

        def call_later(self, seconds: float, work: Callable[[], object]) -> Timer:
            def reached() -> None:
                self.moment += seconds
                task.cancel()
                work()

            return asyncio.get_running_loop().call_soon(reached)

    model = ScriptedModel(stalls())
    task = asyncio.create_task(play(model, toolbox(), route=OneModel(model, first=10.0), clock=Noon()))
    await asyncio.wait({task})
    assert task.cancelled()


# Going in circles.


async def test_a_model_that_repeats_itself_is_warned_then_blocked_then_stopped() -> None:
    tool = FakeTool("draw")
    model = ScriptedModel(*(calls("draw", what="a cat") for _ in range(40)))
    ran = await play(model, toolbox(tool))
    texts = [result.text for result in ran.results]
    assert texts[:10] == ["did a cat"] * 10
    assert texts[10] == ("did a cat\n[draw has been called 11 times with the same arguments. Try something else.]")
    assert len(tool.calls) == 20
    blocked = json.loads(texts[20])
    assert (blocked["status"], blocked["deniedReason"]) == ("blocked", "tool-loop")
    assert len(texts) == 22  # one more chance, then the end
    assert (ran.end.stop_reason, ran.end.error_code) == ("error", "tool_loop")
    assert ran.end.error == "stopped: the model kept repeating calls that bring nothing new"


async def test_one_call_in_circles_blocks_its_whole_reply() -> None:
    tool = FakeTool("draw")
    again = [calls("draw", what="a cat") for _ in range(20)]
    model = ScriptedModel(*again, [calls("draw", what="a cat"), calls("draw", what="a dog")], says("ok"))
    ran = await play(model, toolbox(tool))
    assert [json.loads(result.text)["status"] for result in ran.results[20:]] == ["blocked", "blocked"]
    assert {"what": "a dog"} not in tool.calls
    assert ran.end.stop_reason == "stop"


async def test_the_warning_survives_a_result_that_is_cut() -> None:
    async def long(args: Mapping[str, Any], context: ToolContext) -> Output:
        return Output.of("x" * 5000)

    model = ScriptedModel(*(calls("draw") for _ in range(11)), says("ok"))
    ran = await play(model, toolbox(FakeTool("draw", long), cap=1000))
    assert ran.results[10].text.endswith("Try something else.]")


async def test_calling_tools_that_do_not_exist_is_going_in_circles_too() -> None:
    model = ScriptedModel(*(calls(f"tool{n}") for n in range(20)))
    ran = await play(model, toolbox())
    assert [result.text.startswith("Tool ") for result in ran.results] == [True] * 9 + [False] * 2
    assert ran.end.error_code == "tool_loop"


async def test_with_detection_off_nothing_is_blocked() -> None:
    model = ScriptedModel(*(calls("draw") for _ in range(50)), says("ok"))
    ran = await play(model, toolbox(FakeTool("draw"), limits=RepeatLimits(enabled=False)))
    assert ran.end.stop_reason == "stop"


async def test_text_that_streams_is_the_text_of_the_message() -> None:
    ran = await play(ScriptedModel(says("grüße aus Köln 👋")), toolbox())
    streamed = "".join(event.text for event in ran.events if isinstance(event, TextDelta))
    message = next(event.message for event in ran.events if isinstance(event, MessageEnded))
    assert streamed == message.text == "grüße aus Köln 👋"
    assert message.timestamp > 0
