"""Compaction as clients of a real gateway and people at a terminal meet it."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from openclaw.protocol.connect_request import CallFailed
from openclaw.testing import Step, TemporaryHome, says
from openclaw.testing.server import Answers, Hangs, MockModelServer, Reply
from tests.e2e.gateway_process import GatewayProcess, collect
from tests.e2e.test_command_line import run
from tests.sessions.compaction.support import GOOD, compactions

pytestmark = pytest.mark.anyio
LONG = "word " * 2_400
TOO_LONG = Answers(400, json.dumps({"error": {"message": "This model's maximum context length is 40000 tokens."}}))


def settings(server: MockModelServer) -> dict[str, Any]:
    made = server.settings(contextWindow=40_000)
    made["agents"]["defaults"]["compaction"] = {"memoryFlush": {"enabled": False}, "keepRecentTokens": 500}
    return made


async def test_compaction_on_request_and_by_need(openclaw_home: TemporaryHome) -> None:
    script: list[Reply | Sequence[Step]] = [says("one"), says(GOOD), says("two"), TOO_LONG, says(GOOD), says("three")]
    with MockModelServer(script) as server:
        openclaw_home.configure(settings(server))
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client(caps=("tool-events",)) as client:
                await client.call("sessions.subscribe", {})

                async def chat(text: str, run_id: str) -> list[tuple[str, Any]]:
                    await client.call("chat.send", {"sessionKey": "main", "message": text, "idempotencyKey": run_id})
                    return await collect(
                        client,
                        lambda name, data: name == "chat" and data["state"] == "final" and data["runId"] == run_id,
                    )

                assert (await client.call("sessions.compact", {"key": "main"}))["compacted"] is False
                await chat(f"first {LONG}", "r1")
                by_hand = await chat("/compact the colours", "r2")
                await chat(f"second {LONG}", "r3")
                by_need = await chat("third", "r4")
                status = await chat("/status", "r5")
                with pytest.raises(CallFailed, match="maxLines"):
                    await client.call("sessions.compact", {"key": "main", "maxLines": 5})
    asked = by_hand[-1][1]["message"]["content"][0]["text"]
    assert asked.startswith("Compacted: about ") and asked.endswith("kept on disk.")
    assert "the colours" in json.dumps(server.requests[1]["messages"])
    phases = [data["data"] for name, data in by_need if name == "agent" and data["stream"] == "compaction"]
    assert [each["phase"] for each in phases] == ["start", "end"]
    assert phases[1]["ok"] and phases[1]["willRetry"] and phases[1]["reason"] == "overflow"
    assert phases[1]["tokensAfter"] < phases[1]["tokensBefore"]
    assert by_need[-1][1]["message"]["content"][0]["text"] == "three"
    deltas = [data["deltaText"] for name, data in by_need if name == "chat" and data["state"] == "delta"]
    assert "".join(deltas) == "three"
    assert "compacted 2 times" in status[-1][1]["message"]["content"][0]["text"]
    assert len(compactions(openclaw_home)) == 2


async def test_a_busy_conversation_is_not_compacted(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([Hangs("working")]) as server:
        openclaw_home.configure(settings(server))
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                await client.call("agent", {"message": "go", "idempotencyKey": "r1"})
                with pytest.raises(CallFailed, match="busy"):
                    await client.call("sessions.compact", {"key": "main"})
                await client.call("chat.abort", {"sessionKey": "main"})


def test_at_a_terminal_it_is_one_quiet_line(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("one"), TOO_LONG, says(GOOD), says("two"), says("no more")]) as server:
        openclaw_home.configure(settings(server))
        run(openclaw_home, "agent", "--local", "--message", f"first {LONG}")
        second = run(openclaw_home, "agent", "--local", "--message", "second")
        by_hand = run(openclaw_home, "agent", "--local", "--message", "/compact")
    assert second.stdout == "two\n"
    assert "compacted: about" in second.stderr
    assert "Not compacted: there is nothing to compact" in by_hand.stdout
    assert len(server.requests) == 4
