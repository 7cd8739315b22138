"""Discord against Crabline: the message flow of a gateway with a server that others wrote."""

import asyncio
from pathlib import Path

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess
from tests.servers.crabline import crabline

pytestmark = [pytest.mark.anyio, pytest.mark.servers]

ADA, EVE, ROOM = "300000000000000007", "300000000000000008", "200000000000000001"


async def test_a_conversation_a_long_answer_and_a_stranger(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    long = "A sentence about something. " * 200
    with MockModelServer([says("**Good** day."), says(long)]) as model, crabline("discord", tmp_path) as server:
        discord = {"token": server.manifest["botToken"], "apiRoot": server.api_root}
        openclaw_home.configure(
            {
                **model.settings(),
                "channels": {"discord": discord},
                "commands": {"ownerAllowFrom": [f"discord:{ADA}"]},
            }
        )
        with GatewayProcess(openclaw_home):
            # What is said before the first connection is not heard: nobody knows yet since when to listen.
            await asyncio.to_thread(server.until, "gateway")
            server.happens(channelId=ROOM, senderId=ADA, content="hello")
            (first,) = await asyncio.to_thread(server.until, "messages", 1)
            assert first["content"] == "**Good** day." and first["message_reference"]
            server.happens(channelId=ROOM, senderId=ADA, content="tell me everything")
            pieces = [each["content"] for each in await asyncio.to_thread(server.until, "messages", 4)][1:]
            assert " ".join(pieces).split() == long.split() and all(len(each) <= 2_000 for each in pieces)
            server.happens(channelId="200000000000000002", senderId=EVE, content="let me in")
            told = (await asyncio.to_thread(server.until, "messages", 5))[4]["content"]
            assert "openclaw pairing approve discord" in told
            assert len(model.requests) == 2
