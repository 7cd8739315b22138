"""Starting is quick because little is imported: the budget is a number of modules, which no busy machine changes."""

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from openclaw.cli.main import NOUNS
from openclaw.cli.root import root
from openclaw.testing import TemporaryHome
from tests.commandline import PATIENCE
from tests.e2e.gateway_process import GatewayProcess

COUNT = """
import sys
before = set(sys.modules)
codes = []
for arguments in {lines!r}:
    sys.argv = ["openclaw", *arguments]
    try:
        from openclaw.cli.main import main
        main()
    except SystemExit as stop:
        codes.append(stop.code or 0)
    else:
        codes.append(0)
    sys.stdout.write("@@")
import json
sys.stderr.write("\\n@@" + json.dumps([codes, sorted(set(sys.modules) - before - {{"json"}})]))
"""

READY = """
import json, os, signal, socket, sys, threading, time
before = set(sys.modules)

def watch():
    while "openclaw.gateway.serve" not in sys.modules:
        time.sleep(0.02)  # what the gateway loads is not loaded before it does
    from openclaw.gateway.running import running_gateway as running
    from pathlib import Path
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        found = running(Path(os.environ["OPENCLAW_STATE_DIR"]))
        try:
            if found and found.port:
                with socket.create_connection(("127.0.0.1", found.port), 5) as asked:
                    asked.sendall(b"GET /readyz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
                    assert asked.makefile("rb").readline().split()[1] == b"200"
                time.sleep(0.5)  # what a gateway loads by itself once it is ready counts too
                break
        except (OSError, AssertionError):
            pass
        time.sleep(0.02)
    sys.stdout.write("\\n@@" + json.dumps(sorted(set(sys.modules) - before)))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=watch, daemon=True).start()
sys.argv = ["openclaw", "gateway", "run", "--port", "0"]
from openclaw.cli.main import main
main()
"""

VERSION_BUDGET = 40
HELP_BUDGET = 95
NOUN_BUDGET = 600
"""A noun's module imports what its commands use; the gateway itself is imported by those that start one."""
LOOKING_BUDGET = 316
ASKING_BUDGET = 136
"""One question to a running gateway, from `openclaw` typed to the answer printed."""
TALKING_BUDGET = 203
GATEWAY_BUDGET = 513
"""Five small modules have Python's own hashes: OpenSSL would be one, and 3 MiB."""
TURN_BUDGET = 570


