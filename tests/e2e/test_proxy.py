"""A gateway behind a proxy that asks people who they are, as the proxy and those who go past it meet it."""

import asyncio
import http.client
import json
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from openclaw.protocol.connect_request import ConnectOptions, connect_request, read_challenge
from openclaw.protocol.frames import EventFrame, encode, parse_from_server
from openclaw.protocol.scopes import READ
from openclaw.testing import TemporaryHome
from tests.commandline import typed
from tests.e2e.gateway_process import GatewayProcess

pytestmark = pytest.mark.anyio

PAGE = ConnectOptions(client_id="openclaw-control-ui", mode="ui", version="0", platform="test", scopes=(READ,))
ANN = {"x-forwarded-for": "203.0.113.9", "x-forwarded-user": "ann@example.org"}
HOST = "chat.example.org"


def settings(*users: str) -> dict[str, Any]:
    trusted = {"userHeader": "X-Forwarded-User", "allowUsers": list(users), "allowLoopback": True}
    return {
        "gateway": {
            "auth": {"mode": "trusted-proxy", "trustedProxy": trusted},
            "trustedProxies": ["127.0.0.1"],
            "controlUi": {"allowedOrigins": [f"https://{HOST}"]},
        }
    }


def page(gateway: GatewayProcess, **headers: str) -> connect:
    """A WebSocket as a browser opens it at the proxy, which hands it on."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    origin = Origin(f"https://{HOST}")
    return connect(f"ws://{HOST}", host="127.0.0.1", port=gateway.port, origin=origin, additional_headers=sent)


async def greeted(socket: Any) -> Any:
    challenge = parse_from_server(await socket.recv())
    assert isinstance(challenge, EventFrame)
    await socket.send(encode(connect_request(PAGE, read_challenge(challenge), "c", None)), text=True)
    return json.loads(await socket.recv())


def get(gateway: GatewayProcess, path: str, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


async def test_a_page_comes_in_on_the_word_of_the_proxy_until_it_is_taken_back(openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure(settings("ann@example.org"))
    with GatewayProcess(openclaw_home) as gateway:
        async with asyncio.timeout(60), page(gateway, **ANN) as socket:
            hello = await greeted(socket)
            assert hello["ok"] and hello["payload"]["auth"]["method"] == "trusted-proxy"
            openclaw_home.configure(settings("bob@example.org"))
            with pytest.raises(ConnectionClosed) as ended:
                while True:
                    await socket.recv()
            assert ended.value.rcvd is not None and ended.value.rcvd.code == 4001
        async with asyncio.timeout(60), page(gateway, **ANN) as socket:
            refused = await greeted(socket)
            assert refused["error"]["details"]["authReason"] == "trusted_proxy_user_not_allowed"


async def test_whoever_the_proxy_does_not_name_stays_out(openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure(settings())
    with GatewayProcess(openclaw_home) as gateway:
        async with asyncio.timeout(60), page(gateway, x_forwarded_for="203.0.113.9") as socket:
            refused = await greeted(socket)
            assert refused["error"]["details"]["code"] == "AUTH_UNAUTHORIZED"
        told = {"host": HOST, "x-forwarded-for": "203.0.113.9"}
        token = {"authorization": f"Bearer {gateway.token.reveal()}"}
        assert await asyncio.to_thread(get, gateway, "/metrics", **told, **{"x-forwarded-user": "ann"}) == 200
        assert await asyncio.to_thread(get, gateway, "/metrics", **told) == 401
        assert await asyncio.to_thread(get, gateway, "/metrics", **told, **token) == 401
        assert await asyncio.to_thread(get, gateway, "/metrics", **token) == 200  # a program of this machine
        assert await asyncio.to_thread(get, gateway, "/metrics") == 401
        done = await asyncio.to_thread(typed(openclaw_home), "health")
        assert done.code == 0, done.err
