"""SQLite implementation of `Database`: WAL mode, one writer at a time.

A round trip to a thread costs several times as much as a small statement, so small ones run on connections of the event
loop's thread. Threads are for what may take long: large reads and writes, waiting for another process that writes, and
checkpointing the write-ahead log.
"""

import asyncio
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from functools import cached_property, lru_cache, partial
from operator import itemgetter
from pathlib import Path
from typing import Literal, TypeVar, TypeVarTuple

import apsw
from msgspec import Struct

from openclaw.core.errors import StateError
from openclaw.core.progress import Report, no_report, reported
from openclaw.storage.atomic import private_directory
from openclaw.storage.database import Lease, LeaseLost, Migration, Params, Row, TransactionNested, TransactionOver, each

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
BUSY_TIMEOUT_MS = 10_000
PRAGMAS = ("synchronous = NORMAL", "foreign_keys = ON", "cache_size = -500")
"""At most half a megabyte of pages: what a connection drops is still in the system's own cache of files."""
READER_PRAGMA = "cache_size = -100"
"""What is read beside the writer is mostly read once."""
LARGEST_HERE = 256 * 1024
"""Characters of parameters up to which a write runs on the loop's thread."""
LONGEST_LOG = 1000
"""Pages of the write-ahead log at which it is checkpointed."""
SOON = 0.02
"""Seconds that a write waits for another to go with."""
_TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+(\w+)")

log = logging.getLogger(__name__)


Admit = Callable[[int, int], None]
"""Called before a migration with the old and new version; raises to prevent it."""


def connect(
    path: Path, migrations: Sequence[Migration], admit: Admit | None = None, report: Report = no_report
) -> apsw.Connection:
    """A writable connection to a migrated database; refuses a file that a newer program wrote."""
    try:
        private_directory(path.parent)
        # Created here and not by SQLite, so that the file and the log beside it are never readable by others.
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
            _prepare(connection)
            if (found := _version(connection)) < known:
                if found and admit is not None:
                    admit(found, known)
                _migrate(connection, path, migrations, report if found else no_report)
        except BaseException:
            connection.close()
            raise
    except apsw.Error as error:
        raise _to_state_error(error, path) from error
    return connection


def _prepare(connection: apsw.Connection) -> None:
    """Sets what holds for every connection that writes."""
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").fetchall()
    _keep_plans(connection)


