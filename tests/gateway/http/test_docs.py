"""What docs/http.md shows works as shown."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw.runs.toolset import DENIED
from openclaw.testing import ScriptedModel, TemporaryHome, says
from tests.gateway.http.support import TOKEN, house

PAGE = (Path(__file__).parents[3] / "docs" / "http.md").read_text()


@pytest.mark.anyio
async def test_the_example_prints_the_answer(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    scripted_model.script(says("Buy milk."))
    async with house(openclaw_home, scripted_model) as place:
        env = {**os.environ, "OPENCLAW_URL": f"http://127.0.0.1:{place.port}", "OPENCLAW_TOKEN": TOKEN}
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", example], env=env, capture_output=True, text=True, timeout=120
        )
    assert done.stdout == "Buy milk.\n", done.stderr
    assert scripted_model.saw("Answer in one sentence.")


def test_the_tools_that_are_never_there_are_listed() -> None:
    assert all(f"`{name}`" in PAGE for name in DENIED)
