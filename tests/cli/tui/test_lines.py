"""The chat where there is no screen to draw on."""

import json
import socket
import subprocess
from pathlib import Path

import pytest

from openclaw.gateway import running
from openclaw.gateway.running import running_gateway
from openclaw.testing import TemporaryHome, says
from openclaw.testing_server import MockModelServer
from tests.cli.tui.terminal import needs_tmux, terminal
from tests.commandline import openclaw
from tests.e2e.gateway_process import GatewayProcess


def chat(home: TemporaryHome, text: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return openclaw("tui", *arguments, input=text, env=home.environ, cwd=home.root)


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
    done = openclaw("tui", input="hi\n", env=environ)
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


@pytest.mark.parametrize("running", [True, False])
def test_commands_are_answered_alike_with_and_without_a_gateway(openclaw_home: TemporaryHome, running: bool) -> None:
    with MockModelServer([says("hi"), says("a new start")]) as server:
        openclaw_home.configure(server.settings())
        gateway = GatewayProcess(openclaw_home)
        if running:
            gateway.start()
        try:
            said = [agent(openclaw_home, words) for words in COMMANDS]
            as_json = json.loads(agent(openclaw_home, "/whoami", "--json"))
        finally:
            if running:
                gateway.stop()
    status, model, unknown, named, skill, stop, begun = said
    assert "Model: mock/mock" in status and "nothing said yet" in status
    assert model == "Model: mock/mock. Choose with /model provider/model.\n"
    assert "not a level" in unknown
    assert named == "This conversation is called Boats.\n"
    assert "no-such-skill" in skill
    assert stop == "Nothing is running.\n"
    assert begun == "hi\n"
    assert (as_json["status"], as_json["stopReason"]) == ("ok", "stop")
    assert (
        as_json["payloads"][0]["text"]
        == "You are a client of the gateway. You are the owner. Session agent:main:main, agent main."
    )
    assert len(server.requests) == 1, "only the message behind /new is for the model"
    assert str(server.requests[0]["messages"][-1]["content"]).endswith("hello")


COMMANDS = ("/status", "/model", "/verbose loudly", "/name Boats", "/skill:no-such-skill", "stop", "/new hello")


def agent(home: TemporaryHome, message: str, *more: str) -> str:
    done = openclaw("agent", "--message", message, *more, env=home.environ, cwd=home.root)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_command_in_a_pipe_without_a_gateway(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("hi")]) as server:
        openclaw_home.configure(server.settings())
        done = chat(openclaw_home, "/help\nhello\n/think high\n/think\n", "--local")
    assert "/status [plugins]: model, session, tokens, cost" in done.stdout
    assert "Thinking: high. Levels:" in done.stdout
    assert len(server.requests) == 1


def test_a_bare_openclaw_without_a_terminal_starts_the_gateway_and_says_where(openclaw_home: TemporaryHome) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    openclaw_home.configure({"gateway": {"port": port}})
    try:
        done = openclaw(env=openclaw_home.environ)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") == 1 and f"http://127.0.0.1:{port} " in done.stdout
        assert running_gateway(openclaw_home.state) is not None
    finally:
        running.stop(openclaw_home.state, 10)
