"""The database on one machine: SQLite in WAL mode, one writer, one reader, each in its own thread."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import apsw

from openclaw.core.errors import StateError
from openclaw.store.atomic import private_directory
from openclaw.store.db import Migration, Params, Row

T = TypeVar("T")
BUSY_TIMEOUT_MS = 10_000


def connect(path: Path, migrations: Sequence[Migration]) -> apsw.Connection:
    """A connection that may write to an up-to-date database; refuses a file that a newer program wrote."""
    try:
        private_directory(path.parent)
        # Made here and not by SQLite, so that it and the log beside it are never readable to others.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StateError(f"cannot write {path}: {error.strerror}. Check its owner and permissions.") from error
    try:
        connection = apsw.Connection(str(path))
        try:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            known = migrations[-1].version if migrations else 0
            _refuse_newer(connection, path, known)
            _use_wal(connection)
            for pragma in ("synchronous = NORMAL", "foreign_keys = ON"):
                connection.execute(f"PRAGMA {pragma}").fetchall()
            if _version(connection) < known:
                _migrate(connection, path, migrations)
        except BaseException:
            connection.close()
            raise
    except apsw.Error as error:
        raise _translated(error, path) from error
    return connection


def _use_wal(connection: apsw.Connection) -> None:
    """Switches to the write-ahead log, which several processes may be doing to a new file at once."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except apsw.BusyError:  # SQLite does not wait here by itself
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrate(connection: apsw.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been here while we waited for our turn.
        _refuse_newer(connection, path, migrations[-1].version)
        found = _version(connection)
        for migration in migrations:
            if migration.version > found:
                for statement in migration.statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {migration.version}")
        connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise


def _refuse_newer(connection: apsw.Connection, path: Path, known: int) -> None:
    found = _version(connection)
    if found > known:
        raise StateError(
            f"{path} was written by a newer OpenClaw (schema {found}; this program knows {known}). "
            "Upgrade this program, or set OPENCLAW_STATE_DIR to another directory."
        )


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
        case apsw.NotADBError() | apsw.CorruptError():
            return StateError(
                f"{path} is damaged ({error}). Move it away and start again: "
                "sessions are rebuilt from their transcripts."
            )
        case apsw.IOError():
            return StateError(f"cannot read or write {path} ({error}). Nothing was changed; check the disk.")
        case _:
            return StateError(f"{path}: {error}")


def _read(connection: apsw.Connection, sql: str, params: Params | None) -> list[Row]:
    cursor = connection.execute(sql, dict(params or {}))
    found: list[Row] = []
    names: tuple[str, ...] | None = None
    for values in cursor:
        names = names or tuple(column[0] for column in cursor.description)
        found.append(dict(zip(names, values, strict=True)))
    return found


def _write(connection: apsw.Connection, sql: str, params: Params | None) -> int:
    before = connection.total_changes()
    connection.execute(sql, dict(params or {})).fetchall()
    return connection.total_changes() - before


def _write_all(connection: apsw.Connection, statements: Sequence[tuple[str, Params]]) -> tuple[int, ...]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        changed = tuple(_write(connection, sql, params) for sql, params in statements)
        connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise
    return changed


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


class _Transaction:
    def __init__(self, db: "Sqlite") -> None:
        self._db = db
        self.over = False

    async def read(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        return await self._run(lambda connection: _read(connection, sql, params))

    async def write(self, sql: str, params: Params | None = None) -> int:
        return await self._run(lambda connection: _write(connection, sql, params))

    async def _run(self, work: Callable[[apsw.Connection], T]) -> T:
        if self.over:
            raise RuntimeError("this transaction is over: start another one")
        return await self._db.on_writer(work)


class Sqlite:
    """`Database` over one file. Open it with `Sqlite.open`; close it, or the threads live on."""

    def __init__(
        self,
        path: Path,
        writer: apsw.Connection,
        reader: apsw.Connection,
        threads: tuple[ThreadPoolExecutor, ThreadPoolExecutor],
    ) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader
        self._writing, self._reading = threads
        self._looker: apsw.Connection | None = None
        """A reading connection of the loop's own thread."""
        self._turn = asyncio.Lock()
        self._owner: asyncio.Task[object] | None = None
        self._listeners: dict[str, set[asyncio.Queue[str]]] = {}

    @classmethod
    async def open(cls, path: Path, migrations: Sequence[Migration]) -> "Sqlite":
        threads = (ThreadPoolExecutor(1, "db-write"), ThreadPoolExecutor(1, "db-read"))
        loop = asyncio.get_running_loop()
        try:
            writer = await loop.run_in_executor(threads[0], connect, path, migrations)
            reader = await loop.run_in_executor(threads[1], _connect_reader, path)
        except BaseException:
            for thread in threads:
                thread.shutdown()
            raise
        return cls(path, writer, reader, threads)

    async def read(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        return await self._in(self._reading, lambda: _read(self._reader, sql, params))

    async def look(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        # A trip to a thread and back costs more than finding a row by its key; readers never wait for the writer.
        try:
            if self._looker is None:
                self._looker = _connect_reader(self.path)
            return _read(self._looker, sql, params)
        except apsw.Error as error:
            raise _translated(error, self.path) from error

    async def write(self, sql: str, params: Params | None = None) -> int:
        async with self._my_turn():
            return await self.on_writer(lambda connection: _write(connection, sql, params))

    async def write_all(self, *statements: tuple[str, Params]) -> tuple[int, ...]:
        async with self._my_turn():
            return await self.on_writer(lambda connection: _write_all(connection, statements))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[_Transaction]:
        async with self._my_turn():
            transaction = _Transaction(self)
            try:
                await self.on_writer(lambda connection: _write(connection, "BEGIN IMMEDIATE", None))
                yield transaction
                await self.on_writer(lambda connection: _write(connection, "COMMIT", None))
            except BaseException:
                await self.on_writer(_roll_back)
                raise
            finally:
                transaction.over = True

    async def notify(self, topic: str, payload: str = "") -> None:
        for queue in self._listeners.get(topic, ()):
            queue.put_nowait(payload)

    @asynccontextmanager
    async def listen(self, topic: str) -> AsyncIterator[AsyncIterator[str]]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._listeners.setdefault(topic, set()).add(queue)
        try:
            yield _each(queue)
        finally:
            self._listeners[topic].discard(queue)
            if not self._listeners[topic]:
                del self._listeners[topic]

    async def close(self) -> None:
        if self._looker is not None:
            self._looker.close()
        # The writer goes last: the last connection to close folds the write-ahead log back into the file.
        for thread, connection in ((self._reading, self._reader), (self._writing, self._writer)):
            await asyncio.get_running_loop().run_in_executor(thread, connection.close)
            thread.shutdown()

    @asynccontextmanager
    async def _my_turn(self) -> AsyncIterator[None]:
        """One writer at a time; a task that would wait for itself is told so instead."""
        if self._owner is not None and self._owner is asyncio.current_task():
            raise RuntimeError("this task has a transaction open: write through it")
        async with self._turn:
            self._owner = asyncio.current_task()
            try:
                yield
            finally:
                self._owner = None

    async def on_writer(self, work: Callable[[apsw.Connection], T]) -> T:
        """Runs `work` on the writing connection, to its end even when the caller is cancelled."""
        return await asyncio.shield(self._in(self._writing, lambda: work(self._writer)))

    async def _in(self, thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, work)
        except apsw.Error as error:
            raise _translated(error, self.path) from error


def _connect_reader(path: Path) -> apsw.Connection:
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    except apsw.Error as error:
        raise _translated(error, path) from error
    return connection


async def _each(queue: asyncio.Queue[str]) -> AsyncIterator[str]:
    while True:
        yield await queue.get()
