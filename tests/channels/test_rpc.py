"""Accounts, held messages, people who ask and sending, as a client of a real gateway asks for them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from openclaw.protocol.client import GatewayClient
from openclaw.protocol.connect_request import CallFailed
from openclaw.protocol.scopes import READ, WRITE
from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.channels.telegram.server import TOKEN, Fault, TelegramServer
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio


class Door:
    """A gateway with a Telegram server beside it, and a client of it."""

    def __init__(self, gateway: GatewayProcess, client: GatewayClient, telegram: TelegramServer, model: Any) -> None:
        self.gateway, self.telegram, self.model = gateway, telegram, model
        self.call = client.call

    async def account(self, test: Callable[[dict[str, Any]], bool], name: str = "default") -> dict[str, Any]:
        """The account, once it is as it should be."""
        async with asyncio.timeout(DEADLINE):
            while True:
                status = await self.call("channels.status", {})
                for each in status["channelAccounts"].get("telegram", []):
                    if each["accountId"] == name and test(each):
                        return dict(each)
                await asyncio.sleep(0.05)

    async def hears(self, count: int) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self.telegram.hears, count, DEADLINE)


def connected(account: dict[str, Any]) -> bool:
    return bool(account["connected"])


@asynccontextmanager
async def door(
    home: TemporaryHome, *replies: Any, telegram: Any = None, options: tuple[str, ...] = (), **more: Any
) -> AsyncIterator[Door]:
    with MockModelServer(replies or [says("Good day.")]) as model, TelegramServer() as server:
        section = {"botToken": TOKEN} if telegram is None else telegram
        channels = {"telegram": {"apiRoot": server.url, **section}}
        home.configure({**model.settings(), "channels": channels, **more})
        with GatewayProcess(home, *options) as gateway:
            async with gateway.client() as client:
                yield Door(gateway, client, server, model)


async def test_the_status_of_an_account_and_stopping_and_starting_it(openclaw_home: TemporaryHome) -> None:
    owner = {"ownerAllowFrom": ["telegram:7"]}
    async with door(openclaw_home, says("One."), says("Two."), commands=owner) as here:
        await here.account(connected)
        here.telegram.says("hello")
        await here.hears(1)
        found = await here.account(lambda each: each["outbox"]["sent"] == 1)
        assert found["lastInboundAt"] and found["lastOutboundAt"] and found["tokenSource"] == "config"
        status = await here.call("channels.status", {"probe": True, "timeoutMs": 5_000})
        assert status["channelOrder"] == ["telegram"] and status["channelLabels"] == {"telegram": "Telegram"}
        assert status["channelAccounts"]["telegram"][0]["probe"] == {"ok": True, "id": "42", "name": "@claw_bot"}
        assert status["statusIssues"] == [] and TOKEN not in json.dumps(status)
        health = await here.call("health", {})
        assert health["channels"]["telegram"]["accounts"]["default"]["connected"]
        assert (await here.call("status", {}))["channelSummary"] == ["Telegram: connected"]

        await here.call("channels.stop", {"channel": "telegram"})
        stopped = await here.account(lambda each: each["healthState"] == "stopped")
        assert not stopped["connected"] and not stopped["running"]
        with pytest.raises(CallFailed, match="no channel is connected"):
            await here.call("send", {"to": "7", "message": "x", "idempotencyKey": "0"})
        here.telegram.says("anybody there?")
        await here.call("channels.start", {"channel": "telegram"})
        await here.account(connected)
        assert [each["text"] for each in await here.hears(2)] == ["One.", "Two."]
        with pytest.raises(CallFailed, match="no account telegram:other is configured and enabled"):
            await here.call("channels.start", {"channel": "telegram", "accountId": "other"})


async def test_in_safe_mode_no_channel_is_connected(openclaw_home: TemporaryHome) -> None:
    async with door(openclaw_home, options=("--safe-mode", "on")) as here:
        found = await here.account(lambda each: True)
        assert (found["healthState"], found["running"], found["connected"]) == ("not running", False, False)
        with pytest.raises(CallFailed, match="it is in safe mode: openclaw gateway restart"):
            await here.call("channels.start", {"channel": "telegram"})
        assert here.telegram.calls == []


async def test_a_message_is_sent_once_and_comes_back_with_its_receipt(openclaw_home: TemporaryHome) -> None:
    async with door(openclaw_home) as here:
        await here.account(connected)
        ask = {"to": "telegram:-100123:topic:42", "message": "**Lunch** at one", "idempotencyKey": "a"}
        first = await here.call("send", ask)
        again = await here.call("send", ask)
        (sent,) = here.telegram.sent
        assert first == again and first["messageId"] == str(sent["message_id"]) and first["status"] == "sent"
        assert (sent["chat_id"], sent["message_thread_id"], sent["text"]) == (-100123, 42, "Lunch at one")
        (openclaw_home.workspace / "menu.txt").write_text("soup")
        await here.call("send", {"to": "@menu", "channel": "tg", "mediaUrl": "menu.txt", "idempotencyKey": "b"})
        assert here.telegram.sent[1]["content"] == b"soup"
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"to": "pigeon:7", "channel": "pigeon", "message": "x"}, "no channel pigeon: there is telegram"),
            ({"to": "7", "message": "  "}, "there is nothing to send"),
            ({"to": "7", "mediaUrl": "nothing.txt"}, "not found"),
            ({"to": "7", "mediaUrl": "data:text/plain,x"}, "is no file"),
            ({"to": "7", "message": "x", "accountId": "other"}, "no account other of telegram is connected"),
            ({"to": "7", "message": "x", "silent": True}, "send does not take silent"),
        ]
        for number, (params, why) in enumerate(wrong):
            with pytest.raises(CallFailed, match=why):
                await here.call("send", {**params, "idempotencyKey": f"wrong-{number}"})
        here.telegram.faults = [Fault("sendMessage", 400)]
        with pytest.raises(CallFailed, match="as told"):
            await here.call("send", {"to": "7", "message": "x", "idempotencyKey": "c"})
        with pytest.raises(CallFailed, match="no action 'pin'"):
            await here.call(
                "message.action",
                {"channel": "telegram", "action": "pin", "params": {"to": "7"}, "idempotencyKey": "d"},
            )
        with pytest.raises(CallFailed, match="say which message"):
            await here.call(
                "message.action",
                {"channel": "telegram", "action": "edit", "params": {"to": "7", "message": "y"}, "idempotencyKey": "e"},
            )
        async with here.gateway.client(scopes=(READ, WRITE)) as guest:
            secret = openclaw_home.state / "openclaw.json"
            with pytest.raises(CallFailed, match="outside the workspace"):
                await guest.call("send", {"to": "7", "mediaUrl": str(secret), "idempotencyKey": "f"})
            with pytest.raises(CallFailed, match="missing scope"):
                await guest.call("channels.stop", {"channel": "telegram"})


def holds(count: int, account: dict[str, Any]) -> bool:
    return bool(account["outbox"]["held"] == count)


async def test_what_is_held_is_sent_or_dropped_by_a_person(openclaw_home: TemporaryHome) -> None:
    async with door(openclaw_home, delivery={"unsure": "hold"}) as here:
        await here.account(connected)
        for key in ("a", "b"):
            here.telegram.faults = [Fault("sendMessage", cut="before")]
            sent = await here.call("send", {"to": "7", "message": f"note {key}", "idempotencyKey": key})
            if sent["status"] != "held":
                await here.account(partial(holds, 1 if key == "a" else 2))
        first, second = (await here.call("channels.held", {}))["messages"]
        assert [first["message"], second["message"], first["to"]] == ["note a", "note b", "7"]
        status = await here.call("channels.status", {})
        assert status["statusIssues"][0]["fix"] == "openclaw channels held"
        await here.call("channels.release", {"id": first["id"]})
        await here.call("channels.drop", {"id": second["id"]})
        assert [each["text"] for each in await here.hears(1)] == ["note a"]
        assert (await here.call("channels.held", {}))["messages"] == []
        await here.account(lambda each: each["outbox"]["sent"] == 1 and each["outbox"]["held"] == 0)
        with pytest.raises(CallFailed, match="is not held"):
            await here.call("channels.release", {"id": first["id"]})
        assert len(here.telegram.sent) == 1


async def test_an_account_is_added_only_when_its_credential_opens_it_and_logged_out(
    openclaw_home: TemporaryHome,
) -> None:
    async with door(openclaw_home, telegram={}) as here:
        status = await here.call("channels.status", {})
        assert status["channelAccounts"]["telegram"][0]["healthState"] == "not configured"
        before = openclaw_home.config_path.read_text()
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"channel": "telegram", "botToken": "42:wrong"}, "The token is not valid"),
            ({"channel": "telegram"}, "Telegram needs a credential"),
            ({"channel": "telegram", "homeserver": "https://x"}, "Telegram has no homeserver"),
            ({"channel": "pigeon", "botToken": TOKEN}, "no channel 'pigeon' is built in"),
            ({"channel": "telegram", "accountId": "../x", "botToken": TOKEN}, "is not a name of an account"),
        ]
        for params, why in wrong:
            with pytest.raises(CallFailed, match=why) as raised:
                await here.call("channels.add", params)
            assert "42:wrong" not in str(raised.value)
        assert openclaw_home.config_path.read_text() == before
        added = await here.call("channels.add", {"channel": "telegram", "botToken": TOKEN})
        assert added["probe"] == {"id": "42", "name": "@claw_bot"} and not added["ownerConfigured"]
        await here.account(connected)
        assert json.loads(openclaw_home.config_path.read_text())["channels"]["telegram"]["botToken"] == TOKEN
        with pytest.raises(CallFailed, match="that is the account default already"):
            await here.call("channels.add", {"channel": "telegram", "accountId": "work", "botToken": TOKEN})
        out = await here.call("channels.logout", {"channel": "telegram"})
        assert out["cleared"]
        assert "botToken" not in json.loads(openclaw_home.config_path.read_text())["channels"]["telegram"]
        await here.account(lambda each: not each["configured"])


async def test_people_who_ask_are_let_in_or_sent_away(openclaw_home: TemporaryHome) -> None:
    async with door(openclaw_home) as here:
        await here.account(connected)
        here.telegram.says("let me in", sender=7)
        here.telegram.says("me too", sender=8)
        await here.hears(2)
        listed = await here.call("channels.pairing.list", {})
        assert not listed["commandOwnerConfigured"] and listed["accounts"][0]["channelLabel"] == "Telegram"
        asked = {each["senderId"]: each for each in listed["requests"]}
        assert asked["7"]["senderLabel"] == "Person 7"
        who = {"channel": "telegram", "accountId": "default"}
        gone = await here.call("channels.pairing.dismiss", {**who, "requestId": asked["8"]["requestId"]})
        assert gone["senderId"] == "8"
        done = await here.call(
            "channels.pairing.approve",
            {**who, "requestId": asked["7"]["requestId"], "bootstrapCommandOwner": True, "notify": True},
        )
        assert (done["commandOwnerBootstrap"], done["notification"]) == ("configured", "sent")
        assert "let in" in (await here.hears(3))[2]["text"]
        assert json.loads(openclaw_home.config_path.read_text())["commands"]["ownerAllowFrom"] == ["telegram:7"]
        assert (await here.call("channels.pairing.list", {}))["requests"] == []
        with pytest.raises(CallFailed, match="nobody on telegram waits"):
            await here.call("channels.pairing.approve", {**who, "requestId": asked["8"]["requestId"]})


async def test_the_message_tool_knows_the_conversation_it_is_in(openclaw_home: TemporaryHome) -> None:
    (openclaw_home.workspace / "plan.txt").write_text("the plan")
    script = [
        calls("message", action="send", message="I am on it."),
        calls("message", action="send", media="plan.txt"),
        calls("message", action="send", target="9", message="Ada asks for you."),
        calls("message", action="react", emoji="👍"),
        says("Done."),
    ]
    async with door(openclaw_home, *script, commands={"ownerAllowFrom": ["telegram:7"]}) as here:
        await here.account(connected)
        here.telegram.says("go on")
        sent = await here.hears(4)
        assert [(each.get("chat_id"), each.get("text")) for each in sent] == [
            (7, "I am on it."),
            (7, None),
            (9, "Ada asks for you."),
            (7, "Done."),
        ]
        assert sent[1]["content"] == b"the plan"
        tools = {each["function"]["name"]: each["function"] for each in here.model.requests[0]["tools"]}
        assert {"send", "broadcast"} <= set(tools["message"]["parameters"]["properties"]["action"]["enum"])
