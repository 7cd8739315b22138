"""What the assistant says by itself reaches its person where that person last wrote, once, with a receipt."""

import asyncio
import json
import urllib.request
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.channels.telegram.server import TOKEN, Fault, TelegramServer
from tests.channels.telegram.test_gateway import hears
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio

HOOKS = "hook-token-0123456789abcdef"


def configure(home: TemporaryHome, model: MockModelServer, telegram: TelegramServer, **more: Any) -> None:
    home.configure(
        {
            **model.settings(),
            "channels": {"telegram": {"botToken": TOKEN, "apiRoot": telegram.url}},
            "commands": {"ownerAllowFrom": ["telegram:7"]},
            "hooks": {"enabled": True, "token": HOOKS},
            **more,
        }
    )


async def until(check: Any) -> Any:
    async with asyncio.timeout(DEADLINE):
        while not (found := await check()):
            await asyncio.sleep(0.05)
        return found


def task(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "schedule": {"kind": "at", "at": "2040-01-01T00:00:00Z"},
        "sessionTarget": "isolated",
        "wakeMode": "now",
        "payload": {"kind": "agentTurn", "message": "look"},
    }


async def delivery_of(client: Any, job: str) -> str:
    entries = (await client.call("cron.runs", {"id": job}))["entries"]
    return str(entries[0].get("deliveryStatus")) if entries else ""


async def test_every_source_of_speech_reaches_the_person(openclaw_home: TemporaryHome) -> None:
    script = [says("Hello."), says("Tea is ready."), says("All backups are fine."), says("Done."), says("The door.")]
    with MockModelServer(script) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram)
        with GatewayProcess(openclaw_home) as gateway:
            telegram.says("hi")
            await hears(telegram, 1)
            async with gateway.client() as client:
                await client.call("wake", {"text": "remind: tea", "mode": "now"})
                assert (await hears(telegram, 2))[-1] == "Tea is ready."
                last = await until(lambda: client.call("last-heartbeat", {}))
                assert last["status"] in ("sent", "shown", "pending")
                job = (await client.call("cron.add", task("backups")))["id"]
                await client.call("cron.run", {"id": job, "mode": "force"})
                assert (await hears(telegram, 3))[-1] == "All backups are fine."

                async def delivered() -> bool:
                    return await delivery_of(client, job) == "delivered"

                await until(delivered)
                params = {"message": "do it", "deliver": True, "channel": "telegram", "to": "7"}
                await client.call("agent", {**params, "sessionKey": "agent:main:side", "idempotencyKey": "k1"})
                assert (await hears(telegram, 4))[-1] == "Done."
            body = json.dumps({"message": "the bell rang", "name": "Bell"}).encode()
            head = {"authorization": f"Bearer {HOOKS}", "content-type": "application/json"}
            call = urllib.request.Request(f"http://127.0.0.1:{gateway.port}/hooks/agent", body, head)
            await asyncio.to_thread(urllib.request.urlopen, call)
            assert (await hears(telegram, 5))[-1] == "The door."
            assert {each["chat_id"] for each in telegram.sent} == {7}


async def test_the_result_of_a_sub_agent_goes_to_the_chat_that_asked(openclaw_home: TemporaryHome) -> None:
    spawns = calls("sessions_spawn", task="count the stars")
    script: list[Any] = [spawns, says("I have asked somebody."), says("1,022"), says("There are 1,022 stars.")]
    with MockModelServer(script) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram)
        with GatewayProcess(openclaw_home):
            telegram.says("count the stars")
            async with asyncio.timeout(DEADLINE):
                while "There are 1,022 stars." not in [each.get("text") for each in telegram.sent]:
                    await asyncio.sleep(0.05)


async def test_a_result_outlives_a_kill_between_its_end_and_its_delivery(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("Hello."), says("All backups are fine.")]) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram)
        with GatewayProcess(openclaw_home) as gateway:
            telegram.says("hi")
            await hears(telegram, 1)
            telegram.faults = [Fault("sendMessage", 503) for _ in range(50)]
            async with gateway.client() as client:
                job = (await client.call("cron.add", task("backups")))["id"]
                await client.call("cron.run", {"id": job, "mode": "force"})

                async def tried() -> bool:
                    return len(telegram.faults) < 50

                await until(tried)
                assert await delivery_of(client, job) == "unknown"
            gateway.kill()
        telegram.faults = []
        with GatewayProcess(openclaw_home) as gateway:
            assert await hears(telegram, 2) == ["Hello.", "All backups are fine."]
            async with gateway.client() as client:

                async def delivered() -> bool:
                    return await delivery_of(client, job) == "delivered"

                await until(delivered)
        assert len(telegram.sent) == 2


async def test_without_a_route_it_is_said_what_is_missing(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("x")]) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram)
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                with pytest.raises(Exception, match="deliver needs somebody to send to"):
                    await client.call("agent", {"message": "hi", "deliver": True, "idempotencyKey": "k"})
                job = (
                    await client.call(
                        "cron.add", {**task("x"), "delivery": {"mode": "announce", "channel": "pigeon", "to": "bob"}}
                    )
                )["id"]
                await client.call("cron.run", {"id": job, "mode": "force"})

                async def told() -> str:
                    entries = (await client.call("cron.runs", {"id": job}))["entries"]
                    return str(entries[0].get("deliveryError", "")) if entries else ""

                assert "pigeon" in await until(told)


async def test_an_answer_that_repeats_what_the_tool_has_sent_is_one_message(openclaw_home: TemporaryHome) -> None:
    sends = calls("message", action="send", channel="telegram", target="7", message="The train leaves at nine.")
    script: list[Any] = [sends, says("The train leaves at nine."), says("Bye.")]
    with MockModelServer(script) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram, tools={"exec": {"security": "full", "ask": "off"}})
        with GatewayProcess(openclaw_home):
            telegram.says("when does it leave?")
            await hears(telegram, 1)
            await asyncio.to_thread(model.until_asked, 2, DEADLINE)  # sooner, the next words would steer this run
            telegram.says("thanks")
            assert await hears(telegram, 2) == ["The train leaves at nine.", "Bye."]
