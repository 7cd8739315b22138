"""The whole assistant in one process: a scripted model inside, real tools, a real transcript."""

import asyncio
import base64
import json
from typing import Any

import pytest

from openclaw.core.errors import ConfigError, SessionBusy
from openclaw.core.events import ToolEnded, ToolStarted, ToolUpdated
from openclaw.core.harness import Steering
from openclaw.core.messages import Assistant, Image, Text, ToolResult, User
from openclaw.process.group import members
from openclaw.process.tasks import SystemClock
from openclaw.runs.request import SessionRepaired
from openclaw.testing import FakeClock, Heard, ScriptedModel, TemporaryHome, ask, calls, says, stalls, thinks
from tests.gateway.support import results, roles, spoken, stopped_at, written

pytestmark = pytest.mark.anyio

FREE: dict[str, Any] = {"tools": {"exec": {"security": "full", "ask": "off"}}}
PIXEL = Image(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "image/png"
)


async def test_a_tool_call_and_its_answer_reach_the_transcript_and_the_next_request(
    openclaw_home: TemporaryHome,
) -> None:
    openclaw_home.use_model()
    model = ScriptedModel([thinks("hm"), calls("write", path="note.txt", content="hello")], says("Done."))
    async with openclaw_home.assistant(model) as app:
        heard = await ask(app, "write hello into note.txt")
    assert heard.text == "Done."
    assert (openclaw_home.workspace / "note.txt").read_text() == "hello"
    question, reply, result, answer = written(openclaw_home)
    assert question.text == "write hello into note.txt"
    assert isinstance(result, ToolResult)
    assert result.text == "Successfully wrote 5 bytes to note.txt"
    assert answer.text == "Done."
    assert list(model.requests[1].messages) == [question, reply, result]


async def test_the_next_turn_remembers_the_last(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(says("Hello Ada."), says("Ada."))
    async with openclaw_home.assistant(model) as app:
        await ask(app, "I am Ada")
    async with openclaw_home.assistant(model) as app:
        heard = await ask(app, "who am I?")
    assert [message.text for message in model.requests[1].messages] == ["I am Ada", "Hello Ada.", "who am I?"]
    assert not any(isinstance(event, SessionRepaired) for event in heard.events)
    assert roles(written(openclaw_home)) == ["User", "Assistant"] * 2


async def test_two_commands_run_side_by_side_and_are_answered_in_order(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(**FREE)
    first = "touch one; until test -e two; do sleep 0.01; done; echo first"
    second = "until test -e one; do sleep 0.01; done; echo second; touch two"
    model = ScriptedModel([calls("exec", command=first), calls("exec", command=second)], says("ok"))
    async with asyncio.timeout(120), openclaw_home.assistant(model) as app:
        await ask(app, "go")
    assert [result.text for result in results(model.requests[1].messages)] == ["first", "second"]


async def test_writes_to_one_file_end_in_the_order_of_the_calls(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    writes = [calls("write", path="./a/../same.txt" if n % 2 else "same.txt", content=str(n) * 1000) for n in range(8)]
    async with openclaw_home.assistant(ScriptedModel(writes, says("ok"))) as app:
        await ask(app, "go")
    assert (openclaw_home.workspace / "same.txt").read_text() == "7" * 1000


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (calls("dance"), "Tool dance not found. Available: "),
        (calls("write", path="x"), 'Validation failed for tool "write":\n- content: missing\n\nReceived arguments:\n{'),
        (calls("read", path="x", colour="red"), 'Validation failed for tool "read":\n- colour: unknown parameter'),
        (calls("read", path="nothing.txt"), "File not found: "),
    ],
)
async def test_a_call_that_cannot_be_done_is_answered_and_the_run_goes_on(
    openclaw_home: TemporaryHome, call: Any, text: str
) -> None:
    openclaw_home.use_model()
    async with openclaw_home.assistant(ScriptedModel(call, says("I see."))) as app:
        heard = await ask(app, "go")
    assert heard.results[0].text.startswith(text)
    assert heard.results[0].is_error
    assert heard.text == "I see."
    assert roles(written(openclaw_home)) == ["User", "Assistant", "ToolResult", "Assistant"]


def change_model(home: TemporaryHome, **fields: Any) -> None:
    """Configures the scripted model with `fields`."""
    settings = json.loads(home.config_path.read_text())
    settings["models"]["providers"]["scripted"]["models"][0].update(fields)
    home.configure(settings)


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        (
            calls("read", path="long.txt"),
            "{x}\n[... 4000 more characters truncated; rerun with narrower args if needed]",
        ),
        (
            calls("exec", command="cat long.txt"),  # of a command the end says how it went
            "[... 4000 earlier characters truncated; rerun with narrower args if needed]\n{x}",
        ),
    ],
    ids=["read", "exec"],
)
async def test_a_result_too_long_for_the_models_window_is_cut_with_a_note(
    openclaw_home: TemporaryHome, call: Any, kept: str
) -> None:
    openclaw_home.use_model(**FREE)
    change_model(openclaw_home, contextWindow=32_000)
    (openclaw_home.workspace / "long.txt").write_text("x" * 20_000)
    async with openclaw_home.assistant(ScriptedModel(call, says("ok"))) as app:
        heard = await ask(app, "go")
    assert heard.results[0].text == kept.format(x="x" * 16_000)


