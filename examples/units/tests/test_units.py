"""The example tool: exact, polite about nonsense, the same for models and people."""

from pathlib import Path

import pytest

from openclaw.testing.plugins import plugin_problems, running_plugin

HERE = Path(__file__).parent.parent
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_it_keeps_to_the_contract() -> None:
    assert await plugin_problems(HERE) == []


async def test_it_converts_exactly_and_says_what_it_cannot() -> None:
    async with running_plugin(HERE, config={"digits": 6}) as plugin:
        cases = [
            ({"value": 26.2, "from": "mi", "to": "km"}, "42.164813 km"),
            ({"value": 0.1, "from": "m", "to": "cm"}, "10 cm"),
            ({"value": -40, "from": "C", "to": "F"}, "-40 F"),
        ]
        for args, expected in cases:
            output = await plugin.tool("convert_units", **args)
            assert (output.text, output.is_error) == (expected, False)
        wrong = await plugin.tool("convert_units", **{"value": 1, "from": "km", "to": "kg"})
        assert wrong.is_error and "km does not become kg" in wrong.text


async def test_people_can_ask_too() -> None:
    async with running_plugin(HERE) as plugin:
        assert (await plugin.command("convert", "3 km mi")).text == "1.8641 mi"
        assert (await plugin.command("convert", "three miles")).text == "write: /convert 3 km mi"


async def test_settings_it_does_not_know_are_refused() -> None:
    assert "digits" in (await plugin_problems(HERE, config={"digits": 99}))[0]
