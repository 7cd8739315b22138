"""`openclaw memory`, as a person runs it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from openclaw.protocol.connect_request import CallFailed
from openclaw.testing import TemporaryHome
from tests.commandline import openclaw, typed
from tests.e2e.gateway_process import GatewayProcess


class Person:
    def __init__(self, home: Path) -> None:
        self.workspace = home / ".openclaw" / "workspace"
        (self.workspace / "memory").mkdir(parents=True)
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(home), "USERPROFILE": str(home)}

    def runs(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return openclaw("memory", *arguments, env=self.environ)

    def reads(self, *arguments: str) -> Any:
        ran = self.runs(*arguments, "--json")
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)


@pytest.fixture
def person(tmp_path: Path) -> Person:
    person = Person(tmp_path)
    (person.workspace / "MEMORY.md").write_text("# Me\n- Tea is lapsang.\n- The dentist is Dr. Adeyemi.\n")
    return person


def test_index_search_why_and_status(person: Person):
    assert person.reads("index")["files"] == 1
    found = person.reads("search", "lapsang", "tea")
    assert found["results"][0]["citation"] == "MEMORY.md#L1-L3"
    why = person.reads("why", "lapsang")
    assert why["terms"][0]["term"] == "lapsang" and why["results"][0]["text"] > 0
    status = person.reads("status")
    assert (status["files"], status["pieces"], status["outdated"]) == (1, 1, False)


def test_get_and_forget(person: Person):
    assert person.reads("get", "MEMORY.md", "--from", "2", "--lines", "1")["text"].startswith("- Tea is lapsang.")
    refused = person.runs("get", "../x.md")
    assert refused.returncode == 1 and "not a note" in refused.stderr
    assert person.reads("forget", "MEMORY.md#L2", "--yes")["ok"]
    assert (person.workspace / "MEMORY.md").read_text() == "# Me\n- The dentist is Dr. Adeyemi.\n"
    wrong = person.runs("forget", "MEMORY.md", "--yes")
    assert wrong.returncode == 1 and "#L3-L5" in wrong.stderr


def test_questions_of_ones_own_are_measured(person: Person):
    questions = person.workspace / "questions.jsonl"
    questions.write_text('{"question": "Adeyemi", "path": "MEMORY.md"}\n{"question": "x", "path": "memory/no.md"}\n')
    (figures,) = person.reads("eval", str(questions))["hybrid"]
    assert (figures["questions"], figures["hit_at_1"]) == (2, 0.5)
    questions.write_text("not json\n")
    wrong = person.runs("eval", str(questions))
    assert wrong.returncode == 1 and "line 1" in wrong.stderr


def test_reset_takes_the_index_and_leaves_the_notes(person: Person):
    person.reads("index")
    assert person.runs("reset", "--yes").returncode == 0
    assert not list((person.workspace.parent / "state/memory").glob("*.sqlite"))
    assert (person.workspace / "MEMORY.md").exists()


@pytest.mark.anyio
async def test_commands_use_the_index_of_the_gateway_that_runs(openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"agents": {"defaults": {"memorySearch": {"provider": "none"}}}})
    openclaw_home.workspace.mkdir(parents=True, exist_ok=True)
    (openclaw_home.workspace / "MEMORY.md").write_text("- Tea is lapsang.\n- The dentist is Dr. Adeyemi.\n")
    run = typed(openclaw_home)
    with GatewayProcess(openclaw_home) as gateway:
        assert json.loads(run("memory", "search", "lapsang", "--json").out)["results"]
        reset = run("memory", "reset", "--yes")
        assert (reset.code, "main.sqlite" in reset.out) == (0, True)
        assert not list((openclaw_home.state / "state" / "memory").glob("*.sqlite"))
        async with gateway.client() as client:
            found = await client.call("memory.search", {"query": "adeyemi"})
            assert [each["path"] for each in found["results"]] == ["MEMORY.md"]
        assert run("memory", "forget", "MEMORY.md#L2", stdin="n\n").code == 130
        assert run("memory", "forget", "MEMORY.md#L2", "--yes").code == 0
        async with gateway.client() as client:
            assert not (await client.call("memory.search", {"query": "adeyemi"}))["results"]
            unknown = client.call("memory.forget", {"path": "MEMORY.md", "startLine": 7, "endLine": 9})
            with pytest.raises(CallFailed, match="lines 7 to 9 are not all there"):
                await unknown
        openclaw_home.configure({"agents": {"defaults": {"memorySearch": {"enabled": False}}}})
    off = run("memory", "status")
    assert (off.code, "memorySearch.enabled" in off.err) == (1, True)
