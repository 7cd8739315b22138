"""Long work says how far it is: on a terminal, and nowhere else."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from openclaw.gateway.running import stop
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.testing import TemporaryHome
from tests.commandline import openclaw
from tests.web.test_onboard import Terminal, free_port

MANY = 40


@pytest.fixture
def home(openclaw_home: TemporaryHome) -> Iterator[TemporaryHome]:
    openclaw_home.configure({"gateway": {"port": free_port()}})
    yield openclaw_home
    stop(openclaw_home.state, 5.0)


def shows(home: TemporaryHome, what: str, *arguments: str) -> str:
    """What a person sees; the line was there, and is gone in the end."""
    terminal = Terminal(home, *arguments)
    terminal.until(what)
    assert terminal.ends() == 0, terminal.seen
    assert what not in terminal.seen.rpartition("\r")[2], "the line stays"
    return terminal.seen


def is_quiet(home: TemporaryHome, what: str, *arguments: str) -> None:
    done = openclaw(*arguments, env=home.environ, cwd=home.root)
    assert done.returncode == 0, done.stderr
    assert what not in done.stderr + done.stdout and "\r" not in done.stderr


def test_indexing(home: TemporaryHome) -> None:
    folder = home.workspace / "memory"
    folder.mkdir()
    for number in range(MANY):
        (folder / f"2026-01-{number:02}.md").write_text(f"- note {number}\n")
    seen = shows(home, "reading notes [", "memory", "index")
    assert f" of {MANY}" in seen and f"{MANY} files" in seen
    is_quiet(home, "reading notes", "memory", "index", "--force")


def many_files(folder: Path) -> Path:
    (folder / "references").mkdir(parents=True)
    for number in range(MANY):
        (folder / "references" / f"{number}.md").write_text("nothing to see\n")
    return folder


def test_installing_a_skill(home: TemporaryHome) -> None:
    skill = many_files(home.root / "poems")
    (skill / "SKILL.md").write_text("---\nname: poems\ndescription: Writes poems.\n---\nWrite a poem.\n")
    shows(home, "unpacking [", "skills", "install", str(skill), "--yes")
    shows(home, "looking through [", "skills", "install", str(skill), "--yes", "--force")
    is_quiet(home, "unpacking", "skills", "install", str(skill), "--yes", "--force")


def test_installing_a_plugin(home: TemporaryHome) -> None:
    made = openclaw("plugins", "new", "dice", env=home.environ, cwd=home.root)
    assert made.returncode == 0, made.stderr
    plugin = many_files(home.root / "dice")
    shows(home, "unpacking [", "plugins", "install", str(plugin), "--yes")
    is_quiet(home, "unpacking", "plugins", "install", str(plugin), "--yes", "--force")


def earlier_database(home: TemporaryHome) -> None:
    """A database as an early version left it."""
    path = home.state / "state" / "openclaw-py.sqlite"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    with closing(sqlite3.connect(path)) as db:
        for migration in STATE_MIGRATIONS[:3]:
            for statement in migration.statements:
                db.execute(statement)
        db.execute("PRAGMA user_version = 3")
        db.commit()


def test_bringing_a_database_up_to_date(home: TemporaryHome) -> None:
    earlier_database(home)
    seen = shows(home, "bringing the database up to date [", "sessions", "list")
    assert f" of {len(STATE_MIGRATIONS) - 3}" in seen
    earlier_database(home)
    is_quiet(home, "bringing", "sessions", "list")


def test_reading_the_conversations_of_a_home(home: TemporaryHome) -> None:
    folder = home.state / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    header = {"type": "session", "version": 3, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}
    said = {"type": "message", "id": "1", "parentId": None, "timestamp": "2026-01-01T00:00:00.000Z"}
    for number in range(MANY):
        lines = [
            {**header, "id": f"s{number}"},
            {**said, "message": {"role": "user", "content": f"hello {number}", "timestamp": 1}},
        ]
        (folder / f"s{number}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    seen = shows(home, "reading conversations [", "sessions", "list")
    assert f" of {MANY}" in seen


def test_waiting_for_the_gateway_and_its_log(home: TemporaryHome) -> None:
    earlier_database(home)
    shows(home, "the gateway starts …", "gateway", "start")
    log = "".join(path.read_text() for path in (home.state / "logs").glob("openclaw-*.log"))
    assert "bringing the database up to date" in log


def test_doctor(home: TemporaryHome) -> None:
    terminal = Terminal(home, "doctor")
    terminal.until("checking [")
    terminal.ends()
    assert "checking" not in openclaw("doctor", env=home.environ, cwd=home.root).stderr
