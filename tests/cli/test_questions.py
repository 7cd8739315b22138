"""A question at the terminal of `openclaw agent`: answered elsewhere, or left behind by its run."""

import asyncio
import os
import re

import pytest

from openclaw.cli.talk.message import ask
from openclaw.process.tasks import SystemClock
from openclaw.testing import ScriptedModel, TemporaryHome, calls, says
from tests.gateway.test_commands import terminal
from tests.runs.commands.house import DEADLINE, chat_window

pytestmark = pytest.mark.anyio


class QuickClock(SystemClock):
    """Waits a twentieth of the time: what a run waits for people is over soon."""

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds / 20)


async def shows(person: int, words: str, before: str = "") -> str:
    """What the terminal shows, until `words` are among it."""
    shown = before
    async with asyncio.timeout(DEADLINE):
        while words not in shown:
            shown += (await asyncio.to_thread(os.read, person, 4096)).decode()
    return shown


async def test_a_question_answered_elsewhere_is_closed_at_the_terminal(openclaw_home: TemporaryHome) -> None:
    model = ScriptedModel(calls("exec", command="install /dev/null wanted"), says("done"))
    async with chat_window(openclaw_home, model) as chat, chat.connect() as client:
        with terminal() as person:
            asking = asyncio.create_task(ask(client, {"message": "do it"}, as_json=False, limit=0))
            await shows(person, "Run it?")
            (question,) = await chat.client.call("exec.approval.list", {})
            await chat.client.call("exec.approval.resolve", {"id": question["id"], "decision": "allow-once"})
            await shows(person, f"{question['id']}: answered elsewhere: allow-once")
            async with asyncio.timeout(DEADLINE):
                assert await asking == 0
    assert (openclaw_home.workspace / "wanted").exists()


async def test_a_run_that_goes_on_leaves_the_line_to_answer_with(openclaw_home: TemporaryHome) -> None:
    model = ScriptedModel(calls("exec", command="install /dev/null wanted"), says("It waits."), says("It is done."))
    async with chat_window(openclaw_home, model, clock=QuickClock()) as chat, chat.connect() as client:
        with terminal() as person:
            asking = asyncio.create_task(ask(client, {"message": "do it"}, as_json=False, limit=0))
            shown = await shows(person, "openclaw approvals resolve")
            shown = await shows(person, "allow-once", shown.partition("In a terminal")[2]) + shown
            async with asyncio.timeout(DEADLINE):
                assert await asking == 0
        (question,) = await chat.client.call("exec.approval.list", {})
        found = re.search(r"/approve (\S+) allow-once\|allow-always\|deny", shown)
        assert found is not None and found[1] == question["id"]
        assert not (openclaw_home.workspace / "wanted").exists()
        assert "allow-once" in await chat.asks(f"/approve {question['id']} allow-once")
        await chat.until_asked(3)
    assert (openclaw_home.workspace / "wanted").exists()
