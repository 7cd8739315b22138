"""The memory index of one agent: search, sync and status. One object per agent and process."""

import asyncio
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import msgspec
from msgspec import Struct

from openclaw.core.clock import Clock
from openclaw.core.embedder import Traits
from openclaw.core.errors import OpenClawError, ProviderError
from openclaw.memory import rank
from openclaw.memory.database import FOUND, IndexFile, TextHit, UnusableIndex
from openclaw.memory.embedders.pool import EmbedderPool, is_compatible
from openclaw.memory.indexer import Indexer
from openclaw.memory.settings import MemorySearchSettings
from openclaw.memory.sync import EVERYTHING, Progress, SyncPlan, SyncReport, SyncRequest
from openclaw.memory.terms import Term, query_terms
from openclaw.memory.writer import KEYWORDS_ONLY

P = ParamSpec("P")
T = TypeVar("T")
WORDS_WAIT, FIRST_WAIT = 1.0, 15.0
"""Seconds a search waits for the keyword sync: with a usable index, and with an empty one."""
VECTORS_WAIT, FEW = 3.0, 64
"""Seconds a search waits for missing vectors, when they are at most `FEW`."""
RESCAN_AFTER = 2.0
"""Searches this close together share one scan of the files."""
LONGEST_QUERY = 2_000
UNFINISHED = "the vectors are still being made"


class SearchAnswer(Struct, frozen=True, kw_only=True):
    """The results of a search, how it was made and how complete it is."""

    results: tuple[rank.RankedHit, ...] = ()
    provider: str = "none"
    model: str = KEYWORDS_ONLY
    mode: str = "keyword"
    terms: tuple[rank.WeightedTerm, ...] = ()
    fallback: str = ""
    reason: str = ""
    """Why vectors were not used, when they were not."""
    waiting: int = 0
    """Chunks that have no vector yet."""
    syncing: bool = False
    """The index is being brought up to date; something written just now may be missing."""
    withheld: int = 0
    """Results the asking session may not see."""
    synced_at: int = 0
    unavailable: bool = False


class _Question(Struct, frozen=True, kw_only=True):
    """A query as a vector; else the reason why there is none, and whether that fails the search."""

    vector: "array[float] | None" = None
    nearest: Sequence[int] | None = None
    """Keys of the vectors nearest to it, when the embedder has found them."""
    reason: str = ""
    strict: bool = False


class _WordHits(Struct, frozen=True):
    terms: tuple[rank.WeightedTerm, ...]
    hits: dict[int, TextHit]


class IndexStatus(Struct, frozen=True, kw_only=True):
    """Size, embedder and problems of an index."""

    path: Path
    provider: str
    model: str
    reason: str
    files: int
    pieces: int
    waiting: int
    vectors: str
    """Why the vector extension is not used; empty when it is."""
    bytes: int
    synced_at: int
    problems: tuple[str, ...] = ()
    outdated: bool = False
    """Made with other settings; it will be rebuilt."""


