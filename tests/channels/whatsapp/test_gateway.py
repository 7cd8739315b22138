"""A number of the Cloud API through a real gateway."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.channels.http_fault import HttpFault
from tests.channels.webhook.server import post
from tests.channels.whatsapp.server import ADA, APP_SECRET, EVE, NUMBER, NUMBER_ID, TOKEN, VERIFY, CloudApi, signed
from tests.commandline import typed
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio

PATH = "/whatsapp-webhook"


def configure(home: TemporaryHome, model: MockModelServer, cloud: CloudApi, **more: Any) -> None:
    home.configure(
        {
            **model.settings(),
            "channels": {"whatsapp": {**cloud.section, **more}},
            "commands": {"ownerAllowFrom": [f"whatsapp:+{ADA}"]},
        }
    )


async def send(gateway: GatewayProcess, call: Any) -> int:
    async with asyncio.timeout(DEADLINE):
        while True:
            answer = await asyncio.to_thread(post, gateway.port, PATH, call)
            if answer.status_code not in (404, 405, 503):
                return answer.status_code
            await asyncio.sleep(0.05)


async def test_meta_is_answered_and_people_too(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("**Good** day."), says("Two.")]) as model, CloudApi() as cloud:
        configure(openclaw_home, model, cloud)
        with GatewayProcess(openclaw_home) as gateway:
            first = cloud.says("hello")
            assert await send(gateway, first) == 200
            assert await send(gateway, first) == 200  # Meta calls again when it is in doubt
            (said,) = await asyncio.to_thread(cloud.hears, 1)
            assert (said["to"], said["text"]["body"]) == (ADA, "*Good* day.")
            assert said["context"]["message_id"].startswith("wamid.in")
            query = {"hub.mode": "subscribe", "hub.verify_token": VERIFY, "hub.challenge": "1158201444"}
            url = f"http://127.0.0.1:{gateway.port}{PATH}"
            shaken = await asyncio.to_thread(httpx2.get, url, params=query)
            assert (shaken.status_code, shaken.text) == (200, "1158201444")
            wrong = await asyncio.to_thread(httpx2.get, url, params={**query, "hub.verify_token": "x"})
            assert wrong.status_code == 401
            assert await send(gateway, signed({"entry": []}, secret="another")) == 401
            assert await send(gateway, cloud.says("for another number", number="999")) == 401
            cloud.faults = [HttpFault("/messages", 500)]
            assert await send(gateway, cloud.says("again")) == 200
            await asyncio.to_thread(cloud.until, lambda: "Two." in cloud.texts())
            assert await send(gateway, cloud.says("let me in", sender=EVE)) == 200
            told = (await asyncio.to_thread(cloud.hears, 3))[2]
            assert told["to"] == EVE and "openclaw pairing approve whatsapp" in told["text"]["body"]
    assert len(model.requests) == 2
    assert any(each.get("typing_indicator") for each in cloud.asked)


async def test_files_go_both_ways(openclaw_home: TemporaryHome) -> None:
    workspace: Path = openclaw_home.workspace
    with MockModelServer([says(f"Here.\nMEDIA:{workspace}/a.png")]) as model, CloudApi() as cloud:
        configure(openclaw_home, model, cloud)
        (workspace / "a.png").write_bytes(b"\x89PNG\r\n\x1a\nx")
        cloud.media["77"] = b"%PDF-1.7 content"
        with GatewayProcess(openclaw_home) as gateway:
            document = {"id": "77", "mime_type": "application/pdf", "filename": "bill.pdf"}
            assert await send(gateway, cloud.says(type="document", document=document)) == 200
            (said,) = await asyncio.to_thread(cloud.hears, 1)
    assert said["type"] == "image" and said["image"] == {"id": "up1", "caption": "Here."}
    (saved,) = workspace.glob(".openclaw/attachments/*/1-bill.pdf")
    assert saved.read_bytes() == b"%PDF-1.7 content"


async def test_outside_the_24_hours_the_error_says_what_to_do(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([]) as model, CloudApi() as cloud:
        configure(openclaw_home, model, cloud)
        cloud.closed = True
        with GatewayProcess(openclaw_home) as gateway:
            assert await send(gateway, signed({"entry": []})) == 200  # it is connected
            command = ("message", "send", "--target", f"whatsapp:+{ADA}", "--message", "hello")
            done = await asyncio.to_thread(typed(openclaw_home), *command)
    assert done.code and "24 hours after the person last wrote" in done.err


def test_channels_add_tries_the_token_and_keeps_what_works(openclaw_home: TemporaryHome) -> None:
    with CloudApi() as cloud:
        options = ["--phone-number-id", NUMBER_ID, "--app-secret", APP_SECRET, "--verify-token", VERIFY]
        command = ["channels", "add", "whatsapp", *options, "--api-root", cloud.url, "--access-token", "-"]
        wrong = typed(openclaw_home)(*command, stdin="wrong\n")
        assert wrong.code and "Invalid OAuth access token" in wrong.err
        done = typed(openclaw_home)(*command, stdin=f"{TOKEN}\n")
        assert f"WhatsApp: this is Claw +{NUMBER}; tried, and saved." in done.out, done.err
        assert "/whatsapp-webhook" in done.out and TOKEN not in done.out + done.err