def _keep_plans(connection: apsw.Connection) -> None:
    """Makes a plan hold whatever is bound: otherwise SQLite plans each statement anew for each key it is asked with."""
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def _use_wal(connection: apsw.Connection) -> None:
    """Switches to the write-ahead log, which several processes may do to a new file at once."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except apsw.BusyError:  # SQLite does not wait here by itself
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrate(connection: apsw.Connection, path: Path, migrations: Sequence[Migration], report: Report) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated it while we waited for the lock.
        _refuse_newer(connection, path, migrations[-1].version)
        found = _version(connection)
        missing = [migration for migration in migrations if migration.version > found]
        for migration in reported(missing, "bringing the database up to date", report):
            for statement in migration.statements:
                connection.execute(statement, can_cache=False)
            connection.execute(f"PRAGMA user_version = {migration.version}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA shrink_memory")  # nothing of it is needed again
    except BaseException:
        _roll_back(connection)
        raise


def _is_earlier(path: Path, migrations: Sequence[Migration]) -> bool:
    """Whether an earlier program made the database, so that opening it may take long."""
    if not path.exists():
        return False
    try:
        with closing(apsw.Connection(str(path))) as connection:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            return bool(migrations) and 0 < _version(connection) < migrations[-1].version
    except apsw.Error as error:
        raise _to_state_error(error, path) from error


def _refuse_newer(connection: apsw.Connection, path: Path, known: int) -> None:
    found = _version(connection)
    if found > known:
        raise StateError(
            f"{path} was written by a newer OpenClaw (schema {found}; this program knows {known}). "
            "Upgrade this program, or set OPENCLAW_STATE_DIR to another directory."
        )


def _version(connection: apsw.Connection) -> int:
    return int(str(connection.pragma("user_version")))


def _to_state_error(error: apsw.Error, path: Path) -> StateError:
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
    cursor = connection.execute(sql, params and dict(params))
    found: list[Row] = []
    names: tuple[str, ...] | None = None
    for values in cursor:
        names = names or tuple(map(itemgetter(0), cursor.get_description()))
        found.append(dict(zip(names, values, strict=True)))
    return found


def _write(connection: apsw.Connection, *statements: tuple[str, Params | None]) -> tuple[int, ...]:
    """Runs statements, several in a transaction of their own; gives the rows each changed."""
    grouped = len(statements) > 1
    if grouped:
        connection.execute("BEGIN IMMEDIATE")
    try:
        changed = []
        before = connection.total_changes()
        for sql, params in statements:
            connection.execute(sql, params and dict(params)).fetchall()
            after = connection.total_changes()
            changed.append(after - before)
            before = after
        if grouped:
            connection.execute("COMMIT")
    except BaseException:
        if grouped:
            _roll_back(connection)
        raise
    return tuple(changed)


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


class _Transaction(Struct):
    db: "Sqlite"
    connection: apsw.Connection | None
    """None once the transaction is over."""

    async def read(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        return await self.db.on(self.connection, _read, sql, params)

    async def write(self, sql: str, params: Params | None = None) -> int:
        return (await self.db.on(self.connection, _write, (sql, params)))[0]


class _WriteLock(asyncio.Lock):
    """The write lock; raises in a task that would wait for itself."""

    _owner: asyncio.Task[object] | None = None

    @property
    def is_mine(self) -> bool:
        """Whether this task has it."""
        return self.locked() and self._owner is asyncio.current_task()

    async def acquire(self) -> Literal[True]:
        me = asyncio.current_task()
        if self.locked() and self._owner is me:
            raise TransactionNested
        await super().acquire()
        self._owner = me
        return True


class _LocalLease:
    """A lease inside one process: the file is of one machine, and rows in work name their process."""

    def __init__(self, leases: dict[str, "_LocalLease"], name: str, epoch: int) -> None:
        self.name = name
        self.epoch = epoch
        self.lost = asyncio.Event()
        self._leases = leases

    async def release(self) -> None:
        if not self.lost.is_set():
            self.lost.set()
            del self._leases[self.name]


def _check(lease: Lease) -> None:
    if lease.lost.is_set():
        raise LeaseLost(f"lease lost: {lease.name}; nothing was written")


class Sqlite:
    """`Database` over one file. Open it with `Sqlite.open`; `close` ends its threads."""

    owners = None

    def __init__(self, path: Path, writer: apsw.Connection, writing: ThreadPoolExecutor) -> None:
        """`writer` belongs to the loop's thread from now on. It never waits and never checkpoints."""
        self.path = path
        self._loop_writer = writer
        writer.set_busy_timeout(0)
        writer.set_wal_hook(self._on_commit)
        self._writing = writing
        self._reading = ThreadPoolExecutor(1, "db-read")
        self._reader: apsw.Connection | None = None
        self._write_lock = _WriteLock()
        self._listeners: dict[str, set[asyncio.Queue[str]]] = {}
        self._checkpointing: asyncio.Task[None] | None = None
        self._later: list[tuple[str, Params | None]] = []
        self._later_tables: set[str] = set()
        self._later_timer: asyncio.TimerHandle | None = None
        self._later_task: asyncio.Task[None] | None = None
        self._leases: dict[str, _LocalLease] = {}
        self._epochs: dict[str, int] = {}

    @cached_property
    def _loop_reader(self) -> apsw.Connection:
        """Reads on the loop's thread while a transaction may be open in `_loop_writer`."""
        return _connect_reader(self.path)

    @cached_property
    def _writer(self) -> apsw.Connection:
        """Writes in a thread what is large, and what has to wait for another process."""
        try:
            connection = apsw.Connection(str(self.path))
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            _prepare(connection)
        except apsw.Error as error:
            raise _to_state_error(error, self.path) from error
        return connection

    @classmethod
    async def open(
        cls, path: Path, migrations: Sequence[Migration], admit: Admit | None = None, report: Report = no_report
    ) -> "Sqlite":
        writing = ThreadPoolExecutor(1, "db-write")
        try:
            if _is_earlier(path, migrations):
                bring_up_to_date = partial(connect, path, migrations, admit, report)
                (await asyncio.get_running_loop().run_in_executor(writing, bring_up_to_date)).close()
            writer = connect(path, migrations, admit)
        except BaseException:
            writing.shutdown()
            raise
        return cls(path, writer, writing)

    async def read(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        if self._later and any(table in sql for table in self._later_tables):
            await self._write_before_reading()
        return await self._run_in(self._reading, self._read_in_thread, sql, params)

    def _read_in_thread(self, sql: str, params: Params | None) -> Sequence[Row]:
        if self._reader is None:
            self._reader = _connect_reader(self.path)
        return _read(self._reader, sql, params)

    async def look(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        if self._later and any(table in sql for table in self._later_tables):
            await self._write_before_reading()
        try:
            try:
                # The latest writes are in the writer's cache; another connection would read them from the file again.
                return _read(self._loop_reader if self._write_lock.locked() else self._loop_writer, sql, params)
            except apsw.BusyError:
                return _read(self._loop_reader, sql, params)
        except apsw.Error as error:
            raise _to_state_error(error, self.path) from error

    async def write(self, sql: str, params: Params | None = None, *, lease: Lease | None = None) -> int:
        return (await self.write_all((sql, params), lease=lease))[0]

    async def write_all(self, *statements: tuple[str, Params | None], lease: Lease | None = None) -> tuple[int, ...]:
        if lease is not None:
            _check(lease)
        async with self._write_lock:
            later, self._later, self._later_tables = self._later, [], set()
            if self._later_timer is not None:
                self._later_timer.cancel()
                self._later_timer = None
            both = (*later, *statements)
            size = 0
            for _, params in both:
                for value in params.values() if params else ():
                    if type(value) is str or type(value) is bytes:
                        size += len(value)
            connection = self._loop_writer if size <= LARGEST_HERE else self._writer
            try:
                return (await self.on(connection, _write, *both))[len(later) :]
            except StateError:
                if not later or not statements:
                    raise
            # What goes wrong with one of them must not take the others with it.
            try:
                await self.on(connection, _write, *later)
            except StateError as error:
                log.error("%d changes were lost: %s", len(later), error.message)
            return await self.on(connection, _write, *statements)

    async def soon(self, *statements: tuple[str, Params | None]) -> None:
        self._later += statements
        for sql, _ in statements:
            self._later_tables |= _tables_in(sql)
        if self._later_timer is None:
            self._later_timer = asyncio.get_running_loop().call_later(SOON, self._write_later)

    async def _write_before_reading(self) -> None:
        if not self._write_lock.is_mine:
            await self.write_all()

    def _write_later(self) -> None:
        async def write() -> None:
            try:
                await self.write_all()
            except StateError as error:
                log.error("changes were lost: %s", error.message)

        self._later_timer = None
        self._later_task = asyncio.get_running_loop().create_task(write(), name="late writes")

    async def sync(self) -> None:
        if self._later:
            await self.write_all()
        await asyncio.to_thread(_sync_log, self.path)

    @asynccontextmanager
    async def transaction(self, on: str = "", *, lease: Lease | None = None) -> AsyncIterator[_Transaction]:
        """One at a time, whatever it is on: the file has one writer."""
        if self._later and not self._write_lock.is_mine:
            await self.write_all()
        async with self._write_lock:
            if lease is not None:
                _check(lease)
            try:
                await self.on(self._loop_writer, _write, ("BEGIN IMMEDIATE", None))
            except asyncio.CancelledError:
                # The thread waits on for the file, and would begin what nobody ends.
                self._writing.submit(_roll_back, self._writer)
                raise
            connection = self._loop_writer if self._loop_writer.in_transaction else self._writer
            transaction = _Transaction(self, connection)
            try:
                yield transaction
                await self.on(connection, _write, ("COMMIT", None))
            except BaseException:
                await self.on(connection, _roll_back)
                raise
            finally:
                transaction.connection = None

    async def lease(self, name: str, holder: str = "") -> Lease | None:
        if name in self._leases:
            return None
        self._epochs[name] = self._epochs.get(name, 0) + 1
        lease = self._leases[name] = _LocalLease(self._leases, name, self._epochs[name])
        return lease

    async def notify(self, topic: str, payload: str = "") -> None:
        for queue in self._listeners.get(topic, ()):
            queue.put_nowait(payload)

    @asynccontextmanager
    async def listen(self, topic: str) -> AsyncIterator[AsyncIterator[str]]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._listeners.setdefault(topic, set()).add(queue)
        try:
            yield each(queue)
        finally:
            self._listeners[topic].discard(queue)
            if not self._listeners[topic]:
                del self._listeners[topic]

    async def close(self) -> None:
        if self._later_task is not None:
            await asyncio.wait({self._later_task})
        if self._later:
            await self.write_all()
        if self._checkpointing is not None:
            await asyncio.wait({self._checkpointing})
        if self._reader is not None:
            await self._run_in(self._reading, self._reader.close)
        self._reading.shutdown()
        for name in ("_loop_reader", "_writer"):
            if name in self.__dict__:  # created at its first use
                self.__dict__[name].close()
        # The last connection to close checkpoints the write-ahead log, which may take long.
        await self._run_in(self._writing, self._loop_writer.close)
        self._writing.shutdown()

    async def on(self, connection: apsw.Connection | None, work: Callable[[apsw.Connection, *Ts], T], *args: *Ts) -> T:
        """Runs the atomic `work` on a writing connection, to its end even when the caller is cancelled.

        What finds another process writing waits in the writer thread, so that the loop never blocks.
        """
        if connection is None:
            raise TransactionOver
        if connection is self._loop_writer:
            try:
                return work(connection, *args)
            except apsw.Error as error:
                if not isinstance(error, apsw.BusyError) or connection.in_transaction:
                    raise _to_state_error(error, self.path) from error
        return await asyncio.shield(self._run_in(self._writing, work, self._writer, *args))

    async def _run_in(self, thread: ThreadPoolExecutor, work: Callable[[*Ts], T], *args: *Ts) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, work, *args)
        except apsw.Error as error:
            raise _to_state_error(error, self.path) from error

    def _on_commit(self, connection: apsw.Connection, name: str, pages: int) -> int:
        """WAL hook: starts a checkpoint when the log is long; a checkpoint that fails must not fail the write."""
        if pages >= LONGEST_LOG and (self._checkpointing is None or self._checkpointing.done()):
            self._checkpointing = asyncio.get_running_loop().create_task(self._checkpoint(), name="write-ahead log")
        return apsw.SQLITE_OK

    async def _checkpoint(self) -> None:
        # Under the write lock, so that nothing is appended meanwhile and the log restarts.
        with suppress(StateError):
            async with self._write_lock:
                await self.on(self._writer, apsw.Connection.wal_checkpoint)


@lru_cache(maxsize=512)
def _tables_in(sql: str) -> frozenset[str]:
    """The tables that a write names."""
    return frozenset(_TABLE.findall(sql))


def _sync_log(path: Path) -> None:
    """Puts the write-ahead log on the disk; a checkpoint that came before has done that itself."""
    with suppress(FileNotFoundError):
        descriptor = os.open(f"{path}-wal", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _connect_reader(path: Path) -> apsw.Connection:
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.execute(f"PRAGMA {READER_PRAGMA}").fetchall()
        _keep_plans(connection)
    except apsw.Error as error:
        raise _to_state_error(error, path) from error
    return connection
