"""A gateway inside this process: the same answers as the daemon's, beside a daemon or alone, and nothing by itself."""

import asyncio

import pytest

from openclaw.config.settings import StateStoreSettings
from openclaw.core.keys import SessionKey
from openclaw.gateway.local import local_gateway
from openclaw.gateway.running import running_gateway
from openclaw.gateway.state import open_state
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.protocol.client import GatewayClient
from openclaw.protocol.connect_request import CallFailed
from openclaw.protocol.frames import EventFrame
from openclaw.runs.inbox import Inbox
from openclaw.storage.owners import Owner
from openclaw.testing import ScriptedModel, TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess

pytestmark = pytest.mark.anyio


def environment(home: TemporaryHome) -> Environment:
    return Environment(environ=home.environ, home_dir=home.root, cwd=home.workspace)


async def said(client: GatewayClient, message: str, run_id: str, session: str = "main") -> str:
    params = {"message": message, "idempotencyKey": run_id, "sessionKey": session}
    async with asyncio.timeout(60):
        final = await client.call("agent", params, timeout=None, final=True)
    return "".join(payload["text"] for payload in final["result"]["payloads"])


async def test_it_answers_like_a_gateway_and_is_none_to_others(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(says("Here."))
    async with local_gateway(environment(openclaw_home), open_provider=lambda endpoint: model) as client:
        assert client.hello["auth"]["method"] == "none"
        assert await said(client, "hello", "r1") == "Here."
        assert "Session agent:main:main" in await said(client, "/whoami", "r2")
        kinds = [(await anext(client.events())) for _ in range(3)]
        assert all(isinstance(event, EventFrame) for event in kinds)
        with pytest.raises(CallFailed, match="no agent"):
            await client.call("agent", {"message": "hi", "idempotencyKey": "r3", "agentId": "nobody"})
        assert running_gateway(openclaw_home.state) is None
    assert not list(openclaw_home.state.rglob("*token*")), "no credential is made for it"
    assert len(openclaw_home.transcripts()) == 1


async def test_two_of_them_and_a_daemon_share_a_home(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("one"), says("two"), says("three")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as daemon:
            async with (
                local_gateway(environment(openclaw_home)) as first,
                local_gateway(environment(openclaw_home)) as second,
                daemon.client() as third,
            ):
                answers = [
                    await said(client, "hi", f"run-{number}", f"talk-{number}")
                    for number, client in enumerate((first, second, third))
                ]
            assert answers == ["one", "two", "three"]
            assert daemon.stop() == 0
    assert len(openclaw_home.transcripts()) == 3


async def test_what_another_process_left_is_left_to_the_daemon(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    clock = SystemClock()
    model = ScriptedModel(says("Only what was asked."))
    async with open_state(environment(openclaw_home).home, clock, StateStoreSettings()) as (db, _):
        await Inbox(db, clock, Owner(2**30, "a process that is gone")).accept(
            "left", str(SessionKey("main", "other")), "{}"
        )
    async with local_gateway(environment(openclaw_home), open_provider=lambda endpoint: model) as client:
        job = {
            "name": "due",
            "schedule": {"kind": "every", "everyMs": 1000},
            "payload": {"kind": "agentTurn", "message": "by itself"},
            "sessionTarget": "isolated",
            "wakeMode": "now",
        }
        await client.call("cron.add", job)
        assert (await client.call("cron.status", {}))["enabled"] is False
        assert await said(client, "hello", "r1") == "Only what was asked."
    async with open_state(environment(openclaw_home).home, clock, StateStoreSettings()) as (db, _):
        assert [entry.run_id for entry in await Inbox(db, clock).take_over()] == ["left"]
    assert len(model.requests) == 1


async def test_what_a_command_raises_leaves_as_it_was_raised(openclaw_home: TemporaryHome) -> None:
    with pytest.raises(CallFailed, match="unknown method"):
        async with local_gateway(environment(openclaw_home)) as client:
            await client.call("no.such.method")
