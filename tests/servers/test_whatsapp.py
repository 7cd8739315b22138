"""WhatsApp against Crabline: the message flow of a gateway with a server that others wrote.

Crabline tells what Meta would call with; the call itself, and its signature, are made here.
"""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.channels.webhook.server import post
from tests.channels.whatsapp.server import APP_SECRET, VERIFY, signed
from tests.e2e.gateway_process import GatewayProcess
from tests.servers.crabline import Crabline, crabline

pytestmark = [pytest.mark.anyio, pytest.mark.servers]

ADA = "15551110001"


async def hears(gateway: GatewayProcess, server: Crabline, text: str) -> None:
    jid = f"{ADA}@s.whatsapp.net"
    told: dict[str, Any] = await asyncio.to_thread(server.happens, chatJid=jid, senderJid=jid, text=text)
    async with asyncio.timeout(120):
        while (
            await asyncio.to_thread(post, gateway.port, "/whatsapp-webhook", signed(told["webhook"]))
        ).status_code != 200:
            await asyncio.sleep(0.05)


def said(body: dict[str, Any]) -> bool:
    return body.get("type") == "text"


async def test_a_conversation_and_a_long_answer(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    long = "A sentence about something. " * 300
    with MockModelServer([says("**Good** day."), says(long)]) as model, crabline("whatsapp", tmp_path) as server:
        section = {
            "phoneNumberId": server.manifest["phoneNumberId"],
            "accessToken": server.manifest["accessToken"],
            "appSecret": APP_SECRET,
            "verifyToken": VERIFY,
            "apiRoot": re.sub(r"/v[\d.]+\Z", "", server.api_root),
            "apiVersion": server.manifest["graphVersion"],
        }
        openclaw_home.configure(
            {
                **model.settings(),
                "channels": {"whatsapp": section},
                "commands": {"ownerAllowFrom": [f"whatsapp:+{ADA}"]},
            }
        )
        with GatewayProcess(openclaw_home) as gateway:
            await hears(gateway, server, "hello")
            (first,) = await asyncio.to_thread(server.until, "messages", 1, said)
            assert (first["to"], first["text"]["body"]) == (ADA, "*Good* day.")
            await hears(gateway, server, "tell me everything")
            pieces = [each["text"]["body"] for each in await asyncio.to_thread(server.until, "messages", 4, said)][1:]
            assert " ".join(pieces).split() == long.split() and all(len(each) <= 4_096 for each in pieces)
