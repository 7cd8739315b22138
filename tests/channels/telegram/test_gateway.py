"""A Telegram bot through a real gateway: heard once, answered where it was asked, over faults and kills."""

import asyncio
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import Hangs, MockModelServer
from tests.channels.telegram.server import TOKEN, Fault, TelegramServer
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio


def configure(home: TemporaryHome, model: MockModelServer, telegram: TelegramServer, **more: Any) -> None:
    home.configure(
        {
            **model.settings(),
            "channels": {"telegram": {"botToken": TOKEN, "apiRoot": telegram.url, **more}},
            "commands": {"ownerAllowFrom": ["telegram:7"]},
        }
    )


async def hears(telegram: TelegramServer, count: int) -> list[str]:
    return [each["text"] for each in await asyncio.to_thread(telegram.hears, count, DEADLINE)]


async def asked(model: MockModelServer, count: int) -> None:
    async with asyncio.timeout(DEADLINE):
        while len(model.requests) < count:
            await asyncio.sleep(0.02)


async def test_a_conversation_with_styles_and_a_reply(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("**Good** day, `Ada` 👍.")]) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram)
        with GatewayProcess(openclaw_home):
            told = telegram.says("hello")
            assert await hears(telegram, 1) == ["Good day, Ada 👍."]
            sent = telegram.sent[0]
            assert sent["chat_id"] == 7 and sent["reply_parameters"]["message_id"] == told
            assert [each["type"] for each in sent["entities"]] == ["bold", "code"]
            telegram.says("/whoami")
            assert "Session agent:main:main" in (await hears(telegram, 2))[1]
            assert ("sendChatAction", {"chat_id": 7, "action": "typing"}) in telegram.calls


async def test_a_long_answer_is_cut_in_telegrams_own_unit(openclaw_home: TemporaryHome) -> None:
    text = "👩‍👩‍👧 " * 3_000
    with MockModelServer([says(text)]) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram)
        with GatewayProcess(openclaw_home):
            telegram.says("draw")
            async with asyncio.timeout(DEADLINE):
                while sum(each["text"].count("👧") for each in telegram.sent) < 3_000:
                    await asyncio.sleep(0.05)
            assert all(len(each["text"].encode("utf-16-le")) // 2 <= 4_096 for each in telegram.sent)


async def test_flood_waits_server_errors_and_cut_connections_lose_nothing(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("One."), says("Two."), says("Three.")]) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram)
        telegram.faults = [Fault("getUpdates", 502), Fault("sendMessage", 429, retry_after=1)]
        with GatewayProcess(openclaw_home) as gateway:
            telegram.says("first")
            assert await hears(telegram, 1) == ["One."]
            telegram.faults = [Fault("sendMessage", 500)]
            telegram.says("second")
            assert await hears(telegram, 2) == ["One.", "Two."]
            telegram.faults = [Fault("sendMessage", cut="after")]
            telegram.says("third")
            assert await hears(telegram, 4) == ["One.", "Two.", "Three.", "Three."]
        assert "may arrive twice" in gateway.output() and TOKEN not in gateway.output()


async def test_what_is_delivered_again_is_heard_once_and_an_answer_outlives_a_kill(
    openclaw_home: TemporaryHome,
) -> None:
    with MockModelServer([Hangs(), says("Good day.")]) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram)
        with GatewayProcess(openclaw_home) as gateway:
            telegram.says("hello")
            await asked(model, 1)
            again = telegram.updates[-1] if telegram.updates else None
            gateway.kill()
        if again is not None:
            telegram.updates.append({**again, "update_id": again["update_id"] + 50})
        with GatewayProcess(openclaw_home):
            assert await hears(telegram, 1) == ["Good day."]
            await asyncio.sleep(0.5)
    assert len(telegram.sent) == 1 and len(model.requests) == 2


async def test_a_token_that_is_not_valid_is_said_and_the_gateway_goes_on(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("hi")]) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram, botToken="42:wrong")
        with GatewayProcess(openclaw_home) as gateway:
            async with asyncio.timeout(DEADLINE):
                while "The token is not valid" not in gateway.output():
                    await asyncio.sleep(0.05)
            async with gateway.client() as client:
                assert (await client.call("health", {}))["ok"]
        assert "42:wrong" not in gateway.output()
