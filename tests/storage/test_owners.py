"""Rows in work: who has one in its hands is known, and what a dead process had is taken by one, whoever wants it."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw.storage.database import Migration
from openclaw.storage.owners import OwnedRows, Owner, ended_in_order, is_alive
from openclaw.storage.sqlite import Sqlite

pytestmark = pytest.mark.anyio

WORK = (Migration(1, ("CREATE TABLE work (name TEXT PRIMARY KEY, done BIGINT NOT NULL, owner TEXT NOT NULL)",)),)
GONE = Owner(2**30, "long ago")
TELLS = "from openclaw.storage.owners import Owner; print(Owner.of_this_process(), flush=True); input()"


@asynccontextmanager
async def opened(path: Path, *rows: tuple[str, str]) -> AsyncIterator[Sqlite]:
    db = await Sqlite.open(path, WORK)
    try:
        for name, owner in rows:
            await db.write(
                "INSERT INTO work (name, done, owner) VALUES (:name, 0, :owner)", {"name": name, "owner": owner}
            )
        yield db
    finally:
        await db.close()


def work(db: Sqlite, me: Owner | None = None) -> OwnedRows:
    return OwnedRows(db, "work", key="name", in_work="done = 0", me=me)


async def owners(db: Sqlite) -> dict[str, str]:
    return {row["name"]: row["owner"] for row in await db.read("SELECT * FROM work")}


def test_this_process_is_alive_and_the_same_each_time_it_is_asked() -> None:
    me = Owner.of_this_process()
    assert me == Owner.of_this_process() == Owner.parse(str(me))
    assert me.pid == os.getpid() and is_alive(me)


def test_another_process_under_the_same_id_is_another() -> None:
    assert not is_alive(Owner(os.getpid(), "earlier"))


@pytest.mark.parametrize("text", ["", "@", "a uuid of an earlier version", "-1@x", "²@x"])
def test_what_no_process_wrote_is_nobody(text: str) -> None:
    assert Owner.parse(text) is None and not is_alive(Owner.parse(text))


def test_a_process_is_gone_when_it_has_ended_also_before_its_parent_asks() -> None:
    child = subprocess.Popen([sys.executable, "-c", TELLS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        owner = Owner.parse(child.stdout.readline().strip())
        assert owner is not None and owner.pid == child.pid and is_alive(owner)
        child.kill()
        assert child.stdout.read() == ""  # the end of its output is the end of it
        while is_alive(owner):
            pass
        assert child.returncode is None  # nobody has waited for it
    assert not is_alive(owner)


async def test_what_belongs_to_the_living_stays_theirs(tmp_path: Path) -> None:
    me = str(Owner.of_this_process())
    rows = (("theirs", me), ("dead", str(GONE)), ("nobody's", ""), ("older", "f3c1-uuid"))
    async with opened(tmp_path / "work.sqlite", *rows) as db:
        taker = work(db, Owner(1, "somebody else"))
        assert sorted(row["name"] for row in await taker.take()) == ["dead", "nobody's", "older"]
        assert (await owners(db))["theirs"] == me
        assert await taker.take() == []  # what is ours is not taken again


async def test_one_row_can_be_asked_for(tmp_path: Path) -> None:
    async with opened(tmp_path / "work.sqlite", ("a", str(GONE)), ("b", str(GONE))) as db:
        rows = work(db)
        assert [row["name"] for row in await rows.take("b")] == ["b"] and await rows.take("b") == []
        assert (await owners(db))["a"] == str(GONE)


async def test_what_is_put_down_or_done_is_nobodys(tmp_path: Path) -> None:
    async with opened(tmp_path / "work.sqlite", ("a", ""), ("b", ""), ("c", str(GONE))) as db:
        mine = work(db)
        await mine.take()
        await db.write("UPDATE work SET done = 1 WHERE name = 'b'")
        await mine.release(["a", "b", "unknown"])
        await mine.release([])
        assert await owners(db) == {"a": "", "b": mine.me, "c": mine.me}
        await work(db, GONE).release(["c"])  # only its owner puts a row down
        assert (await owners(db))["c"] == mine.me


def test_of_several_processes_that_start_at_once_one_gets_each_row(tmp_path: Path) -> None:
    path = tmp_path / "work.sqlite"
    names = [f"row-{number}" for number in range(200)]

    async def make() -> None:
        async with opened(path, *((name, str(GONE)) for name in names)):
            pass

    asyncio.run(make())
    command = [sys.executable, "-m", "tests.storage.test_owners", str(path)]
    with ExitStack() as stack:
        children = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(4)
        ]
        for child in children:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        taken = [child.stdout.readline().split() for child in children if child.stdout]
        for child in children:
            child.communicate("\n", timeout=60)
    assert Counter(name for each in taken for name in each) == Counter(names)


async def claim(path: Path) -> None:
    """One of several processes: takes what it can when it is told to, and lives on, so that nobody takes it from it."""
    async with opened(path) as db:
        rows = work(db)
        print("ready", flush=True)
        sys.stdin.readline()
        print(*(row["name"] for row in await rows.take()), flush=True)
        sys.stdin.readline()


STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "take one", "release", "finish"]), st.integers(0, 3), st.integers(0, 3))
)


@pytest.fixture(scope="module")
def neighbour() -> Iterator[Owner]:
    """Another process that is alive."""
    child = subprocess.Popen([sys.executable, "-c", TELLS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        yield Owner.parse(child.stdout.readline().strip()) or GONE
        child.communicate("\n", timeout=60)


@settings(deadline=None, max_examples=100)
@given(steps=STEPS)
def test_all_is_taken_from_the_dead_and_nothing_from_the_living(
    neighbour: Owner, steps: list[tuple[str, int, int]]
) -> None:
    people = (Owner.of_this_process(), neighbour, GONE, Owner(GONE.pid, "longer ago"))
    living = {str(owner) for owner in people[:2]}

    async def play(path: Path) -> None:
        names = [f"r{number}" for number in range(4)]
        owned = dict.fromkeys(names, "")
        async with opened(path, *owned.items()) as db:
            for step, who, place in steps:
                me, name = work(db, people[who]), names[place]
                free = {each for each, owner in owned.items() if owner not in living | {me.me}}
                match step:
                    case "take":
                        assert {row["name"] for row in await me.take()} == free
                        owned |= dict.fromkeys(free, me.me)
                    case "take one":
                        assert [row["name"] for row in await me.take(name)] == [name] * (name in free)
                        owned |= {name: me.me} if name in free else {}
                    case "release":
                        await me.release([name])
                        owned |= {name: ""} if owned.get(name) == me.me else {}
                    case "finish" if owned.get(name) == me.me:
                        await db.write("UPDATE work SET done = 1 WHERE name = :name", {"name": name})
                        del owned[name]
            rows = await db.read("SELECT * FROM work WHERE done = 0")
            assert {row["name"]: row["owner"] for row in rows} == owned

    with tempfile.TemporaryDirectory() as root:
        asyncio.run(play(Path(root) / "work.sqlite"))


if __name__ == "__main__":
    asyncio.run(claim(Path(sys.argv[1])))


@pytest.mark.skipif(sys.platform != "linux", reason="only there a process knows its boot")
def test_who_died_of_its_work_is_told_from_who_put_it_down_and_who_went_with_the_machine() -> None:
    boot = Owner.of_this_process().started.partition("/")[0]
    assert ended_in_order("") and ended_in_order("99999999@another-boot/7")
    assert not ended_in_order(f"99999999@{boot}/7") and not ended_in_order("99999999@long ago")