def modules_of(home: TemporaryHome, *lines: list[str]) -> tuple[list[str], list[str]]:
    """What each command line prints and which modules they import together beyond a bare interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format(lines=lines)],
        capture_output=True,
        text=True,
        env=home.environ,
        cwd=home.root,
        timeout=PATIENCE,
    )
    codes, modules = json.loads(done.stderr.rpartition("@@")[2])
    assert codes == [0] * len(lines), done.stderr
    return done.stdout.split("@@")[:-1], modules


def every_command(noun: str) -> list[list[str]]:
    """A noun and each of its subcommands as a person would type them."""
    context = click.Context(root)
    command = root.get_command(context, noun)
    names = command.list_commands(context) if isinstance(command, click.Group) else []
    return [[noun], *([noun, name] for name in names)]


def test_the_version_costs_next_to_nothing(openclaw_home: TemporaryHome) -> None:
    [printed], modules = modules_of(openclaw_home, ["--version"])
    assert printed.startswith("openclaw ")
    assert len(modules) <= VERSION_BUDGET, modules
    assert not {"click", "asyncio", "msgspec"} & set(modules)


def test_the_first_help_costs_little(openclaw_home: TemporaryHome) -> None:
    [printed], modules = modules_of(openclaw_home, ["--help"])
    assert "Usage: openclaw" in printed
    assert len(modules) <= HELP_BUDGET, len(modules)
    assert "asyncio" not in modules
    packages = {name.split(".")[1] for name in modules if name.startswith("openclaw.")}
    assert packages <= {"cli", "version", "core"}


@pytest.mark.parametrize("noun", NOUNS)
def test_help_answers_without_starting_anything(noun: str, openclaw_home: TemporaryHome) -> None:
    commands = every_command(noun)
    printed, modules = modules_of(openclaw_home, *([*words, "--help"] for words in commands))
    for words, text in zip(commands, printed, strict=True):
        assert f"Usage: openclaw {' '.join(words)}" in text
    assert len(modules) <= NOUN_BUDGET, len(modules)
    assert "openclaw.gateway.app" not in modules
    assert not openclaw_home.config_path.exists()


@pytest.mark.parametrize(
    "words", [["status"], ["sessions", "list"], ["cost"], ["models", "status"], ["config", "get"]], ids=" ".join
)
def test_looking_stays_within_its_budget(words: list[str], openclaw_home: TemporaryHome) -> None:
    _, modules = modules_of(openclaw_home, words)
    assert len(modules) <= LOOKING_BUDGET, len(modules)
    assert "openclaw.gateway.app" not in modules
    assert not {"httpx2", "rich", "websockets", "numpy", "pydantic", "json5"} & {name.split(".")[0] for name in modules}


@pytest.mark.parametrize(
    "words",
    [["status"], ["sessions", "list"], ["cron", "list"], ["cron", "status"], ["system", "heartbeat", "last"]],
    ids=" ".join,
)
def test_asking_a_running_gateway_loads_next_to_nothing(words: list[str], openclaw_home: TemporaryHome) -> None:
    with GatewayProcess(openclaw_home):
        [printed], modules = modules_of(openclaw_home, words)
    assert printed.strip()
    assert len(modules) <= ASKING_BUDGET, len(modules)
    slow = {"asyncio", "ssl", "logging", "apsw", "pyjson5", "_hashlib", "zoneinfo", "shutil", "encodings.idna"}
    assert not slow & set(modules)
    packages = {name.split(".")[1] for name in modules if name.startswith("openclaw.")}
    assert packages <= {"cli", "gateway", "process", "storage", "protocol", "core", "version"}


@pytest.mark.parametrize("words", [["agent", "--message", "/status"], ["health"]], ids=" ".join)
def test_talking_to_a_running_gateway_needs_no_configuration(words: list[str], openclaw_home: TemporaryHome) -> None:
    with GatewayProcess(openclaw_home):
        [printed], modules = modules_of(openclaw_home, words)
    assert printed.strip()
    assert len(modules) <= TALKING_BUDGET, len(modules)
    assert not {"openclaw.config.schema", "websockets", "httpx2", "apsw"} & set(modules)


def test_a_gateway_that_waits_has_loaded_only_what_waiting_takes(openclaw_home: TemporaryHome) -> None:
    done = subprocess.run(
        [sys.executable, "-c", READY],
        capture_output=True,
        text=True,
        env=openclaw_home.environ,
        cwd=openclaw_home.root,
        timeout=PATIENCE,
    )
    modules = json.loads(done.stdout.rpartition("@@")[2])
    assert "openclaw.gateway.serve" in modules, done.stderr
    assert len(modules) <= GATEWAY_BUDGET, len(modules)
    loaded = {name.partition(".")[0] for name in modules}
    heavy = {"httpx2", "yaml", "cryptography", "numpy", "pydantic", "mcp", "textual", "playwright", "pathspec", "rich"}
    assert not heavy & loaded
    rare = {"pyjson5", "psutil", "watchfiles", "anyio", "websockets", "multiprocessing", "html"}
    rare |= {"difflib", "email", "imaplib", "zipfile", "mimetypes", "cronsim", "csv"}
    rare |= {"click", "typing_extensions", "sysconfig", "lzma", "ssl", "_hashlib"}
    assert not rare & loaded
    assert not {"openclaw.gateway.doctor", "openclaw.gateway.service", "openclaw.gateway.status"} & set(modules)
    assert not [name for name in modules if name.startswith(("openclaw.models.providers.", "openclaw.tools.build"))]


def test_a_turn_without_a_daemon_needs_no_web_server(openclaw_home: TemporaryHome) -> None:
    [printed], modules = modules_of(openclaw_home, ["agent", "--local", "--message", "hello"])
    assert printed.strip()
    assert len(modules) <= TURN_BUDGET, len(modules)
    unused = {"websockets", "anyio", "difflib", "email", "imaplib", "zipfile", "html", "pathspec", "cronsim"}
    assert not unused & {name.partition(".")[0] for name in modules}


def test_every_wheel_file_is_declared() -> None:
    """Data files the code opens are inside the package, so that they are in the wheel too."""
    package = Path(__file__).parent.parent / "src" / "openclaw"
    assert (package / "models" / "catalog.json").exists()
    assert list((package / "workspace" / "templates").glob("*.md"))
