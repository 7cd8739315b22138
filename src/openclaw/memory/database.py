"""The index file (SQLite): chunks of notes with full-text terms and vectors. It can be rebuilt from the notes."""

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from operator import itemgetter, mul
from pathlib import Path
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from openclaw.core.errors import StateError
from openclaw.memory.rank import IndexedChunk, WeightedTerm, weigh
from openclaw.memory.terms import Term
from openclaw.storage.atomic import private_directory

SCHEMA = 1
META = "memory_index_meta_v1"
BUSY_MS = 10_000
MOST_VECTORS = 64
"""Most vectors of one chunk: one for each window the model reads at once."""
CANDIDATES = 16
"""How many vectors are compared exactly for each chunk wanted: those whose signs differ least from the query's."""
FOUND = 12
"""The same, when the embedder has found them: it ranks them better, so fewer do."""
SAMPLED = 32
"""Of every so many chunks one has its signs in the sample, which tells a search how near is near."""
SAMPLE_ABOVE = 4_096
"""From this many chunks on, a search asks the sample first: sqlite-vec sorts all it is not told to leave out."""
COMMON_BUDGET = 4_000
"""Most postings a query ranks; terms more common than that are only checked in the chunks already found."""
WORST_RANK = -1e-6
"""What FTS5 gives for a word that more than half of the chunks have."""
REMEMBERED_TERMS = 10_000
SCANNED = 256

TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE files (
        path TEXT NOT NULL,
        source TEXT NOT NULL DEFAULT 'memory',
        hash TEXT NOT NULL,
        mtime INTEGER NOT NULL,
        size INTEGER NOT NULL,
        problem TEXT NOT NULL DEFAULT '',
        owner TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (path, source)
    )""",
    """CREATE TABLE chunks (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        path TEXT NOT NULL,
        source TEXT NOT NULL,
        start_line INTEGER NOT NULL,
        end_line INTEGER NOT NULL,
        hash TEXT NOT NULL,
        model TEXT NOT NULL,
        text TEXT NOT NULL,
        label TEXT NOT NULL DEFAULT '',
        embedding BLOB NOT NULL DEFAULT x'',
        placed INTEGER NOT NULL DEFAULT 0,
        updated_at INTEGER NOT NULL
    )""",
    "CREATE INDEX chunks_path ON chunks (path, source)",
    "CREATE INDEX chunks_source ON chunks (source)",
    "CREATE INDEX chunks_hash ON chunks (hash)",
    "CREATE INDEX chunks_waiting ON chunks (number) WHERE embedding = x''",
    "CREATE INDEX chunks_unplaced ON chunks (number) WHERE placed = 0 AND embedding != x''",
    "CREATE INDEX files_problem ON files (path) WHERE problem != ''",
    """CREATE TABLE embedding_cache (
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        provider_key TEXT NOT NULL,
        hash TEXT NOT NULL,
        embedding BLOB NOT NULL,
        dims INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (provider, model, provider_key, hash)
    )""",
    "CREATE INDEX embedding_cache_updated ON embedding_cache (updated_at)",
    """CREATE VIRTUAL TABLE chunks_fts USING fts5(
        text, place, content='', contentless_delete=1,
        tokenize="unicode61 remove_diacritics 0 categories 'L* N* Co M*' tokenchars '_'"
    )""",
    "INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('rank', 'bm25(1.0, 0.5)')",
    "CREATE VIRTUAL TABLE chunks_words USING fts5vocab(chunks_fts, 'row')",
    f"PRAGMA user_version = {SCHEMA}",
)


class IndexIdentity(Struct, frozen=True, rename="camel"):
    """The embedder, sources and chunking an index was made with; data of another identity cannot be mixed in."""

    model: str
    provider: str
    provider_key: str
    sources: tuple[str, ...]
    scope_hash: str
    chunk_tokens: int
    chunk_overlap: int
    vector_dims: int = 0

    def same(self, other: "IndexIdentity") -> bool:
        return msgspec.structs.replace(self, vector_dims=0) == msgspec.structs.replace(other, vector_dims=0)

    def same_model(self, other: "IndexIdentity") -> bool:
        """Whether the vectors are of the same model, whatever the chunking."""
        return (self.provider, self.model, self.provider_key) == (other.provider, other.model, other.provider_key)


class TextHit(Struct, frozen=True):
    """A chunk that contains the terms in the bits of `mask`."""

    number: int
    rank: float
    mask: int


class UnusableIndex(Exception):
    """The file is not an index of ours, or is damaged, and must be rebuilt."""


def extension(path: str | None = None) -> str | None:
    """The path of the vector extension; found without importing its package, which would import numpy."""
    if path:
        return path
    spec = find_spec("sqlite_vec")
    if spec is None or not spec.submodule_search_locations:
        return None
    return str(Path(next(iter(spec.submodule_search_locations))) / "vec0")


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translates database errors: damage to `ForeignIndex`, everything else to `StateError`."""
    try:
        yield
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise UnusableIndex(str(error)) from error
    except apsw.FullError as error:
        raise StateError(f"the disk is full: {path} was not changed. Free some space and try again.") from error
    except apsw.BusyError as error:
        raise StateError(f"{path} is busy: another process is writing to it. Try again in a moment.") from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        raise StateError(f"cannot write {path} ({error}). Check its owner and permissions.") from error
    except apsw.IOError as error:
        raise StateError(f"cannot read or write {path} ({error}). Check the disk.") from error


