"""Signing in at a provider instead of pasting a key: in a terminal, from another machine, in the questions."""

import json
import re
import urllib.parse
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import pytest

from openclaw.testing import TemporaryHome
from tests.commandline import openclaw
from tests.models.authorisation_server import KEY, AuthorisationServer
from tests.web.test_onboard import Terminal, everything_written


class Person:
    """At a terminal, with a browser."""

    def __init__(self, home: TemporaryHome, server: AuthorisationServer, *arguments: str) -> None:
        home.configure(server.settings)
        self._home = home
        self._server = server
        self.terminal = Terminal(home, *(arguments or ("models", "login", "--no-browser")))

    def reads_address(self) -> str:
        """The address that the terminal prints."""
        self.terminal.until("Waiting for the browser")
        found = re.search(rf"{self._server.origin}/auth\?\S+", self.terminal.seen)
        assert found is not None, self.terminal.seen
        return found[0]

    def agrees(self, address: str) -> str:
        """Clicks Authorize; gives what the browser shows in the end."""
        with urllib.request.urlopen(address.replace("/auth?", "/agreed?")) as page:
            return str(page.read(), "utf-8")

    def stored(self) -> str:
        path = self._home.state / "agents" / "main" / "agent" / "auth-profiles.json"
        return path.read_text() if path.exists() else ""


def test_signing_in_gives_a_key_that_is_tried_and_kept(openclaw_home: TemporaryHome) -> None:
    with AuthorisationServer() as server:
        person = Person(openclaw_home, server)
        shown = person.agrees(person.reads_address())
        assert "the terminal goes on" in shown
        person.terminal.until("openrouter/openrouter/auto answers: ready")
        assert person.terminal.ends() == 0
        profile = json.loads(person.stored())["profiles"]["openrouter:default"]
        assert profile == {"type": "api_key", "provider": "openrouter", "key": KEY}
        written = everything_written(openclaw_home) + person.terminal.seen
        assert KEY not in written and server.exchanged[0]["code_verifier"] not in written
        said = openclaw("models", "status", env=openclaw_home.environ)
        assert "openrouter/openrouter/auto" in said.stdout


def test_the_browser_may_be_on_another_machine(openclaw_home: TemporaryHome) -> None:
    with AuthorisationServer() as server:
        person = Person(openclaw_home, server)
        address = person.reads_address()
        ended = server.agree({key: [value] for key, value in _query(address).items()})
        person.terminal.types(f"{ended}\n")
        person.terminal.until("openrouter/openrouter/auto answers: ready")
        assert person.terminal.ends() == 0 and KEY in person.stored()


@pytest.mark.parametrize(
    ("pasted", "why"),
    [
        ("http://localhost:3000/callback/of-somebody-else?code=abc", "belongs to another sign-in"),
        ("hello there", "there is no code in that"),
        ("a-code-that-was-never-given", "does not take this code"),
    ],
)
def test_what_is_no_answer_is_told(openclaw_home: TemporaryHome, pasted: str, why: str) -> None:
    with AuthorisationServer() as server:
        person = Person(openclaw_home, server)
        person.reads_address()
        person.terminal.types(f"{pasted}\n")
        person.terminal.until(why)
        assert person.terminal.ends() == 1 and person.stored() == ""


def test_other_programs_of_this_machine_cannot_answer_for_the_person(openclaw_home: TemporaryHome) -> None:
    with AuthorisationServer() as server:
        person = Person(openclaw_home, server)
        address = person.reads_address()
        back = _query(address)["callback_url"]
        with pytest.raises(HTTPError, match="404"):
            urllib.request.urlopen(f"{back.rpartition('/')[0]}/guessed?code=of-somebody-else")
        person.agrees(address)
        assert person.terminal.ends() == 0 and len(server.exchanged) == 1


def test_who_does_not_agree_is_not_signed_in(openclaw_home: TemporaryHome) -> None:
    with AuthorisationServer(denies=True) as server:
        person = Person(openclaw_home, server)
        person.agrees(person.reads_address())
        person.terminal.until("OpenRouter says: You did not agree")
        assert person.terminal.ends() == 1 and person.stored() == ""


def test_an_account_without_credit_is_signed_in_all_the_same(openclaw_home: TemporaryHome) -> None:
    with AuthorisationServer(broke=True) as server:
        person = Person(openclaw_home, server)
        person.agrees(person.reads_address())
        person.terminal.until("the key is kept, but")
        assert "Insufficient credits" in person.terminal.seen
        assert person.terminal.ends() == 1 and KEY in person.stored()


def test_the_questions_offer_it_too(openclaw_home: TemporaryHome) -> None:
    with AuthorisationServer() as server:
        person = Person(openclaw_home, server, "onboard", "--skip-channels", "--exec-policy", "ask")
        person.terminal.until("number, name, provider/model or address")
        person.terminal.types("openrouter\n")
        person.terminal.until("Enter signs in in a browser")
        person.terminal.types("\n")
        person.agrees(person.reads_address())
        person.terminal.until("openrouter/openrouter/auto answers: ready")
        person.terminal.until("What shall the assistant be called?")
        person.terminal.types("\n")
        person.terminal.until("Ready.")
        assert person.terminal.ends() == 0 and KEY in person.stored()


def test_a_provider_without_it_says_what_to_do(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    said = openclaw("models", "login", "openai", env=openclaw_home.environ, cwd=tmp_path)
    assert said.returncode == 1 and "`openclaw models auth openai`" in said.stderr
    said = openclaw("models", "auth", "login", env=openclaw_home.environ, cwd=tmp_path)
    assert said.returncode == 2 and "openclaw models login openrouter" in said.stderr


def _query(address: str) -> dict[str, str]:
    return {key: values[0] for key, values in urllib.parse.parse_qs(address.partition("?")[2]).items()}
