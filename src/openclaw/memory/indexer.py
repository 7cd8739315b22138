"""Updates the index in a thread: terms first, then vectors. With another identity it is built anew in a second file."""

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import ParamSpec, TypeVar

from msgspec import structs

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import ProviderError, StateError
from openclaw.memory.database import IndexFile, IndexIdentity, UnusableIndex
from openclaw.memory.embedders.pool import EmbedderPool, is_compatible
from openclaw.memory.settings import MemorySearchSettings
from openclaw.memory.sync import EVERYTHING, Progress, SyncPlan, SyncReport, SyncRequest, update
from openclaw.memory.writer import IndexWriter
from openclaw.storage.locks import Holder, KernelLock

P = ParamSpec("P")
T = TypeVar("T")
Warn = Callable[[str], None]
EMBEDDED_TOGETHER = 16
BUSY = "another process is bringing the index up to date"


class IndexBusy(StateError):
    """Another process is changing the index."""


class IndexFiles:
    """Opens index files; one thread rebuilds a damaged one while the others wait."""

    def __init__(self, settings: MemorySearchSettings, warn: Warn) -> None:
        self._vector = settings.store.vector
        self._warn = warn
        self._lock = Lock()

    def open(self, path: Path) -> IndexFile:
        """Opens an index; replaces an unusable one, with a warning."""
        with self._lock:
            try:
                return self._opened(path)
            except UnusableIndex as error:
                self._warn(f"the memory index {path} cannot be used ({error}); it is made anew from the notes")
                remove(path)
                return self._opened(path)

    def discard(self, path: Path, why: str) -> None:
        """Removes an index that turned out to be damaged while it was read."""
        with self._lock:
            self._warn(f"the memory index {path} was damaged ({why}); it is made anew from the notes")
            remove(path)

    def remove(self, path: Path) -> None:
        """Removes an index, and the one that is being made to take its place."""
        with self._lock:
            remove(path)
            remove(_building(path))

    def _opened(self, path: Path) -> IndexFile:
        return IndexFile(path, vectors=self._vector.enabled, extension_path=self._vector.extension_path)


def _building(path: Path) -> Path:
    return path.with_name(path.name + ".building")


def remove(path: Path) -> None:
    """Removes an index file and the files that belong to it."""
    try:
        for end in ("-wal", "-shm", "-journal", ""):
            Path(f"{path}{end}").unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"cannot remove {path}: {error.strerror}") from error


