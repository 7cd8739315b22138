"""What the last life of a gateway left unfinished: taken up, or given up, and told of once."""

import asyncio

import pytest

from openclaw.core.keys import SessionKey
from openclaw.runs.recovery import report_resumed
from openclaw.runs.request import ResumedRun
from openclaw.runs.worker import INTERRUPTED
from openclaw.testing import ScriptedModel, TemporaryHome, says
from openclaw.testing.server import Hangs, MockModelServer
from tests.automation.support import MAIN, Place, place
from tests.e2e.gateway_process import GatewayProcess

pytestmark = pytest.mark.anyio


async def test_an_interrupted_run_is_answered_after_a_kill_and_told_of_once(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([Hangs("I am th"), says("Here is the answer."), says("and more")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                await client.call("chat.send", {"sessionKey": "main", "message": "think hard", "idempotencyKey": "k1"})
                await asyncio.to_thread(server.asked.wait, 60)
            gateway.kill()
        for _ in range(2):  # a second start has nothing more to tell
            with GatewayProcess(openclaw_home) as gateway:
                async with gateway.client() as client:
                    waited = await client.call("agent.wait", {"runId": "k1", "timeoutMs": 60_000}, timeout=70)
                    assert waited["status"] == "ok"
                    again = {"message": "think hard", "idempotencyKey": "k1"}
                    done = await client.call("agent", again, final=True)
                    assert "Here is the answer." in str(done) and INTERRUPTED in str(done), done
                assert gateway.stop() == 0
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                done = await client.call("agent", {"message": "go on", "idempotencyKey": "k2"}, final=True)
                assert INTERRUPTED not in str(done)
            assert gateway.stop() == 0
    told = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "user"]
    # What the runtime has to say of itself is never put into a person's mouth.
    assert len(told) == 2 and "restarted" not in str(told)
    assert len(server.requests) == 3


async def resumed(here: Place, run: ResumedRun) -> None:
    await report_resumed(here.sessions, here.app.system_events, here.app.turns, [run])


async def test_a_run_that_is_given_up_is_said_in_its_conversation_once(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    gone = ResumedRun(run_id="r9", session_key=str(MAIN), text="paint the boat", begun=True, given_up="it never ended")
    async with place(openclaw_home, scripted_model, fires=False) as here:
        for _ in range(3):
            await resumed(here, gone)
        (said,) = here.said()
        assert "I could not answer “paint the boat”" in said
        (line,) = await here.app.system_events.waiting(MAIN)
        assert line == "A message was never answered, because it never ended: “paint the boat”"


async def test_what_only_waited_and_what_nobody_reads_is_not_announced(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with place(openclaw_home, scripted_model, fires=False) as here:
        await resumed(here, ResumedRun(run_id="r1", session_key=str(MAIN), text="x"))
        for rest in ("cron:j:run:r", "hook:h", "subagent:s", "boot:b", "heartbeat:h"):
            key = SessionKey("main", rest)
            await resumed(here, ResumedRun(run_id=rest, session_key=str(key), begun=True, given_up="gone"))
            assert await here.app.system_events.waiting(key) == [] and here.said(str(key)) == []
        assert await here.app.system_events.waiting(MAIN) == []
