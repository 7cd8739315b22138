"""A Telegram bot through a real gateway: heard once, answered where it was asked, over faults and kills."""

import asyncio
import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import Hangs, MockModelServer
from tests.channels.telegram.server import TOKEN, Fault, TelegramServer
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio

WEBHOOK = "/telegram-webhook"


def configure(
    home: TemporaryHome, model: MockModelServer, telegram: TelegramServer, tools: Any = None, **more: Any
) -> None:
    home.configure(
        {
            **model.settings(),
            "channels": {"telegram": {"botToken": TOKEN, "apiRoot": telegram.url, **more}},
            "commands": {"ownerAllowFrom": ["telegram:7"]},
            "tools": tools or {},
        }
    )


async def hears(telegram: TelegramServer, count: int) -> list[str]:
    return [each["text"] for each in await asyncio.to_thread(telegram.hears, count, DEADLINE)]


async def hears_all(telegram: TelegramServer, count: int) -> list[dict[str, Any]]:
    return await asyncio.to_thread(telegram.hears, count, DEADLINE)


async def asked(model: MockModelServer, count: int) -> None:
    await asyncio.to_thread(model.until_asked, count, DEADLINE)


async def delivered(gateway: GatewayProcess) -> None:
    """Waits until nothing is on its way; a kill before the receipt is on record would send the message again."""
    async with asyncio.timeout(DEADLINE), gateway.client() as client:
        while (await client.call("channels.status", {}))["channelAccounts"]["telegram"][0]["outbox"]["waiting"]:
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


def call(telegram: TelegramServer, port: int, body: bytes = b"{}", secret: str = "", path: str = WEBHOOK) -> int:
    """What the gateway answers to somebody who calls its webhook."""
    headers = {"x-telegram-bot-api-secret-token": secret, "content-type": "application/json"}
    return telegram._post(f"http://127.0.0.1:{port}{path}", body, headers)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def test_telegram_calls_instead_of_being_asked(openclaw_home: TemporaryHome) -> None:
    port = free_port()
    with MockModelServer([says("Good day."), says("Again.")]) as model, TelegramServer() as telegram:
        more = {"webhookUrl": f"http://127.0.0.1:{port}", "webhookSecret": "s3cret"}
        configure(openclaw_home, model, telegram, **more)
        gateway = GatewayProcess(openclaw_home)
        gateway.start(port)
        with contextlib.ExitStack() as stack:
            stack.callback(gateway.__exit__)
            asked = await asyncio.to_thread(telegram.called, "setWebhook")
            assert asked["url"] == f"http://127.0.0.1:{port}{WEBHOOK}" and asked["secret_token"] == "s3cret"
            assert "message_reaction" in asked["allowed_updates"]
            telegram.says("hello")
            assert await hears(telegram, 1) == ["Good day."]
            assert telegram.answers == [200]
            stranger = json.dumps({"update_id": 1, "message": {"text": "let me in"}}).encode()
            for secret in ("", "wrong"):
                assert await asyncio.to_thread(call, telegram, port, stranger, secret) == 401
            assert await asyncio.to_thread(call, telegram, port, b"{", "s3cret") == 400
            assert await asyncio.to_thread(call, telegram, port, b" " * 1_000_001, "s3cret") == 413
            assert await asyncio.to_thread(call, telegram, port, b"{}", "s3cret", f"{WEBHOOK}/x") >= 400
            # What cannot be read is taken, or it would be sent for ever.
            assert await asyncio.to_thread(call, telegram, port, b'{"message": 5}', "s3cret") == 200
            await delivered(gateway)
            gateway.kill()
            telegram.says("and now?")  # called until somebody answers
            gateway.start(port)
            assert await hears(telegram, 2) == ["Good day.", "Again."]
        assert "s3cret" not in gateway.output() and len(model.requests) == 2


async def test_two_bots_are_called_at_two_paths(openclaw_home: TemporaryHome) -> None:
    port, other_token = free_port(), "43:other"
    with (
        MockModelServer([says("One."), says("Two.")]) as model,
        TelegramServer() as telegram,
        TelegramServer(other_token) as other,
    ):
        url = f"http://127.0.0.1:{port}"
        second = {"botToken": other_token, "apiRoot": other.url, "webhookUrl": url}
        configure(openclaw_home, model, telegram, webhookUrl=url, accounts={"work": second})
        gateway = GatewayProcess(openclaw_home)
        gateway.start(port)
        with contextlib.ExitStack() as stack:
            stack.callback(gateway.__exit__)
            first = await asyncio.to_thread(telegram.called, "setWebhook")
            assert (await asyncio.to_thread(other.called, "setWebhook"))["url"] == f"{url}{WEBHOOK}/work"
            assert len(first["secret_token"]) > 30, "a secret is made up"
            assert await asyncio.to_thread(call, telegram, port, b"{}", first["secret_token"], f"{WEBHOOK}/work") == 401
            telegram.says("first")
            assert await hears(telegram, 1) == ["One."]
            other.says("second")
            assert await hears(other, 1) == ["Two."]


def sends(to: str, media: str) -> Any:
    return calls("message", action="send", channel="telegram", target=to, message="look", media=media)