class Indexer:
    """Runs the syncs of one index file, in its own thread."""

    def __init__(
        self,
        path: Path,
        plan: SyncPlan,
        settings: MemorySearchSettings,
        clock: Clock,
        means: EmbedderPool,
        warn: Warn,
        look_again: Callable[[], bool],
    ) -> None:
        self.path = path
        self.plan = plan
        self.last: SyncReport | None = None
        self._settings = settings
        self._clock = clock
        self._means = means
        self._warn = warn
        self.files = IndexFiles(settings, warn)
        self._look_again = look_again
        self._thread = ThreadPoolExecutor(1, "memory-write")
        self._stop = Event()

    def stop(self) -> None:
        """Makes the thread end after its current file."""
        self._stop.set()

    def close(self) -> None:
        self._thread.shutdown()

    async def run(self, words: asyncio.Event, request: SyncRequest) -> SyncReport:
        """Syncs what is requested; sets `words` as soon as keyword search is up to date."""
        try:
            with self.locked():
                return await self._run(words, request)
        except IndexBusy:
            return SyncReport(stopped=True, problems=(BUSY,))
        finally:
            words.set()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from changing the index; raises IndexBusy when one does."""
        lock = KernelLock(self.path.with_name(self.path.name + ".lock"))
        if not lock.take(Holder(pid=os.getpid(), created_at=millis(self._clock), owner="memory sync")):
            raise IndexBusy(f"{BUSY}: try again when it is done")
        try:
            yield
        finally:
            lock.release()

    async def purge(self, path: str, hashes: frozenset[str]) -> None:
        """Removes a file from the index and its texts from the cache for good, and overwrites the freed pages."""
        self.plan = structs.replace(self.plan, forgotten=self.plan.forgotten | hashes)
        await self._do(self._purge, path, hashes)

    def _purge(self, path: str, hashes: frozenset[str]) -> None:
        with closing(self.files.open(self.path)) as index:
            identity = index.identity()
            if identity is None:
                return
            index.db.execute("PRAGMA secure_delete = ON").fetchall()
            writer = self._writer(index, identity)
            with index.writing():
                writer.drop(path, "memory", millis(self._clock), remember=False)
                writer.forget(sorted(hashes))
                index.db.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('optimize')")
            index.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    async def _run(self, words: asyncio.Event, request: SyncRequest) -> SyncReport:
        await self._means.prepared()
        wanted = self._means.identity(self.plan)
        writer, fresh = await self._do(self._target, wanted, request.force)
        try:
            report = await self._words(writer, structs.replace(request, only=frozenset()) if fresh else request)
            if self._look_again():
                await self._words(writer)
            words.set()
            whole = not report.stopped and await self._embed(writer, words, request.progress)
            if fresh and whole:
                await self._do(self._publish, writer)
            return report
        finally:
            await self._do(writer.index.close)

    async def _words(self, writer: IndexWriter, request: SyncRequest = EVERYTHING) -> SyncReport:
        self.last = await self._do(update, writer, self.plan, self._stop, millis(self._clock), request)
        return self.last

    async def _embed(self, writer: IndexWriter, words: asyncio.Event, progress: Progress | None) -> bool:
        """Embeds chunks without vectors, batch by batch, each committed at once; True when none is left."""
        vectors = self._means.vectors()
        if not writer.embeds or vectors is None or self._means.resting():
            return not writer.embeds
        total = await self._do(writer.index.waiting)
        done = 0
        while batch := await self._do(writer.waiting, EMBEDDED_TOGETHER):
            try:
                made = await vectors.pieces([text for _, text in batch], writer.identity.vector_dims)
            except ProviderError as error:
                second = self._means.failed(error)
                self._warn(
                    f"memory: {error.message}" + (f"; {self._means.choice.provider} takes over" if second else "")
                )
                return False
            await self._do(writer.set_all_vectors, [number for number, _ in batch], made)
            done += len(batch)
            if progress:
                progress(done, max(total, done), "vectors")
            if self._look_again():
                await self._words(writer)
                words.set()
        return True

    def _target(self, wanted: IndexIdentity, force: bool) -> tuple[IndexWriter, bool]:
        """The writer for the index itself, or for a new one beside it when the identity differs."""
        main = self.files.open(self.path)
        try:
            known = main.identity()
            if known is None and main.empty():
                with main.writing():
                    main.identify(wanted)
                known = wanted
            if known is not None and is_compatible(known, wanted) and not force:
                return self._writer(main, known), False
            beside = self._beside(wanted, main, force)
        except BaseException:
            main.close()
            raise
        main.close()
        return beside, True

    def _beside(self, wanted: IndexIdentity, main: IndexFile, force: bool) -> IndexWriter:
        """The writer for the new index; continues one that was begun with the same identity."""
        path = _building(self.path)
        index = self.files.open(path)
        known = index.identity()
        if known is not None and known.same(wanted) and not force:
            return self._writer(index, known)
        index.close()
        remove(path)
        index = self.files.open(path)
        with index.writing():
            index.identify(wanted)
        writer = self._writer(index, wanted)
        writer.adopt(main)
        return writer

    def _publish(self, writer: IndexWriter) -> None:
        """Copies the new index over the old one; readers see the old one until then."""
        with closing(self.files.open(self.path)) as main, main.db.backup("main", writer.index.db, "main") as copy:
            while not copy.done:
                copy.step(1000)
        writer.index.close()
        remove(writer.index.path)

    def _writer(self, index: IndexFile, identity: IndexIdentity) -> IndexWriter:
        cache = self._settings.cache
        return IndexWriter(index, identity, cache=(cache.max_entries or 1 << 60) if cache.enabled else None)

    async def _do(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *args, **kwargs))
