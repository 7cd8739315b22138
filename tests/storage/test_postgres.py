"""What only a server can do: serve several processes, go away and come back."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from openclaw.core.errors import StateError
from openclaw.core.secret import Secret
from openclaw.storage.database import LeaseLost, Migration
from openclaw.testing.postgres import MISSING, PostgresServer, postgres_programs, running_postgres

asyncpg = pytest.importorskip("asyncpg", reason=MISSING)
from openclaw.storage import postgres_session  # noqa: E402
from openclaw.storage.postgres import Postgres  # noqa: E402

pytestmark = [pytest.mark.anyio, pytest.mark.servers]
NOTES = (Migration(1, ("CREATE TABLE notes (id BIGINT PRIMARY KEY, body TEXT NOT NULL DEFAULT '')",)),)
ADD = "INSERT INTO notes (id) VALUES (:id)"


@pytest.fixture
async def pair(postgres_url: Secret) -> AsyncIterator[tuple[Postgres, Postgres]]:
    one, other = await Postgres.open(postgres_url, NOTES), await Postgres.open(postgres_url, NOTES)
    yield one, other
    await one.close()
    await other.close()


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that may be killed."""
    if postgres_programs() is None:
        pytest.skip(MISSING)
    with running_postgres() as server:
        yield server


async def test_another_process_hears_short_and_long_messages_in_their_order(pair: tuple[Postgres, Postgres]) -> None:
    one, other = pair
    long = "ä" * 20_000
    async with asyncio.timeout(120), other.listen("news") as news, one.listen("news") as own:
        for payload in ("first", long, "", "last"):
            await one.notify("news", payload)
        assert [await anext(news) for _ in range(4)] == ["first", long, "", "last"]
        assert [await anext(own) for _ in range(4)] == ["first", long, "", "last"]  # once, though the server echoes


async def test_a_lease_goes_on_when_its_holder_is_gone(postgres_url: Secret) -> None:
    one, other = await Postgres.open(postgres_url, NOTES), await Postgres.open(postgres_url, NOTES)
    held = await one.lease("agent:main", "one")
    assert held is not None
    assert await other.lease("agent:main", "other") is None
    await one.close()
    assert held.lost.is_set()
    async with asyncio.timeout(120):
        while (taken := await other.lease("agent:main", "other")) is None:
            await asyncio.sleep(0.01)
    assert taken.epoch == held.epoch + 1
    await other.close()


async def test_a_holder_that_went_silent_loses_its_lease_and_can_write_nothing(
    pair: tuple[Postgres, Postgres], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    monkeypatch.setattr(postgres_session, "SEEN_SECONDS", 3_600.0)  # it says nothing, as if it were stopped
    held = await one.lease("agent:main", "one")
    assert held is not None
    assert await other.lease("agent:main") is None
    monkeypatch.setattr(postgres_session, "STALE_SECONDS", 0.0)
    async with asyncio.timeout(120):
        while (taken := await other.lease("agent:main", "other")) is None:
            await asyncio.sleep(0.01)
        assert taken.epoch == held.epoch + 1
        with pytest.raises(LeaseLost, match="another gateway has it now"):
            await one.write(ADD, {"id": 1}, lease=held)
        assert await other.write(ADD, {"id": 1}, lease=taken) == 1
        await held.lost.wait()


async def test_what_a_silent_holder_has_begun_keeps_nobody_waiting(
    pair: tuple[Postgres, Postgres], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    monkeypatch.setattr(postgres_session, "SEEN_SECONDS", 3_600.0)
    held = await one.lease("agent:main", "one")
    assert held is not None

    async def begin() -> None:
        async with one.transaction("notes", lease=held) as tx:
            await tx.write(ADD, {"id": 1})
            await tx.read("SELECT pg_sleep(50)")

    begun = asyncio.create_task(begin())
    sleeping = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    async with asyncio.timeout(120):
        while not await other.read(sleeping):
            await asyncio.sleep(0.01)
        monkeypatch.setattr(postgres_session, "STALE_SECONDS", 0.0)
        while (taken := await other.lease("agent:main", "other")) is None:
            await asyncio.sleep(0.01)
    assert not await other.read(sleeping), "it waited until the other had finished"
    assert await other.write(ADD, {"id": 1}, lease=taken) == 1
    with pytest.raises(StateError):
        await begun


async def test_work_waits_for_a_server_that_restarts_and_nothing_is_lost_or_doubled(
    own_server: PostgresServer,
) -> None:
    db = await Postgres.open(Secret(own_server.url), NOTES, pool=4)
    stop = asyncio.Event()
    sure: list[int] = []
    refused = 0

    async def write(first: int) -> None:
        nonlocal refused
        number = first
        while not stop.is_set():
            number += 4
            if number % 8 < 4:
                assert await db.write(ADD, {"id": number}) == 1  # a second try would be refused
                sure.append(number)
            else:
                try:
                    async with db.transaction(f"on {first}") as tx:
                        await tx.write(ADD, {"id": number})
                    sure.append(number)
                except StateError as error:
                    assert "nothing" in error.message
                    refused += 1

    async with asyncio.timeout(120), db.listen("news"):
        lease = await db.lease("agent:main")
        assert lease is not None
        writers = [asyncio.create_task(write(first)) for first in range(4)]
        for _ in range(4):
            before = len(sure)
            while len(sure) < before + 50:
                await asyncio.wait(writers, timeout=0.01, return_when=asyncio.FIRST_EXCEPTION)
                for writer in writers:
                    if writer.done():
                        await writer
            own_server.kill()
            await asyncio.to_thread(own_server.start)
        stop.set()
        await asyncio.gather(*writers)
        await lease.lost.wait()
        while (again := await db.lease("agent:main")) is None:
            await asyncio.sleep(0.01)
        assert again.epoch > lease.epoch
    found = [row["id"] for row in await db.read("SELECT id FROM notes ORDER BY id")]
    assert found == sorted(sure)
    assert refused <= 16
    await db.close()


async def test_a_listener_goes_on_hearing_after_a_restart(own_server: PostgresServer) -> None:
    url = Secret(f"{own_server.url}?search_path=hearing")
    one, other = await Postgres.open(url, NOTES), await Postgres.open(url, NOTES)
    async with asyncio.timeout(120), other.listen("news") as news:
        own_server.stop()
        await asyncio.to_thread(own_server.start)
        heard = asyncio.ensure_future(anext(news))
        while not heard.done():
            await one.notify("news", "again")
            await asyncio.wait([heard], timeout=0.05)
        assert heard.result() == "again"
    await one.close()
    await other.close()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("/postgres", "/nowhere"), "there is no database .*/nowhere: create it"),
        (("openclaw@", "stranger:hunter2@"), "refuses the user: check user and password in store.url"),
        (("postgresql://", "mysql://"), "store.url is not an address like postgresql://"),
    ],
)
async def test_a_wrong_address_says_what_to_do(
    postgres_server: PostgresServer, change: tuple[str, str], words: str
) -> None:
    with pytest.raises(StateError, match=words) as raised:
        await Postgres.open(Secret(postgres_server.url.replace(*change)), NOTES)
    assert "hunter2" not in raised.value.message


