"""`openclaw store`: an installation moves to a server and back."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from openclaw.cli.store import store_command
from openclaw.core.errors import Conflict, InvalidRequest, StateError
from openclaw.core.secret import Secret
from openclaw.gateway import doctor
from openclaw.gateway.local import local_gateway
from openclaw.testing import ScriptedModel, TemporaryHome, calls, says
from tests.gateway.test_local import environment, said

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(openclaw_home: TemporaryHome, monkeypatch: pytest.MonkeyPatch) -> TemporaryHome:
    for name, value in openclaw_home.environ.items():
        monkeypatch.setenv(name, value)
    openclaw_home.use_model()
    return openclaw_home


def run(*arguments: str) -> str:
    done = CliRunner().invoke(store_command, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def digests(home: TemporaryHome) -> dict[str, bytes]:
    sessions = home.state / "agents" / "main" / "sessions"
    return {path.name: path.read_bytes() for path in sessions.glob("*.jsonl*") if not path.name.endswith(".lock")}


async def history(home: TemporaryHome, model: ScriptedModel, *, session: str = "main") -> list[str]:
    async with local_gateway(environment(home), open_provider=lambda endpoint: model) as client:
        told = await client.call("chat.history", {"sessionKey": session})
        return [each["role"] for each in told["messages"]]


def test_the_state_of_one_machine_is_a_file(home: TemporaryHome) -> None:
    assert json.loads(run("status", "--json"))["engine"] == "sqlite"
    with pytest.raises(InvalidRequest, match="on this machine already"):
        run("migrate", "--to", "sqlite")
    with pytest.raises(InvalidRequest, match="NOWHERE is not set"):
        run("migrate", "--to", "${NOWHERE}")


@pytest.mark.servers
def test_an_installation_moves_to_a_server_and_back(home: TemporaryHome, postgres_url: Secret) -> None:
    import asyncio

    (home.workspace / "note.txt").write_text("blue")
    (home.state / "workspace-trust.json").write_text('{"version": 1, "directories": {}}')
    model = ScriptedModel([calls("read", path="note.txt")], says("Blue."), says("Still."), says("On the server."))

    async def talk(*messages: str) -> None:
        async with local_gateway(environment(home), open_provider=lambda endpoint: model) as client:
            for number, message in enumerate(messages):
                await said(client, message, f"{message}-{number}")

    asyncio.run(talk("what is in the note?", "and now?"))
    before = digests(home)
    url = postgres_url.reveal()
    tried = json.loads(run("migrate", "--to", url, "--dry-run", "--json"))
    parts = {part["name"]: part for part in tried["parts"]}
    assert parts["sessions"]["source"] == 1 and parts["sessions"]["target"] == 0 and not parts["transcripts"]["same"]
    moved = json.loads(run("migrate", "--to", url, "--json"))
    assert all(part["same"] for part in moved["parts"])
    assert all(part["same"] for part in json.loads(run("migrate", "--to", url, "--json"))["parts"])  # again, harmlessly

    home.use_model(store={"url": url})
    assert json.loads(run("status", "--json"))["engine"] == "postgresql"
    assert [each for each in doctor.run_checks(doctor.collect_context(environment(home))) if "store" in each.id] == []
    for path in (home.state / "agents" / "main" / "sessions").iterdir():
        path.unlink()  # they are copies now
    assert len(asyncio.run(history(home, model))) == 6
    assert digests(home) == before
    asyncio.run(talk("where are you?"))
    with pytest.raises(Conflict, match=r"another installation, or a later state"):
        run("migrate", "--to", url)

    back = json.loads(run("migrate", "--to", "sqlite", "--json"))
    assert all(part["same"] for part in back["parts"])
    home.use_model()
    assert len(asyncio.run(history(home, model))) == 8
    assert list((home.state / "state").glob("openclaw-py.sqlite.before-*"))


@pytest.mark.servers
def test_doctor_says_what_is_wrong_with_the_server(home: TemporaryHome, tmp_path: Path) -> None:
    home.use_model(store={"url": "postgresql://me:hunter2@127.0.0.1:9/nowhere"})
    (found,) = [each for each in doctor.run_checks(doctor.collect_context(environment(home))) if "store" in each.id]
    assert found.severity == "critical" and "cannot be reached" in found.title and "hunter2" not in found.title
    with pytest.raises(StateError, match="cannot be reached"):
        run("status")
