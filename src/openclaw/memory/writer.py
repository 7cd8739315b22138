"""Writes files and vectors to the index. The caller opens the transaction."""

from array import array
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from openclaw.memory.chunk import Chunk, digest
from openclaw.memory.database import (
    MOST_VECTORS,
    SAMPLED,
    SCANNED,
    IndexFile,
    IndexIdentity,
    pack_vector,
    sign_source,
    unpack_vectors,
)
from openclaw.memory.terms import index_terms

KEYWORDS_ONLY = "fts-only"
PRUNED = 100
LOGGED = 1_000
"""How many changes of signs are kept: to read all signs is as quick as to apply more than these."""


class FileState(Struct, frozen=True, kw_only=True):
    """Hash, time and size of a file when it was read."""

    path: str
    source: str
    hash: str = ""
    mtime: int = 0
    size: int = 0
    problem: str = ""
    owner: str = ""


def chunk_id(source: str, path: str, chunk: Chunk, model: str) -> str:
    return digest(f"{source}:{path}:{chunk.start}:{chunk.end}:{chunk.hash}:{model}")


class IndexWriter:
    """Writes to an index of one identity."""

    def __init__(self, index: IndexFile, identity: IndexIdentity, *, cache: int | None) -> None:
        self.index = index
        self.identity = identity
        self._cache = cache
        """Most cached embeddings of removed texts; None for no cache."""
        self._dims = 0

    @property
    def embeds(self) -> bool:
        return self.identity.model != KEYWORDS_ONLY

    def put(self, file: FileState, chunks: Sequence[tuple[Chunk, str]], now: int) -> None:
        """Replaces a file's chunks by `chunks` with their labels; unchanged ones are not touched."""
        run = self.index.db.execute
        model = self.identity.model
        wanted = {chunk_id(file.source, file.path, chunk, model): (chunk, label) for chunk, label in chunks}
        known = self.index.rows(
            "SELECT id, number, label FROM chunks WHERE path = ? AND source = ?", (file.path, file.source)
        )
        kept = {row[0] for row in known if row[0] in wanted and wanted[row[0]][1] == row[2]}
        hashes = {wanted[key][0].hash for key in wanted.keys() - kept} if self.embeds else ()
        vectors = {content: self.embedding(content) for content in hashes}  # before those they come from are removed
        self._remove([row[1] for row in known if row[0] not in kept], now)
        name_terms = index_terms(file.path.removesuffix(".md").replace("/", " "))
        for key in wanted.keys() - kept:
            chunk, label = wanted[key]
            embedding = vectors.get(chunk.hash) or b""
            place, content = (file.path, file.source, chunk.start, chunk.end), (chunk.hash, model, chunk.text, label)
            run(
                "INSERT INTO chunks (id, path, source, start_line, end_line, hash, model, text, label, embedding, "
                "updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (key, *place, *content, embedding, now),
            )
            number = self.index.db.last_insert_rowid()
            terms = index_terms(chunk.text)
            run("INSERT INTO chunks_fts (rowid, text, place) VALUES (?, ?, ?)", (number, terms, name_terms))
            if embedding:
                self._place(number, embedding)
        run(
            "INSERT OR REPLACE INTO files (path, source, hash, mtime, size, problem, owner) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (file.path, file.source, file.hash, file.mtime, file.size, file.problem, file.owner),
        )

    def touch(self, file: FileState) -> None:
        """Updates the time of a file whose content is unchanged."""
        self.index.db.execute(
            "UPDATE files SET mtime = ?, size = ?, problem = ? WHERE path = ? AND source = ?",
            (file.mtime, file.size, file.problem, file.path, file.source),
        )

    def drop(self, path: str, source: str, now: int, *, remember: bool = True) -> None:
        """Removes a file; with `remember` its embeddings stay in the cache in case it comes back."""
        rows = self.index.rows("SELECT number FROM chunks WHERE path = ? AND source = ?", (path, source))
        self._remove([row[0] for row in rows], now, remember=remember)
        self.index.db.execute("DELETE FROM files WHERE path = ? AND source = ?", (path, source))

    def forget(self, hashes: Sequence[str]) -> None:
        """Deletes these texts from the cache."""
        self.index.db.executemany("DELETE FROM embedding_cache WHERE hash = ?", [(each,) for each in hashes])

    def waiting(self, limit: int) -> list[tuple[int, str]]:
        """Chunks without a vector: number and text."""
        sql = "SELECT number, text FROM chunks WHERE embedding = x'' ORDER BY number LIMIT ?"
        return [(number, text) for number, text in self.index.rows(sql, (limit,))]

    def set_all_vectors(self, numbers: Sequence[int], made: Sequence[Sequence["array[float]"]]) -> None:
        """Stores the vectors of several chunks in one transaction."""
        with self.index.writing():
            for number, vectors in zip(numbers, made, strict=True):
                if not self.identity.vector_dims:
                    # The first vectors ever fix the index's dimensions.
                    self.identity = msgspec.structs.replace(self.identity, vector_dims=len(vectors[0]))
                    self.index.identify(self.identity)
                blob = b"".join(map(pack_vector, vectors[:MOST_VECTORS]))
                self.index.db.execute("UPDATE chunks SET embedding = ? WHERE number = ?", (blob, number))
                if self.index.db.changes():
                    self._place(number, blob)

    def embedding(self, hash: str) -> bytes | None:  # noqa: A002
        """The stored vectors of a text, from the index or the cache."""
        found = self.index.rows(
            "SELECT embedding FROM chunks WHERE hash = ? AND model = ? AND embedding != x'' LIMIT 1",
            (hash, self.identity.model),
        ) or self.index.rows(
            "SELECT embedding FROM embedding_cache WHERE provider = ? AND model = ? AND provider_key = ? AND hash = ?",
            (self.identity.provider, self.identity.model, self.identity.provider_key, hash),
        )
        dims = self.identity.vector_dims
        if not found or (dims and len(found[0][0]) % (dims * 4)):
            return None
        return bytes(found[0][0])

    def catch_up(self) -> None:
        """Adds to the table of signs what was embedded without it: no extension, or an earlier version of ours."""
        if self.index.vector_problem or not self.identity.vector_dims:
            return
        if self.index.noted("vector_table"):
            # Earlier versions kept whole vectors a second time.
            self.index.db.execute("DROP TABLE IF EXISTS chunks_vec")
            self.index.db.execute("UPDATE chunks SET placed = 0")
            self.index.db.execute("DELETE FROM meta WHERE key = 'vector_table'")
        self._table()
        unplaced = "SELECT number, embedding FROM chunks WHERE placed = 0 AND embedding != x'' ORDER BY number LIMIT ?"
        while some := self.index.rows(unplaced, (SCANNED,)):
            for number, blob in some:
                self._place(number, blob)

    def adopt(self, old: IndexFile) -> None:
        """Copies the embeddings of another index, so that nothing is embedded twice."""
        if self._cache is None:
            return
        identity = old.identity()
        run = self.index.db.execute
        run("ATTACH ? AS old", (str(old.path),))
        try:
            with self.index.writing():
                if identity is not None and identity.vector_dims:
                    run(
                        "INSERT OR IGNORE INTO embedding_cache SELECT ?, model, ?, hash, embedding, ?, updated_at "
                        "FROM old.chunks WHERE embedding != x''",
                        (identity.provider, identity.provider_key, identity.vector_dims),
                    )
                run("INSERT OR IGNORE INTO embedding_cache SELECT * FROM old.embedding_cache")
        finally:
            run("DETACH old")

    def prune(self) -> None:
        """Deletes the least recently used embeddings beyond the cache size."""
        if self._cache is None:
            self.index.db.execute("DELETE FROM embedding_cache")
            return
        while self.index.rows("SELECT count(*) FROM embedding_cache")[0][0] > self._cache:
            self.index.db.execute(
                "DELETE FROM embedding_cache WHERE rowid IN "
                "(SELECT rowid FROM embedding_cache ORDER BY updated_at LIMIT ?)",
                (PRUNED,),
            )

    def _remove(self, numbers: Sequence[int], now: int, *, remember: bool = True) -> None:
        run = self.index.db.execute
        for number in numbers:
            if remember and self._cache is not None and self.identity.vector_dims:
                run(
                    "INSERT OR REPLACE INTO embedding_cache SELECT ?, model, ?, hash, embedding, ?, ? FROM chunks "
                    "WHERE number = ? AND embedding != x''",
                    (self.identity.provider, self.identity.provider_key, self.identity.vector_dims, now, number),
                )
            if self._table():
                for table in ("chunks_signs", "chunks_sample"):
                    run(
                        f"DELETE FROM {table} WHERE rowid BETWEEN ? AND ?",  # noqa: S608
                        (number * MOST_VECTORS, (number + 1) * MOST_VECTORS - 1),
                    )
                self._log_change(number)
            run("DELETE FROM chunks_fts WHERE rowid = ?", (number,))
            run("DELETE FROM chunks WHERE number = ?", (number,))

    def _table(self) -> bool:
        """Whether the table of signs exists and is usable."""
        if self.index.vector_problem:
            return False
        if not self._dims:
            noted = self.index.noted("sign_table")
            self._dims = int(noted) if noted.isdigit() else 0
            if self._dims and not self.index.rows("SELECT 1 FROM sqlite_schema WHERE name = 'sign_changes'"):
                self._start_log()  # earlier versions had none
        return self._dims > 0

    def _start_log(self) -> None:
        run = self.index.db.execute
        run("CREATE TABLE sign_changes (at INTEGER PRIMARY KEY, number INTEGER NOT NULL)")
        # It starts anywhere: who has read this far notices when another index takes the place of this one.
        run("INSERT INTO sign_changes VALUES (abs(random() >> 16), 0)")

    def _log_change(self, number: int) -> None:
        """Notes that the signs of a chunk have changed, for whoever has them in memory (`embedders/signs`)."""
        run = self.index.db.execute
        run("INSERT INTO sign_changes (number) VALUES (?)", (number,))
        run("DELETE FROM sign_changes WHERE at = last_insert_rowid() - ?", (LOGGED,))

    def _place(self, number: int, blob: bytes) -> None:
        dims = self.identity.vector_dims
        if self.index.vector_problem or not dims:
            return
        run = self.index.db.execute
        if not self._table():
            run(f"CREATE VIRTUAL TABLE chunks_signs USING vec0(signs bit[{dims + -dims % 8}], chunk_size=256)")
            run("CREATE TABLE chunks_sample (number INTEGER PRIMARY KEY, signs BLOB NOT NULL)")
            self._start_log()
            self.index.note("sign_table", str(dims))
        tables = ("chunks_signs", "chunks_sample") if number % SAMPLED == 0 else ("chunks_signs",)
        for at, vector in enumerate(unpack_vectors(blob, dims)):
            for table in tables if any(vector) else ():
                run(
                    f"INSERT INTO {table} (rowid, signs) VALUES (?, vec_quantize_binary(?))",  # noqa: S608
                    (number * MOST_VECTORS + at, sign_source(vector)),
                )
        run("UPDATE chunks SET placed = 1 WHERE number = ?", (number,))
        self._log_change(number)
