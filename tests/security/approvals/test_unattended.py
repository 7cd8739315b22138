"""Questions of runs that nobody watches, through a whole gateway: asked or refused, and answered late."""

import asyncio
from typing import Any

import pytest

from openclaw.channels.approvals import REFUSED
from openclaw.core.keys import SessionKey
from openclaw.runs.queue import ActiveRun, Activity, QueuedRun, QueueRules, limit_run
from openclaw.runs.request import RunRequest
from openclaw.security.pending import CHANGED
from openclaw.testing import FakeClock, ScriptedModel, TemporaryHome, calls, says
from tests.runs.commands.house import DEADLINE, ChatWindow, chat_window

pytestmark = pytest.mark.anyio

JOB = {
    "name": "build",
    "schedule": {"kind": "cron", "expr": "0 4 * * *"},
    "sessionTarget": "isolated",
    "wakeMode": "now",
    "payload": {"kind": "agentTurn", "message": "build it"},
}


async def run_job(chat: ChatWindow) -> None:
    """Runs a job now, until it has ended."""
    job = await chat.client.call("cron.add", JOB)
    started = await chat.client.call("cron.run", {"id": job["id"]})
    async with asyncio.timeout(DEADLINE):
        while not (await chat.client.call("cron.runs", {"id": job["id"], "runId": started["runId"]}))["total"]:
            await asyncio.sleep(0.02)


def script(home: TemporaryHome) -> ScriptedModel:
    home.use_model("scripted/scripted", "scripted/other")
    program = home.workspace / "build.sh"
    program.write_text("#!/bin/sh\ntouch built\n")
    program.chmod(0o755)
    return ScriptedModel(calls("exec", command="./build.sh"), says("That is all."), says("I see."))


@pytest.mark.parametrize("setting", [{"unattended": "ask"}, {}], ids=["ask", "unset"])
async def test_a_job_asks_and_goes_on_and_what_was_shown_runs_once_allowed(
    openclaw_home: TemporaryHome, setting: dict[str, Any]
) -> None:
    model = script(openclaw_home)
    async with chat_window(openclaw_home, model, approvals=setting) as chat:
        await run_job(chat)
        assert "approval-pending" in chat.said()
        (question,) = await chat.client.call("exec.approval.list", {})
        await chat.client.call("exec.approval.resolve", {"id": question["id"], "decision": "allow-once"})
        await chat.until_asked(3)
        assert "it was allowed and done" in chat.said()
    assert (openclaw_home.workspace / "built").exists()


async def test_a_job_is_refused_at_once_where_that_is_set(openclaw_home: TemporaryHome) -> None:
    model = script(openclaw_home)
    async with chat_window(openclaw_home, model, approvals={"unattended": "refuse"}) as chat:
        await run_job(chat)
        assert REFUSED in chat.said()
        assert await chat.client.call("exec.approval.list", {}) == []
    assert not (openclaw_home.workspace / "built").exists()


async def test_a_program_that_changed_before_a_late_answer_is_not_run(openclaw_home: TemporaryHome) -> None:
    model = script(openclaw_home)
    async with chat_window(openclaw_home, model, approvals={"unattended": "ask"}) as chat:
        await run_job(chat)
        (question,) = await chat.client.call("exec.approval.list", {})
        (openclaw_home.workspace / "build.sh").write_text("#!/bin/sh\ntouch something-else\n")
        await chat.client.call("exec.approval.resolve", {"id": question["id"], "decision": "allow-once"})
        await chat.until_asked(3)
        assert CHANGED in chat.said()
    assert not (openclaw_home.workspace / "something-else").exists()
    assert not (openclaw_home.workspace / "built").exists()


async def test_waiting_for_a_person_does_not_count_against_the_time_of_a_run(fake_clock: FakeClock) -> None:
    turn = RunRequest(run_id="run", key=SessionKey("main", "main"), text="?")
    active = ActiveRun(QueuedRun(turn=turn, rules=QueueRules(), arrived=0.0), Activity(0.0, 0.0))
    waited = {"run": 0.0}
    limit_run(active, 60.0, fake_clock, lambda run_id: waited[run_id])
    await fake_clock.drive(fake_clock.sleep(50.0))
    waited["run"] = 40.0
    await fake_clock.drive(fake_clock.sleep(45.0))
    assert active.why is None
    await fake_clock.drive(fake_clock.sleep(10.0))
    assert active.why == "timeout"
