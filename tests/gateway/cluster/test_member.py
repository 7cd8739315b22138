"""What a node learns of the others, and of work that nobody told it of."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

from openclaw.core.errors import StateError
from openclaw.core.secret import Secret
from openclaw.process.tasks import SystemClock
from openclaw.storage.database import Lease, LeaseLost
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.testing.postgres import MISSING

pytest.importorskip("asyncpg", reason=MISSING)
from openclaw.gateway.cluster import member as members
from openclaw.gateway.cluster.member import ClusterMember
from openclaw.storage.postgres import Postgres

pytestmark = [pytest.mark.anyio, pytest.mark.servers]
Join = Callable[[str], Awaitable[tuple[ClusterMember, Postgres]]]


@pytest.fixture
async def join(postgres_url: Secret) -> AsyncIterator[Join]:
    """Opens nodes that look after each other; what a test ends itself is ended."""
    async with AsyncExitStack() as stack:

        @asynccontextmanager
        async def opened(name: str) -> AsyncIterator[tuple[ClusterMember, Postgres]]:
            db = await Postgres.open(postgres_url, STATE_MIGRATIONS)
            member = ClusterMember(db, SystemClock(), name, db.schema)
            member.agents = lambda: ("main",)
            await member.join()
            await member.serve(f"ws://127.0.0.1:1/{name}")
            keeping = asyncio.create_task(member.keep())
            try:
                yield member, db
            finally:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)
                with suppress(StateError):
                    await db.close()

        async def enter(name: str) -> tuple[ClusterMember, Postgres]:
            return await stack.enter_async_context(opened(name))

        yield enter


async def test_a_node_that_is_gone_and_refuses_connections_is_not_waited_for(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one, _), (other, its_db) = await join("one"), await join("other")
    async with asyncio.timeout(120):
        while other.me not in one.nodes:
            await asyncio.sleep(0.01)
        monkeypatch.setattr(members, "UNLOCKED", 3_600.0)
        monkeypatch.setattr(members, "AFTER_BREAK", 3_600.0)
        other.fenced.set()  # it looks after nothing any more
        await its_db.close()
        one.note_link(other.me, refused=True)
        while other.me in one.nodes:
            await asyncio.sleep(0.01)
        while not one.holds("main"):
            await asyncio.sleep(0.01)


async def test_a_node_that_refuses_connections_and_has_its_lock_is_left_alone(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "TICK", 0.05)
    (one, db), (other, _) = await join("one"), await join("other")
    async with asyncio.timeout(120):
        while other.me not in one.nodes:
            await asyncio.sleep(0.01)
        one.note_link(other.me, refused=True)
        trips = db.trips
        while db.trips < trips + 10:  # some looks later
            await asyncio.sleep(0.01)
        assert other.me in one.nodes
        assert not other.fenced.is_set()


@pytest.mark.parametrize("others", [False, True], ids=["nobody else", "another node"])
async def test_a_lease_whose_answer_was_lost_is_still_ours_unless_another_node_had_it(
    join: Join, postgres_url: Secret, monkeypatch: pytest.MonkeyPatch, others: bool
) -> None:
    monkeypatch.setattr(members, "UNLOCKED", 3_600.0)
    one, db = await join("one")
    third = await Postgres.open(postgres_url, STATE_MIGRATIONS)
    take, taken = db.lease, 0

    async def lease(name: str, holder: str = "") -> Lease | None:
        nonlocal taken
        taken += 1
        if taken > 1:
            return await take(name, holder)
        if others:
            theirs = await third.lease(name, "third")
            assert theirs is not None
            await theirs.release()
        assert await take(name, holder) is not None
        await end_session(db)
        raise StateError("the answer was lost")

    async with asyncio.timeout(120):
        before = await one.current()
        monkeypatch.setattr(db, "lease", lease)
        await end_session(db)
        await before.lost.wait()
        if others:
            with pytest.raises(LeaseLost):
                await one.current()
        else:
            assert (await one.current()).epoch == before.epoch + 2
        await third.close()
    assert one.fenced.is_set() == others


async def end_session(db: Postgres) -> None:
    """Ends the connection that holds leases, as a server does that goes away."""
    await db.read(
        "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity AS a JOIN store_connections AS c "
        "ON a.pid = c.pid AND a.backend_start = c.started JOIN store_leases AS l ON l.connection = c.id"
    )


async def test_a_node_that_waits_while_it_takes_agents_up_still_buries_others(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "TICK", 0.05)
    (one, _), (other, its_db) = await join("one"), await join("other")
    waits, tries = asyncio.Event(), 0

    async def taken(agents: Collection[str]) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            await waits.wait()
            raise StateError("the database is busy")

    async with asyncio.timeout(120):
        while other.me not in one.nodes:
            await asyncio.sleep(0.01)
        one.taken, one.agents = taken, lambda: [f"a{number}" for number in range(20)]
        one.changed.set()
        while not tries:
            await asyncio.sleep(0.01)
        other.fenced.set()
        await its_db.close()
        one.note_link(other.me, refused=True)
        while other.me in one.nodes:
            await asyncio.sleep(0.01)
        waits.set()
        while tries < 2:  # what failed is taken up again
            await asyncio.sleep(0.01)


async def test_inputs_are_found_that_nobody_told_of(join: Join) -> None:
    one, db = await join("one")
    async with asyncio.timeout(120):
        while not one.holds("main"):
            await asyncio.sleep(0.01)
        assert not one.waiting.is_set()
        await db.write(
            "INSERT INTO inputs (run_id, session_key, state, request, accepted_at, updated_at, owner) "
            "VALUES ('r1', 'agent:main:main', 'queued', '{}', 0, 0, '')"
        )
        await one.waiting.wait()
