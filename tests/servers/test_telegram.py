"""Telegram against Crabline: the message flow of a gateway with a server that others wrote."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openclaw.channels.telegram.channel import Telegram
from openclaw.channels.telegram.settings import TelegramSettings
from openclaw.core.channel import Address, Button, MessageRefused, Outbound
from openclaw.core.secret import Secret
from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import Hangs, MockModelServer
from tests.commandline import typed
from tests.e2e.gateway_process import GatewayProcess
from tests.servers.crabline import Crabline, crabline

pytestmark = [pytest.mark.anyio, pytest.mark.servers]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Crabline]:
    with crabline("telegram", tmp_path) as running:
        yield running


def configure(home: TemporaryHome, model: MockModelServer, server: Crabline, **more: Any) -> None:
    telegram = {"botToken": server.manifest["botToken"], "apiRoot": server.api_root, **more}
    home.configure(
        {**model.settings(), "channels": {"telegram": telegram}, "commands": {"ownerAllowFrom": ["telegram:7"]}}
    )


def writes(server: Crabline, text: str, sender: int = 7) -> None:
    server.happens(chatId=sender, fromId=sender, text=text)


async def hears(server: Crabline, count: int) -> list[str]:
    return [each["text"] for each in await asyncio.to_thread(server.until, "sendMessage", count)]


async def test_a_conversation_a_long_answer_and_a_document(
    server: Crabline, openclaw_home: TemporaryHome, tmp_path: Path
) -> None:
    (tmp_path / "plan.pdf").write_bytes(b"%PDF-1.7")
    long = "A sentence about something. " * 500
    document = calls("message", action="send", target="8", message="the plan", media=str(tmp_path / "plan.pdf"))
    with MockModelServer([says("**Good** day."), says(long), document, says("Sent.")]) as model:
        configure(openclaw_home, model, server)
        with GatewayProcess(openclaw_home):
            writes(server, "hello")
            assert await hears(server, 1) == ["Good day."]
            writes(server, "tell me everything")
            pieces = (await hears(server, 5))[1:]
            assert " ".join(pieces).split() == long.split()
            writes(server, "send the plan to Bob")
            (sent,) = await asyncio.to_thread(server.until, "sendDocument")
            assert sent["chat_id"] == "8" and sent["caption"] == "the plan"
            assert (await hears(server, 6))[5] == "Sent."
            assert server.calls("setMyCommands") and server.calls("sendChatAction")


async def test_what_is_done_to_a_message(server: Crabline) -> None:
    settings = TelegramSettings(api_root=server.api_root)
    bot, to = Telegram(Secret(server.manifest["botToken"]), settings=settings), Address(channel="telegram", to="7")
    try:
        assert (await bot.probe()).name == "@crabline_bot"
        sent = await bot.send(Outbound(to=to, text="thinking…", buttons=((Button("Stop", "stop"),),)))
        edited = await bot.send(Outbound(to=to, text="**Done.**", action="edit", about=sent.id))
        assert edited.id == sent.id and server.calls("editMessageText")[0]["text"] == "Done."
        await bot.send(Outbound(to=to, text="👍", action="react", about=sent.id))
        await bot.send(Outbound(to=to, text="", action="delete", about=sent.id))
        await bot.typing(to)
        with pytest.raises(MessageRefused, match="too long"):
            await bot.send(Outbound(to=to, text="x" * 4_097))
    finally:
        await bot.close()


async def test_an_answer_outlives_a_kill(server: Crabline, openclaw_home: TemporaryHome) -> None:
    with MockModelServer([Hangs(), says("Good day.")]) as model:
        configure(openclaw_home, model, server)
        with GatewayProcess(openclaw_home) as gateway:
            writes(server, "hello")
            assert await asyncio.to_thread(model.asked.wait, 60)
            gateway.kill()
        with GatewayProcess(openclaw_home):
            assert await hears(server, 1) == ["Good day."]


async def test_it_calls_instead_of_being_asked(server: Crabline, openclaw_home: TemporaryHome) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    with MockModelServer([says("Good day.")]) as model, contextlib.ExitStack() as stack:
        configure(openclaw_home, model, server, webhookUrl=f"http://127.0.0.1:{port}")
        gateway = GatewayProcess(openclaw_home)
        gateway.start(port)
        stack.callback(gateway.__exit__)
        await asyncio.to_thread(server.until, "setWebhook")
        writes(server, "hello")
        assert await hears(server, 1) == ["Good day."]
        assert not server.calls("getUpdates")


async def test_from_nothing_to_a_conversation_in_four_commands(server: Crabline, openclaw_home: TemporaryHome) -> None:
    run = typed(openclaw_home)
    with MockModelServer([says("ready"), says("Good morning.")]) as model, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        models = [{"id": "small", "contextWindow": 200_000}]
        provider = {"baseUrl": model.url, "api": "openai-completions", "models": models}
        port = int(free.getsockname()[1])
        free.close()
        openclaw_home.configure({"models": {"providers": {"mine": provider}}, "gateway": {"port": port}})
        onboard = ("onboard", "--non-interactive", "--model", "mine/small", "--api-key-file", "-")
        assert run(*onboard, stdin="sk-nobody-has-this-key\n").code == 0
        token = server.manifest["botToken"]
        add = run("channels", "add", "telegram", "--api-root", server.api_root, "--token", "-", stdin=f"{token}\n")
        assert add.code == 0 and "this is @crabline_bot" in add.out and token not in add.out + add.err
        try:
            assert run("gateway", "start").code == 0
            writes(server, "hello")
            (asked,) = await hears(server, 1)
            command = asked.strip().splitlines()[-1].split()
            approved = run(*command[1:])
            assert approved.code == 0 and "telegram:7 may command the assistant now" in approved.out
            writes(server, "good morning")
            assert (await hears(server, 2))[1] == "Good morning."
        finally:
            run("gateway", "stop")
