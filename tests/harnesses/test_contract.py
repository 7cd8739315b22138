"""What every runtime must do, whichever carries out the turn."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from openclaw.core.events import ModelCalled, Steered, TextDelta, ToolEnded, ToolStarted
from openclaw.core.harness import Steering
from openclaw.core.messages import Assistant, User
from openclaw.testing import Heard, ScriptedApprover, ask
from tests.harnesses.runtimes import KINDS, Runtimes, texts
from tests.processes import children, is_alive

pytestmark = pytest.mark.anyio


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def here(openclaw_home: Any) -> Runtimes:
    return Runtimes(openclaw_home)


async def until(look: Callable[[], Any]) -> None:
    async with asyncio.timeout(120):
        while not look():
            await asyncio.sleep(0.02)


def streamed(heard: Heard) -> str:
    return "".join(each.text for each in heard.events if isinstance(each, TextDelta))


async def test_text_is_streamed_and_recorded(here, kind):
    async with here.home.assistant(here.model) as app:
        await here.choose(app, kind)
        heard = await ask(app, "speak")
    assert streamed(heard) == heard.text == "spoken"
    assert heard.end.stop_reason == "stop"
    assert [each.text for each in here.check()] == ["speak", "spoken"]


async def test_usage_is_counted(here, kind):
    async with here.home.assistant(here.model) as app:
        await here.choose(app, kind)
        first, second = await ask(app, "speak"), await ask(app, "speak again")
    for heard in (first, second):
        assert (heard.end.usage.input, heard.end.usage.output, heard.end.usage.total_tokens) == (100, 20, 120)
    assert sum(each.usage.total_tokens for each in here.check() if isinstance(each, Assistant)) == 240


async def test_a_tool_is_an_event_and_its_result_is_recorded(here, kind):
    async with here.home.assistant(here.model) as app:
        await here.choose(app, kind)
        heard = await ask(app, "act")
    (began,) = [place for place, each in enumerate(heard.events) if isinstance(each, ToolStarted)]
    (ended,) = [place for place, each in enumerate(heard.events) if isinstance(each, ToolEnded)]
    assert began < ended
    assert heard.text == "acted"
    assert [each.text for each in here.check() if isinstance(each, Assistant)][-1] == "acted"


@pytest.mark.parametrize(("decision", "said"), [("allow-once", "permitted"), ("deny", "refused")])
async def test_a_command_needs_the_owner(here, kind, decision, said):
    owner = ScriptedApprover(decision)
    async with here.home.assistant(here.model, approver=owner) as app:
        await here.choose(app, kind)
        heard = await ask(app, "permit")
    assert heard.text == said
    assert [each.command for each in owner.asked] == ["sh -c 'echo > made.txt'"]
    assert (here.home.workspace / "made.txt").exists() == (decision == "allow-once")
    here.check()


async def test_a_message_in_between_gets_its_answer_in_the_same_run(here, kind):
    heard, steering = Heard(), Steering()
    async with here.home.assistant(here.model) as app:
        await here.choose(app, kind)
        run = asyncio.create_task(ask(app, "wait", steering=steering, into=heard))
        await until(lambda: "Waiting" in streamed(heard))
        steering.add(User("recall, please", timestamp=1))
        here.go()
        await run
    (taken,) = [each.message for each in heard.events if isinstance(each, Steered)]
    assert taken.text == "recall, please"
    assert "wait" in heard.text
    assert texts(here.check(), User) == ["wait", "recall, please"]


async def test_a_stopped_turn_leaves_a_transcript_and_no_process(here, kind):
    heard = Heard()
    async with here.home.assistant(here.model) as app:
        await here.choose(app, kind)
        run = asyncio.create_task(ask(app, "wait", into=heard))
        await until(lambda: "Waiting" in streamed(heard))
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        assert texts(here.check(), User) == ["wait"]
        again = await ask(app, "speak")
        assert again.text == "spoken"
        here.check()
        ours = children(saying=str(here.place))
    await until(lambda: not any(map(is_alive, ours)))


async def test_a_crash_leaves_a_transcript_and_the_next_turn_works(here, kind):
    async with here.home.assistant(here.model) as app:
        await here.choose(app, kind)
        heard = await ask(app, "crash")
        assert heard.end.stop_reason == "error"
        assert heard.end.error
        here.check()
        again = await ask(app, "recall")
        assert again.end.stop_reason == "stop"
        assert "crash" in again.text
    here.check()


async def test_what_was_said_is_known_later_and_after_a_restart(here, kind):
    async with here.home.assistant(here.model) as app:
        await here.choose(app, kind)
        await ask(app, "speak of apples")
        assert "apples" in (await ask(app, "recall")).text
    async with here.home.assistant(here.model) as app:
        assert "apples" in (await ask(app, "recall")).text
    here.check()


@pytest.mark.parametrize(("first", "second"), [*itertools.permutations(KINDS, 2)])
async def test_a_conversation_that_changes_its_runtime_keeps_its_history(here, first, second):
    async with here.home.assistant(here.model) as app:
        await here.choose(app, first)
        await ask(app, "speak of apples")
        await ask(app, "act")
        await here.choose(app, second)
        assert "apples" in (await ask(app, "recall")).text
        await ask(app, "speak of pears")
        await here.choose(app, first)
        back = await ask(app, "recall")
        assert "apples" in back.text
        assert "pears" in back.text
    here.check()


async def test_the_runtime_that_answers_is_the_one_chosen(here, kind):
    async with here.home.assistant(here.model) as app:
        await here.choose(app, kind)
        heard = await ask(app, "speak")
    asked = [each for each in heard.events if isinstance(each, ModelCalled)]
    assert [each.provider for each in asked] == (["acp"] if kind == "acp" else ["mock"])
    assert (here.place / "threads.json").exists() == (kind == "codex")
    assert (here.place / "sessions.json").exists() == (kind == "acp")
