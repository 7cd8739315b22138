"""A gateway in its own process: started, killed, told to stop, changed under way."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from websockets.sync.client import connect

from openclaw.gateway.running import lock_path, running_gateway
from openclaw.gateway.state import CrashHistory, CrashRecord
from openclaw.testing import TemporaryHome
from tests.commandline import PATIENCE, typed
from tests.gateway.daemon.support import Launcher, eventually, mode_of


def get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_it_answers_and_keeps_what_it_writes_private(launch: Launcher, openclaw_home: TemporaryHome) -> None:
    gateway = launch()
    assert gateway.ready()["mode"] == "token"

    assert get(gateway.port, "/healthz") == (200, b'{"ok":true,"status":"live"}')
    with connect(f"ws://127.0.0.1:{gateway.port}/anything") as client:
        client.send("hello")
        assert client.recv(timeout=PATIENCE) == "hello"

    found = running_gateway(openclaw_home.state)
    assert found is not None and (found.pid, found.port) == (gateway.pid, gateway.port)
    (log,) = (openclaw_home.state / "logs").glob("openclaw-*.log")
    token = openclaw_home.state / "credentials" / "gateway.token"
    assert [mode_of(path) for path in (log, token, lock_path(openclaw_home.state))] == [0o600] * 3
    eventually(lambda: gateway.logged("heard something"), "the message is in the log")
    line = next(line for line in gateway.log() if "heard" in line.message)
    assert (line.run_id, line.session_key) == ("run-1", "agent:main:main")
    assert gateway.stop() == 0
    assert not lock_path(openclaw_home.state).exists()


def test_a_second_gateway_is_refused_and_told_who_is_there(launch: Launcher) -> None:
    first = launch()
    first.ready()
    second = launch()
    message = second.until("refused")["message"]
    assert message.startswith(f"gateway already running (pid {first.pid}); lock timeout after 500 ms")
    assert second.ended() == 1
    assert get(first.port, "/readyz")[0] == 200


def test_force_takes_the_place_of_the_one_that_runs(launch: Launcher) -> None:
    first = launch()
    first.ready()
    second = launch(options={"force": True})
    second.ready()
    assert first.ended() == 0


def test_a_killed_gateway_blocks_nobody(launch: Launcher, openclaw_home: TemporaryHome) -> None:
    first = launch()
    first.ready()
    first.kill()
    assert lock_path(openclaw_home.state).exists()
    assert running_gateway(openclaw_home.state) is None
    second = launch()
    assert second.ready()["safe"] is False
    assert second.logged("the last run ended without a goodbye")


def test_three_crashes_lead_to_safe_mode_and_a_good_end_leads_out(launch: Launcher) -> None:
    for _ in range(3):
        gateway = launch()
        assert gateway.ready()["safe"] is False
        gateway.kill()
    careful = launch()
    assert careful.ready()["safe"] is True
    assert careful.logged("safe mode")
    careful.stop()
    assert launch().ready()["safe"] is False


def test_parts_that_cannot_start_count_as_a_crash(launch: Launcher, openclaw_home: TemporaryHome) -> None:
    broken = launch(dies=True)
    assert broken.ended() == 1
    (line,) = [line for line in broken.log() if line.level == "fatal"]
    assert "a part that cannot start" in line.error
    assert CrashHistory(openclaw_home.state).read().running is not None


def test_safe_mode_can_be_refused(launch: Launcher, openclaw_home: TemporaryHome) -> None:
    now = round(time.time() * 1000)
    starts = CrashHistory(openclaw_home.state)
    starts.path.parent.mkdir()
    starts.path.write_bytes(msgspec.json.encode(CrashRecord(crashed=(now, now, now))))
    assert launch(options={"safe_mode": "off"}).ready()["safe"] is False


def test_work_in_progress_is_waited_for(launch: Launcher) -> None:
    gateway = launch(drain=0.3)
    gateway.ready()
    gateway.signal(signal.SIGTERM)
    gateway.until("draining")
    status, body = get(gateway.port, "/readyz")
    assert status == 503 and b"draining" in body
    gateway.until("drained")
    gateway.until("closed")
    assert gateway.ended() == 0


def test_work_without_end_is_cut_off_when_the_time_is_over(launch: Launcher) -> None:
    gateway = launch(drain=600, options={"stop_seconds": 0.3})
    gateway.ready()
    gateway.signal(signal.SIGTERM)
    gateway.until("closed")
    assert gateway.ended() == 0
    assert gateway.logged("not everything came to rest in time")


def test_a_second_signal_ends_the_waiting(launch: Launcher) -> None:
    gateway = launch(drain=600)
    gateway.ready()
    gateway.signal(signal.SIGINT)
    gateway.until("draining")
    gateway.signal(signal.SIGTERM)
    gateway.until("closed")
    assert gateway.ended() == 0


def test_it_restarts_in_the_same_process(launch: Launcher, openclaw_home: TemporaryHome) -> None:
    gateway = launch()
    gateway.ready()
    gateway.signal(signal.SIGUSR1)
    gateway.until("closed")
    gateway.ready()
    found = running_gateway(openclaw_home.state)
    assert found is not None and (found.pid, found.port) == (gateway.pid, gateway.port)


def test_a_good_edit_is_applied_and_a_bad_one_changes_nothing(launch: Launcher, openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"logging": {"level": "info"}})
    gateway = launch()
    gateway.ready()

    openclaw_home.configure({"logging": {"level": "debug"}, "tools": {"deny": ["exec"]}})
    assert gateway.until("reloaded")["changed"] == ["logging.level", "tools.deny"]
    good = openclaw_home.config_path.with_name("openclaw.json.last-good")
    eventually(lambda: "deny" in good.read_text(), "the change is remembered as good")

    openclaw_home.configure({"logging": {"level": 7}})
    eventually(lambda: gateway.logged("config reload skipped (invalid config)"), "the bad edit is told")
    assert get(gateway.port, "/readyz")[0] == 200
    assert "deny" in good.read_text()

    openclaw_home.configure({"logging": {"level": "debug"}})
    assert gateway.until("reloaded")["changed"] == ["tools"]
    told = [line for line in gateway.log() if "skipped" in line.message]
    assert len(told) == 1 and "logging.level" in told[0].message


def test_a_change_that_needs_it_restarts_the_gateway(launch: Launcher, openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"gateway": {"port": 18_789}})
    gateway = launch()
    gateway.ready()
    openclaw_home.configure({"gateway": {"port": 18_790, "auth": {"password": "x" * 20}}})
    gateway.until("closed")
    assert gateway.ready()["mode"] == "password"
    assert gateway.logged("config changed: gateway.port")


def test_hup_reads_the_configuration(launch: Launcher, openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"gateway": {"reload": {"mode": "off"}}})
    gateway = launch()
    gateway.ready()
    openclaw_home.configure({"gateway": {"reload": {"mode": "off"}}, "tools": {"deny": ["exec"]}})
    gateway.signal(signal.SIGHUP)
    assert gateway.until("reloaded")["changed"] == ["tools.deny"]


def test_a_broken_configuration_is_replaced_by_the_last_good_one(
    launch: Launcher, openclaw_home: TemporaryHome
) -> None:
    openclaw_home.configure({"logging": {"level": "debug"}})
    first = launch()
    first.ready()
    good = openclaw_home.config_path.with_name("openclaw.json.last-good")
    eventually(good.exists, "the configuration is remembered")
    first.stop()
    openclaw_home.config_path.write_text("{ broken")
    second = launch()
    second.ready()
    assert second.logged("running with the last one that worked")


def test_the_service_manager_hears_how_far_it_is(launch: Launcher, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        gateway = launch(environ={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert manager.recv(100) == b"READY=1"
        gateway.signal(signal.SIGTERM)
        assert manager.recv(100) == b"STOPPING=1"


def test_secrets_of_the_environment_stay_out_of_the_log(launch: Launcher, openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"logging": {"file": "my/own.log"}})
    gateway = launch(environ={"OPENCLAW_GATEWAY_TOKEN": "plum-tree-in-the-garden"})
    gateway.ready()
    gateway.stop()
    assert not list((openclaw_home.state / "logs").glob("*.log"))
    text = (openclaw_home.state / "my" / "own.log").read_text()
    assert "listens on" in text and "plum-tree" not in text


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_the_variables_of_the_gateway_are_not_in_proc(launch: Launcher) -> None:
    gateway = launch(environ={"SOME_API_KEY": "canary-4711"})
    gateway.ready()
    assert not Path(f"/proc/{gateway.pid}/environ").read_bytes().strip(b"\0")
    code = "import os, subprocess; from openclaw.gateway.launch import hide_environment; hide_environment()\n"
    code += (
        "print(os.environ['K'], subprocess.run(['sh', '-c', 'echo $K; cat /proc/$PPID/environ'], capture_output=True))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"K": "canary"}, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.startswith("canary") and done.stdout.count("canary") == 2, done.stdout


def test_a_change_in_the_file_itself_is_on_record_once(launch: Launcher, openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"logging": {"level": "info"}})
    gateway = launch()
    gateway.ready()
    openclaw_home.configure({"logging": {"level": "info"}, "security": {"undo": {"days": 3}}})
    gateway.until("reloaded")
    run = typed(openclaw_home)
    assert "somebody, in the file itself: security" in run("config", "log").out
    assert run("config", "set", "security.undo.days", "4").code == 0
    gateway.until("reloaded")
    told = json.loads(run("config", "log", "--json").out)
    assert [each["note"] for each in told["changes"]] == ["command line", "somebody, in the file itself"]
