"""The database on one machine: SQLite in WAL mode, one writer, one reader, each in its own thread."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from openclaw.core.errors import StateError
from openclaw.store.db import Migration, Params, Row

T = TypeVar("T")
BUSY_TIMEOUT_MS = 10_000


def connect(path: Path, migrations: Sequence[Migration]) -> apsw.Connection:
    """An open connection to an up-to-date database; refuses a file that a newer program wrote."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        _migrate(connection, path, migrations)
    except OSError as error:
        raise StateError(
            f"cannot create {path.parent}: {error.strerror}. Check the directory's permissions."
        ) from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StateError(
            f"{path} is damaged ({error}). Move it away and start again: sessions are rebuilt from their transcripts."
        ) from error
    except apsw.Error as error:
        raise _translated(error, path) from error
    return connection


def _migrate(connection: apsw.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    known = migrations[-1].version if migrations else 0
    if _version(connection) == known:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = _version(connection)
        if found > known:
            raise StateError(
                f"{path} was written by a newer OpenClaw (schema {found}; this program knows {known}). "
                "Upgrade this program, or set OPENCLAW_STATE_DIR to another directory."
            )
        for migration in migrations:
            if migration.version > found:
                for statement in migration.statements:
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {known}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    path.chmod(0o600)


def _version(connection: apsw.Connection) -> int:
    return int(str(connection.pragma("user_version")))


def _translated(error: apsw.Error, path: Path) -> StateError:
    match error:
        case apsw.FullError():
            return StateError(f"the disk is full: {path} was not changed. Free some space and try again.")
        case apsw.BusyError():
            return StateError(
                f"{path} is busy: another process has been writing to it for {BUSY_TIMEOUT_MS // 1000} s."
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return StateError(f"cannot write {path} ({error}). Check its owner and permissions.")
        case _:
            return StateError(f"{path}: {error}")


def _rows(cursor: apsw.Cursor) -> list[Row]:
    found: list[Row] = []
    names: tuple[str, ...] | None = None
    for values in cursor:
        names = names or tuple(column[0] for column in cursor.description)
        found.append(dict(zip(names, values, strict=True)))
    return found


class _Tx:
    def __init__(self, db: "Sqlite") -> None:
        self._db = db

    async def read(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        return await self._db.on_writer(lambda connection: _rows(connection.execute(sql, dict(params or {}))))

    async def write(self, sql: str, params: Params | None = None) -> int:
        return await self._db.on_writer(lambda connection: _run(connection, sql, params))


def _run(connection: apsw.Connection, sql: str, params: Mapping[str, Any] | None) -> int:
    connection.execute(sql, dict(params or {})).fetchall()
    return connection.changes()


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


class Sqlite:
    """`Database` over one file. Open it with `Sqlite.open`; close it, or the threads live on."""

    def __init__(self, path: Path, writer: apsw.Connection, threads: tuple[ThreadPoolExecutor, ThreadPoolExecutor]):
        self.path = path
        self._writer = writer
        self._reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        self._reader.set_busy_timeout(BUSY_TIMEOUT_MS)
        self._writing, self._reading = threads
        self._turn = asyncio.Lock()
        self._listeners: dict[str, set[asyncio.Queue[str]]] = {}

    @classmethod
    async def open(cls, path: Path, migrations: Sequence[Migration]) -> "Sqlite":
        threads = (ThreadPoolExecutor(1, "db-write"), ThreadPoolExecutor(1, "db-read"))
        try:
            writer = await asyncio.get_running_loop().run_in_executor(threads[0], connect, path, migrations)
            return cls(path, writer, threads)
        except BaseException:
            for thread in threads:
                thread.shutdown()
            raise

    async def read(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        return await self._in(self._reading, lambda: _rows(self._reader.execute(sql, dict(params or {}))))

    async def write(self, sql: str, params: Params | None = None) -> int:
        async with self._turn:
            return await self.on_writer(lambda connection: _run(connection, sql, params))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[_Tx]:
        async with self._turn:
            try:
                await self.on_writer(lambda connection: _run(connection, "BEGIN IMMEDIATE", None))
                yield _Tx(self)
                await self.on_writer(lambda connection: _run(connection, "COMMIT", None))
            except BaseException:
                await self.on_writer(_roll_back)
                raise

    async def notify(self, topic: str, payload: str = "") -> None:
        for queue in self._listeners.get(topic, ()):
            queue.put_nowait(payload)

    async def listen(self, topic: str) -> AsyncIterator[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._listeners.setdefault(topic, set()).add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._listeners[topic].discard(queue)

    async def close(self) -> None:
        # The writer goes last: the last connection to close folds the write-ahead log back into the file.
        for thread, connection in ((self._reading, self._reader), (self._writing, self._writer)):
            await asyncio.get_running_loop().run_in_executor(thread, connection.close)
            thread.shutdown()

    async def on_writer(self, work: Callable[[apsw.Connection], T]) -> T:
        """Runs `work` on the writing connection, to its end even when the caller is cancelled."""
        return await asyncio.shield(self._in(self._writing, lambda: work(self._writer)))

    async def _in(self, thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, work)
        except apsw.Error as error:
            raise _translated(error, self.path) from error