async def test_files_go_out_from_disk_and_from_an_address(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG" * 1_000)
    with TelegramServer() as telegram:
        telegram.files["plan.pdf"] = b"%PDF-1.7"
        address = f"{telegram.url}/file/bot{TOKEN}/documents/plan.pdf"
        script = [
            *(sends("8", str(tmp_path / "a.png")), sends("8", address), sends("8", f"{address}x"), says("Sent.")),
            says(f"MEDIA:{address}\nHere it is."),
        ]
        with MockModelServer(script) as model:
            tools = {"web": {"fetch": {"ssrfPolicy": {"allowedHostnames": ["127.0.0.1"]}}}}
            configure(openclaw_home, model, telegram, tools, linkPreview=False)
            telegram.faults = [Fault("sendPhoto", 400, says="Bad Request: PHOTO_INVALID_DIMENSIONS")]
            with GatewayProcess(openclaw_home):
                telegram.says("send them")
                sent = await asyncio.to_thread(telegram.hears, 3, DEADLINE)
                assert [(each["method"], each.get("file_name")) for each in sent] == [
                    ("sendDocument", "a.png"),
                    ("sendDocument", "plan.pdf"),
                    ("sendMessage", None),
                ]
                assert sent[1]["content"] == b"%PDF-1.7" and sent[1]["caption"] == "look"
                assert sent[2]["link_preview_options"] == {"is_disabled": True}
                assert "answered 404" in json.dumps(model.requests[-1])
                # An answer is no call of a tool: what it names is not fetched, but shown.
                fetched = [name for name, _ in telegram.calls].count("file")
                telegram.says("and again")
                assert (await hears_all(telegram, 4))[3]["text"] == f"Here it is.\n\n{address}"
                assert [name for name, _ in telegram.calls].count("file") == fetched


async def test_files_of_an_answer_are_looked_for_in_the_workspace(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    """A file that cannot be sent, or that the agent may not read, does not keep the words from arriving."""
    (openclaw_home.workspace / "a.txt").write_text("beside SOUL.md")
    (tmp_path / "elsewhere.txt").write_text("not in the workspace")
    lost = f"Some.\nMEDIA: ./gone.txt\nMEDIA:{tmp_path}/elsewhere.txt"
    script = [says("Here.\nMEDIA: ./a.txt"), says("Again.\nMEDIA:`a.txt`"), says(lost)]
    with TelegramServer() as telegram, MockModelServer(script) as model:
        configure(openclaw_home, model, telegram, {"fs": {"workspaceOnly": True}}, streaming={"mode": "off"})
        with GatewayProcess(openclaw_home):
            for count, said in enumerate(("send it", "again", "others"), 1):
                telegram.says(said)
                sent = await hears_all(telegram, count)
    assert [(each["method"], each.get("caption")) for each in sent[:2]] == [
        ("sendDocument", "Here."),
        ("sendDocument", "Again."),
    ]
    assert sent[0]["content"] == b"beside SOUL.md"
    assert sent[2]["text"] == "Some.\n\n[not sent: gone.txt]\n\n[not sent: elsewhere.txt]"


async def test_an_answer_carries_no_credentials_and_to_others_nothing_old(openclaw_home: TemporaryHome) -> None:
    """Whoever talks the model into naming a file does not get it: no person was asked."""
    workspace = openclaw_home.workspace
    for name in (".env", "USER.md", "diary.txt", "new.txt"):
        (workspace / name).write_text("dear diary")
    os.utime(workspace / "diary.txt", (0, 0))
    (workspace / "plain.txt").symlink_to(".env")
    files = "Here.\nMEDIA: USER.md\nMEDIA: diary.txt\nMEDIA: new.txt"
    script = [says("Here.\nMEDIA: .env\nMEDIA: plain.txt"), says("Here.\nMEDIA: diary.txt"), says(files)]
    with TelegramServer() as telegram, MockModelServer(script) as model:
        more: dict[str, Any] = {"streaming": {"mode": "off"}, "dmPolicy": "open", "allowFrom": ["*"]}
        configure(openclaw_home, model, telegram, **more)
        with GatewayProcess(openclaw_home):
            for count, sender in enumerate((7, 7, 8), 1):
                telegram.says("send it", sender)
                sent = await hears_all(telegram, count)
    assert sent[0]["text"] == "Here.\n\n[not sent: .env]\n\n[not sent: plain.txt]"
    assert (sent[1]["method"], sent[1]["caption"]) == ("sendDocument", "Here.")
    assert sent[2]["caption"] == "Here.\n\n[not sent: USER.md]\n\n[not sent: diary.txt]"


async def test_an_address_of_this_machine_is_not_fetched(openclaw_home: TemporaryHome) -> None:
    with TelegramServer() as telegram:
        telegram.files["plan.pdf"] = b"%PDF-1.7"
        with MockModelServer([sends("8", f"{telegram.url}/file/bot{TOKEN}/plan.pdf"), says("No.")]) as model:
            configure(openclaw_home, model, telegram)
            with GatewayProcess(openclaw_home):
                telegram.says("send it")
                assert await hears(telegram, 1) == ["No."]
                assert "private, loopback or special address" in json.dumps(model.requests[-1])
                assert "file" not in [name for name, _ in telegram.calls]


async def test_the_menu_shows_our_commands_and_one_that_is_chosen_in_a_group_is_understood(
    openclaw_home: TemporaryHome,
) -> None:
    with MockModelServer([says("hi")]) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram, groups={"*": {}})
        with GatewayProcess(openclaw_home):
            menu = (await asyncio.to_thread(telegram.called, "setMyCommands"))["commands"]
            assert {"command": "status", "description": "model, session, tokens, cost"} in menu
            mark = {"type": "bot_command", "offset": 0, "length": 16}
            telegram.says("/whoami@claw_bot", chat={"id": -5, "type": "group", "title": "Club"}, entities=[mark])
            assert "agent:main:telegram:group:-5" in (await hears(telegram, 1))[0]
