"""The terminal chat, driven in tmux against a real gateway."""

import base64
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import Answers, Hangs, MockModelServer
from tests.cli.tui.terminal import Terminal, needs_tmux, terminal
from tests.commandline import openclaw
from tests.e2e.gateway_process import GatewayProcess

pytest.importorskip("textual", reason="needs textual: the extra tui")
pytestmark = [pytest.mark.system, needs_tmux]

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@contextmanager
def chat(home: TemporaryHome, **environ: str) -> Iterator[Terminal]:
    with terminal(["tui"], {**home.environ, **environ}, home.root) as shown:
        shown.until("ready")
        yield shown


@contextmanager
def gateway(home: TemporaryHome, server: MockModelServer, **settings: Any) -> Iterator[GatewayProcess]:
    home.configure({**server.settings(), **settings})
    with GatewayProcess(home) as running:
        yield running


def test_an_answer_streams_in_as_markdown_and_the_status_line_says_who_answers(openclaw_home: TemporaryHome) -> None:
    answer = "It is **blue**.\n\n- one\n- two\n\n```python\nprint('sky')\n```\n"
    with MockModelServer([says(answer)]) as server, gateway(openclaw_home, server), chat(openclaw_home) as shown:
        shown.says("what colour is the sky?")
        screen = shown.until(lambda text: "print('sky')" in text and "ready" in text and "100/200.0k tokens" in text)
        assert screen.count("what colour is the sky?") == 1
        assert "It is blue." in screen and "• one" in screen
        assert "ready · mock/mock · main · " in screen
        shown.presses("C-d")
        assert shown.until_it_ends() == 0


def test_a_conversation_of_before_is_there_again(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("forty-two")]) as server, gateway(openclaw_home, server):
        with chat(openclaw_home) as shown:
            shown.says("the answer?")
            shown.until("forty-two")
        with chat(openclaw_home) as again:
            screen = again.until("forty-two")
            assert screen.count("the answer?") == 1
            again.presses("Up")
            again.until(lambda text: text.count("the answer?") == 2)


def test_it_says_who_answered_instead_and_says_it_again_later(openclaw_home: TemporaryHome) -> None:
    limited = Answers(429, '{"error": {"message": "slow down"}}', retry_after="3600")
    with MockModelServer([limited]) as first, MockModelServer([says("From the spare one.")]) as spare:
        settings = first.settings()
        settings["models"]["providers"]["spare"] = spare.settings()["models"]["providers"]["mock"]
        settings["agents"]["defaults"]["model"] = {"primary": "mock/mock", "fallbacks": ["spare/mock"]}
        openclaw_home.configure(settings)
        with GatewayProcess(openclaw_home):
            with chat(openclaw_home) as shown:
                shown.says("hello")
                screen = shown.until("mock/mock was rate limited at")
                assert "answered by spare/mock" in screen and "From the spare one." in screen
            with chat(openclaw_home) as again:
                assert again.until("mock/mock was rate limited at").count("answered by spare/mock") == 1


def test_a_command_is_shown_as_it_is_and_runs_after_a_yes(openclaw_home: TemporaryHome) -> None:
    command = "install /dev/null made\u202e && echo done"
    with (
        MockModelServer([calls("exec", command=command), says("ran it"), says("later")]) as server,
        gateway(openclaw_home, server),
        chat(openclaw_home) as shown,
    ):
        shown.says("make it")
        screen = shown.until("May this command run?")
        assert "install /dev/null made⟨U+202E⟩ && echo done" in screen
        assert not list(openclaw_home.workspace.glob("made*"))
        shown.says("y")
        screen = shown.until("ran it")
        assert "May this command run?" not in screen and "✓ exec" in screen
        assert list(openclaw_home.workspace.glob("made*"))
        shown.presses("C-t")
        shown.until(lambda text: "command: install /dev/null made" in text)


def test_always_is_offered_only_where_it_means_something(openclaw_home: TemporaryHome) -> None:
    script: list[Any] = [
        calls("exec", command="python3 -c 'print(6*7)'"),
        calls("exec", command="install /dev/null made"),
        says("done"),
    ]
    with (
        MockModelServer(script) as server,
        gateway(openclaw_home, server, tools={"exec": {"security": "allowlist", "ask": "on-miss"}}),
        chat(openclaw_home) as shown,
    ):
        shown.says("calculate")
        screen = shown.until("May this command run?")
        assert "Allow once (y)" in screen and "Always (a)" not in screen
        shown.says("y")
        shown.until("install /dev/null made")
        shown.until("Always (a)")


def composing(shown: Terminal) -> bool:
    """Whether the line above the composer is blue: what is typed goes there."""
    return "\x1b[34m────" in shown.screen(colours=True)


def test_a_no_is_obeyed(openclaw_home: TemporaryHome) -> None:
    with (
        MockModelServer([calls("exec", command="install /dev/null made"), says("as you wish")]) as server,
        gateway(openclaw_home, server),
        chat(openclaw_home) as shown,
    ):
        shown.says("make it")
        shown.until("May this command run?")
        shown.presses("Tab", "Tab", "Tab", "Tab")
        shown.until("May this command run?")
        shown.until(lambda _: not composing(shown))
        shown.presses("Escape")
        # A key that comes too soon after Escape is read as one with Alt.
        shown.until(lambda _: composing(shown))
        shown.says("no")
        shown.until("as you wish")
        assert "✗ exec" in shown.screen()
        assert not (openclaw_home.workspace / "made").exists()


