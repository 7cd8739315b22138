"""Slack against Crabline: the message flow of a gateway that is called over HTTP, with a server that others wrote.

Crabline has no Socket Mode, no edits and no files; slack-sdk judges our own double of those.
"""

import asyncio
import hashlib
import hmac
import json
import socket
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess
from tests.servers.crabline import Crabline, crabline

pytestmark = [pytest.mark.anyio, pytest.mark.servers]

ADA, EVE, HERS, ROOM = "U00000007", "U00000008", "D00000007", "C00000001"


def happens(server: Crabline, port: int, **event: Any) -> dict[str, Any]:
    """Somebody writes; Crabline makes the event, and it is called with here, signed as Slack signs."""
    made = server.happens(**event)
    body, now = json.dumps(made["event"]).encode(), str(int(time.time()))
    secret = server.manifest["signingSecret"].encode()
    signed = hmac.new(secret, f"v0:{now}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {
        "x-slack-request-timestamp": now,
        "x-slack-signature": f"v0={signed}",
        "content-type": "application/json",
    }
    answer = httpx2.post(f"http://127.0.0.1:{port}/slack/events", content=body, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    return dict(made["message"])


async def test_a_conversation_a_thread_a_long_answer_and_a_stranger(
    openclaw_home: TemporaryHome, tmp_path: Path
) -> None:
    long = "A sentence about something. " * 300
    script = [says("**Good** day."), says(long), says("In the thread.")]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with MockModelServer(script) as model, crabline("slack", tmp_path) as server:
        slack = {
            "botToken": server.manifest["botToken"],
            "signingSecret": server.manifest["signingSecret"],
            "apiRoot": server.api_root,
            "streaming": {"mode": "off"},
            "channels": {ROOM: {"users": [ADA]}},
        }
        owners = {"ownerAllowFrom": [f"slack:{ADA}"]}
        openclaw_home.configure({**model.settings(), "channels": {"slack": slack}, "commands": owners})
        gateway = GatewayProcess(openclaw_home)
        try:
            gateway.start(port)
            await asyncio.to_thread(server.until, "auth.test")
            async with asyncio.timeout(120):
                while "slack:default: connected" not in gateway.output():
                    await asyncio.sleep(0.05)
            happens(server, port, channel=HERS, user=ADA, text="hello")
            (first,) = await asyncio.to_thread(server.until, "chat.postMessage", 1)
            assert (first["text"], first["channel"]) == ("*Good* day.", HERS)
            happens(server, port, channel=HERS, user=ADA, text="tell me everything")
            pieces = [each["text"] for each in await asyncio.to_thread(server.until, "chat.postMessage", 4)][1:]
            assert " ".join(pieces).split() == long.split() and all(len(each) <= 4_000 for each in pieces)
            root = happens(server, port, channel=ROOM, user=ADA, text="plans")
            happens(server, port, channel=ROOM, user=ADA, text="<@UCRABBOT> well?", threadTs=root["ts"])
            told = (await asyncio.to_thread(server.until, "chat.postMessage", 5))[4]
            assert (told["text"], told["thread_ts"]) == ("In the thread.", root["ts"])
            happens(server, port, channel="D00000008", user=EVE, text="let me in")
            asked = (await asyncio.to_thread(server.until, "chat.postMessage", 6))[5]["text"]
            assert "openclaw pairing approve slack" in asked and len(model.requests) == 3
        finally:
            gateway.__exit__()