class MemoryIndex:
    """Searches and syncs one agent's memory. Close it: it owns two threads, an index file and an embedder."""

    def __init__(
        self,
        path: Path,
        plan: SyncPlan,
        settings: MemorySearchSettings,
        clock: Clock,
        means: EmbedderPool,
        warn: Callable[[str], None],
    ) -> None:
        self.path = path
        self.settings = settings
        self.means = means
        self.watched = False
        """Whether a watcher calls `changed` for every change; otherwise every search scans the files."""
        self._clock = clock
        self._warn = warn
        self._indexer = Indexer(path, plan, settings, clock, means, warn, self._look_again)
        self._files = self._indexer.files
        self._reader: IndexFile | None = None
        self._thread = ThreadPoolExecutor(1, "memory-read")
        self._task: asyncio.Task[SyncReport] | None = None
        self._words = asyncio.Event()
        self._dirty = True
        self._queued = 0
        """How many syncs wait for the running one."""
        self._looked = 0.0

    @property
    def plan(self) -> SyncPlan:
        """What is indexed, and how."""
        return self._indexer.plan

    async def close(self) -> None:
        """Stops the background sync; what it has written stays."""
        self._indexer.stop()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, OpenClawError):
                await self._task
        await self.means.close()
        if self._reader is not None:
            await self._read(IndexFile.close)
            self._reader = None
        self._thread.shutdown()
        self._indexer.close()

    def changed(self) -> None:
        """Tells that a note was written: the next search scans the files again."""
        self._dirty = True

    async def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        sources: tuple[str, ...] | None = None,
        visible: Callable[[rank.IndexedChunk], bool] | None = None,
    ) -> SearchAnswer:
        """Searches the notes for `query`, best first."""
        asked = " ".join(query.split())[:LONGEST_QUERY]
        if not asked:
            return SearchAnswer(provider=self.means.choice.provider)
        if self.settings.sync.on_search:
            await self._catch_up()
        most = max_results or self.settings.query.max_results
        least = self.settings.query.min_score if min_score is None else min_score
        hybrid = self.settings.query.hybrid
        count = rank.candidates(most, hybrid.candidate_multiplier)
        words: _WordHits | None = None
        if hybrid.enabled and self.means.vectors() is not None:
            # The embedder is another process or machine: while it works, the words are searched.
            question, words = await asyncio.gather(
                self._question(asked, count), self._read(_word_hits, query_terms(asked))
            )
        else:
            question = await self._question(asked, count)
        if question.strict:
            return SearchAnswer(provider=self.means.choice.provider, reason=question.reason, unavailable=True)
        meant = question.vector is not None
        vectors = self.means.vectors() if meant else None
        terms, found, waiting, synced = await self._read(
            _candidates,
            question,
            words or (() if meant else query_terms(asked)),
            vectors.traits if vectors else Traits(),
            count,
            [source for source in self.plan.sources if sources is None or source in sources],
        )
        kept = [item for item in found if visible is None or visible(item.piece)]
        return SearchAnswer(
            results=tuple(self._ranked(kept, meant, least, most)),
            provider=self.means.choice.provider if vectors else "none",
            model=vectors.model if vectors else KEYWORDS_ONLY,
            mode="keyword" if vectors is None else "hybrid" if hybrid.enabled else "vector",
            terms=terms,
            fallback=self.means.fell_back,
            reason=question.reason,
            waiting=waiting if self.means.choice.endpoint else 0,
            syncing=self._task is not None and not self._task.done(),
            withheld=len(found) - len(kept),
            synced_at=synced,
        )

    def _ranked(self, found: list[rank.RankedHit], meant: bool, least: float, most: int) -> list[rank.RankedHit]:
        hybrid = self.settings.query.hybrid
        weights = (hybrid.vector_weight, hybrid.text_weight)
        if not meant:
            weights = (0.0, 1.0)
        elif not hybrid.enabled:
            weights = (1.0, 0.0)
        scored = [msgspec.structs.replace(item, relevance=rank.relevance(item, *weights)) for item in found]
        aging = hybrid.temporal_decay
        half_life = aging.half_life_days if aging.enabled else None
        ordered = rank.apply_decay(scored, self._clock.now(), half_life, aging.max_share)
        passed = [item for item in ordered if item.relevance >= least]
        if meant and not hybrid.enabled:
            return passed[:most]
        if meant and hybrid.mmr.enabled:
            passed = rank.diversify(passed, hybrid.mmr.weight, most)
        return rank.select_hits([*passed, *(item for item in ordered if item.relevance < least)], least, most)

    async def _question(self, asked: str, count: int) -> _Question:
        vectors = self.means.vectors()
        choice = self.means.choice
        if vectors is None:
            return _Question(reason=choice.why, strict=choice.strict)
        await self.means.prepared()
        choice = self.means.choice
        vectors = self.means.vectors()
        if vectors is None or (why := self.means.resting()):
            return _Question(reason=choice.why or why, strict=choice.strict)
        wanted = self.means.identity(self.plan)
        known = await self._read(IndexFile.identity)
        ready = known is not None and known.vector_dims and known.same_model(wanted)
        if not ready and not choice.strict:
            empty = await self._read(IndexFile.empty)
            return _Question(reason="there are no notes yet" if empty else UNFINISHED)
        try:
            if known is None or not ready:
                # A provider that was named is asked in any case: when it fails, that is why there are no vectors.
                await vectors.query(asked, 0)
                return _Question(reason=UNFINISHED)
            vector, nearest = await vectors.query(asked, known.vector_dims, str(self.path), count * FOUND)
            return _Question(vector=vector, nearest=nearest)
        except ProviderError as error:
            if self.means.failed(error):
                self._dirty = True
                return _Question(reason=f"{error.message}; {self.means.choice.provider} takes over")
            return _Question(reason=error.message, strict=choice.strict)

    async def sync(
        self,
        *,
        force: bool = False,
        grown: bool = False,
        only: frozenset[str] = frozenset(),
        progress: Progress | None = None,
    ) -> SyncReport:
        """Updates the index, terms and vectors; waits for a running sync first. See `SyncRequest`."""
        if self._task is not None and not self._task.done():
            self._queued += 1
            try:
                with suppress(OpenClawError):
                    await asyncio.shield(self._task)
            finally:
                self._queued -= 1
        return await asyncio.shield(self._start(SyncRequest(force=force, grown=grown, only=only, progress=progress)))

    def sync_aside(self) -> None:
        """Starts a sync in the background, unless one runs."""
        if self._task is None or self._task.done():
            self._start(EVERYTHING)

    async def _catch_up(self) -> None:
        """Starts a sync before a search, and waits for it within the limits above."""
        idle = self._task is None or self._task.done()
        fresh = self.watched or self._clock.now() - self._looked < RESCAN_AFTER
        if idle and fresh and not self._dirty:
            return
        if not idle and (self._dirty or self._queued or not fresh):
            # The running sync scanned before this change; it scans again between two batches, or another sync follows.
            self._dirty = True
            self._words.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(WORDS_WAIT):
                    await self._words.wait()
        if idle or self._dirty:
            self.sync_aside()
        assert self._task is not None
        empty = await self._read(IndexFile.empty)
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_WAIT if empty else WORDS_WAIT):
                await self._words.wait()
        waiting = await self._read(IndexFile.waiting)
        if 0 < waiting <= FEW and self.means.choice.endpoint is not None:
            await asyncio.wait({self._task}, timeout=VECTORS_WAIT)

    def _start(self, request: SyncRequest) -> asyncio.Task[SyncReport]:
        self._words = asyncio.Event()
        if not request.only:
            self._dirty = False
            self._looked = self._clock.now()
        self._task = asyncio.create_task(self._indexer.run(self._words, request), name="memory:sync")
        self._task.add_done_callback(self._ended)
        return self._task

    def _look_again(self) -> bool:
        """Whether something changed since the running sync scanned, which then scans again."""
        changed, self._dirty = self._dirty, False
        if changed:
            self._looked = self._clock.now()
        return changed

    def _ended(self, task: asyncio.Task[SyncReport]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None or task.result().stopped:
            self._dirty = True
        if isinstance(error, OpenClawError):
            self._warn(f"memory: {error.message}")

    async def hashes(self, path: str, start: int, end: int) -> frozenset[str]:
        """The digests of the chunks that hold these lines of a note."""
        sql = "SELECT hash FROM chunks WHERE path = ? AND source = 'memory' AND end_line >= ? AND start_line <= ?"
        rows = await self._read(IndexFile.rows, sql, (path, start, end))
        return frozenset(row[0] for row in rows)

    async def purge(self, path: str, hashes: frozenset[str]) -> None:
        """Deletes chunks of a note from index and cache, and indexes what is left of the note."""
        await self._indexer.purge(path, hashes)
        await self.sync()

    async def reset(self) -> None:
        """Removes the index; the next search makes it anew from the notes."""
        if self._task is not None and not self._task.done():
            with suppress(OpenClawError):
                await asyncio.shield(self._task)
        with self._indexer.locked():
            await asyncio.get_running_loop().run_in_executor(self._thread, self._remove)
        self._dirty = True

    def _remove(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._files.remove(self.path)

    async def status(self) -> IndexStatus:
        """The status of the index, read without changing it."""
        wanted = self.means.identity(self.plan)
        (files, pieces, waiting), known, vector_problem, synced_at = await self._read(
            lambda index: (index.counts(), index.identity(), index.vector_problem, int(index.noted("synced_at") or 0))
        )
        last = self._indexer.last
        return IndexStatus(
            path=self.path,
            provider=known.provider if known else self.means.choice.provider,
            model=known.model if known else wanted.model,
            reason=self.means.choice.why or self.means.resting(),
            files=files,
            pieces=pieces,
            waiting=waiting if known and known.model != KEYWORDS_ONLY else 0,
            vectors=vector_problem,
            bytes=sum(part.stat().st_size for end in ("", "-wal") if (part := Path(f"{self.path}{end}")).exists()),
            synced_at=synced_at,
            problems=last.problems if last else (),
            outdated=known is not None and not is_compatible(known, wanted),
        )

    async def _read(self, work: Callable[Concatenate[IndexFile, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, partial(self._with_index, work, *args, **kwargs)
        )

    def _with_index(self, work: Callable[Concatenate[IndexFile, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs `work` on the index; when the file turns out to be damaged, rebuilds it and runs `work` again."""
        if self._reader is None:
            self._reader = self._files.open(self.path)
        try:
            return work(self._reader, *args, **kwargs)
        except UnusableIndex as error:
            self._reader.close()
            self._reader = None
            self._files.discard(self.path, str(error))
            self._dirty = True
            self._reader = self._files.open(self.path)
            return work(self._reader, *args, **kwargs)


def _word_hits(index: IndexFile, asked: Sequence[Term]) -> _WordHits:
    """The best keyword matches: more than needed, so that vector candidates get a text score too."""
    terms = index.weighed(asked)
    return _WordHits(terms, {hit.number: hit for hit in index.text_hits(terms, rank.MOST_CANDIDATES)})


def _candidates(
    index: IndexFile,
    question: _Question,
    words: _WordHits | Sequence[Term],
    traits: Traits,
    count: int,
    sources: Sequence[str],
) -> tuple[tuple[rank.WeightedTerm, ...], list[rank.RankedHit], int, int]:
    """The candidates of both searches: nearest vectors and best keyword matches."""
    if not isinstance(words, _WordHits):
        words = _word_hits(index, words)
    terms, hits, near = words.terms, words.hits, {}
    if question.vector is not None:
        near = index.vector_hits(question.vector, count, sources, question.nearest)
    pieces = index.pieces(dict.fromkeys((*list(hits)[:count], *near)))
    found = []
    for number, piece in pieces.items():
        if piece.source not in sources:
            continue
        hit, cosine = hits.get(number), near.get(number)
        text, sure = rank.text_score(terms, hit.mask, hit.rank) if hit else (None, False)
        found.append(
            rank.RankedHit(
                piece=piece,
                text=text,
                sure=sure,
                matched=tuple(w.term.text for at, w in enumerate(terms) if hit and hit.mask >> at & 1),
                cosine=cosine,
                vector=rank.vector_score(cosine, traits) if cosine is not None else None,
            )
        )
    waiting = index.waiting() if question.vector is not None else 0
    return terms, found, waiting, int(index.noted("synced_at") or 0)
