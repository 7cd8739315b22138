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

COUNT = """
import sys
before = set(sys.modules)
sys.argv = ["openclaw", *{arguments!r}]
try:
    from openclaw.cli.main import main
    main()
except SystemExit as stop:
    code = stop.code or 0
else:
    code = 0
import json
sys.stderr.write("\\n@@" + json.dumps([code, sorted(set(sys.modules) - before - {{"json"}})]))
"""

READY = """
import json, os, signal, sys, threading, time, urllib.request
before = set(sys.modules)

def watch():
    from openclaw.gateway.process import running_gateway as running
    from pathlib import Path
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = running(Path(os.environ["OPENCLAW_STATE_DIR"]))
        try:
            if found and found.port:
                urllib.request.urlopen(f"http://127.0.0.1:{found.port}/readyz", timeout=5).read()
                time.sleep(0.5)  # what a gateway loads by itself once it is ready counts too
                break
        except OSError:
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

VERSION_BUDGET = 60
HELP_BUDGET = 110
NOUN_BUDGET = 600
"""A noun's module imports what its commands use; the gateway itself is imported by those that start one."""
LOOKING_BUDGET = 320
GATEWAY_BUDGET = 610
TURN_BUDGET = 760


def modules_of(arguments: list[str], home: TemporaryHome) -> tuple[str, list[str]]:
    """What a command line prints and which modules it imports beyond a bare interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format(arguments=arguments)],
        capture_output=True,
        text=True,
        env=home.environ,
        cwd=home.root,
        timeout=60,
    )
    code, modules = json.loads(done.stderr.rpartition("@@")[2])
    assert code == 0, done.stderr
    return done.stdout, modules


def every_command() -> list[list[str]]:
    """Each command and subcommand as a person would type it."""
    found: list[list[str]] = [[]]
    context = click.Context(root)
    for noun in NOUNS:
        found.append([noun])
        command = root.get_command(context, noun)
        if isinstance(command, click.Group):
            found += [[noun, name] for name in command.list_commands(context)]
    return found


def test_the_version_costs_next_to_nothing(openclaw_home: TemporaryHome) -> None:
    printed, modules = modules_of(["--version"], openclaw_home)
    assert printed.startswith("openclaw ")
    assert len(modules) <= VERSION_BUDGET, modules
    assert not {"click", "asyncio", "msgspec"} & set(modules)


@pytest.mark.parametrize("words", every_command(), ids=lambda words: " ".join(words) or "openclaw")
def test_help_answers_without_starting_anything(words: list[str], openclaw_home: TemporaryHome) -> None:
    printed, modules = modules_of([*words, "--help"], openclaw_home)
    assert "Usage: openclaw" in printed
    assert len(modules) <= (NOUN_BUDGET if words else HELP_BUDGET), len(modules)
    assert "openclaw.gateway.app" not in modules
    if not words:
        assert "asyncio" not in modules
        packages = {name.split(".")[1] for name in modules if name.startswith("openclaw.")}
        assert packages <= {"cli", "version", "core"}
    assert not openclaw_home.config_path.exists()


@pytest.mark.parametrize(
    "words", [["status"], ["sessions", "list"], ["cost"], ["models", "status"], ["config", "get"]], ids=" ".join
)
def test_looking_stays_within_its_budget(words: list[str], openclaw_home: TemporaryHome) -> None:
    _, modules = modules_of(words, openclaw_home)
    assert len(modules) <= LOOKING_BUDGET, len(modules)
    assert "openclaw.gateway.app" not in modules
    assert not {"httpx2", "rich", "websockets", "numpy", "pydantic", "json5"} & {name.split(".")[0] for name in modules}


def test_a_gateway_that_waits_has_loaded_only_what_waiting_takes(openclaw_home: TemporaryHome) -> None:
    done = subprocess.run(
        [sys.executable, "-c", READY],
        capture_output=True,
        text=True,
        env=openclaw_home.environ,
        cwd=openclaw_home.root,
        timeout=120,
    )
    modules = json.loads(done.stdout.rpartition("@@")[2])
    assert "openclaw.gateway.serve" in modules, done.stderr
    assert len(modules) <= GATEWAY_BUDGET, len(modules)
    loaded = {name.partition(".")[0] for name in modules}
    heavy = {"httpx2", "yaml", "cryptography", "numpy", "pydantic", "mcp", "textual", "playwright", "pathspec", "rich"}
    assert not heavy & loaded
    assert not [name for name in modules if name.startswith(("openclaw.models.providers.", "openclaw.tools.build"))]


def test_a_turn_without_a_daemon_needs_no_web_server(openclaw_home: TemporaryHome) -> None:
    printed, modules = modules_of(["agent", "--local", "--message", "hello"], openclaw_home)
    assert printed.strip()
    assert len(modules) <= TURN_BUDGET, len(modules)
    assert not {"uvicorn", "starlette", "websockets", "watchfiles"} & {name.partition(".")[0] for name in modules}


def test_every_wheel_file_is_declared() -> None:
    """Data files the code opens are inside the package, so that they are in the wheel too."""
    package = Path(__file__).parent.parent / "src" / "openclaw"
    assert (package / "models" / "catalog.json").exists()
    assert list((package / "workspace" / "templates").glob("*.md"))