def test_escape_stops_and_what_waited_says_that_it_was_not_read(openclaw_home: TemporaryHome) -> None:
    with (
        MockModelServer([Hangs("half an ans"), says("after that")]) as server,
        gateway(openclaw_home, server),
        chat(openclaw_home) as shown,
    ):
        shown.says("tell me")
        shown.until("half an ans")
        shown.until("answering")
        shown.says("and this too")
        shown.until(lambda text: "waits for the next step" in text and "1 waiting" in text)
        shown.presses("Escape")
        # What waited is given back first; what was said so far is there once the run has ended.
        shown.until(lambda text: "ready" in text and "not delivered" in text and text.count("half an ans") == 1)
        shown.says("go on")
        screen = shown.until("after that")
        assert screen.count("go on") == 1


def test_another_conversation_is_begun_and_chosen(openclaw_home: TemporaryHome) -> None:
    with (
        MockModelServer([says("about boats"), says("about trains")]) as server,
        gateway(openclaw_home, server),
        chat(openclaw_home) as shown,
    ):
        shown.says("boats?")
        shown.until("about boats")
        shown.presses("C-n")
        shown.until(lambda text: "about boats" not in text and "dashboard" in text)
        shown.says("trains?")
        shown.until("about trains")
        shown.presses("C-o")
        screen = shown.until("Find a conversation")
        assert "trains?" in screen and "boats?" in screen
        shown.types("boats")
        offered = re.compile(r"(boats|trains)\?  .* ago")
        shown.until(lambda text: offered.findall(text) == ["boats"])
        shown.presses("Enter")
        screen = shown.until("about boats")
        assert "about trains" not in screen


def test_a_model_is_picked_and_what_was_said_is_found(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("about boats"), says("about trains")]) as server:
        settings = server.settings()
        settings["models"]["providers"]["mock"]["models"].append({"id": "small", "contextWindow": 32_000})
        openclaw_home.configure(settings)
        with GatewayProcess(openclaw_home), chat(openclaw_home) as shown:
            shown.says("boats?")
            shown.until("about boats")
            shown.presses("F2")
            shown.until("Which model shall answer here?")
            shown.types("small")
            shown.until(lambda text: "mock/small" in text and "mock/mock  " not in text)
            shown.presses("Enter")
            shown.until("32.0k tokens")
            shown.presses("C-n")
            shown.until(lambda text: "about boats" not in text and "dashboard" in text)
            shown.says("trains?")
            shown.until("about trains")
            shown.presses("F3")
            shown.until("Search what was said")
            shown.types("boats")
            shown.until(lambda text: "about boats" in text or "boats?" in text)
            assert "agent:main:main" not in shown.screen(), "a conversation has a name"
            shown.presses("Enter")
            shown.until(lambda text: "about boats" in text and "about trains" not in text)


def test_an_answer_is_rendered_at_a_terminal_and_plain_in_a_pipe(openclaw_home: TemporaryHome) -> None:
    answer = "# Boats\n\nLength: 7 m\nWeight: 2 t\n\nTwo **kinds**:\n\n- with sails\n- with oars\n"
    with MockModelServer([says(answer)]) as server:
        openclaw_home.configure(server.settings())
        words = ["agent", "--message", "boats?"]
        with terminal(words, openclaw_home.environ, openclaw_home.root) as shown:
            assert shown.until_it_ends() == 0
            screen = shown.screen()
            assert "Boats" in screen and "• with oars" in screen
            assert "**" not in screen and "# Boats" not in screen
            assert "Length: 7 m Weight" not in screen, "lines stay lines"
        assert answer.strip() in openclaw(*words, env=openclaw_home.environ, cwd=openclaw_home.root).stdout


def test_commands_are_completed_and_answered_by_the_gateway(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("hm")]) as server, gateway(openclaw_home, server), chat(openclaw_home) as shown:
        shown.types("/stat")
        shown.until("/status  model, session, tokens, cost")
        shown.presses("Enter")  # it may take a word more
        shown.presses("Enter")
        shown.until("Model: mock/mock")
        shown.says("/nonsense-of-mine")
        shown.until("no command /nonsense-of-mine")
        assert not server.requests


def test_a_narrow_window_shows_everything(openclaw_home: TemporaryHome) -> None:
    answer = "word " * 40 + "\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    with MockModelServer([says(answer)]) as server, gateway(openclaw_home, server), chat(openclaw_home) as shown:
        shown.says("many words")
        shown.until(lambda text: "word word" in text and "ready" in text)
        shown.resize(60, 20)
        shown.until(
            lambda text: max(map(len, text.splitlines())) <= 60 and text.count("word ") + text.count("word\n") >= 40
        )
        shown.resize(100, 30)
        shown.until(lambda text: any(len(line) > 60 for line in text.splitlines()))


