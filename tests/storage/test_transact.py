"""A server that goes away in the middle of a transaction: whoever asked for it waits, and it is made once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from openclaw.core.errors import StateError
from openclaw.core.secret import Secret
from openclaw.storage.database import Migration, Transaction, TransactionBroken, transact
from openclaw.storage.documents import sharing
from openclaw.storage.locks import shared
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.testing import says
from openclaw.testing.postgres import MISSING, PostgresServer, postgres_programs
from openclaw.testing.server import MockModelServer
from tests.gateway.cluster.nodes import Node

asyncpg = pytest.importorskip("asyncpg", reason=MISSING)
from openclaw.storage.postgres import Postgres  # noqa: E402

pytestmark = [pytest.mark.anyio, pytest.mark.servers]
NOTES = (Migration(1, ("CREATE TABLE notes (id BIGINT PRIMARY KEY, body TEXT NOT NULL DEFAULT '')",)),)
ADD = "INSERT INTO notes (id) VALUES (:id)"
PATIENCE = 120.0


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that may be killed."""
    if (programs := postgres_programs()) is None:
        pytest.skip(MISSING)
    server = PostgresServer(programs)
    try:
        server.start()
        yield server
    finally:
        server.remove()


def crash(server: PostgresServer) -> None:
    server.kill()
    server.start()


