"""`kill -9` at any moment: what was written is there, what is there can be loaded, and the next run goes on."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from openclaw.core.messages import Assistant, Message, ToolResult
from openclaw.sessions.files import load
from openclaw.sessions.transcript import build_context
from openclaw.testing import ScriptedModel, TemporaryHome, ask, says

KILLS = 10


@pytest.fixture
def home(tmp_path: Path) -> TemporaryHome:
    made = TemporaryHome(tmp_path)
    made.use_model()
    return made


@pytest.fixture
def starter(home: TemporaryHome) -> Iterator["subprocess.Popen[str]"]:
    """The process that starts the ones to be killed."""
    argv = [sys.executable, "-m", "tests.gateway.killed", str(home.root)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(argv, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
    assert process.returncode == 0


def kill_somewhere(starter: "subprocess.Popen[str]", chance: random.Random) -> int:
    """Has turns started and ends them by force a little later; gives the messages that were said to be written."""
    assert starter.stdin is not None and starter.stdout is not None
    starter.stdin.write("go\n")
    starter.stdin.flush()
    pid = int(starter.stdout.readline())
    recorded = 0
    for _ in range(chance.randint(1, 120)):
        recorded = max(recorded, int(starter.stdout.readline()))
    time.sleep(chance.random() * 0.004)  # so that the end does not always come between two events
    os.kill(pid, signal.SIGKILL)
    while (line := starter.stdout.readline().strip()) != "gone":
        recorded = max(recorded, int(line))
    return recorded


def pairs_are_whole(messages: Sequence[Message]) -> bool:
    """Every call is followed by exactly one result, in order, and no result stands alone."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResult):
            if not waiting or waiting.pop(0) != message.tool_call_id:
                return False
        elif waiting:
            return False
        elif isinstance(message, Assistant):
            waiting = [call.id for call in message.calls]
    return not waiting


async def next_run(home: TemporaryHome) -> tuple[str, Sequence[Message]]:
    model = ScriptedModel(says("I am still here."))
    async with home.assistant(model) as app:
        heard = await ask(app, "are you there?")
    return heard.text, model.requests[0].messages


def test_a_killed_assistant_loses_nothing_it_said_it_had_and_goes_on(
    home: TemporaryHome, starter: "subprocess.Popen[str]"
) -> None:
    chance = random.Random(20_261_115)
    for kill in range(KILLS):
        recorded = kill_somewhere(starter, chance)
        (path,) = home.transcripts()
        loaded = load(path)
        context = build_context(loaded.entries)
        assert {problem.kind for problem in loaded.problems} <= {"torn"}, kill
        assert len([entry for entry in loaded.entries if hasattr(entry, "message")]) >= recorded, kill
        assert pairs_are_whole(context.messages), kill
        text, asked = asyncio.run(next_run(home))
        assert text == "I am still here.", kill
        assert pairs_are_whole(asked), kill
        assert len(load(path).entries) == len(loaded.entries) + len(context.unanswered) + 2, kill
