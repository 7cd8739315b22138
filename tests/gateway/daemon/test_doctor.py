"""The doctor, on homes that were broken on purpose."""

import socket
import time
from pathlib import Path

import apsw
import msgspec
import pytest

from openclaw.gateway import doctor
from openclaw.gateway.doctor import DoctorFinding
from openclaw.gateway.state import CrashHistory, CrashRecord
from openclaw.process.environment import Environment
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.storage.sqlite import connect
from openclaw.testing import TemporaryHome
from tests.gateway.daemon.support import mode_of

KEY = {"ANTHROPIC_API_KEY": "sk-ant-" + "x" * 30, "OPENCLAW_GATEWAY_PORT": "0"}


@pytest.fixture
def home(openclaw_home: TemporaryHome) -> TemporaryHome:
    openclaw_home.state.chmod(0o700)
    return openclaw_home


def environment(home: TemporaryHome, **environ: str) -> Environment:
    return Environment(environ={**home.environ, **KEY, **environ}, home_dir=home.root, cwd=home.root)


def findings(home: TemporaryHome, **environ: str) -> dict[str, DoctorFinding]:
    scene = doctor.collect_context(environment(home, **environ))
    return {finding.id: finding for finding in doctor.run_checks(scene)}


def test_a_healthy_home_has_nothing_to_say(home: TemporaryHome) -> None:
    home.configure({"tools": {"deny": ["exec"]}})
    connect(home.state / "state" / "openclaw-py.sqlite", STATE_MIGRATIONS).close()
    assert findings(home) == {}


def test_a_home_that_is_not_there_yet_is_no_drama(tmp_path: Path) -> None:
    nowhere = {"OPENCLAW_STATE_DIR": str(tmp_path / "nowhere")}
    scene = doctor.collect_context(Environment(environ={**nowhere, **KEY}, home_dir=tmp_path, cwd=tmp_path))
    assert [finding.id for finding in doctor.run_checks(scene)] == ["state.missing"]
    assert not (tmp_path / "nowhere").exists()


def test_a_broken_configuration_is_put_back_and_the_broken_one_kept(home: TemporaryHome) -> None:
    home.configure({"tools": {"deny": 5}})
    assert findings(home)["config.invalid"].fix is None
    home.config_path.with_name("openclaw.json.last-good").write_text('{"tools": {"deny": ["exec"]}} // good\n')
    home.config_path.with_name("openclaw.json.last-good").chmod(0o600)
    found = findings(home)["config.invalid"]
    assert found.severity == "critical" and "tools.deny" in found.detail

    (done,) = doctor.repair([found])
    assert done[1] == ""
    assert "// good" in home.config_path.read_text()
    assert '"deny": 5' in home.config_path.with_name("openclaw.json.bak").read_text()
    assert findings(home) == {}


def test_open_permissions_are_found_and_closed(home: TemporaryHome) -> None:
    home.configure({})
    home.config_path.chmod(0o644)
    secret = home.state / "credentials" / "gateway.token"
    secret.parent.mkdir(mode=0o755)
    secret.write_text("x" * 40)
    secret.chmod(0o666)
    (home.workspace / "AGENTS.md").write_text("mine")
    (home.workspace / "AGENTS.md").chmod(0o644)
    found = findings(home)["fs.permissions"]
    assert found.severity == "critical" and str(secret) in found.detail
    assert [error for _, error in doctor.repair([found])] == [""]
    assert [mode_of(path) for path in (home.config_path, secret, secret.parent)] == [0o600, 0o600, 0o700]
    assert mode_of(home.workspace / "AGENTS.md") == 0o644
    assert "fs.permissions" not in findings(home)


def test_a_damaged_database_is_told(home: TemporaryHome) -> None:
    path = home.state / "state" / "openclaw-py.sqlite"
    connect(path, STATE_MIGRATIONS).close()
    data = bytearray(path.read_bytes())
    data[4096:8192] = b"\xff" * 4096
    path.write_bytes(data)
    assert findings(home)["db.damaged"].severity == "critical"
    path.write_bytes(b"not a database at all, but long enough to look at" * 100)
    assert "db.damaged" in findings(home)


def test_a_database_of_a_newer_program_is_told(home: TemporaryHome) -> None:
    path = home.state / "state" / "openclaw-py.sqlite"
    connect(path, STATE_MIGRATIONS).close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    assert "schema 999" in findings(home)["db.newer"].title


def test_conversations_that_were_cut_short_are_listed(home: TemporaryHome) -> None:
    folder = home.state / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text('{"type":"session","id":"a","timestamp":""}\n{"type":"message","id":"1","mess')
    (folder / "b.jsonl").write_text('{"type":"session","id":"b","timestamp":""}\nnot json\n')
    found = findings(home)
    assert "a.jsonl: torn" in found["sessions.cut_short"].detail
    assert "b.jsonl" in found["sessions.unreadable"].detail
    assert found["sessions.cut_short"].fix is None


def test_a_model_without_a_key_is_told(home: TemporaryHome) -> None:
    home.configure({"agents": {"defaults": {"model": "openai/gpt-5.1"}}})
    assert "openai" in findings(home)["models.auth"].title
    home.configure({})
    assert "models.none" in findings(home, ANTHROPIC_API_KEY="")


@pytest.mark.parametrize(("ask", "severity"), [("off", "critical"), ("always", "warn")])
def test_running_everything_is_told(home: TemporaryHome, ask: str, severity: str) -> None:
    home.configure({"tools": {"exec": {"security": "full", "ask": ask}}})
    assert findings(home)["tools.exec.security_full_configured"].severity == severity


def test_files_that_are_too_long_for_the_prompt_are_told(home: TemporaryHome) -> None:
    (home.workspace / "AGENTS.md").write_text("x" * 20_001)
    assert "AGENTS.md: 20001" in findings(home)["workspace.too_long"].detail


def test_a_taken_port_is_told(home: TemporaryHome) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        found = findings(home, OPENCLAW_GATEWAY_PORT=str(other.getsockname()[1]))
    assert "is taken by process" in found["gateway.port_in_use"].title


def test_a_short_token_is_told_without_showing_it(home: TemporaryHome) -> None:
    found = findings(home, OPENCLAW_GATEWAY_TOKEN="plum")["gateway.token_too_short"]
    assert "plum" not in str(found.document())


def test_crashes_are_told(home: TemporaryHome) -> None:
    now = round(time.time() * 1000)
    starts = CrashHistory(home.state)
    starts.path.parent.mkdir(mode=0o700)
    starts.path.write_bytes(msgspec.json.encode(CrashRecord(crashed=(now, now, now))))
    assert "3 times" in findings(home)["gateway.crashes"].title


def test_a_repair_that_fails_is_told_and_the_others_go_on() -> None:
    done: list[str] = []

    def fails() -> None:
        raise PermissionError(13, "Permission denied", "/somewhere")

    first = DoctorFinding(id="a", severity="warn", title="a", fix=doctor.DoctorFix("mend a", fails))
    second = DoctorFinding(id="b", severity="warn", title="b", fix=doctor.DoctorFix("mend b", lambda: done.append("b")))
    none = DoctorFinding(id="c", severity="info", title="c")
    outcome = [(finding.id, error) for finding, error in doctor.repair([first, second, none])]
    assert outcome == [("a", "/somewhere: Permission denied"), ("b", "")]
    assert done == ["b"]
    assert doctor.summary([first, second, none]) == {"critical": 0, "warn": 2, "info": 1}