class CommitProxy:
    """Between a gateway and its database; at a commit it calls `crash`, once, and closes the connection."""

    def __init__(self, port: int, *, arrives: bool) -> None:
        self._to = port
        self.crash: Callable[[], Awaitable[None]] | None = None
        self._arrives = arrives
        """Whether the server gets the commit, and only its answer is lost."""
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.close()
            return
        self._writers += [writer, back]
        with suppress(OSError):
            async with asyncio.TaskGroup() as group:
                answering = group.create_task(self._answer(there, writer))
                while data := await reader.read(65_536):
                    if b"COMMIT" in data and self.crash is not None:
                        crash, self.crash = self.crash, None
                        if self._arrives:
                            answering.cancel()
                            await asyncio.wait([answering])
                            back.write(data)
                            while b"COMMIT" not in await there.read(65_536):
                                pass
                        await crash()
                        break
                    back.write(data)
                    await back.drain()
                answering.cancel()
        writer.close()
        back.close()

    async def _answer(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await there.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def stop(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@pytest.mark.parametrize("step", ["begun", "read", "written", "done"])
async def test_a_transaction_that_broke_is_made_again_and_once(server: PostgresServer, step: str) -> None:
    db = await Postgres.open(Secret(f"{server.url}?search_path=step_{step}"), NOTES)
    tries = 0

    async def add(tx: Transaction) -> int:
        nonlocal tries
        tries += 1

        async def reach(where: str) -> None:
            if tries == 1 and where == step:
                await asyncio.to_thread(crash, server)

        await reach("begun")
        count = (await tx.read("SELECT count(*) AS n FROM notes"))[0]["n"]
        await reach("read")
        await tx.write(ADD, {"id": count})
        await reach("written")
        await tx.write(ADD, {"id": count + 1})
        await reach("done")
        return int(count)

    async with asyncio.timeout(PATIENCE):
        assert await transact(db, add, "notes") == 0
        assert tries == 2
        assert await transact(db, add, "notes") == 2
    assert [row["id"] for row in await db.read("SELECT id FROM notes ORDER BY id")] == [0, 1, 2, 3]
    await db.close()


@pytest.mark.parametrize("arrives", [False, True], ids=["lost on its way", "made, and nobody told"])
async def test_a_commit_without_an_answer_is_looked_up(server: PostgresServer, arrives: bool) -> None:
    url = f"{server.url}?search_path=commit_{int(arrives)}"
    proxy = CommitProxy(server.port, arrives=arrives)
    db = await Postgres.open(Secret(url.replace(f":{server.port}/", f":{await proxy.start()}/")), NOTES)
    proxy.crash = partial(asyncio.to_thread, crash, server)
    tries = 0

    async def add(tx: Transaction) -> None:
        nonlocal tries
        tries += 1
        await tx.write(ADD, {"id": tries})

    async with asyncio.timeout(PATIENCE):
        await transact(db, add)
        assert [row["id"] for row in await db.read("SELECT id FROM notes")] == [1 if arrives else 2]
        assert tries == (1 if arrives else 2)
        await db.close()
    await proxy.stop()


@pytest.mark.parametrize("arrives", [False, True], ids=["lost on its way", "made, and nobody told"])
async def test_it_is_looked_up_also_when_another_gateway_tidied_up_meanwhile(
    server: PostgresServer, arrives: bool
) -> None:
    url = f"{server.url}?search_path=tidy_{int(arrives)}"
    proxy = CommitProxy(server.port, arrives=arrives)
    db = await Postgres.open(Secret(url.replace(f":{server.port}/", f":{await proxy.start()}/")), NOTES)
    await db.write(ADD, {"id": 0})
    other = await Postgres.open(Secret(url), NOTES)
    await other.write("UPDATE store_connections SET seen_at = now() - interval '2 days'")
    await other.close()

    async def restart() -> None:
        await asyncio.to_thread(crash, server)
        await (await Postgres.open(Secret(url), NOTES)).close()

    proxy.crash = restart

    async def add(tx: Transaction) -> None:
        count = (await tx.read("SELECT count(*) AS n FROM notes"))[0]["n"]
        await tx.write(ADD, {"id": count})

    async with asyncio.timeout(PATIENCE):
        await transact(db, add)
        assert [row["id"] for row in await db.read("SELECT id FROM notes ORDER BY id")] == [0, 1]
        await db.close()
    await proxy.stop()


async def test_a_block_that_cannot_be_made_again_says_that_nothing_was_changed(server: PostgresServer) -> None:
    db = await Postgres.open(Secret(f"{server.url}?search_path=block"), NOTES)
    with pytest.raises(TransactionBroken, match="nothing of this was changed"):
        async with db.transaction() as tx:
            await tx.write(ADD, {"id": 1})
            await asyncio.to_thread(crash, server)
            await tx.write(ADD, {"id": 2})
    assert await db.read("SELECT id FROM notes") == []
    await db.close()


async def test_transactions_that_wait_for_each_other_are_both_made(server: PostgresServer) -> None:
    db = await Postgres.open(Secret(f"{server.url}?search_path=deadlock"), NOTES)
    await db.write_all(*((ADD, {"id": number}) for number in (1, 2)))
    both = asyncio.Barrier(2)
    tries = 0

    async def touch(first: int, second: int, tx: Transaction) -> None:
        nonlocal tries
        tries += 1
        await tx.write("UPDATE notes SET body = body || 'x' WHERE id = :id", {"id": first})
        if tries <= 2:
            await both.wait()
        await tx.write("UPDATE notes SET body = body || 'x' WHERE id = :id", {"id": second})

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(
            transact(db, partial(touch, 1, 2), "one"),
            transact(db, partial(touch, 2, 1), "other"),
        )
    assert tries >= 3  # a busy server may end both
    assert [row["body"] for row in await db.read("SELECT body FROM notes")] == ["xx", "xx"]
    await db.close()


async def test_a_shared_document_is_changed_over_a_restart_unless_others_were_faster(
    server: PostgresServer, tmp_path: Path
) -> None:
    url = Secret(f"{server.url}?search_path=documents")
    open_db = partial(Postgres.open, url, STATE_MIGRATIONS)
    one, other = tmp_path / "one", tmp_path / "other"
    for state in (one, other):
        state.mkdir()
    path = Path("exec-approvals.json")

    def change(state: Path, text: str, meanwhile: Callable[[], None]) -> None:
        with shared(state / path):
            (state / path).write_text(text)
            meanwhile()

    async with asyncio.timeout(PATIENCE), sharing(open_db, one) as home, sharing(open_db, other) as others:
        await asyncio.to_thread(change, one, "first", partial(crash, server))
        await asyncio.to_thread(lambda: others._wait(others._sweep()))
        assert (other / path).read_text() == "first"

        def interfere() -> None:
            crash(server)
            change(other, "theirs", lambda: None)

        with pytest.raises(StateError, match="nothing was changed here"):
            await asyncio.to_thread(change, one, "second", interfere)
        await asyncio.to_thread(lambda: home._wait(home._sweep()))
        assert (one / path).read_text() == "theirs"


async def test_people_notice_nothing_of_a_database_that_restarts(server: PostgresServer, tmp_path: Path) -> None:
    """What clients ask for is done with transactions; while the server is killed some are in the middle of one."""
    with MockModelServer([says("Hello there.")]) as model:
        config = model.settings()
        with Node(tmp_path, "one", f"{server.url}?search_path=people", config) as node:
            stop, done = asyncio.Event(), 0

            async def rename(number: int) -> None:
                nonlocal done
                async with node.client() as client:
                    key = f"agent:main:talk{number}"
                    await client.call("sessions.create", {"key": key})
                    turn = 0
                    while not stop.is_set():
                        turn += 1
                        wanted = ("low", "high")[turn % 2]
                        await client.call("sessions.patch", {"key": key, "thinkingLevel": wanted}, timeout=PATIENCE)
                        done += 1

            async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
                for number in range(8):
                    group.create_task(rename(number))
                for _ in range(3):
                    before = done
                    while done < before + 40:
                        await asyncio.sleep(0.01)
                    await asyncio.to_thread(crash, server)
                stop.set()


async def test_a_node_that_begins_anew_waits_for_a_database_that_is_away(
    server: PostgresServer, tmp_path: Path
) -> None:
    url = f"{server.url}?search_path=anew"
    with MockModelServer([says("Hello there.")]) as model, Node(tmp_path, "one", url, model.settings()) as node:
        other = await Postgres.open(Secret(url), STATE_MIGRATIONS)
        (lease,) = await other.read("SELECT name FROM store_leases WHERE name LIKE 'node:%'")
        async with asyncio.timeout(PATIENCE):
            # Another node takes it for gone, and the server goes away before it is back.
            while (taken := await other.lease(lease["name"], "other")) is None:
                await other.read(
                    "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity AS a JOIN store_connections AS c ON "
                    "a.pid = c.pid JOIN store_leases AS l ON l.connection = c.id WHERE l.name = :name",
                    lease,
                )
            await taken.release()
            while "taken for gone" not in node.output():
                await asyncio.sleep(0.005)
            server.kill()
            for _ in range(100):  # what it ends may wait for the server, too
                if node.output().count("listens on") >= 2:
                    break
                await asyncio.sleep(0.05)
            await asyncio.to_thread(server.start)
            while node.output().count("ready in") < 2:
                assert node.alive, node.output()
                await asyncio.sleep(0.05)
            await other.close()
            node.find()
            async with node.client() as client:
                told = await client.call("agent", {"message": "hello", "idempotencyKey": "r1"}, final=True)
        assert told["status"] == "ok"
