"""What every engine behind `Database` must do. A new engine joins by adding its opener to `ENGINES`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from openclaw.core.errors import StateError
from openclaw.core.secret import Secret
from openclaw.storage.database import Database, LeaseLost, Migration
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.storage.sqlite import Sqlite

pytestmark = pytest.mark.anyio

NOTES = (
    Migration(
        1, ("CREATE TABLE notes (id BIGINT PRIMARY KEY, body TEXT NOT NULL DEFAULT '', score DOUBLE PRECISION)",)
    ),
)
Open = Callable[..., Awaitable[Database]]


def _sqlite(request: pytest.FixtureRequest) -> Open:
    directory: Path = request.getfixturevalue("tmp_path")

    async def open_it(migrations: tuple[Migration, ...] = NOTES) -> Database:
        return await Sqlite.open(directory / "notes.sqlite", migrations)

    return open_it


def _postgres(request: pytest.FixtureRequest) -> Open:
    url: Secret = request.getfixturevalue("postgres_url")
    from openclaw.storage.postgres import Postgres

    async def open_it(migrations: tuple[Migration, ...] = NOTES) -> Database:
        return await Postgres.open(url, migrations)

    return open_it


ENGINES: dict[str, Callable[[pytest.FixtureRequest], Open]] = {"sqlite": _sqlite, "postgres": _postgres}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
def open_db(request: pytest.FixtureRequest) -> Open:
    """Opens the same database each time it is called."""
    return ENGINES[request.param](request)


@pytest.fixture
async def db(open_db: Open) -> AsyncIterator[Database]:
    database = await open_db()
    yield database
    await database.close()


async def bodies(db: Database) -> list[str]:
    return [row["body"] for row in await db.read("SELECT body FROM notes ORDER BY id")]


async def add(db: Database, number: int, body: str = "") -> int:
    return await db.write("INSERT INTO notes (id, body) VALUES (:id, :body)", {"id": number, "body": body})


async def test_a_write_is_seen_by_the_next_read(db: Database) -> None:
    await db.write("INSERT INTO notes (id, body, score) VALUES (:id, :b, :s)", {"id": 1 << 40, "b": "ä😀", "s": 0.5})
    assert [dict(row) for row in await db.read("SELECT * FROM notes")] == [{"id": 1 << 40, "body": "ä😀", "score": 0.5}]
    assert list(await db.read("SELECT * FROM notes WHERE id = :id", {"id": 2})) == []
    assert await db.look("SELECT * FROM notes") == await db.read("SELECT * FROM notes")


ADD = "INSERT INTO notes (id, body) VALUES (:id, :body)"


async def test_what_is_written_soon_is_seen_by_whoever_looks(db: Database) -> None:
    await db.soon((ADD, {"id": 1, "body": "one"}))
    assert [row["body"] for row in await db.look("SELECT body FROM notes WHERE id = :id", {"id": 1})] == ["one"]
    await db.soon(("UPDATE notes SET body = :body WHERE id = :id", {"id": 1, "body": "two"}))
    assert await bodies(db) == ["two"]
    await db.soon(("UPDATE notes SET body = :body WHERE id = :id", {"id": 1, "body": "three"}))
    assert await db.write("DELETE FROM notes WHERE body = :body", {"body": "three"}) == 1
    await db.soon((ADD, {"id": 2, "body": "four"}))
    async with db.transaction() as transaction:
        assert len(await transaction.read("SELECT id FROM notes")) == 1


async def test_what_is_written_soon_is_not_waited_for(db: Database) -> None:
    """The end of a turn relies on it: where nothing waits, no cancellation can come in between."""
    with pytest.raises(StopIteration):
        db.soon((ADD, {"id": 1, "body": "one"})).__await__().__next__()
    assert len(await db.look("SELECT * FROM notes")) == 1


async def test_what_is_written_soon_is_there_after_a_restart(open_db: Open) -> None:
    first = await open_db()
    await first.soon((ADD, {"id": 1, "body": "one"}))
    await first.close()
    second = await open_db()
    assert await bodies(second) == ["one"]
    await second.sync()
    await second.close()


async def test_a_failed_write_does_not_take_along_what_was_to_be_written_soon(db: Database) -> None:
    await db.soon((ADD, {"id": 1, "body": "one"}))
    with pytest.raises(StateError):
        await add(db, 1, "again")
    assert await bodies(db) == ["one"]


async def test_a_write_says_how_many_rows_it_changed(db: Database) -> None:
    assert [await add(db, 1), await add(db, 2)] == [1, 1]
    assert await db.write("UPDATE notes SET body = :b", {"b": "x"}) == 2
    assert await db.write("UPDATE notes SET body = 'y' WHERE id = 9") == 0
    assert await db.write("CREATE TABLE other (id BIGINT)") == 0
    assert await db.write("DELETE FROM notes") == 2


async def test_an_upsert_is_one_text(db: Database) -> None:
    for body in ("first", "second"):
        await db.write(
            "INSERT INTO notes (id, body) VALUES (1, :body) ON CONFLICT (id) DO UPDATE SET body = excluded.body",
            {"body": body},
        )
    assert await bodies(db) == ["second"]


async def test_a_failed_write_changes_nothing_and_the_next_one_works(db: Database) -> None:
    await add(db, 1, "kept")
    with pytest.raises(StateError):
        await add(db, 1, "twice")
    await add(db, 2, "after")
    assert await bodies(db) == ["kept", "after"]


async def test_what_was_written_is_there_after_a_restart(open_db: Open) -> None:
    for number in (1, 2):
        db = await open_db()
        await add(db, number, f"run {number}")
        await db.close()
    db = await open_db()
    assert await bodies(db) == ["run 1", "run 2"]
    await db.close()


async def test_a_transaction_is_seen_whole_or_not_at_all(db: Database) -> None:
    async with db.transaction() as tx:
        await tx.write("INSERT INTO notes (id, body) VALUES (1, 'a')")
        assert await bodies(db) == []  # nobody else sees it yet
        assert [row["body"] for row in await tx.read("SELECT body FROM notes")] == ["a"]
        await tx.write("INSERT INTO notes (id, body) VALUES (2, 'b')")
    assert await bodies(db) == ["a", "b"]


async def test_an_error_undoes_the_whole_transaction(db: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        async with db.transaction() as tx:
            await tx.write("INSERT INTO notes (id) VALUES (1)")
            raise ZeroDivisionError
    with pytest.raises(StateError):
        async with db.transaction() as tx:
            await tx.write("INSERT INTO notes (id) VALUES (1)")
            await tx.write("INSERT INTO notes (id) VALUES (1)")
    assert await bodies(db) == []
    await add(db, 1)


async def test_cancelling_in_the_middle_undoes_the_transaction(db: Database) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with db.transaction() as tx:
            await tx.write("INSERT INTO notes (id, body) VALUES (1, 'half')")
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    async with asyncio.timeout(120):
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await bodies(db) == []
        await add(db, 2, "next")
    assert await bodies(db) == ["next"]


@pytest.mark.parametrize("steps", range(12))
async def test_cancelling_at_any_moment_leaves_all_or_nothing(db: Database, steps: int) -> None:
    async def work() -> None:
        async with db.transaction() as tx:
            for number in (1, 2):
                await tx.write("INSERT INTO notes (id) VALUES (:id)", {"id": number})

    task = asyncio.create_task(work())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    task.cancel()  # an impatient caller
    async with asyncio.timeout(120):
        await asyncio.wait([task])
        await add(db, 3)
    assert len(await bodies(db)) in (1, 3)


async def test_an_impatient_caller_still_gets_the_transaction_undone(open_db: Open) -> None:
    db, other = await open_db(), await open_db()
    slow = (
        "INSERT INTO notes (id) WITH RECURSIVE n(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM n WHERE x < 200000) "
        "SELECT x FROM n"
    )
    inside = asyncio.Event()

    async def work() -> None:
        async with db.transaction() as tx:
            inside.set()
            await tx.write(slow)

    async with asyncio.timeout(120):
        async with other.transaction():  # whoever had to wait for its turn does its work in a thread
            task = asyncio.create_task(work())
            for _ in range(5):
                await asyncio.sleep(0)
        await inside.wait()
        for _ in range(5):  # the second cancellation finds it waiting to undo what the first one stopped
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await add(db, 1, "next")
    assert await bodies(db) == ["next"]
    await db.close()
    await other.close()


async def test_tasks_write_one_after_another(db: Database) -> None:
    await add(db, 1, "0")

    async def bump() -> None:
        async with db.transaction() as tx:
            (row,) = await tx.read("SELECT body FROM notes")
            await tx.write("UPDATE notes SET body = :body", {"body": str(int(row["body"]) + 1)})

    await asyncio.gather(*(bump() for _ in range(25)))
    assert await bodies(db) == ["25"]


async def test_two_connections_do_not_lose_each_others_writes(open_db: Open) -> None:
    one, other = await open_db(), await open_db()
    await add(one, 1, "0")

    async def bump(db: Database) -> None:
        async with db.transaction() as tx:
            (row,) = await tx.read("SELECT body FROM notes")
            await tx.write("UPDATE notes SET body = :body", {"body": str(int(row["body"]) + 1)})

    await asyncio.gather(*(bump(db) for db in (one, other) * 10))
    assert await bodies(one) == await bodies(other) == ["20"]
    await one.close()
    await other.close()


async def test_a_reader_never_waits_for_a_writer(db: Database) -> None:
    await add(db, 1, "committed")
    async with asyncio.timeout(120), db.transaction() as tx:
        await tx.write("UPDATE notes SET body = 'changing'")
        assert await bodies(db) == ["committed"]


async def test_writing_beside_ones_own_transaction_fails_at_once(db: Database) -> None:
    async with asyncio.timeout(120):
        async with db.transaction():
            with pytest.raises(RuntimeError, match="write through it"):
                await add(db, 1)
            with pytest.raises(RuntimeError, match="write through it"):
                async with db.transaction():
                    pass
        await add(db, 1)


async def test_a_transaction_that_is_over_cannot_be_used(db: Database) -> None:
    async with db.transaction() as tx:
        pass
    with pytest.raises(RuntimeError, match="over"):
        await tx.write("INSERT INTO notes (id) VALUES (1)")


async def test_a_listener_hears_what_is_told_after_it_listens(db: Database) -> None:
    await db.notify("news", "too early")
    async with asyncio.timeout(120), db.listen("news") as news, db.listen("news") as again:
        await db.notify("other", "no")
        await db.notify("news", "first")
        await db.notify("news")
        assert [await anext(news), await anext(news), await anext(again)] == ["first", "", "first"]
    await db.notify("news", "nobody listens")


LATER = (*NOTES, Migration(2, ("ALTER TABLE notes ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'",)))


async def test_a_newer_program_brings_the_schema_up_to_date(open_db: Open) -> None:
    db = await open_db()
    await add(db, 1, "old")
    await db.close()
    for _ in range(2):
        db = await open_db(LATER)
        assert [dict(row) for row in await db.read("SELECT body, mood FROM notes")] == [{"body": "old", "mood": "calm"}]
        await db.close()


async def test_an_older_program_is_refused_with_what_to_do(open_db: Open) -> None:
    db = await open_db(LATER)
    await add(db, 1, "kept")
    await db.close()
    with pytest.raises(StateError, match=r"newer OpenClaw \(schema 2; this program knows 1\).*Upgrade"):
        await open_db()
    db = await open_db(LATER)
    assert await bodies(db) == ["kept"]
    await db.close()


async def test_a_migration_that_fails_changes_nothing(open_db: Open) -> None:
    db = await open_db()
    await add(db, 1, "kept")
    await db.close()
    broken = (*LATER, Migration(3, ("CREATE TABLE fine (id BIGINT)", "CREATE TABLE notes (id BIGINT)")))
    with pytest.raises(StateError):
        await open_db(broken)
    db = await open_db(LATER)  # neither step 2 nor step 3 was half done
    assert await bodies(db) == ["kept"]
    await db.close()


async def test_the_state_schema_is_one_text_for_every_engine(open_db: Open) -> None:
    db = await open_db(STATE_MIGRATIONS)
    assert list(await db.read("SELECT * FROM sessions")) == []
    await db.close()
    assert [migration.version for migration in STATE_MIGRATIONS] == list(range(1, len(STATE_MIGRATIONS) + 1))


async def test_a_lease_is_held_once_and_fences_what_is_written_after_it(db: Database) -> None:
    lease = await db.lease("agent:main", "one")
    assert lease is not None
    assert await db.lease("agent:main") is None
    assert await db.write("INSERT INTO notes (id, body) VALUES (1, 'held')", lease=lease) == 1
    async with db.transaction("notes", lease=lease) as tx:
        await tx.write("INSERT INTO notes (id, body) VALUES (2, 'held too')")
    await lease.release()
    await lease.release()  # harmless
    assert lease.lost.is_set()
    later = await db.lease("agent:main", "two")
    assert later is not None
    assert later.epoch > lease.epoch
    with pytest.raises(LeaseLost):
        await db.write("INSERT INTO notes (id, body) VALUES (3, 'late')", lease=lease)
    with pytest.raises(LeaseLost):
        async with db.transaction("notes", lease=lease):
            pass
    assert await bodies(db) == ["held", "held too"]


async def test_transactions_on_different_things_give_what_each_has_read(db: Database) -> None:
    await add(db, 1, "0")
    await add(db, 2, "0")

    async def bump(number: int) -> None:
        async with db.transaction(f"note {number}") as tx:
            (row,) = await tx.read("SELECT body FROM notes WHERE id = :id", {"id": number})
            await tx.write(
                "UPDATE notes SET body = :body WHERE id = :id", {"id": number, "body": str(int(row["body"]) + 1)}
            )

    await asyncio.gather(*(bump(number) for number in (1, 2) * 15))
    assert await bodies(db) == ["15", "15"]


async def test_values_come_back_as_they_went_in(db: Database) -> None:
    odd = "it's 100% :not $1 a \\ parameter\n%s"
    await db.write_all(
        ("INSERT INTO notes (id, body, score) VALUES (:id, :b, :s)", {"id": -(1 << 40), "b": odd, "s": -0.25}),
        ("INSERT INTO notes (id, body, score) VALUES (:id, :b, :s)", {"id": 1, "b": "':id'", "s": None}),
        ("UPDATE notes SET id = :now - 5, body = body || ':id' WHERE id = :id", {"now": 1 << 41, "id": 1}),
    )
    found = await db.read(
        "SELECT body, score, sum(id) AS total FROM notes WHERE id < :now - 5 + 1 AND substr(body, :first) <> '' "
        "GROUP BY body, score ORDER BY total",
        {"now": 1 << 41, "first": 1},
    )
    assert [dict(row) for row in found] == [
        {"body": odd, "score": -0.25, "total": -(1 << 40)},
        {"body": "':id':id", "score": None, "total": (1 << 41) - 5},
    ]
