"""What is asked at any node is answered for the whole cluster: two nodes are asked the same, and compared."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.secret import Secret
from openclaw.protocol.client import GatewayClient
from openclaw.testing import calls, says
from openclaw.testing.server import MockModelServer, Pauses, Reply
from tests.channels.matrix.server import MatrixServer
from tests.commandline import typed
from tests.gateway.cluster.nodes import AGENTS, nodes, until
from tests.gateway.cluster.test_channels import place, shown, with_matrix

pytestmark = [pytest.mark.anyio, pytest.mark.servers]

KEY = f"agent:{AGENTS[0]}:main"
SAME: dict[str, dict[str, Any]] = {
    "agents.files.history": {"agentId": AGENTS[0], "name": "SOUL.md"},
    "agents.files.list": {"agentId": AGENTS[0]},
    "agents.list": {},
    "audit.list": {},
    "channels.held": {},
    "channels.pairing.list": {"channel": "matrix"},
    "channels.status": {},
    "chat.history": {"sessionKey": KEY},
    "cron.list": {},
    "cron.runs": {"scope": "all"},
    "cron.status": {},
    "device.pair.list": {},
    "exec.approval.list": {},
    "exec.approvals.get": {},
    "health": {},
    "heartbeats.status": {},
    "last-heartbeat": {},
    "memory.status": {"agentId": AGENTS[0]},
    "prompt.runs": {},
    "runs.list": {},
    "sessions.describe": {"key": KEY},
    "sessions.list": {},
    "sessions.overview": {},
    "sessions.usage": {},
    "status": {},
    "system-presence": {},
    "tools.effective": {"sessionKey": KEY},
    "usage.cost": {},
}
"""Methods that answer the same at every node, with what they are asked."""
OWN = frozenset(
    """
    ts updatedAt updatedAtMs age ageMs durationMs now snapshotAt cursor path paths file uptimeMs processMemory rssBytes
    refreshedAt self linked figures nextAtMs
    """.split()
)
"""What is of the moment, or of the node that was asked."""


PRESENT = {(mode, node) for mode in ("gateway", "ui") for node in ("one", "two")}


def common(told: Any) -> Any:
    """An answer without what is of the moment or of one machine, in an order of its own."""
    if isinstance(told, dict):
        return {name: common(each) for name, each in told.items() if name not in OWN}
    if isinstance(told, list):
        return sorted((common(each) for each in told), key=repr)
    return told


async def compare(one: GatewayClient, two: GatewayClient, method: str) -> Any:
    """Asks both nodes until they agree: what one heard just now the other hears in a moment."""
    for _ in range(300):
        here, there = common(await one.call(method, SAME[method])), common(await two.call(method, SAME[method]))
        if here == there:
            return here
        await asyncio.sleep(0.1)
    assert here == there, method
    return here


async def state_of(client: GatewayClient) -> Any:
    return (await client.call("channels.status"))["channelAccounts"]["matrix"][0]["healthState"]


async def test_two_nodes_answer_alike(tmp_path: Path, postgres_url: Secret) -> None:
    replies: list[Any] = [calls("exec", command="touch asked-for"), (says("I am writing."), Pauses(), says(" Done."))]
    with MockModelServer(replies) as model, MatrixServer() as matrix:
        config = with_matrix(tmp_path, model, matrix)
        config["tools"] = {"exec": {"security": "allowlist", "ask": "always"}}
        config["agents"]["list"][0]["heartbeat"] = {"every": "1h"}
        with nodes(tmp_path, postgres_url.reveal(), config, "one", "two") as (one, two):
            await place(one, two)
            async with (
                one.client(client_id="openclaw-tui", mode="ui"),
                two.client(client_id="openclaw-tui", mode="ui"),
                one.client() as here,
                two.client() as there,
            ):
                await here.call("set-heartbeats", {"enabled": False})
                every = {"kind": "every", "everyMs": 3_600_000}
                payload = {"kind": "agentTurn", "message": "tick"}
                job = {"name": "tick", "schedule": every, "sessionTarget": "isolated", "wakeMode": "now"}
                await there.call("cron.add", {**job, "payload": payload, "delivery": {"mode": "none"}})
                await here.call("chat.send", {"sessionKey": KEY, "message": "go", "idempotencyKey": "run"})
                while not (asked := await compare(here, there, "exec.approval.list")):
                    await asyncio.sleep(0.05)
                await here.call("exec.approval.resolve", {"id": asked[0]["id"], "decision": "allow-once"})
                await asyncio.to_thread(model.until_asked, 2)
                # While a run goes on at the second node.
                told = {method: await compare(here, there, method) for method in SAME}
                assert told["status"]["running"] == told["health"]["running"] == 1
                assert [each["hasActiveRun"] for each in told["sessions.list"]["sessions"]] == [True]
                (account,) = told["channels.status"]["channelAccounts"]["matrix"]
                assert (account["healthState"], account["node"], account["running"]) == ("connected", "one", True)
                assert told["channels.status"]["statusIssues"] == []
                assert told["status"]["channelSummary"] == ["Matrix: connected on one"]
                assert told["heartbeats.status"]["enabled"] is False
                assert {(each["mode"], each["node"]) for each in told["system-presence"]} == PRESENT
                assert (
                    "Matrix: connected on one" in (await asyncio.to_thread(typed(two.home), "channels", "status")).out
                )
                model.go_on()
                await here.call("agent.wait", {"runId": "run", "timeoutMs": 60_000}, timeout=90)
                assert (await compare(here, there, "status"))["running"] == 0
                # Stopped at one node, it is stopped: the other does not take it.
                await there.call("channels.stop", {"channel": "matrix"})
                assert [await state_of(client) for client in (here, there)] == ["stopped", "stopped"]
                await there.call("channels.start", {"channel": "matrix"})
                async with asyncio.timeout(60):
                    while [await state_of(client) for client in (here, there)] != ["connected", "connected"]:
                        await asyncio.sleep(0.05)
            # What was said of a node that is gone goes with it.
            one.kill()
            async with two.client() as there, asyncio.timeout(60):
                while {each["node"] for each in await there.call("system-presence")} != {"two"}:
                    await asyncio.sleep(0.05)


async def test_a_node_without_the_account_sends_through_it(tmp_path: Path, postgres_url: Secret) -> None:
    replies: list[Reply] = [says("Hello."), calls("message", action="send", message="From a tool."), says("Sent.")]
    with MockModelServer(replies) as model, MatrixServer() as matrix:
        config = with_matrix(tmp_path, model, matrix)
        with nodes(tmp_path, postgres_url.reveal(), config, "one", "two") as (one, two):
            await place(one, two)
            matrix.says("hello", sender="@person:test")
            await until(lambda: shown(matrix) == ["Hello."])
            matrix.says("again", sender="@person:test")
            await until(lambda: shown(matrix) == ["Hello.", "From a tool.", "Sent."])
            words = ("message", "send", "--channel", "matrix", "--target", "@person:test", "--message", "From a shell.")
            sent = await asyncio.to_thread(typed(two.home), *words)
            assert sent.code == 0, sent
            await until(lambda: shown(matrix)[-1] == "From a shell.")