async def test_a_server_that_is_down_is_said_at_once(own_server: PostgresServer) -> None:
    own_server.stop()
    with pytest.raises(StateError, match=r"cannot be reached .* is it running"):
        await Postgres.open(Secret(own_server.url), NOTES)
    own_server.start()


async def test_a_write_and_a_group_of_writes_are_one_trip(pair: tuple[Postgres, Postgres]) -> None:
    db, _ = pair
    await db.write(ADD, {"id": 0})
    before = db.trips
    await db.write(ADD, {"id": 1})
    await db.write_all(*((ADD, {"id": number}) for number in range(2, 9)))
    assert db.trips - before == 2
    async with db.transaction("notes") as tx:
        await tx.write(ADD, {"id": 9})
    assert db.trips - before == 5


async def test_writes_that_wait_for_each_other_are_both_made(pair: tuple[Postgres, Postgres]) -> None:
    one, other = pair
    await one.write_all(*((ADD, {"id": number}) for number in (1, 2)))
    touch = "UPDATE notes SET body = body || 'x' WHERE id = :id"
    slowly: tuple[str, dict[str, int]] = ("SELECT pg_sleep(0.2)", {})
    async with asyncio.timeout(120):
        await asyncio.gather(
            one.write_all((touch, {"id": 1}), slowly, (touch, {"id": 2})),
            other.write_all((touch, {"id": 2}), slowly, (touch, {"id": 1})),
        )
    assert [row["body"] for row in await one.read("SELECT body FROM notes ORDER BY id")] == ["xx", "xx"]


async def test_records_ride_along_and_a_bad_one_harms_nobody(pair: tuple[Postgres, Postgres]) -> None:
    db, _ = pair
    await db.write(ADD, {"id": 1})
    before = db.trips
    await db.soon((ADD, {"id": 2}))
    assert await db.write(ADD, {"id": 3}) == 1
    assert db.trips - before == 1
    await db.soon((ADD, {"id": 3}))
    assert await db.write(ADD, {"id": 4}) == 1
    await db.soon((ADD, {"id": 5}))
    assert [row["id"] for row in await db.read("SELECT id FROM notes ORDER BY id")] == [1, 2, 3, 4, 5]


async def test_records_are_written_in_their_order(pair: tuple[Postgres, Postgres]) -> None:
    db, _ = pair
    for number in range(1, 41):
        await db.soon((ADD, {"id": number}))
        if number % 3:
            await asyncio.sleep(0.02)  # they leave by themselves meanwhile
        await db.soon(("UPDATE notes SET body = 'a' WHERE id = :id", {"id": number}))
        assert await db.write("UPDATE notes SET body = body || 'b' WHERE id = :id", {"id": number}) == 1
    assert {row["body"] for row in await db.look("SELECT body FROM notes")} == {"ab"}
