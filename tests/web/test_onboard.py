"""`openclaw onboard`, `openclaw dashboard` and a bare `openclaw`, as a person meets them."""

import json
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ptyprocess
import pytest

from openclaw.cli.setup.onboard import with_name
from openclaw.gateway.running import running_gateway, stop
from openclaw.testing import TemporaryHome, says
from openclaw.testing_server import Answers, MockModelServer
from openclaw.workspace.files import parse
from tests.channels.telegram.server import TOKEN, TelegramServer
from tests.commandline import PATIENCE, openclaw

KEY = "sk-a-secret-that-nobody-may-see"


def run(home: TemporaryHome, *arguments: str, typed: str = "") -> tuple[int, str, str]:
    done = openclaw(*arguments, env=home.environ, cwd=home.root, input=typed)
    return done.returncode, done.stdout, done.stderr


def provider(server: MockModelServer) -> dict[str, Any]:
    """A provider that needs a key."""
    made = {"baseUrl": server.url, "api": "openai-completions", "models": [{"id": "small"}]}
    return {"models": {"providers": {"mine": made}}}


def everything_written(home: TemporaryHome) -> str:
    return "".join(
        path.read_text(errors="replace")
        for path in home.root.rglob("*")
        if path.is_file() and path.name != "auth-profiles.json"
    )