class IndexFile:
    """One connection to an index. Use it from one thread at a time."""

    def __init__(self, path: Path, *, vectors: bool = True, extension_path: str | None = None) -> None:
        self.path = path
        self._version = -1
        self._total = 0
        self._docs: dict[str, int] = {}
        """How many chunks have a term, as long as nobody changes the index: counting a common one takes a while."""
        self.vector_problem = "" if vectors else "switched off by store.vector.enabled"
        with translate_errors(path):
            try:
                private_directory(path.parent)
                path.touch(mode=0o600)
            except OSError as error:
                raise StateError(f"cannot create {path}: {error.strerror}. Check its permissions.") from error
            self.db = apsw.Connection(str(path))
            try:
                self._prepare(vectors, extension_path)
            except BaseException:
                self.db.close()
                raise

    def _prepare(self, vectors: bool, extension_path: str | None) -> None:
        self.db.set_busy_timeout(BUSY_MS)
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "cache_size = -8000"):
            self.db.execute(f"PRAGMA {pragma}").fetchall()
        if vectors:
            self._load_vectors(extension_path)
        if self.db.pragma("user_version") != SCHEMA:
            with self.writing():
                if self.db.pragma("user_version") != SCHEMA:
                    if self.db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
                        raise UnusableIndex("it has another layout")
                    for statement in TABLES:
                        self.db.execute(statement)
        self.db.register_fts5_function("matched", _matched)

    def _load_vectors(self, given: str | None) -> None:
        file = extension(given)
        if file is None:
            self.vector_problem = "the package sqlite-vec is not installed"
            return
        try:
            self.db.enable_load_extension(True)
            self.db.load_extension(file)
        except apsw.ExtensionLoadingError as error:
            self.vector_problem = f"the vector extension cannot be loaded ({error})"
        finally:
            self.db.enable_load_extension(False)

    def close(self) -> None:
        self.db.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Opens a write transaction."""
        with translate_errors(self.path):
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.db.execute("COMMIT")
            except BaseException:
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                raise

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with translate_errors(self.path):
            return self.db.execute(sql, tuple(values)).fetchall()

    # Metadata and counts.

    def identity(self) -> IndexIdentity | None:
        try:
            return msgspec.json.decode(self.noted(META), type=IndexIdentity)
        except msgspec.DecodeError:
            return None  # there is none yet, or it is one of another version

    def identify(self, identity: IndexIdentity) -> None:
        self.note(META, msgspec.json.encode(identity).decode())

    def note(self, key: str, value: str) -> None:
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def noted(self, key: str) -> str:
        found = self.rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(found[0][0]) if found else ""

    def counts(self) -> tuple[int, int, int]:
        """Numbers of files, chunks, and chunks without a vector."""
        return (
            self.rows("SELECT count(*) FROM files")[0][0],
            self.rows("SELECT count(*) FROM chunks")[0][0],
            self.waiting(),
        )

    def empty(self) -> bool:
        return not self.rows("SELECT 1 FROM files LIMIT 1")

    def file_hash(self, note: str) -> str:
        """The digest of a note when it was indexed; empty when it is not."""
        found = self.rows("SELECT hash FROM files WHERE path = ? AND source = 'memory'", (note,))
        return str(found[0][0]) if found else ""

    def waiting(self) -> int:
        """How many chunks have no vector yet."""
        return int(self.rows("SELECT count(*) FROM chunks WHERE embedding = x''")[0][0])

    # Reading.

    def weighed(self, terms: Sequence[Term]) -> tuple[WeightedTerm, ...]:
        """`terms` with their weights in this index."""
        total = self._counted()
        return weigh(terms, [min(total, self._containing(term.text)) for term in terms], total)

    def _counted(self) -> int:
        """The number of chunks; forgets all counts when another connection has changed the index."""
        version = self.db.pragma("data_version")
        if version != self._version:
            self._docs.clear()
            self._version, self._total = version, self.rows("SELECT count(*) FROM chunks")[0][0]
        return self._total

    def _containing(self, term: str) -> int:
        if term not in self._docs:
            if len(self._docs) >= REMEMBERED_TERMS:
                self._docs.clear()
            found = self.rows("SELECT doc FROM chunks_words WHERE term = ?", (term,))
            self._docs[term] = found[0][0] if found else 0
        return self._docs[term]

    def text_hits(self, terms: Sequence[WeightedTerm], limit: int) -> list[TextHit]:
        """The chunks with the most of `terms`, best first, from every source."""
        present = [at for _, at in sorted((weighed.docs, at) for at, weighed in enumerate(terms) if weighed.docs)]
        if not present:
            return []
        asked, budget = [present[0]], COMMON_BUDGET - terms[present[0]].docs
        for at in present[1:]:
            if terms[at].docs <= budget:
                asked.append(at)
                budget -= terms[at].docs
        total = self._counted()
        telling = [at for at in present if terms[at].docs * 2 < total]
        hits: dict[int, TextHit] = {}
        if budget < 0 and len(telling) > 1:
            # All of them are common: chunks that have every one come first.
            hits = self._ranked(terms, telling, " AND ", limit)
        if len(hits) < limit:
            hits |= {at: hit for at, hit in self._ranked(terms, asked, " OR ", limit).items() if at not in hits}
        masks = {number: hit.mask for number, hit in hits.items()}
        for at in telling:
            if at not in asked and masks:
                for (number,) in self.rows(
                    f"SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? AND rowid IN ({_marks(masks)})",  # noqa: S608
                    (f'"{terms[at].term.text}"', *masks),
                ):
                    masks[number] |= 1 << at
        return [TextHit(number, hit.rank, masks[number]) for number, hit in hits.items()]

    def _ranked(self, terms: Sequence[WeightedTerm], asked: Sequence[int], glue: str, limit: int) -> dict[int, TextHit]:
        """The chunks with any (OR) or all (AND) of the terms `asked`, best first; of too many, the newest."""
        match = glue.join(f'"{terms[at].term.text}"' for at in asked)
        oldest, docs = 0, terms[asked[0]].docs
        if docs > COMMON_BUDGET and docs * 2 >= self._counted():
            # Even the rarest of them is in every other chunk: to rank them FTS5 would count all, and all rank alike.
            newest = "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? ORDER BY rowid DESC LIMIT ?"
            return {row[0]: TextHit(row[0], WORST_RANK, 1 << asked[0]) for row in self.rows(newest, (match, limit))}
        if docs > COMMON_BUDGET:
            newest = "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET ?"
            found = self.rows(newest, (match, COMMON_BUDGET))
            oldest = found[0][0] if found else 0
        found = self.rows(
            "SELECT rowid, rank, matched(chunks_fts) FROM chunks_fts "
            "WHERE chunks_fts MATCH ? AND rowid >= ? ORDER BY rank LIMIT ?",
            (match, oldest, limit),
        )
        return {
            number: TextHit(number, rank, sum(1 << at for bit, at in enumerate(asked) if bits >> bit & 1))
            for number, rank, bits in found
        }

    def vector_hits(
        self, query: "array[float]", limit: int, sources: Sequence[str], nearest: Sequence[int] | None = None
    ) -> dict[int, float]:
        """The chunks nearest to `query` and their cosines; `nearest` has the keys of vectors to compare, if known."""
        if not any(query):
            return {}
        if self.vector_problem or self.noted("sign_table") != str(len(query)):
            found = dict(self._sources(self._scan(query), sources))
        else:
            keys = self._nearest(query, limit * CANDIDATES) if nearest is None else nearest
            found = self._cosines(query, keys, sources)
        return dict(sorted(found.items(), key=itemgetter(1), reverse=True)[:limit])

    def pieces(self, numbers: Iterable[int]) -> dict[int, IndexedChunk]:
        wanted = tuple(numbers)
        found = self.rows(
            f"""SELECT c.number, c.path, c.source, c.start_line, c.end_line, c.text,
                       coalesce(f.mtime, 0) / 1e9, c.label, coalesce(f.owner, '')
                FROM chunks AS c LEFT JOIN files AS f ON f.path = c.path AND f.source = c.source
                WHERE c.number IN ({_marks(wanted)})""",  # noqa: S608
            wanted,
        )
        return {row[0]: IndexedChunk(*row) for row in found}

    def _nearest(self, query: "array[float]", count: int) -> list[int]:
        """The keys of the `count` vectors whose signs differ least from the query's."""
        signs = sign_source(query)
        farthest = len(query)
        if self.rows("SELECT coalesce(max(number), 0) FROM chunks")[0][0] > SAMPLE_ABOVE:
            # Twice as many as needed are expected below this, so that a sample that is off by some still suffices.
            sampled = self.rows(
                "SELECT vec_distance_hamming(vec_bit(signs), vec_quantize_binary(?)) AS distance FROM chunks_sample "
                "ORDER BY distance LIMIT 1 OFFSET ?",
                (signs, max(8, 2 * count // SAMPLED)),
            )
            farthest = int(sampled[0][0]) if sampled else farthest
        near = self.rows(
            "SELECT rowid FROM chunks_signs WHERE signs MATCH vec_quantize_binary(?) AND k = ? AND distance <= ?",
            (signs, min(4096, count), farthest),
        )
        return [row[0] for row in near]

    def _cosines(self, query: "array[float]", keys: Sequence[int], sources: Sequence[str]) -> dict[int, float]:
        """The cosines of the chunks whose vectors have these keys: the best vector counts."""
        blob = pack_vector(query)
        # Sorted, they are read in the order of the file.
        rows = self.rows(
            "SELECT c.number, vec_distance_cosine(substr(c.embedding, 1 + near.value % ?1 * ?2, ?2), ?3) "
            "FROM json_each(?4) AS near JOIN chunks AS c ON c.number = near.value / ?1 "
            "WHERE c.source IN (SELECT value FROM json_each(?5))",
            (MOST_VECTORS, len(blob), blob, _json(sorted(keys)), _json(sources)),
        )
        best: dict[int, float] = {}
        for number, distance in rows:
            if distance is not None:
                best[number] = max(best.get(number, -1.0), 1.0 - distance)
        return best

    def _scan(self, query: "array[float]") -> dict[int, float]:
        """Computes all cosines in Python, for when the extension cannot be loaded."""
        best: dict[int, float] = {}
        dims = len(query)
        last = 0
        while rows := self.rows(
            "SELECT number, embedding FROM chunks WHERE number > ? AND embedding != x'' ORDER BY number LIMIT ?",
            (last, SCANNED),
        ):
            for number, blob in rows:
                for vector in unpack_vectors(blob, dims):
                    best[number] = max(best.get(number, -1.0), sum(map(mul, query, vector)))
            last = rows[-1][0]
        return best

    def _sources(self, found: dict[int, float], sources: Sequence[str]) -> Iterator[tuple[int, float]]:
        numbers = tuple(found)
        for start in range(0, len(numbers), 10_000):
            some = numbers[start : start + 10_000]
            for (number,) in self.rows(
                f"SELECT number FROM chunks WHERE number IN ({_marks(some)}) AND source IN ({_marks(sources)})",  # noqa: S608
                (*some, *sources),
            ):
                yield number, found[number]


def pack_vector(vector: "array[float]") -> bytes:
    """Encodes a vector as little-endian 32-bit floats."""
    if sys.byteorder == "big":
        vector = array("f", vector)
        vector.byteswap()
    return vector.tobytes()


def sign_source(vector: "array[float]") -> bytes:
    """What sqlite-vec takes the signs of: a number of dimensions that fills whole bytes."""
    return pack_vector(vector) + bytes(4 * (-len(vector) % 8))


def unpack_vectors(blob: bytes, dims: int) -> Iterator["array[float]"]:
    """Decodes the vectors of one chunk."""
    for start in range(0, len(blob) - dims * 4 + 1, dims * 4):
        vector = array("f")
        vector.frombytes(blob[start : start + dims * 4])
        if sys.byteorder == "big":
            vector.byteswap()
        yield vector


def _json(values: Sequence[Any]) -> str:
    return msgspec.json.encode(values).decode()


def _marks(values: Iterable[Any]) -> str:
    return ",".join("?" for _ in values)


def _matched(api: apsw.FTS5ExtensionApi, *_: object) -> int:
    """FTS5 function: which phrases of the query a row contains, as bits."""
    return sum(1 << at for at in range(api.phrase_count) if api.phrase_columns(at))
