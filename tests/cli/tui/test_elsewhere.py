"""The terminal chat on a gateway of another machine: encrypted, and approved by a person over there."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing_server import MockModelServer
from tests import commandline
from tests.cli.tui.terminal import needs_tmux, terminal
from tests.e2e.gateway_process import GatewayProcess

pytestmark = [pytest.mark.system, needs_tmux]


def own_address() -> str:
    """An address of this machine that is not loopback: whoever comes over it counts as another machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
            address = str(probe.getsockname()[0])
        except OSError:
            address = "127.0.0.1"
    if address.startswith("127."):
        pytest.skip("this machine has no network address")
    return address


def openclaw(environ: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return commandline.openclaw(*arguments, env=environ)


@contextmanager
def gateway(home: TemporaryHome, server: MockModelServer, address: str) -> Iterator[tuple[GatewayProcess, str, str]]:
    """A gateway for the network, the address it has there, and the fingerprint of its certificate."""
    shown = {"bind": "custom", "customBindHost": address, "tls": {"enabled": True}}
    home.configure({**server.settings(), "gateway": shown})
    with GatewayProcess(home) as there:
        yield there, f"wss://{address}:{there.port}", there.fingerprint


def test_a_terminal_elsewhere_is_let_in_after_a_person_said_yes(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    address = own_address()
    elsewhere = {**openclaw_home.environ, "OPENCLAW_STATE_DIR": str(tmp_path / "elsewhere"), "HOME": str(tmp_path)}
    elsewhere.pop("OPENCLAW_GATEWAY_TOKEN", None)
    with (
        MockModelServer([says("Hello from over there.")]) as server,
        gateway(openclaw_home, server, address) as (there, url, fingerprint),
    ):
        token = there.token.reveal()
        assert fingerprint in openclaw(openclaw_home.environ, "gateway", "status").stdout
        joins = ["tui", "--url", url, "--tls-fingerprint", fingerprint]
        with terminal(joins, elsewhere, tmp_path) as shown:
            shown.until("Token of wss://")
            shown.says(token)
            shown.until("waits to be approved there: openclaw devices approve")
            listed = openclaw(openclaw_home.environ, "devices", "list")
            assert address in listed.stdout and "Let one in" in listed.stdout
            done = openclaw(openclaw_home.environ, "devices", "approve")
            assert done.returncode == 0 and "may come in" in done.stdout, done.stderr
            shown.until("ready")
            shown.says("hello")
            assert token not in shown.until("Hello from over there.")
        with terminal([*joins, "--token", token], elsewhere, tmp_path) as again:
            again.until("Hello from over there.")
        key = tmp_path / "elsewhere" / "identity" / "device.json"
        assert key.stat().st_mode & 0o077 == 0 and token not in key.read_text()
        wrong = openclaw(elsewhere, "gateway", "call", "health", "--url", url, "--tls-fingerprint", "00" * 32)
        assert wrong.returncode == 1 and "another certificate" in wrong.stderr
        plain = openclaw(elsewhere, "gateway", "call", "health", "--url", url.replace("wss", "ws"), "--token", token)
        assert plain.returncode == 1 and "not encrypted" in plain.stderr
        device = openclaw(openclaw_home.environ, "devices", "list").stdout.splitlines()[-1].split()[0]
        removed = openclaw(openclaw_home.environ, "devices", "remove", device)
        assert removed.returncode == 0, removed.stderr
        asked = ("gateway", "call", "health", "--url", url, "--tls-fingerprint", fingerprint, "--token", token)
        refused = openclaw(elsewhere, *asked)
        assert refused.returncode == 1 and "pairing required" in refused.stderr
