"""One question to a running gateway from the command line: whichever credential it wants, and when that changes."""

import asyncio
import json
import socket
import threading

import pytest

from openclaw.gateway.running import ClientTarget, call_gateway, known_target, running_gateway
from openclaw.protocol.connect_request import CallFailed, CallTimeout, ConnectionLost
from openclaw.testing import TemporaryHome
from tests.commandline import PATIENCE, typed
from tests.e2e.gateway_process import GatewayProcess

TOKEN = "a-token-of-their-own-choice"
PASSWORD = "a-password-of-their-own"


@pytest.mark.parametrize(
    "gateway",
    [{}, {"auth": {"token": TOKEN}}, {"auth": {"mode": "password", "password": PASSWORD}}, {"auth": {"mode": "none"}}],
    ids=["generated", "token", "password", "none"],
)
def test_the_gateway_is_asked_with_the_credential_it_wants(
    gateway: dict[str, object], openclaw_home: TemporaryHome
) -> None:
    openclaw_home.configure({"gateway": gateway})
    with GatewayProcess(openclaw_home) as running:
        found = json.loads(typed(openclaw_home)("status", "--json").out)
        assert found["configPath"] == str(openclaw_home.config_path)
        assert f"port {running.port}" in typed(openclaw_home)("status").out
        assert typed(openclaw_home)("cron", "list").code == 0


def test_a_credential_that_changes_is_taken_up(openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({})
    with GatewayProcess(openclaw_home):
        before = running_gateway(openclaw_home.state)
        assert before is not None and before.credential == "own-token"
        assert typed(openclaw_home)("config", "set", "gateway.auth.token", TOKEN).code == 0
        _until(lambda: getattr(running_gateway(openclaw_home.state), "credential", None) == "")
        assert typed(openclaw_home)("status").code == 0
        assert known_target(before, openclaw_home.state) is not None


def test_what_a_gateway_refuses_is_said(openclaw_home: TemporaryHome) -> None:
    with GatewayProcess(openclaw_home) as running:
        url = f"ws://127.0.0.1:{running.port}"
        with pytest.raises(CallFailed, match="device identity required"):
            call_gateway(ClientTarget(url=url), "health", {}, timeout=PATIENCE)
        with pytest.raises(CallFailed, match="unknown method"):
            call_gateway(ClientTarget(url=url, token=running.token), "no.such.method", {}, timeout=PATIENCE)


def test_something_else_at_the_port_is_told_from_a_gateway() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"ws://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(CallTimeout, match="within"):
            call_gateway(ClientTarget(url=url), "health", {}, timeout=0.2)

        def hang_up() -> None:
            for _ in range(2):
                with listening.accept()[0] as taken:
                    taken.recv(1_000)
                    taken.sendall(b"HTTP/1.1 404 Not Found\r\n\r\n")

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(ConnectionLost, match="404"):
            call_gateway(ClientTarget(url=url), "health", {}, timeout=PATIENCE)
        thread.join()
    with pytest.raises(ConnectionLost, match="cannot reach the gateway"):
        call_gateway(ClientTarget(url=url), "health", {}, timeout=PATIENCE)


def _until(done: object) -> None:
    async def wait() -> None:
        async with asyncio.timeout(PATIENCE):
            while not done():  # type: ignore[operator]
                await asyncio.sleep(0.05)

    asyncio.run(wait())
