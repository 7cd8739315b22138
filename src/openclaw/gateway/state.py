"""Opens the database of a home, and migrates it when nobody else uses it."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from openclaw.core.clock import Clock
from openclaw.core.errors import StateError
from openclaw.core.progress import Report, no_report
from openclaw.gateway.running import running_gateway
from openclaw.process.environment import Home
from openclaw.sessions.index import SessionIndex
from openclaw.storage.database import Database
from openclaw.storage.locks import SharedLock
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.storage.sqlite import Sqlite


@asynccontextmanager
async def open_state(
    home: Home, clock: Clock, report: Report = no_report
) -> AsyncIterator[tuple[Database, SessionIndex]]:
    """The database and the list of sessions, rebuilt from the transcripts when it is new."""
    # A name of our own: an existing home has an openclaw.sqlite that is not ours to touch.
    path = home.state / "state" / "openclaw-py.sqlite"
    users = SharedLock(path.with_name(path.name + ".users"))
    try:
        await asyncio.to_thread(users.take)
        db = await Sqlite.open(path, STATE_MIGRATIONS, partial(_refuse_old_gateway, home.state, users), report)
        try:
            await asyncio.to_thread(users.share)
            index = SessionIndex(db, home.state, clock)
            if not await db.read("SELECT 1 FROM transcripts LIMIT 1"):
                await index.rebuild(report)
            yield db, index
        finally:
            await db.close()
    finally:
        users.release()


def _refuse_old_gateway(state: Path, users: SharedLock, found: int, known: int) -> None:
    """Whoever still runs reads the database as it was when it started: it must not change under it."""
    gateway = running_gateway(state)
    if gateway is None or gateway.pid == os.getpid():
        if not users.alone:
            raise StateError(
                f"another OpenClaw of an earlier version is using the database (schema {found}; this program needs"
                f" {known}). Nothing was changed. End what is open there (openclaw tui, agent, acp) and try again."
            )
        return
    raise StateError(
        f"the running gateway (pid {gateway.pid}, version {gateway.version or 'unknown'}) is older than this program:"
        f" its database has schema {found}, this program needs {known}. Nothing was changed. Run openclaw gateway stop,"
        " then openclaw gateway start, and the gateway is this program too; or use the program it was started with."
    )
