"""A phone that comes with a setup code, through a proxy, at a real gateway."""

import asyncio
import base64
import json
import secrets
from typing import Any

import pytest
from websockets.asyncio.client import connect

from openclaw.core.secret import Secret
from openclaw.devices.signature import DeviceIdentity
from openclaw.protocol.connect_request import ConnectOptions, Signer, connect_request, read_challenge
from openclaw.protocol.frames import EventFrame, encode, parse_from_server
from openclaw.protocol.scopes import READ, WRITE
from openclaw.testing import TemporaryHome
from tests.commandline import typed
from tests.e2e.gateway_process import GatewayProcess, collect

pytestmark = pytest.mark.anyio


async def knock(gateway: GatewayProcess, phone: Signer, **credentials: Any) -> Any:
    """What a device on another network is answered."""
    card = ConnectOptions(
        client_id="openclaw-ios", mode="ui", version="1", platform="ios", scopes=(READ, WRITE), **credentials
    )
    headers = {"x-forwarded-for": "203.0.113.7"}
    async with asyncio.timeout(60), connect(f"ws://127.0.0.1:{gateway.port}", additional_headers=headers) as socket:
        challenge = parse_from_server(await socket.recv())
        assert isinstance(challenge, EventFrame)
        await socket.send(encode(connect_request(card, read_challenge(challenge), "c", phone)), text=True)
        return json.loads(await socket.recv())


async def test_a_code_from_the_command_line_lets_one_phone_in(openclaw_home: TemporaryHome) -> None:
    with GatewayProcess(openclaw_home) as gateway:
        phone = DeviceIdentity(secrets.token_bytes(32))
        waits = await knock(gateway, phone, token=gateway.token)
        assert waits["error"]["details"]["code"] == "PAIRING_REQUIRED"

        nowhere = await asyncio.to_thread(typed(openclaw_home), "devices", "setup-code")
        assert nowhere.code != 0 and "--url" in nowhere.err
        made = await asyncio.to_thread(
            typed(openclaw_home), "devices", "setup-code", "--url", "https://home.example.org/", "--json"
        )
        told = json.loads(made.out)
        sheet = json.loads(base64.urlsafe_b64decode(told["setupCode"] + "=="))
        assert sheet["url"] == told["gatewayUrl"] == "wss://home.example.org"
        code = Secret(sheet["bootstrapToken"])

        async with gateway.client() as watcher:
            hello = await knock(gateway, phone, setup_code=code)
            assert hello["ok"], hello
            seen = await collect(watcher, lambda name, _: name == "device.pair.setup.completed", 60)
            assert seen[-1][1]["deviceId"] == phone.device_id
            status = await watcher.call("device.pair.setupStatus", {"setupId": told["setupId"]})
            assert status["status"] == "completed"
        held = {each["role"]: each["deviceToken"] for each in hello["payload"]["auth"]["deviceTokens"]}
        assert set(held) == {"operator", "node"}
        assert (await knock(gateway, phone, device_token=Secret(held["operator"])))["ok"]

        again = await knock(gateway, DeviceIdentity(secrets.token_bytes(32)), setup_code=code)
        assert again["error"]["details"]["code"] == "AUTH_BOOTSTRAP_TOKEN_INVALID"
        listed = await asyncio.to_thread(typed(openclaw_home), "devices", "list", "--json")
        assert [each["deviceId"] for each in json.loads(listed.out)["paired"]] == [phone.device_id]
        logs = "".join(path.read_text() for path in (openclaw_home.state / "logs").iterdir())
        assert code.reveal() not in logs
