"""The database of a test: SQLite, or with `pytest --store postgres` a schema of its own on a PostgreSQL server."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from openclaw.core.secret import Secret
from openclaw.storage.database import Database, Migration
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.storage.sqlite import Sqlite
from openclaw.testing import TemporaryHome


async def open_database(path: Path, migrations: Sequence[Migration] = STATE_MIGRATIONS) -> Database:
    """Opens the database that stands for `path`, the same each time."""
    if not TemporaryHome.server:
        return await Sqlite.open(path, migrations)
    from openclaw.storage.postgres import Postgres

    schema = hashlib.blake2b(str(path).encode(), digest_size=10).hexdigest()
    return await Postgres.open(Secret(f"{TemporaryHome.server}?search_path=test_{schema}"), migrations)