class Terminal:
    """A person at a terminal."""

    def __init__(self, home: TemporaryHome, *arguments: str) -> None:
        self._child = ptyprocess.PtyProcessUnicode.spawn(
            [sys.executable, "-m", "openclaw", *arguments],
            cwd=str(home.root),
            env={**home.environ, "TERM": "dumb"},
            dimensions=(40, 200),
        )
        self.seen = ""
        self._read_to = 0

    def until(self, text: str) -> None:
        """Reads on from where the last thing waited for ended: two of them may come in one piece."""
        deadline = time.monotonic() + PATIENCE
        while (found := self.seen.find(text, self._read_to)) < 0:
            try:
                self._more(deadline)
            except EOFError:
                raise AssertionError(f"{text!r} never came:\n{self.seen}") from None
        self._read_to = found + len(text)

    def types(self, text: str) -> None:
        self._child.write(text)

    def ends(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self._more(deadline)
            except EOFError:
                break
        self._child.wait()
        return int(self._child.exitstatus or 0)

    def _more(self, deadline: float) -> None:
        ready, _, _ = select.select([self._child.fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            self._child.terminate(force=True)
            raise AssertionError(f"nothing more came in time:\n{self.seen}")
        self.seen += self._child.read(4096)


@pytest.fixture
def stopped_after(openclaw_home: TemporaryHome) -> Iterator[TemporaryHome]:
    """A home whose gateway is stopped at the end, whoever started it."""
    yield openclaw_home
    stop(openclaw_home.state, 5.0)


def test_five_questions_at_most_and_the_key_is_seen_nowhere(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([Answers(401, '{"error": {"message": "bad key"}}'), says("ready")]) as server:
        openclaw_home.configure(provider(server))
        person = Terminal(openclaw_home, "onboard")
        person.until("number, name, provider/model or address")
        person.types("mine/small\n")
        person.until("key for mine")
        person.types("sk-a-wrong-secret-altogether\n")
        person.until("Nothing was kept")
        person.types("mine/small\n")
        person.until("key for mine")
        person.types(f"{KEY}\n")
        person.until("What shall the assistant be called?")
        person.types("Clawdia\n")
        person.until("number or name (Enter: nowhere else for now)")
        person.types("\n")
        person.until("number [1]")
        person.types("\n")
        assert person.ends() == 0, person.seen
    assert "secret" not in person.seen.replace("your rights", "")
    assert "mine/small answers: ready" in person.seen
    assert json.loads(openclaw_home.config_path.read_text())["agents"]["defaults"]["model"] == "mine/small"
    assert parse((openclaw_home.workspace / "IDENTITY.md").read_text()).name == "Clawdia"
    profiles = openclaw_home.state / "agents" / "main" / "agent" / "auth-profiles.json"
    assert KEY in profiles.read_text() and "wrong" not in profiles.read_text()
    assert profiles.stat().st_mode & 0o077 == 0
    assert KEY not in everything_written(openclaw_home)


def test_without_a_terminal_everything_comes_from_options_and_again_changes_only_what_is_given(
    openclaw_home: TemporaryHome,
) -> None:
    with MockModelServer([says("ready")]) as server:
        openclaw_home.configure(provider(server))
        options = ("--auth-choice", "mine", "--model", "mine/small", "--api-key-file", "-", "--exec-policy", "never")
        code, out, err = run(openclaw_home, "onboard", "--non-interactive", "--json", *options, typed=f"{KEY}\n")
        assert code == 0, err
        assert KEY not in out + err
        told = json.loads(out)
        assert (told["model"], told["execPolicy"], told["name"]) == ("mine/small", "never", "")
        code, out, err = run(openclaw_home, "onboard", "--json", "--name", "Otto")
        assert code == 0, err
        assert json.loads(out) | {"workspace": "", "why": ""} == told | {"name": "Otto", "workspace": "", "why": ""}
    assert [each["messages"][-1]["content"] for each in server.requests] == ["Answer with the single word: ready"]


def with_mailbox(home: TemporaryHome) -> None:
    """A home with the plugin that brings a channel."""
    example = Path(__file__).parents[2] / "examples" / "mailbox"
    entry = {"enabled": True, "config": {"directory": str(home.root / "mail")}}
    home.configure({"plugins": {"load": {"paths": [str(example)]}, "entries": {"mailbox": entry}}})


def owners(home: TemporaryHome) -> list[str]:
    return list(json.loads(home.config_path.read_text()).get("commands", {}).get("ownerAllowFrom", []))


def test_who_you_are_on_a_channel_is_asked_when_a_plugin_brings_one(openclaw_home: TemporaryHome) -> None:
    with_mailbox(openclaw_home)
    person = Terminal(openclaw_home, "onboard")
    person.until("number, name, provider/model or address")
    person.types("\n")
    person.until("What shall the assistant be called?")
    person.types("\n")
    person.until("number or name (Enter: nowhere else for now)")
    person.types("\n")
    person.until("You can also talk to it on: mailbox")
    person.until("such as mailbox:your-id")
    person.types("telegram:5\n")
    person.until("names nobody on a channel")
    person.types("mailbox:ann\n")
    person.until("number [1]")
    person.types("\n")
    assert person.ends() == 0, person.seen
    assert owners(openclaw_home) == ["mailbox:ann"]
    code, out, err = run(openclaw_home, "onboard", "--json", "--owner", "mailbox:ann", "--owner", "mailbox:bob")
    assert code == 0, err
    assert json.loads(out)["owners"] == owners(openclaw_home) == ["mailbox:ann", "mailbox:bob"]
    assert json.loads(out)["channels"] == ["mailbox"]


def test_a_telegram_token_is_pasted_and_tried_at_once(openclaw_home: TemporaryHome) -> None:
    with TelegramServer() as telegram:
        openclaw_home.configure({"channels": {"telegram": {"apiRoot": telegram.url}}})
        person = Terminal(openclaw_home, "onboard")
        person.until("number, name, provider/model or address")
        person.types("\n")
        person.until("What shall the assistant be called?")
        person.types("\n")
        person.until("1 Telegram")
        person.until("Enter: nowhere else for now")
        person.types("pigeon\n")
        person.until("pigeon is none of telegram")
        person.types("telegram\n")
        person.until("write /newbot to @BotFather")
        person.until("Token")
        person.types("42:a-wrong-token\n")
        person.until("Nothing was kept")
        person.until("Token")
        person.types(f"{TOKEN}\n")
        person.until("this is @claw_bot; tried, and saved")
        person.until("openclaw gateway start")
        person.until("Write to @claw_bot in Telegram")
        person.until("Enter: nowhere else for now")
        person.types("\n")
        person.until("number [1]")
        person.types("\n")
        assert person.ends() == 0, person.seen
    assert TOKEN not in person.seen and "a-wrong-token" not in person.seen
    assert json.loads(openclaw_home.config_path.read_text())["channels"]["telegram"]["botToken"] == TOKEN


def test_without_a_channel_onboarding_says_in_a_line_how_to_get_one(openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({})
    person = Terminal(openclaw_home, "onboard")
    person.until("number, name, provider/model or address")
    person.types("\n")
    person.until("What shall the assistant be called?")
    person.types("\n")
    person.until("openclaw plugins install DIRECTORY")
    person.until("number or name (Enter: nowhere else for now)")
    person.types("\n")
    person.until("number [1]")
    person.types("\n")
    assert person.ends() == 0 and "Who are you there" not in person.seen
    code, _, err = run(openclaw_home, "onboard", "--non-interactive", "--owner", "telegram:5")
    assert code == 1 and "none is connected yet" in err
    assert owners(openclaw_home) == []


def test_a_key_that_does_not_work_is_not_kept(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([Answers(401, '{"error": {"message": "bad key"}}')]) as server:
        openclaw_home.configure(provider(server))
        before = openclaw_home.config_path.read_text()
        options = ("--non-interactive", "--model", "mine/small", "--api-key-file", "-")
        code, out, err = run(openclaw_home, "onboard", *options, typed=f"{KEY}\n")
    assert code == 1
    assert "Nothing was kept" in err and KEY not in out + err
    assert openclaw_home.config_path.read_text() == before
    assert KEY not in everything_written(openclaw_home)
    assert not (openclaw_home.state / "agents" / "main" / "agent" / "auth-profiles.json").exists()


def test_questions_without_a_terminal_are_refused_with_what_to_do(openclaw_home: TemporaryHome) -> None:
    code, _, err = run(openclaw_home, "onboard")
    assert code == 2
    assert "--non-interactive" in err


@pytest.mark.parametrize(
    ("text", "found"),
    [("", "Otto"), ("# Card\n\n- Name: (pick one)\n- Vibe: calm\n", "Otto"), ("- **Name:** Ada\n", "Otto")],
)
def test_a_name_is_put_where_it_belongs(text: str, found: str) -> None:
    written = with_name(text, "Otto")
    assert parse(written).name == found
    assert parse(written).vibe == parse(text).vibe


def test_a_bare_openclaw_makes_everything_and_talks_through_the_gateway(stopped_after: TemporaryHome) -> None:
    home = stopped_after
    home.workspace.rmdir()
    with MockModelServer([says("Hello from over there.")]) as server:
        home.configure({**server.settings(), "gateway": {"port": free_port()}})
        person = Terminal(home)
        person.until("you>")
        person.types("hello\n")
        person.until("Hello from over there.")
        person.until("you>")
        person.types("/status\n")
        person.until("Session: agent:main:main")
        person.until("you>")
        person.types("\x04")
        assert person.ends() == 0
    found = running_gateway(home.state)
    assert found is not None
    assert person.seen.count(f"http://127.0.0.1:{found.port}") == 1
    assert (home.workspace / "AGENTS.md").is_file()


def test_a_chat_opens_also_when_the_gateway_cannot_start(openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"gateway": {"bind": "lan", "auth": {"mode": "none"}}})
    person = Terminal(openclaw_home)
    person.until("you>")
    assert "the gateway is not running" in person.seen
    person.types("/exit\n")
    assert person.ends() == 0


def test_dashboard_starts_the_gateway_and_gives_a_link_without_the_token(stopped_after: TemporaryHome) -> None:
    home = stopped_after
    home.configure({"gateway": {"port": free_port()}})
    code, out, err = run(home, "dashboard")
    assert code == 0, err
    assert out.startswith("http://127.0.0.1:") and "/#code=" in out
    token = (home.state / "credentials" / "gateway.token").read_text().strip()
    assert token not in out + err


def test_dashboard_says_so_when_the_page_is_off(stopped_after: TemporaryHome) -> None:
    home = stopped_after
    home.configure({"gateway": {"port": free_port(), "controlUi": {"enabled": False}}})
    code, _, err = run(home, "dashboard")
    assert code == 1
    assert "gateway.controlUi.enabled" in err


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
