"""`openclaw models`, as a person runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commandline import openclaw

CONFIG = {
    "agents": {
        "defaults": {
            "model": {"primary": "fast", "fallbacks": ["box/m"]},
            "models": {"openai/gpt-5": {"alias": "fast"}, "nowhere/x": {"alias": "lost"}},
        }
    },
    "models": {
        "providers": {
            "box": {"baseUrl": "http://10.9.9.9/v1", "apiKey": "sk-box-secret", "models": [{"id": "m", "name": "Mine"}]}
        }
    },
}


class Person:
    def __init__(self, home: Path) -> None:
        self.state = home / ".openclaw"
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(home), "USERPROFILE": str(home)}

    def configures(self, config: dict[str, Any]) -> None:
        self.state.mkdir(mode=0o700, exist_ok=True)
        path = self.state / "openclaw.json"
        path.write_text(json.dumps(config))
        path.chmod(0o600)

    def runs(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return openclaw("models", *arguments, env={**self.environ, **environ})

    def reads(self, *arguments: str, **environ: str) -> Any:
        ran = self.runs(*arguments, "--json", **environ)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_status_says_who_answers_why_and_where_each_key_is(person: Person):
    person.configures(CONFIG)
    report = person.reads("status", OPENAI_API_KEY="sk-env-secret")
    assert report["configPath"] == str(person.state / "openclaw.json")
    assert (report["defaultModel"], report["resolvedDefault"]) == ("fast", "openai/gpt-5")
    assert report["fallbacks"] == ["box/m"]
    assert report["aliases"] == {"fast": "openai/gpt-5"}
    assert report["auth"]["providers"] == [
        {"provider": "box", "source": "config: models.providers.box.apiKey", "others": []},
        {"provider": "openai", "source": "env: OPENAI_API_KEY", "others": []},
    ]
    assert any("alias 'lost'" in problem for problem in report["auth"]["problems"])


def test_no_command_shows_a_key(person: Person):
    person.configures(CONFIG)
    store = person.state / "agents" / "main" / "agent" / "auth-profiles.json"
    store.parent.mkdir(parents=True)
    store.write_text('{"profiles": {"openai:a": {"provider": "openai", "key": "sk-stored-secret"}}}')
    for arguments in (["status"], ["status", "--json"], ["list"], ["list", "--all", "--json"]):
        ran = person.runs(*arguments, OPENAI_API_KEY="sk-env-secret")
        assert ran.returncode == 0, ran.stderr
        assert "secret" not in ran.stdout + ran.stderr
    assert "profile: openai:a" in person.runs("status").stdout


def test_a_missing_key_is_named_with_everything_that_would_help(person: Person):
    person.configures({"agents": {"defaults": {"model": "anthropic/claude-sonnet-5-5"}}})
    said = person.runs("status").stdout
    assert "`openclaw models auth anthropic`" in said and "set ANTHROPIC_API_KEY" in said
    assert "models.providers.anthropic.apiKey" in said


def test_an_unknown_model_is_an_error_with_the_nearest_name(person: Person):
    person.configures({"agents": {"defaults": {"model": "claude-sonet-5-5"}}})
    ran = person.runs("status")
    assert ran.returncode == 1
    assert "anthropic/claude-sonnet-5-5" in ran.stderr
    assert "openclaw models list --all" in ran.stderr
    failed = json.loads(person.runs("status", "--json").stdout)
    assert failed["error"]["type"] == "cli_error"


def test_the_list_has_what_can_be_used_and_all_of_it_on_request(person: Person):
    person.configures(CONFIG)
    short = person.reads("list", OPENAI_API_KEY="k")
    assert short["count"] == len(short["models"])
    rows = {row["key"]: row for row in short["models"]}
    assert rows["openai/gpt-5"]["tags"] == ["default", "alias:fast"]
    assert rows["box/m"] == {
        "key": "box/m", "name": "Mine", "input": "text", "contextWindow": 200_000, "local": True, "available": True,
        "tags": ["fallback#1", "configured"],
    }  # fmt: skip
    assert "anthropic/claude-sonnet-5-5" not in rows
    everything = person.reads("list", "--all", OPENAI_API_KEY="k")["models"]
    assert {"key": "anthropic/claude-haiku-4-5", "available": False}.items() <= {row["key"]: row for row in everything}[
        "anthropic/claude-haiku-4-5"
    ].items()
    only = person.reads("list", "--all", "--provider", "z.ai")["models"]
    assert {row["key"].partition("/")[0] for row in only} == {"zai"}


def test_a_provider_without_a_key_has_nothing_to_list(person: Person):
    ran = person.runs("list", "--provider", "mistral")
    assert ran.returncode == 0
    assert "There is no key for a model of mistral" in ran.stdout


def test_a_provider_that_does_not_exist_gets_a_guess(person: Person):
    ran = person.runs("list", "--provider", "antropic")
    assert ran.returncode == 1
    assert "did you mean anthropic?" in ran.stderr


def test_importing_the_command_is_light():
    heavy = ("httpx2", "websockets", "openclaw.gateway.app")
    code = f"import sys, openclaw.cli.models\nprint([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert ran.stdout.strip() == "[]"
