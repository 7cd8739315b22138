"""The chat where there is no screen to draw on."""

import subprocess
import sys
from pathlib import Path

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing_server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess
from tests.tui.terminal import needs_tmux, terminal


def chat(home: TemporaryHome, text: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "openclaw", "tui", *arguments],
        input=text,
        capture_output=True,
        text=True,
        env=home.environ,
        cwd=home.root,
        timeout=120,
    )


@pytest.mark.parametrize("running", [True, False])
def test_in_a_pipe_every_line_is_a_message(openclaw_home: TemporaryHome, running: bool) -> None:
    with MockModelServer([says("one"), says("two")]) as server:
        openclaw_home.configure(server.settings())
        gateway = GatewayProcess(openclaw_home)
        if running:
            gateway.start()
        try:
            done = chat(openclaw_home, "first\nsecond\n")
        finally:
            if running:
                gateway.stop()
    assert (done.returncode, done.stdout.split()) == (0, ["one", "two"]), done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    asked = [entry["content"] for entry in server.requests[-1]["messages"] if entry["role"] == "user"]
    assert ["first" in str(text) or "second" in str(text) for text in asked] == [True, True]


def test_the_assistants_own_shell_does_not_talk_to_itself(openclaw_home: TemporaryHome) -> None:
    environ = {**openclaw_home.environ, "OPENCLAW_SHELL": "exec"}
    done = subprocess.run(
        [sys.executable, "-m", "openclaw", "tui"], input="hi\n", capture_output=True, text=True, env=environ, timeout=60
    )
    assert done.returncode == 1 and "does not send messages to itself" in done.stderr


@needs_tmux
@pytest.mark.system
def test_without_textual_it_goes_line_by_line_and_says_how_to_get_it(
    openclaw_home: TemporaryHome, tmp_path: Path
) -> None:
    # A package that is not there is one whose finder says so: this stands in front of the real one.
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hides:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'textual': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hides)\n"
    )
    environ = {**openclaw_home.environ, "PYTHONPATH": str(hidden)}
    with MockModelServer([says("still here")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home), terminal(["tui"], environ, openclaw_home.root) as shown:
            shown.until("you>")
            shown.says("hello?")
            screen = shown.until("still here")
            assert "textual is not installed" in screen.replace("\n", " ")
