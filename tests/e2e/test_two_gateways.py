"""Two gateways on one state directory: each answers what it was asked, and neither takes what the other has in work."""

import asyncio
from typing import Any

import pytest

from openclaw.protocol.client import GatewayClient
from openclaw.runs.worker import INTERRUPTED
from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import Hangs, MockModelServer
from tests.e2e.gateway_process import GatewayProcess, collect
from tests.e2e.second_gateway import SecondGateway

pytestmark = pytest.mark.anyio

DEADLINE_MS = 60_000


async def say(client: GatewayClient, run_id: str, text: str, key: str = "main") -> Any:
    return await client.call("chat.send", {"sessionKey": key, "message": text, "idempotencyKey": run_id})


async def answer(client: GatewayClient, run_id: str) -> str:
    waited = await client.call("agent.wait", {"runId": run_id, "timeoutMs": DEADLINE_MS}, timeout=90)
    assert waited["status"] == "ok", waited
    return str(waited["terminalReply"]["text"])


async def said(client: GatewayClient, key: str = "main") -> list[tuple[str, str]]:
    rows = (await client.call("chat.history", {"sessionKey": key}))["messages"]
    return [(row["role"], _text(row["content"])) for row in rows]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def tool_started(name: str, data: Any) -> bool:
    return name == "agent" and data["stream"] == "tool" and data["data"]["phase"] == "start"


async def test_a_daemon_that_starts_leaves_a_live_run_alone_and_answers_it_once_its_process_is_killed(
    openclaw_home: TemporaryHome,
) -> None:
    with MockModelServer([Hangs("I am th"), says("Something else."), says("Here is the answer.")]) as server:
        openclaw_home.configure(server.settings())
        with SecondGateway(openclaw_home) as first, GatewayProcess(openclaw_home) as daemon:
            async with first.client() as client:
                await say(client, "k1", "think hard")
                await asyncio.to_thread(server.asked.wait, 60)
            assert daemon.stop() == 0
            daemon.start()
            async with daemon.client() as client:
                # An answer of its own: by now it has looked for what is left over.
                await say(client, "k2", "hello", "explicit:other")
                assert await answer(client, "k2") == "Something else."
                assert (await say(client, "k1", "think hard"))["status"] == "in_flight"
            assert len(server.requests) == 2
            first.kill()
            assert daemon.stop() == 0
            daemon.start()
            async with daemon.client() as client:
                assert "Here is the answer." in await answer(client, "k1")
                assert [role for role, _ in await said(client)] == ["user", "assistant"]
                done = await client.call("agent", {"message": "think hard", "idempotencyKey": "k1"}, final=True)
                assert INTERRUPTED in str(done)
            assert daemon.stop() == 0
            daemon.start()
            async with daemon.client() as client:
                assert "Here is the answer." in await answer(client, "k1")
            assert len(server.requests) == 3
            assert daemon.output().count("took up 1 unfinished input") == 1


async def test_a_gateway_inside_a_command_takes_over_nothing_unless_it_is_asked_again(
    openclaw_home: TemporaryHome,
) -> None:
    with MockModelServer([Hangs("I am th"), says("Something else."), says("Here is the answer.")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as daemon, SecondGateway(openclaw_home) as second:
            async with daemon.client() as client:
                await say(client, "k1", "think hard")
                await asyncio.to_thread(server.asked.wait, 60)
            async with second.client() as client:
                assert (await say(client, "k1", "think hard"))["status"] == "in_flight"
                daemon.kill()
                await say(client, "k2", "hello", "explicit:other")
                assert await answer(client, "k2") == "Something else."
                assert len(server.requests) == 2
                # Whoever asks again for what a dead process left gets it answered here, and once.
                await say(client, "k1", "think hard")
                assert "Here is the answer." in await answer(client, "k1")
            daemon.start()
            async with daemon.client() as client:
                assert "Here is the answer." in await answer(client, "k1")
                assert [role for role, _ in await said(client)] == ["user", "assistant"]
            assert len(server.requests) == 3
            assert second.stop() == 0


async def test_what_a_command_leaves_behind_when_it_ends_is_answered_at_the_next_start(
    openclaw_home: TemporaryHome,
) -> None:
    with MockModelServer([Hangs(), says("Here is the answer.")]) as server:
        openclaw_home.configure(server.settings())
        with SecondGateway(openclaw_home) as second:
            async with second.client() as client:
                await say(client, "k1", "think hard")
                await asyncio.to_thread(server.asked.wait, 60)
            assert second.stop() == 0, second.output()
        with GatewayProcess(openclaw_home) as daemon:
            async with daemon.client() as client:
                assert "Here is the answer." in await answer(client, "k1")


async def test_both_answer_at_the_same_time_and_one_conversation_one_after_the_other(
    openclaw_home: TemporaryHome,
) -> None:
    go = openclaw_home.root / "go"
    busy = calls("exec", command=f"while [ ! -e {go} ]; do sleep 0.05; done")
    with MockModelServer([busy, says("Two."), says("One."), says("Three."), says("Four.")]) as server:
        openclaw_home.configure({**server.settings(), "tools": {"exec": {"security": "full", "ask": "off"}}})
        with GatewayProcess(openclaw_home) as daemon, SecondGateway(openclaw_home) as second:
            async with daemon.client(caps=("tool-events",)) as one, second.client() as other:
                await say(one, "r1", "first")
                await collect(one, tool_started, 60)
                await say(other, "r2", "second", "explicit:other")
                assert await answer(other, "r2") == "Two."  # while the first is at work
                await say(other, "r3", "third")
                go.touch()
                # Each knows the end of the other's run.
                assert (await answer(other, "r1"), await answer(one, "r3")) == ("One.", "Three.")
                await say(one, "r4", "fourth")
                assert await answer(one, "r4") == "Four."
                spoken = [(role, text) for role, text in await said(one) if role != "toolResult" and text]
                keys = {row["key"] for row in (await one.call("sessions.list"))["sessions"]}
    assert spoken == [
        ("user", "first"),
        ("assistant", "One."),
        ("user", "third"),
        ("assistant", "Three."),
        ("user", "fourth"),
        ("assistant", "Four."),
    ]
    assert {"agent:main:main", "agent:main:explicit:other"} <= keys
    # The turn after the other process's knows what was said there.
    assert "third" in str(server.requests[-1]["messages"]) and "Three." in str(server.requests[-1]["messages"])