def test_a_gateway_that_restarts_in_the_middle_loses_and_doubles_nothing(openclaw_home: TemporaryHome) -> None:
    with (
        MockModelServer(
            [says("first answer"), Hangs("never to be ended"), says("second answer"), says("third answer")]
        ) as server,
        gateway(openclaw_home, server) as running,
        chat(openclaw_home) as shown,
    ):
        shown.says("question one")
        shown.until("first answer")
        shown.says("question two")
        shown.until("never to be")
        port = running.port
        running.kill()
        shown.until("the gateway is away")
        shown.says("question three")
        shown.until("goes out when the gateway is back")
        running.start(port)
        screen = shown.until(lambda text: "third answer" in text and "ready" in text)
        for said in ("question one", "first answer", "question two", "second answer", "question three", "third answer"):
            assert screen.count(said) == 1, screen
        assert "never to be" not in screen
    asked = [entry["content"] for entry in server.requests[-1]["messages"] if entry["role"] == "user"]
    assert len([text for text in asked if "question three" in str(text)]) == 1


HOSTILE = (
    "\x1b]0;owned title\x07\x1b]52;c;b3duZWQ=\x07\x1b[2J\x1b[31mred\x1b[0m \x9b31m \u202eesrever\u202c "
    "[red]not markup[/red] <b>tag</b> [good.example](http://evil.example/x)\n"
)


def test_hostile_text_stays_text(openclaw_home: TemporaryHome) -> None:
    (openclaw_home.root / "note.txt").write_text(HOSTILE)
    reading = calls("read", path=str(openclaw_home.root / "note.txt"))
    telling = says(f"before {HOSTILE} after")
    with MockModelServer([reading, telling]) as server, gateway(openclaw_home, server), chat(openclaw_home) as shown:
        before = shown.title
        shown.says(f"say it {'[bold]'}")
        screen = shown.until(lambda text: " after" in text and "ready" in text)
        text = " ".join(screen.split())
        assert "[31mred" in text and "esrever" in text and "\u202e" not in text
        assert "[red]not markup[/red] <b>tag</b> good.example (http://evil.example/x)" in text
        shown.presses("C-t")
        shown.until("path:")
        assert shown.title == before
        assert "owned" not in shown.clipboard
        shown.presses("C-y")
        shown.until("Copied")


def test_a_dropped_picture_goes_along(openclaw_home: TemporaryHome) -> None:
    (openclaw_home.root / "a pixel.png").write_bytes(PIXEL)
    with MockModelServer([says("one dot")]) as server:
        openclaw_home.configure(server.settings(input=["text", "image"]))
        with GatewayProcess(openclaw_home), chat(openclaw_home) as shown:
            shown.pastes(str(openclaw_home.root / "a pixel.png"))
            shown.until("1 image attached")
            shown.says("what is this?")
            shown.until("one dot")
            asked = str(server.requests[-1]["messages"][-1])
            assert "data:image/png;base64," in asked and "what is this?" in asked
            shown.says("/image nowhere.png")
            shown.until("cannot read")


def test_without_colours_there_are_none(openclaw_home: TemporaryHome) -> None:
    with (
        MockModelServer([says("plain")]) as server,
        gateway(openclaw_home, server),
        chat(openclaw_home, NO_COLOR="1") as shown,
    ):
        shown.says("hello")
        shown.until("plain")
        codes = re.findall(r"\x1b\[([\d;:]*)m", shown.screen(colours=True))
        assert not [code for code in codes if re.search(r"(^|;)(3[0-7]|4[0-7]|9[0-7]|38|48)(;|$|:)", code)], codes


def test_it_starts_a_gateway_when_there_is_none(openclaw_home: TemporaryHome) -> None:
    from openclaw.gateway import running
    from openclaw.gateway.running import running_gateway

    with MockModelServer([says("here I am")]) as server, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        openclaw_home.configure({**server.settings(), "gateway": {"port": free.getsockname()[1]}})
        free.close()
        try:
            with terminal(["chat"], openclaw_home.environ, openclaw_home.root) as shown:
                shown.until("ready")
                shown.says("are you there?")
                shown.until("here I am")
                assert running_gateway(openclaw_home.state) is not None
        finally:
            running.stop(openclaw_home.state, 10)


def test_a_bare_openclaw_on_a_fresh_machine_opens_the_chat_and_tells_what_to_do(openclaw_home: TemporaryHome) -> None:
    from openclaw.gateway import running

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        openclaw_home.configure({"gateway": {"port": free.getsockname()[1]}})
    try:
        with terminal([], openclaw_home.environ, openclaw_home.root) as shown:
            screen = shown.until("No model is set up yet")
            assert "openclaw models auth" in screen and "openclaw dashboard (http://127.0.0.1:" in screen
            assert "offline/offline" in screen
            shown.says("/exit")
            assert shown.until_it_ends() == 0
            assert "stop ends it); openclaw dashboard opens the web page." in shown.screen()
        assert (openclaw_home.workspace / "AGENTS.md").is_file()
    finally:
        running.stop(openclaw_home.state, 10)
