"""Where a person was heard last."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.channel import Address
from openclaw.core.keys import parse_session_key
from openclaw.runs.inbox import LastRoutes
from openclaw.storage.database import Database, Params, Row
from openclaw.testing import FakeClock
from tests.databases import open_database

pytestmark = pytest.mark.anyio
MAIN = parse_session_key("agent:main:main")
HERE = Address(channel="telegram", to="7")


class LateDatabase:
    """A database whose first answer comes when it is told."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.asked, self.answers = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    async def read(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        rows = await self._db.read(sql, params)
        if not self.asked.is_set():
            self.asked.set()
            await self.answers.wait()
        return rows


async def test_what_is_heard_while_the_routes_are_read_is_not_forgotten(tmp_path: Path, fake_clock: FakeClock) -> None:
    db = await open_database(tmp_path / "state.sqlite")
    late = LateDatabase(db)
    routes = LastRoutes(late, fake_clock)
    first = asyncio.create_task(routes.of(MAIN))
    await late.asked.wait()
    second = asyncio.create_task(routes.bind(MAIN, HERE))
    while not await db.read("SELECT 1 FROM last_routes"):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    late.answers.set()
    await asyncio.gather(first, second)
    assert await routes.of(MAIN) == HERE
    await db.close()
