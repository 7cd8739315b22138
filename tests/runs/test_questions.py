"""A question of the assistant (`ask_user`), as a client sees it."""

from typing import Any

import pytest

from openclaw.agent.loop import EmbeddedHarness
from openclaw.agent.tool_runner import NO_TOOLS
from openclaw.core.channel import Address
from openclaw.core.events import MessageEnded, RunEnded, Trigger
from openclaw.core.harness import RunJob, Steering
from openclaw.core.keys import SessionKey
from openclaw.core.messages import AskedQuestion, Assistant, ToolCall, ToolResult, User
from openclaw.core.provider import System
from openclaw.runs.request import RunRequest, reaches_person
from openclaw.testing import FakeClock, ScriptedModel, TemporaryHome, calls, says
from tests.runs.front_door import front_door, said

pytestmark = pytest.mark.anyio

PAINT = {"questions": [{"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]}]}
ASKS = calls("tool_call", id="ask_user", args=PAINT)


async def test_a_question_ends_the_turn_and_the_next_message_answers_it(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel([says("Let me see."), ASKS], says("Blue it is."))
    async with front_door(openclaw_home, model) as door:
        first = await door.chat("paint the door")
        assert said(first).endswith("Which colour?\n\n1. Red\n2. Blue")
        assert first[-1][1]["state"] == "final" and first[-1][1]["stopReason"] == "stop"
        assert len(model.requests) == 1  # nobody is asked again before there is an answer
        history = await door.client.call("chat.history", {"sessionKey": "main"})
        last = history["messages"][-1]
        assert last["role"] == "assistant" and "1. Red\n2. Blue" in str(last["content"][0]["text"])
        assert last["asks"]["options"] == ["Red", "Blue"]
        assert said(await door.chat("2")) == "Blue it is."
    seen = [message.text for message in model.requests[1].messages]
    assert seen[-2:] == ["Which colour?\n\n1. Red\n2. Blue", "2"]


async def test_a_question_that_cannot_be_asked_is_an_answer_to_the_model(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    one = calls("ask_user", questions=[{"question": "Which?", "options": [{"label": "Red"}]}])
    model = ScriptedModel(one, says("Then red."))
    async with front_door(openclaw_home, model) as door:
        assert said(await door.chat("paint the door")) == "Then red."
    assert "options" in model.requests[1].messages[-1].text


@pytest.mark.parametrize(
    ("key", "trigger", "route", "reaches"),
    [
        ("main", "user", None, True),
        ("main", "heartbeat", None, False),
        ("main", "heartbeat", Address(channel="x", to="y"), True),
        ("cron:job", "cron", Address(channel="x", to="y"), False),
        ("hook:bell", "user", Address(channel="x", to="y"), False),
        ("subagent:1", "user", None, False),
    ],
)
def test_only_who_can_answer_in_the_same_conversation_is_asked(
    key: str, trigger: Trigger, route: Address | None, reaches: bool
) -> None:
    turn = RunRequest(run_id="run", key=SessionKey("main", key), text="?", trigger=trigger, reply_to=route)
    assert reaches_person(turn) is reaches


async def test_a_job_is_not_offered_the_tool(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(says("Hello."), says("Done."))
    async with front_door(openclaw_home, model) as door:
        await door.ask("hi")
        await door.ask("tidy up", sessionKey="agent:main:cron:job")
    assert ["ask_user" in request.system.text for request in model.requests] == [True, False]


async def test_a_question_whose_words_a_kill_cut_off_is_asked_when_the_run_goes_on() -> None:
    asked = AskedQuestion("ab", "Which colour?\n\n1. Red\n2. Blue", ("Red", "Blue"))
    call = ToolCall(id="c1", name="ask_user", arguments={})
    said = (User("paint"), Assistant(content=(call,)), ToolResult(tool_call_id="c1", tool_name="ask_user", asks=asked))
    job = RunJob(system=System(), messages=said)
    route: Any = None  # no model is asked
    events = [event async for event in EmbeddedHarness(route, FakeClock()).run(job, NO_TOOLS, Steering())]
    words, end = events
    assert isinstance(words, MessageEnded) and (words.message.text, words.message.asks) == (asked.text, asked)
    assert isinstance(end, RunEnded) and end.stop_reason == "stop"
