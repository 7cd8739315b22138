"""What a gateway keeps: the database, migrated when nobody else uses it, and the record of crashed starts."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from openclaw.config.settings import StateStoreSettings
from openclaw.core.clock import Clock
from openclaw.core.errors import StateError
from openclaw.core.progress import Report, no_report
from openclaw.gateway.running import running_gateway
from openclaw.process.environment import Home
from openclaw.sessions.index import SessionIndex
from openclaw.storage.atomic import replace_file
from openclaw.storage.database import AWAY_SECONDS, Database
from openclaw.storage.locks import SharedLock
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.storage.sqlite import Sqlite

if TYPE_CHECKING:
    from openclaw.storage.postgres import Postgres


@asynccontextmanager
async def open_state(
    home: Home, clock: Clock, store: StateStoreSettings, report: Report = no_report, *, patient: bool = False
) -> AsyncIterator[tuple[Database, SessionIndex]]:
    """The database and the list of sessions, rebuilt from the transcripts when it is new.

    Somebody `patient` waits for a server that is away as long as work does.
    """
    if store.url:
        patience = AWAY_SECONDS if patient else 0.0
        server = await open_server(store, report, patience)
        from openclaw.gateway.cluster.member import shared_state  # with the driver, which is there now

        try:
            again = partial(open_server, structs.replace(store, pool=2), patience=patience)
            async with shared_state(server, again, home.state, clock, os.environ) as opened:
                yield opened
        finally:
            await server.close()
        return
    async with open_local(home, report) as db:
        index = SessionIndex(db, home.state, clock)
        if not await db.read("SELECT 1 FROM transcripts LIMIT 1"):
            await index.rebuild(report)
        yield db, index


def state_path(home: Home) -> Path:
    # A name of our own: an existing home has an openclaw.sqlite that is not ours to touch.
    return home.state / "state" / "openclaw-py.sqlite"


@asynccontextmanager
async def open_local(home: Home, report: Report = no_report) -> AsyncIterator[Database]:
    """The database of this machine."""
    path = state_path(home)
    users = SharedLock(path.with_name(path.name + ".users"))
    try:
        await asyncio.to_thread(users.take)
        db = await Sqlite.open(path, STATE_MIGRATIONS, partial(_refuse_old_gateway, home.state, users), report)
        try:
            await asyncio.to_thread(users.share)
            yield db
        finally:
            await db.close()
    finally:
        users.release()


async def open_server(store: StateStoreSettings, report: Report = no_report, patience: float = 0.0) -> "Postgres":
    """The database on the server that `store.url` names."""
    try:
        from openclaw.storage.postgres import Postgres
    except ModuleNotFoundError as error:
        raise StateError("store.url needs a driver: pip install 'openclaw-py[postgres]'") from error
    assert store.url is not None
    return await Postgres.open(store.url, STATE_MIGRATIONS, report, store.pool, patience)


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


# Crash loops and safe mode.

CRASHES = 3
WINDOW_MS = 5 * 60_000


class CrashRecord(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is kept between starts."""

    crashed: tuple[int, ...] = ()
    """Times of the starts that crashed, in milliseconds."""
    running: int | None = None
    """Time of the present start; still there after a crash."""


class SafeModeVerdict(Struct, frozen=True):
    """How to start."""

    safe: bool
    crashes: int
    after_crash: bool
    record: CrashRecord


def judge(record: CrashRecord, now: int) -> SafeModeVerdict:
    """Decides how to start at `now` after the crashes on `record`."""
    crashed = (*record.crashed, record.running) if record.running is not None else record.crashed
    recent = tuple(at for at in crashed if 0 <= now - at <= WINDOW_MS)
    return SafeModeVerdict(
        safe=len(recent) >= CRASHES,
        crashes=len(recent),
        after_crash=record.running is not None,
        record=CrashRecord(crashed=recent, running=now),
    )


class CrashHistory:
    """The crash record on disk."""

    def __init__(self, state: Path) -> None:
        self.path = state / "state" / "gateway-starts.json"

    def read(self) -> CrashRecord:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=CrashRecord)
        except (OSError, ValueError):
            return CrashRecord()

    def begin(self) -> SafeModeVerdict:
        """Records a start; call it when everything that a person can get wrong has been checked."""
        verdict = judge(self.read(), round(time.time() * 1000))
        replace_file(self.path, msgspec.json.encode(verdict.record))
        return verdict

    def finish(self) -> None:
        """Records a clean end, which clears earlier crashes."""
        replace_file(self.path, msgspec.json.encode(CrashRecord()))
