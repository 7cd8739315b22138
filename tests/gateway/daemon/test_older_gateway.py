"""A newer program beside a gateway that still runs the older one: it looks, and leaves the database as it is."""

import asyncio

import apsw
import pytest

from openclaw.gateway.running import hold_gateway_lock
from openclaw.storage.locks import SharedLock
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.storage.sqlite import Sqlite
from openclaw.testing import TemporaryHome
from tests.commandline import typed


@pytest.fixture
def older(openclaw_home: TemporaryHome) -> TemporaryHome:
    """A home whose database is one migration behind."""

    async def make() -> None:
        await (await Sqlite.open(openclaw_home.state / "state" / "openclaw-py.sqlite", STATE_MIGRATIONS[:-1])).close()

    asyncio.run(make())
    return openclaw_home


def schema(home: TemporaryHome) -> int:
    connection = apsw.Connection(str(home.state / "state" / "openclaw-py.sqlite"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(str(connection.pragma("user_version")))
    finally:
        connection.close()


@pytest.mark.parametrize(
    "words", [("sessions", "list"), ("status",), ("cost",), ("prompt", "show"), ("cron", "list"), ("doctor",)]
)
def test_looking_does_not_migrate_under_a_running_older_gateway(older: TemporaryHome, words: tuple[str, ...]) -> None:
    with hold_gateway_lock(older.state, "0.0.1"):
        typed(older)(*words)
    assert schema(older) == STATE_MIGRATIONS[-2].version


def test_a_command_that_needs_the_database_says_what_to_do(older: TemporaryHome) -> None:
    with hold_gateway_lock(older.state, "0.0.1"):
        done = typed(older)("sessions", "list")
    assert done.code != 0
    assert "openclaw gateway stop" in done.err and "0.0.1" in done.err
    assert "Traceback" not in done.err


def test_nor_does_it_change_under_a_command_that_has_it_open(older: TemporaryHome) -> None:
    users = SharedLock(older.state / "state" / "openclaw-py.sqlite.users")
    try:
        users.take()
        users.share()
        done = typed(older)("sessions", "list")
        assert done.code != 0 and "End what is open there" in done.err
        assert schema(older) == STATE_MIGRATIONS[-2].version
    finally:
        users.release()
    assert typed(older)("sessions", "list").code == 0
    assert schema(older) == STATE_MIGRATIONS[-1].version


def test_the_doctor_names_an_older_gateway(older: TemporaryHome) -> None:
    with hold_gateway_lock(older.state, "0.0.1"):
        done = typed(older)("doctor")
    assert "is older than this program" in done.out


def test_without_a_gateway_the_database_is_brought_up_to_date(older: TemporaryHome) -> None:
    done = typed(older)("sessions", "list")
    assert done.code == 0, done.err
    assert schema(older) == STATE_MIGRATIONS[-1].version
