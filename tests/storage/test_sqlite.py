"""SQLite as a file among other processes: permissions, damage, a full disk, several writers."""

import asyncio
import os
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import apsw
import pytest

from openclaw.core.errors import StateError
from openclaw.storage.database import Migration
from openclaw.storage.sqlite import Sqlite, connect

pytestmark = pytest.mark.anyio

ONE = (Migration(1, ("CREATE TABLE notes (id BIGINT PRIMARY KEY, body TEXT)",)),)
PREAMBLE = """
import asyncio, os, resource, sys
from pathlib import Path
from openclaw.core.errors import StateError
from openclaw.storage.database import Migration
from openclaw.storage.sqlite import Sqlite
ONE = (Migration(1, ("CREATE TABLE notes (id BIGINT PRIMARY KEY, body TEXT)",)),)
path = Path(sys.argv[1])
"""


def start(code: str, path: Path) -> subprocess.Popen[str]:
    program = PREAMBLE + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


async def test_nobody_else_can_read_the_file_or_its_log(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        (tmp_path / "loose").mkdir()
        db = await Sqlite.open(tmp_path / "loose" / "db", ONE)
        await db.write("INSERT INTO notes VALUES (1, 'secret')")
        files = list((tmp_path / "loose").iterdir())
        assert len(files) == 3
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        await db.close()
    finally:
        os.umask(before)


async def test_closing_leaves_one_file_and_no_thread(tmp_path: Path) -> None:
    threads = threading.active_count()
    db = await Sqlite.open(tmp_path / "db", ONE)
    await db.write("INSERT INTO notes VALUES (1, 'x')")
    await db.close()
    assert [file.name for file in tmp_path.iterdir()] == ["db"]
    assert threading.active_count() == threads


async def test_many_processes_may_start_on_a_new_home_at_once(tmp_path: Path) -> None:
    code = """
    print("ready", flush=True)
    while not path.with_name("go").exists():
        pass
    async def main():
        db = await Sqlite.open(path, ONE)
        for number in range(20):
            async with db.transaction() as tx:
                rows = await tx.read("SELECT COUNT(*) AS n FROM notes")
                await tx.write("INSERT INTO notes VALUES (:id, :pid)", {"id": rows[0]["n"], "pid": str(os.getpid())})
        await db.close()
    asyncio.run(main())
    """
    processes = [start(code, tmp_path / "db") for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    (tmp_path / "go").touch()
    for process in processes:
        output(process)
    db = await Sqlite.open(tmp_path / "db", ONE)
    rows = await db.read("SELECT COUNT(*) AS n, COUNT(DISTINCT body) AS pids FROM notes")
    assert dict(rows[0]) == {"n": 80, "pids": 4}
    await db.close()


async def test_a_writer_killed_in_the_middle_leaves_what_was_committed(tmp_path: Path) -> None:
    code = """
    async def main():
        db = await Sqlite.open(path, ONE)
        await db.write("INSERT INTO notes VALUES (1, 'committed')")
        async with db.transaction() as tx:
            await tx.write("INSERT INTO notes VALUES (2, 'half')")
            print("inside", flush=True)
            sys.stdin.read()
    asyncio.run(main())
    """
    process = start(code, tmp_path / "db")
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        process.kill()
    db = await Sqlite.open(tmp_path / "db", ONE)
    assert [row["body"] for row in await db.read("SELECT body FROM notes")] == ["committed"]
    await db.write("INSERT INTO notes VALUES (2, 'next')")
    await db.close()


async def test_a_full_disk_leaves_the_old_data(tmp_path: Path) -> None:
    code = """
    async def main():
        db = await Sqlite.open(path, ONE)
        await db.write("INSERT INTO notes VALUES (1, 'old')")
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        try:
            async with db.transaction() as tx:
                await tx.write("UPDATE notes SET body = 'new'")
                for number in range(2, 40):
                    await tx.write("INSERT INTO notes VALUES (:id, :body)", {"id": number, "body": "x" * 50_000})
        except StateError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print([row["body"] for row in await db.read("SELECT body FROM notes")])
        await db.write("INSERT INTO notes VALUES (2, 'room again')")
        await db.close()
    asyncio.run(main())
    """
    said = output(start(code, tmp_path / "db")).splitlines()
    assert "full" in said[0] or "Nothing was changed" in said[0]
    assert str(tmp_path / "db") in said[0]
    assert said[1] == "['old']"
    db = await Sqlite.open(tmp_path / "db", ONE)
    assert [row["body"] for row in await db.read("SELECT body FROM notes")] == ["old", "room again"]
    await db.close()


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"SQLite format 3\0" + b"\xff" * 2000])
async def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "db"
    path.write_bytes(content)
    with pytest.raises(StateError, match=r"damaged.*Move it away.*rebuilt") as caught:
        await Sqlite.open(path, ONE)
    assert str(path) in caught.value.message
    assert path.read_bytes() == content


async def test_damage_found_later_says_what_to_do_too(tmp_path: Path) -> None:
    path = tmp_path / "db"
    db = await Sqlite.open(path, ONE)
    for number in range(200):
        await db.write("INSERT INTO notes VALUES (:id, :body)", {"id": number, "body": "x" * 500})
    await db.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * (size - 4096 * 3))
    db = await Sqlite.open(path, ONE)
    with pytest.raises(StateError, match="damaged"):
        await db.read("SELECT * FROM notes")
    await db.close()


async def test_a_file_of_a_newer_program_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "db"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version = 99; CREATE TABLE theirs (id)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StateError, match="newer OpenClaw"):
        connect(path, ONE)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["db"]


async def test_a_read_only_directory_is_named(tmp_path: Path) -> None:
    home = tmp_path / "locked"
    home.mkdir(mode=0o500)
    code = """
    import ctypes
    # Root may write anywhere: give that up, as nobody's program would have it.
    class Head(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
    ctypes.CDLL(None).capset(ctypes.byref(Head(0x20080522, 0)), (ctypes.c_uint32 * 6)())
    async def main():
        try:
            await Sqlite.open(path, ONE)
        except StateError as error:
            print(error)
    asyncio.run(main())
    """
    said = output(start(code, home / "db"))
    assert f"cannot write {home / 'db'}: Permission denied. Check its owner and permissions." in said
    assert list(home.iterdir()) == []


async def test_a_file_where_a_directory_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a directory")
    with pytest.raises(StateError, match=r"cannot write .*state"):
        await Sqlite.open(tmp_path / "state" / "db", ONE)


async def test_a_transaction_given_up_while_another_program_writes_is_not_left_open(tmp_path: Path) -> None:
    db = await Sqlite.open(tmp_path / "db", ONE)
    other = apsw.Connection(str(tmp_path / "db"))
    other.execute("BEGIN IMMEDIATE")

    async def begin() -> None:
        async with db.transaction():
            raise AssertionError("the file is taken")

    waiting = asyncio.create_task(begin())
    await asyncio.sleep(0)  # it waits in the thread now
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    other.execute("COMMIT")
    # So much that it goes to the same thread, after what was given up.
    assert await db.write("INSERT INTO notes VALUES (1, :body)", {"body": "x" * 300_000}) == 1
    assert other.execute("SELECT id FROM notes").fetchall() == [(1,)]
    async with db.transaction() as tx:
        await tx.write("INSERT INTO notes VALUES (2, 'two')")
    other.execute("INSERT INTO notes VALUES (3, 'three')")
    other.close()
    await db.close()
