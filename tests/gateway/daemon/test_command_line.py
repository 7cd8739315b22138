"""`openclaw gateway`, `logs` and `doctor` as a person types them."""

import json
import os
import socket
from typing import Any

import pytest

from openclaw.cli.gateway.group import gateway_command
from openclaw.cli.gateway.plain import read_plainly
from openclaw.gateway import process, running
from openclaw.testing import TemporaryHome
from tests import commandline
from tests.gateway.daemon.support import mode_of


def openclaw(home: TemporaryHome, *words: str, **environ: str) -> Any:
    return commandline.openclaw(*words, env={**home.environ, "OPENCLAW_GATEWAY_PORT": "0", **environ}, cwd=home.root)


@pytest.fixture
def home(openclaw_home: TemporaryHome) -> Any:
    openclaw_home.state.chmod(0o700)
    yield openclaw_home
    running.stop(openclaw_home.state, 5.0)


def test_a_gateway_is_started_looked_at_restarted_and_stopped(home: TemporaryHome) -> None:
    started = json.loads(openclaw(home, "gateway", "start", "--json").stdout)
    assert started["started"] is True

    status = openclaw(home, "gateway", "status", "--json")
    assert status.returncode == 0
    told = json.loads(status.stdout)
    assert set(told) == {"cli", "logFile", "service", "config", "gateway", "port", "rpc", "extraServices"}
    assert (told["gateway"]["pid"], told["port"]["port"]) == (started["pid"], started["port"])
    assert told["port"]["ready"] is True and told["rpc"] == {"ok": True, "error": None}
    assert json.loads(openclaw(home, "health", "--json").stdout)["ok"] is True

    assert "already running" in openclaw(home, "daemon", "start").stdout
    assert json.loads(openclaw(home, "gateway", "restart", "--json").stdout)["pid"] == started["pid"]
    logs = openclaw(home, "logs", "--limit", "50")
    assert "restarting (SIGUSR1)" in logs.stdout and logs.stdout.count("listens on") == 2

    assert openclaw(home, "gateway", "stop").stdout == "stopped\n"
    assert "a plain background process" in openclaw(home, "gateway", "start").stdout
    assert openclaw(home, "gateway", "stop").stdout == "stopped\n"
    gone = openclaw(home, "gateway", "status")
    assert gone.returncode == 1 and "openclaw gateway start" in gone.stdout
    assert mode_of(process.boot_log(home.state)) == 0o600


def test_without_a_gateway_its_health_is_an_error(home: TemporaryHome) -> None:
    health = openclaw(home, "health")
    assert health.returncode == 1 and "not running" in health.stderr


def test_a_start_that_fails_says_why(home: TemporaryHome) -> None:
    home.configure({"tools": {"deny": 5}})
    failed = openclaw(home, "gateway", "start")
    assert failed.returncode == 1
    assert "the gateway did not start" in failed.stderr and "tools.deny" in failed.stderr


def test_a_port_in_use_is_told_with_its_owner(home: TemporaryHome) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        failed = openclaw(home, "gateway", "--port", str(taken))
    assert failed.returncode == 1
    assert f"port {taken} on 127.0.0.1 is in use by process {os.getpid()}" in failed.stderr


def test_strangers_are_not_let_in(home: TemporaryHome) -> None:
    refused = openclaw(home, "gateway", "run", "--bind", "lan", "--auth", "none")
    assert refused.returncode == 1
    assert "set gateway.auth.token (or gateway.auth.password), or set gateway.bind to loopback" in refused.stderr


OPTIONS = "--force --verbose --no-console --port 18790 --bind lan --auth password --token t --password p".split()


@pytest.mark.parametrize(
    "words", [[], ["--port", "0"], ["--port", "7", "--port", "65535"], OPTIONS, ["--token", "--force"]], ids=" ".join
)
def test_a_gateway_is_told_the_same_with_and_without_click(words: list[str]) -> None:
    parsed = gateway_command.commands["run"].make_context("run", [*words]).params
    plain = read_plainly(["run", *words])
    assert plain is not None and plain == read_plainly(words)
    unsaid = {"safe_mode": "auto", "password_file": None}
    assert (
        parsed == {name: False if isinstance(value, bool) else None for name, value in parsed.items()} | unsaid | plain
    )


@pytest.mark.parametrize(
    "words",
    "start|run --help|--help|run more|--port|--port x|--port 65536|--port=1|--token|--safe-mode on|--no_console".split(
        "|"
    ),
)
def test_what_needs_explaining_is_read_by_click(words: str) -> None:
    assert read_plainly(words.split()) is None


def test_the_token_can_be_asked_for(home: TemporaryHome) -> None:
    assert openclaw(home, "gateway", "auth-token", OPENCLAW_GATEWAY_TOKEN="plum").stdout == "plum\n"
    made = openclaw(home, "gateway", "auth-token").stdout
    assert len(made) == 65 and openclaw(home, "gateway", "auth-token").stdout == made


def test_a_call_without_a_gateway_says_so(home: TemporaryHome) -> None:
    assert openclaw(home, "gateway", "call", "health", "--params", "{").returncode == 2
    failed = openclaw(home, "gateway", "call", "health", "--url", "ws://127.0.0.1:9", "--json")
    assert failed.returncode == 1
    assert "Is it running?" in json.loads(failed.stdout)["error"]["message"]
    assert openclaw(home, "gateway", "call", "health", "--url", "http://x").returncode == 1


def test_the_doctor_shows_a_plan_and_changes_nothing_without_a_yes(home: TemporaryHome) -> None:
    home.configure({})
    home.config_path.chmod(0o644)
    planned = openclaw(home, "doctor", "--fix")
    assert "Plan:\n  fs.permissions: take all rights of others away" in planned.stdout
    assert "Nothing was changed" in planned.stdout
    assert mode_of(home.config_path) == 0o644
    done = json.loads(openclaw(home, "doctor", "--fix", "--yes", "--json").stdout)
    assert [entry["checkId"] for entry in done["repaired"]] == ["fs.permissions"]
    assert "fs.permissions" not in [finding["checkId"] for finding in done["findings"]]
    assert mode_of(home.config_path) == 0o600


def test_the_doctor_fails_on_what_is_critical(home: TemporaryHome) -> None:
    home.configure({"tools": {"exec": {"security": "full", "ask": "off"}}})
    found = openclaw(home, "doctor")
    assert found.returncode == 1
    assert "tools.exec.security_full_configured" in found.stdout
