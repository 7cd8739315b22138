"""The kit for testing an agent: its page works as written, and its fakes do what they say."""

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.errors import ProviderError
from openclaw.core.events import Done, TextDelta
from openclaw.core.messages import User
from openclaw.core.provider import Model, ModelRequest, System
from openclaw.testing import FakeClock, Says, ScriptedApprover, ScriptedModel, TemporaryHome, ask, calls, says, thinks

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
REQUEST = ModelRequest(
    model=Model(provider="p", id="m", api="openai-completions"),
    system=System("be kind"),
    messages=(User(content="hello"),),
)


def examples() -> dict[str, Any]:
    """The tests on the page, by name; together they are one file."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    module: dict[str, Any] = {}
    exec(compile("\n\n".join(blocks), str(PAGE), "exec"), module)
    return {name: test for name, test in module.items() if name.startswith("test_")}


@pytest.mark.parametrize("name", examples())
async def test_the_page_works_as_it_is_written(name: str, request: pytest.FixtureRequest) -> None:
    test = examples()[name]
    await test(**{fixture: request.getfixturevalue(fixture) for fixture in inspect.signature(test).parameters})


async def test_a_script_is_followed_and_what_was_asked_is_remembered() -> None:
    model = ScriptedModel([thinks("hm"), Says("Hello there.", piece=5), calls("ls", path="x")])
    events = [event async for event in model.stream(REQUEST)]
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hello", " ther", "e."]
    done = events[-1]
    assert isinstance(done, Done)
    assert (done.message.text, done.message.thinking, done.message.stop_reason) == ("Hello there.", "hm", "toolUse")
    assert done.message.calls[0].arguments == {"path": "x"}
    assert model.saw("be kind") and model.saw("hello") and not model.saw("goodbye")
    assert model.left == 0
    with pytest.raises(ProviderError, match="the script is over"):
        await anext(model.stream(REQUEST))


async def test_sleepers_wake_in_order_at_their_moment() -> None:
    clock = FakeClock(now=0.0)
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, *naps: float) -> None:
        for nap in naps:
            await clock.sleep(nap)
            woken.append((name, clock.now()))

    tasks = [asyncio.create_task(sleeper("a", 5, 5)), asyncio.create_task(sleeper("b", 7))]
    await clock.advance(8)
    assert woken == [("a", 5.0), ("b", 7.0)]
    await clock.advance(2)
    assert woken[-1] == ("a", 10.0)
    await asyncio.gather(*tasks)


async def test_driving_moves_time_only_as_far_as_needed() -> None:
    clock = FakeClock(now=0.0)

    async def work() -> str:
        await clock.sleep(3600)
        await clock.sleep(60)
        return "done"

    assert await clock.drive(work()) == "done"
    assert clock.now() == 3660.0


async def test_driving_passes_on_a_failure() -> None:
    async def work() -> None:
        raise ProviderError("no")

    with pytest.raises(ProviderError, match="no"):
        await FakeClock().drive(work())


async def test_an_approver_without_a_script_says_no(openclaw_home: TemporaryHome) -> None:
    approver = ScriptedApprover()
    openclaw_home.use_model()
    model = ScriptedModel(calls("exec", command="sleep 0"), says("ok"))
    async with openclaw_home.assistant(model, approver=approver) as app:
        heard = await ask(app, "go")
    assert heard.results[0].text.startswith("Not run: the user said no")


def test_a_home_has_nothing_of_the_machine_but_its_path(openclaw_home: TemporaryHome) -> None:
    assert set(openclaw_home.environ) == {
        "HOME",
        "PATH",
        "OPENCLAW_STATE_DIR",
        "OPENCLAW_CONFIG_PATH",
        "OPENCLAW_NO_LOCAL_MODELS",
    }
