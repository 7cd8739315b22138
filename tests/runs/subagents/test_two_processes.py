"""Sub-agents of two processes on one database: each follows its own, and knows what the other's may do."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from openclaw.core.keys import parse_session_key
from openclaw.runs.subagents import Subagent, SubagentStore
from openclaw.storage.database import Database
from openclaw.storage.owners import Owner
from openclaw.testing import FakeClock
from tests.databases import open_database

pytestmark = pytest.mark.anyio

KEY = "agent:main:subagent:a"
CHILD = Subagent(run_id="a", current="a", key=KEY, parent="agent:main:main", parent_run="r", depth=2, task="dig")
GONE = Owner(2**30, "long ago")


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    found = await open_database(tmp_path / "state.sqlite")
    yield found
    await found.close()


async def test_a_start_follows_what_the_dead_left_and_nothing_of_the_living(db: Database) -> None:
    clock = FakeClock()
    living, other = SubagentStore(db, clock), SubagentStore(db, clock, GONE)
    await living.put(CHILD)
    await other.load()
    assert other.unsettled() == [] and other.all() == [CHILD]
    await living.release()  # as at its end
    await other.load(take_over=False)
    assert other.unsettled() == []
    await other.load()
    assert other.unsettled() == [CHILD]
    third = SubagentStore(db, clock)
    await third.load()
    assert third.unsettled() == [CHILD]
    await third.change("a", told=True, archived=True)
    assert third.unsettled() == []


async def test_what_a_child_of_another_process_may_do_is_known_before_the_next_turn(db: Database) -> None:
    clock = FakeClock()
    one, other = SubagentStore(db, clock), SubagentStore(db, clock, GONE)
    await other.load()
    await one.put(CHILD)
    assert other.by_key(KEY) is None
    await other.refresh()
    assert other.by_key(KEY) == CHILD and other.depth(parse_session_key(KEY)) == 2
    await one.change("a", tools=("read",))
    await other.refresh()
    known = other.by_key(KEY)
    assert known is not None and known.tools == ("read",)
    assert other.unsettled() == []
