"""`openclaw config` as a person or a script meets it."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from openclaw.cli import root
from openclaw.cli.config import NEXT_START
from openclaw.core.secret import REDACTED
from openclaw.process.environment import Home


class Result(Struct):
    stdout: str
    stderr: str


Run = Callable[..., Result]


@pytest.fixture
def run(home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`openclaw config …` in this process, with its own home."""
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(home.state))

    def call(*args: str, text: str = "", code: int = 0) -> Result:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        got = root.run(["config", *args])
        out = capsys.readouterr()
        assert got == code, out
        return Result(out.out, out.err)

    return call


def document(result: Result) -> Any:
    return json.loads(result.stdout)


def test_a_value_that_is_set_can_be_got(run):
    done = run("set", "agents.defaults.model", "anthropic/claude")
    assert done.stdout == "changed agents.defaults.model\n"
    assert done.stderr == f"{NEXT_START}\n"
    assert run("get", "agents.defaults.model").stdout == "anthropic/claude\n"
    assert document(run("get", "agents.defaults.model", "--json")) == "anthropic/claude"
    assert document(run("get")) == {"agents": {"defaults": {"model": "anthropic/claude"}}}


@pytest.mark.parametrize(
    ("given", "value"),
    [("5", 5), ("{a: [1,]}", {"a": [1]}), ("hello there", "hello there"), ("'5'", "5"), ("null", None), ("1h", "1h")],
)
def test_a_value_is_json5_or_else_text(run, given, value):
    run("set", "agents.defaults.params.x", given)
    assert document(run("get", "agents.defaults.params.x", "--json")) == value


def test_strict_json_takes_no_bare_text(run):
    failed = run("set", "logging.file", "a b", "--strict-json", "--json", code=1)
    assert document(failed)["ok"] is False
    assert document(failed)["error"]["type"] == "cli_error"


def test_a_credential_is_never_printed(run):
    secret = "sk-0123456789abcdefghij"
    outputs = [
        run("set", "models.providers.openai.apiKey", secret),
        run("get"),
        run("get", "models.providers.openai.apiKey"),
        run("get", "--json"),
        run("set", "models.providers.openai.api", secret, code=1),
        run("validate"),
    ]
    assert all(secret not in result.stdout + result.stderr for result in outputs)
    assert outputs[2].stdout == REDACTED + "\n"


def test_failures_say_what_to_do_on_stderr(run):
    missing = run("get", "session.mainKey", code=1)
    assert missing.stdout == ""
    assert missing.stderr == 'error: session.mainKey is not set; its default is "main"\n'
    assert "did you mean agents.defaults.model?" in run("get", "agents.defaults.modle", code=1).stderr
    assert "is not set" in run("unset", "logging.level", code=1).stderr
    assert "expected a number from 0" in run("set", "agents.defaults.timeoutSeconds", "soon", code=1).stderr


def test_a_wrong_call_is_a_usage_error(run):
    run("set", "logging.level", code=2)
    run("frobnicate", code=2)
    run("get", "--nope", code=2)


def test_a_dry_run_changes_nothing(run, home):
    done = run("set", "logging.level", "debug", "--dry-run")
    assert done.stdout == "would change logging.level\n"
    assert done.stderr == ""
    assert not home.config.exists()


def test_a_map_of_providers_is_not_lost_by_accident(run):
    run("set", "models.providers", "{a: {baseUrl: 'x'}, b: {}}")
    assert "would lose b" in run("set", "models.providers", "{a: {}}", code=1).stderr
    assert "would lose baseUrl" in run("set", "models.providers.a", "{api: 'ollama'}", code=1).stderr
    run("set", "models.providers", "{a: {api: 'ollama'}}", "--merge")
    assert document(run("get", "models.providers")) == {"a": {"baseUrl": "x", "api": "ollama"}, "b": {}}
    run("set", "models.providers", "{a: {}}", "--replace")
    assert document(run("get", "models.providers")) == {"a": {}}


def test_patch_and_apply_read_standard_input(run, home, tmp_path):
    run("patch", text="{logging: {level: 'debug'}, tools: {deny: ['a']}}")
    seen = document(run("file", "--json"))
    assert seen["exists"] is True
    done = document(run("patch", "--base-hash", seen["hash"], "--json", text="{logging: {level: null}}"))
    assert (done["ok"], done["changedPaths"]) == (True, ["logging.level"])
    assert "changed by someone else" in run("patch", "--base-hash", seen["hash"], text="{meta: {}}", code=1).stderr
    run("patch", "--replace-path", "tools.deny", text="{tools: {deny: []}}")
    source = tmp_path / "new.json5"
    source.write_text("// mine\n{}\n")
    run("apply", str(source))
    assert home.config.read_text() == "// mine\n{}\n"


def test_validate_tells_everything(run, write, home):
    assert run("validate").stdout == f"{home.config}: valid\n"
    write("{logging: {level: 'x'}, tools: {deny: 1}, telemetry: {}}")
    failed = run("validate", code=1)
    assert "error: logging.level: " in failed.stderr
    assert "error: tools.deny: " in failed.stderr
    assert "warning: telemetry: is known to OpenClaw" in failed.stderr
    told = document(run("validate", "--json", code=1))
    assert told["valid"] is False
    assert [issue["path"] for issue in told["issues"]] == ["logging.level", "tools.deny"]
    assert [warning["path"] for warning in told["warnings"]] == ["telemetry"]
    write("{")
    assert "line 1" in document(run("validate", "--json", code=1))["issues"][0]["message"]


def test_a_setting_is_explained(run, home):
    assert "stricter" in run("lookup", "tools.exec.security").stdout
    assert document(run("schema", "tools.exec.ask", "--json"))["default"] == "on-miss"
    assert document(run("schema"))["$ref"] == "#/$defs/Config"
    assert "did you mean" in run("lookup", "tols", code=1).stderr
    assert run("file").stdout == f"{home.config}\n"


def test_help_starts_nothing():
    code = (
        "import sys; from openclaw.cli.config import config_command;"
        "config_command(['set', '--help'], standalone_mode=False);"
        "print(*sorted(m for m in sys.modules if m.split('.')[0] in ('msgspec', 'asyncio', 'pyjson5', 'openclaw')),"
        "file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    loaded = done.stderr.split()
    assert "openclaw.cli.config" in loaded
    heavy = [name for name in loaded if name.startswith(("asyncio", "openclaw.gateway", "openclaw.runs."))]
    assert not [name for name in heavy if not name.endswith(".settings")]


def test_reading_the_configuration_needs_no_event_loop():
    code = "import sys; import openclaw.config.load, openclaw.config.edit; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "False\n"
