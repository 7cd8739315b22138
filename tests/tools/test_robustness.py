"""Commands that misbehave are ended, said so, and leave nothing behind; the loop goes on meanwhile."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from openclaw.core.events import ToolEnded
from openclaw.core.tool import ToolContext
from openclaw.process.group import members
from openclaw.process.tasks import SystemClock
from openclaw.testing import Heard, ScriptedModel, TemporaryHome, ask, calls, says
from openclaw.tools.background import Background
from openclaw.tools.exec import ExecTool
from openclaw.tools.settings import ExecSettings
from tests.tools.conftest import Call

pytestmark = pytest.mark.anyio
ENV = {"PATH": os.environ["PATH"], "HOME": "/tmp", "LANG": "C.UTF-8"}


@pytest.fixture
def few() -> ExecTool:
    """exec that takes a crowd for one early, so that the machine of the tests stays usable."""
    return ExecTool(ExecSettings(timeout_seconds=120, max_processes=60), shell="/bin/bash", env=ENV)


def alive(marker: str) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = place.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marker in text and str(os.getpid()) not in place.parts:
            found.append(text)
    return found


@pytest.mark.parametrize(
    "command",
    [
        "f() { sleep 61.5 & f | f & wait; }; f",
        "for i in $(seq 3000); do sleep 61.5 & done; wait",
        "set -m; for i in $(seq 3000); do sleep 61.5 & done; wait",
    ],
    ids=["a fork bomb", "thousands of processes", "thousands in groups of their own"],
)
async def test_a_command_that_multiplies_is_ended_with_everything_it_started(
    few: ExecTool, call: Call, command: str
) -> None:
    async with asyncio.timeout(110):
        answer = await call(few, command=command)
    assert answer.is_error
    assert "tools.exec.maxProcesses" in answer.text
    assert alive("sleep 61.5") == []


async def test_a_crowd_in_the_background_is_ended_too(call: Call) -> None:
    background = Background(SystemClock())
    tool = ExecTool(ExecSettings(max_processes=60), shell="/bin/bash", env=ENV, background=background)
    try:
        async with asyncio.timeout(110):
            answer = await call(tool, command="for i in $(seq 3000); do sleep 62.5 & done; wait", yieldMs=100_000)
        assert "tools.exec.maxProcesses" in answer.text
        assert alive("sleep 62.5") == []
    finally:
        await background.close()


async def test_an_ordinary_number_of_processes_is_left_alone(few: ExecTool, call: Call) -> None:
    async with asyncio.timeout(100):
        answer = await call(few, command="for i in $(seq 30); do sleep 0.3 & done; wait; echo done")
    assert answer.text == "done"


async def test_a_gigabyte_of_output_is_kept_by_its_end_and_the_loop_turns(call: Call) -> None:
    import resource

    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    beside = asyncio.create_task(turn())
    tool = ExecTool(ExecSettings(timeout_seconds=120), shell="/bin/bash", env=ENV)
    async with asyncio.timeout(150):
        answer = await call(tool, command="head -c 1000000000 /dev/zero | tr '\\0' x; echo; echo END")
    beside.cancel()
    assert answer.text.endswith("END")
    assert len(answer.text) < 500_000
    assert turns > 5
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000, f"{grown} KB more"


@pytest.mark.parametrize(
    "command", ["cat", "read x; echo got $x", "python3", "bash", "sort", "ssh-keygen -y -f /dev/stdin"]
)
async def test_a_program_that_waits_for_typing_gets_the_end_of_its_input(call: Call, command: str) -> None:
    if shutil.which(command.split()[0]) is None and command.split()[0] != "read":
        pytest.skip(f"{command.split()[0]} is not installed")
    async with asyncio.timeout(60):
        answer = await call(ExecTool(ExecSettings(timeout_seconds=30), shell="/bin/bash", env=ENV), command=command)
    assert answer.details is not None
    assert not answer.details["timedOut"]


async def test_many_commands_at_once_come_back_or_are_told_that_there_are_too_many(workspace: Path) -> None:
    background = Background(SystemClock())
    tool = ExecTool(shell="/bin/sh", env=ENV, background=background)
    context = ToolContext(call_id="c", workspace=workspace, session_key="agent:main:main")
    try:
        async with asyncio.timeout(110):
            answers = await asyncio.gather(*(tool.call({"command": "sleep 1"}, context) for _ in range(300)))
        refused = [answer for answer in answers if "which is the limit" in answer.text]
        assert len(answers) - len(refused) == 64
        assert all(not answer.is_error for answer in answers if answer not in refused)
    finally:
        await background.close()


async def test_when_a_run_ends_what_it_started_is_gone_unless_it_was_put_in_the_background(
    openclaw_home: TemporaryHome,
) -> None:
    openclaw_home.use_model(tools={"exec": {"security": "full", "ask": "off"}})
    model = ScriptedModel(
        [calls("exec", command="sleep 63.5"), calls("exec", command="echo $$ > kept; sleep 64.5", background=True)],
        says("never"),
    )
    async with openclaw_home.assistant(model, clock=SystemClock()) as app:
        heard = Heard()
        run = asyncio.create_task(ask(app, "go", into=heard))
        async with asyncio.timeout(60):
            while not any(isinstance(event, ToolEnded) for event in heard.events) or not alive("sleep 63.5"):
                await asyncio.sleep(0.05)
        run.cancel()
        await asyncio.wait({run})
        assert alive("sleep 63.5") == []
        assert members(int((openclaw_home.workspace / "kept").read_text()))
    assert alive("sleep 64.5") == []