async def test_an_image_reaches_a_model_that_sees(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(says("A dot."))
    async with openclaw_home.assistant(model) as app:
        await ask(app, "what is this?", images=(PIXEL,))
    (question,) = model.requests[0].messages
    assert question.content == (Text("what is this?"), PIXEL)


async def test_a_picture_read_for_a_model_that_cannot_see_is_described_instead(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    change_model(openclaw_home, input=["text"])
    (openclaw_home.workspace / "dot.png").write_bytes(base64.b64decode(PIXEL.data))
    model = ScriptedModel(calls("read", path="dot.png"), says("ok"))
    async with openclaw_home.assistant(model) as app:
        heard = await ask(app, "go")
    assert not any(isinstance(block, Image) for block in heard.results[0].content)
    assert heard.results[0].text


async def test_commands_inherit_no_keys(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(**FREE, env={"vars": {"MY_API_KEY": "sk-very-secret-123456", "PLAIN": "yes"}})
    model = ScriptedModel(calls("exec", command="env"), says("ok"))
    async with openclaw_home.assistant(model) as app:
        heard = await ask(app, "go")
    assert "PLAIN=yes" in heard.results[0].text
    assert "sk-very-secret-123456" not in heard.results[0].text


async def test_half_a_character_from_a_terminal_does_not_break_the_session(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    async with openclaw_home.assistant(ScriptedModel(says("ok"))) as app:
        heard = await ask(app, "bad byte \udcff here")
    assert heard.end.stop_reason == "stop"
    assert written(openclaw_home)[0].text == "bad byte ? here"


PRICED = {"input": 1.0, "output": 2.0, "cacheRead": 0.1, "cacheWrite": 0.0}


async def test_usage_and_cost_are_summed_over_a_turn_and_a_session(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    change_model(openclaw_home, cost=PRICED)
    model = ScriptedModel(calls("ls"), says("two calls"), says("one more"))
    async with openclaw_home.assistant(model) as app:
        first = await ask(app, "go")
        second = await ask(app, "again")
        row = await app.index.get(app.key(None, None))
    assert first.end.turns == 2
    used = [message.usage for message in written(openclaw_home) if isinstance(message, Assistant)]
    assert first.end.usage == used[0] + used[1]
    assert second.end.usage == used[2]
    assert row is not None
    assert row.input_tokens == sum(usage.input for usage in used)
    assert row.output_tokens == sum(usage.output for usage in used)
    assert row.cost_usd == pytest.approx(sum((usage.input * 1.0 + usage.output * 2.0) / 1e6 for usage in used))
    assert row.context_tokens == used[2].prompt_tokens


@pytest.mark.sqlite
async def test_a_session_that_somebody_else_writes_is_not_touched(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(session={"writeLock": {"acquireTimeoutMs": 200}})
    clock = FakeClock()
    model = ScriptedModel([says("one moment"), stalls()])
    async with openclaw_home.assistant(model, clock=clock) as app, openclaw_home.assistant(model, clock=clock) as other:
        busy = asyncio.create_task(ask(app, "go"))
        while not model.requests:
            await asyncio.sleep(0.001)
        with pytest.raises(SessionBusy, match="session busy"):
            await clock.drive(ask(other, "me too"))
        busy.cancel()
        await asyncio.wait({busy})
    assert spoken(written(openclaw_home)) == ["one moment"]


async def test_a_model_nobody_configured_is_an_error_before_anything_is_written(openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"agents": {"defaults": {"model": "nobody/nothing"}}})
    async with openclaw_home.assistant(ScriptedModel()) as app:
        with pytest.raises(ConfigError, match="nobody"):
            await ask(app, "go")
    assert openclaw_home.transcripts() == []


async def test_a_message_while_busy_is_heard_before_the_next_step(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(**FREE)
    steering = Steering()
    model = ScriptedModel(calls("exec", command="until test -e go; do sleep 0.01; done"), says("Blue, then."))
    async with asyncio.timeout(120), openclaw_home.assistant(model, clock=SystemClock()) as app:
        heard = Heard()
        turn = asyncio.create_task(ask(app, "paint it red", steering=steering, into=heard))
        while not any(isinstance(event, ToolStarted) for event in heard.events):
            await asyncio.sleep(0.001)
        steering.add(User(content="no, blue"))
        (openclaw_home.workspace / "go").touch()
        await turn
    assert heard.text == "Blue, then."
    assert model.requests[1].messages[-1].text == "no, blue"
    assert roles(written(openclaw_home)) == ["User", "Assistant", "ToolResult", "User", "Assistant"]


# Stopping.


async def test_a_stop_while_the_model_speaks_keeps_what_it_said(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel([says("Once upon a time"), stalls()], says("there was a cat."))
    async with openclaw_home.assistant(model) as app:
        await stopped_at(app, "tell me a story", lambda event: getattr(event, "text", "") == "n a time")
        partial = written(openclaw_home)[-1]
        assert (partial.text, getattr(partial, "stop_reason", "")) == ("Once upon a time", "aborted")
        heard = await ask(app, "go on")
    assert heard.text == "there was a cat."
    assert [message.text for message in model.requests[1].messages] == ["tell me a story", "Once upon a time", "go on"]


async def test_a_stop_while_a_tool_runs_ends_it_and_says_so_in_the_transcript(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(**FREE)
    never = calls("exec", command="echo $$; sleep 600 & sleep 600")
    model = ScriptedModel([calls("write", path="x", content="y"), never], says("Stopped, then."))
    async with openclaw_home.assistant(model) as app:
        awaited = {ToolEnded, ToolUpdated}  # of both calls, whichever is first

        def is_time(event: object) -> bool:
            awaited.discard(type(event))
            return not awaited

        heard = await stopped_at(app, "go", is_time)
        pid = next(int(event.text) for event in heard.events if isinstance(event, ToolUpdated))
        assert members(pid) == set()
        done, stopped = results(written(openclaw_home))
        assert not done.is_error
        assert stopped.is_error
        assert stopped.text == (
            "Stopped by the user before this call finished. Check whether it took effect before repeating it."
        )
        heard = await ask(app, "and now?")
    assert heard.text == "Stopped, then."
    assert roles(model.requests[1].messages) == ["User", "Assistant", "ToolResult", "ToolResult", "User"]


async def test_a_stop_before_the_model_said_anything_leaves_the_question(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(stalls(), says("here"))
    async with openclaw_home.assistant(model) as app:
        await stopped_at(app, "hello?", lambda event: type(event).__name__ == "ModelCalled")
        assert roles(written(openclaw_home)) == ["User"]
        row = await app.index.get(app.key(None, None))
        assert row is not None and row.status == "killed"
        heard = await ask(app, "hello!")
    assert heard.text == "here"
