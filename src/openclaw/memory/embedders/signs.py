"""The signs of all vectors of an index, in memory: finds those nearest to a query.

For the child process of the local embedder, which has numpy loaded anyway: it compares 300,000 vectors in a fifth of
the time that the database needs, and ranks the nearest better.
"""

from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import apsw
import msgspec

from openclaw.memory.database import MOST_VECTORS

ROUGH = 10
"""How many vectors are ranked a second time for each one wanted: those whose signs differ least from the query's."""
BLOCK = 8_192
"""Vectors compared at once: few enough that what is computed stays in the processor's cache."""
SAMPLED = 8
"""Of every so many vectors one is looked at to find out how far away the last of those to be ranked is."""
ROOM = 4_096
"""How many vectors can be added before all are read again."""
WORD = 64

# The tables in which sqlite-vec keeps `chunks_signs`: a row has the signs of many vectors, so all are read quickly.
_ROWS = (
    "SELECT c.rowids, c.validity, v.vectors FROM chunks_signs_chunks AS c "
    "JOIN chunks_signs_vector_chunks00 AS v ON v.rowid = c.chunk_id"
)


class SignTable:
    """The signs in one index file; what has changed there since is applied before each query."""

    def __init__(self, path: Path, dims: int, numpy: Any) -> None:
        self.path = path
        self._dims = dims
        self._np = numpy
        self._file: tuple[int, int] | None = None
        self._db: apsw.Connection | None = None
        self._seen = -1
        """The last entry of `sign_changes` that is applied."""
        self._count = 0
        self._keys: Any = None
        self._columns: Any = None
        """A row for every 64 dimensions, a column for every vector: numpy runs along rows. Both have room for more."""

    def nearest(self, query: Any, count: int) -> list[int] | None:
        """The keys of about the `count` vectors nearest to `query`; None when the file cannot be read.

        Its owner finds out why and mends it.
        """
        try:
            self._refresh()
        except (OSError, ValueError, IndexError, apsw.Error):
            self.close()
            return None
        np = self._np
        rows = self._fewest_differences(np.packbits(query > 0, bitorder="little").view(np.uint64), count * ROUGH)
        # The query's numbers against the vectors' signs: closer to the cosine than signs against signs.
        words = np.ascontiguousarray(self._columns[:, rows].T)
        # Not `@`: the threads of its library wait busily for more.
        alike = np.einsum("ij,j", np.unpackbits(words.view(np.uint8), axis=1, bitorder="little"), query)
        found: list[int] = self._keys[rows[np.argsort(-alike)[:count]]].tolist()
        return found

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db, self._file, self._seen = None, None, -1
        self._keys, self._columns, self._count = None, None, 0

    def _fewest_differences(self, asked: Any, count: int) -> Any:
        """About `count` columns, those with the fewest signs that differ from those in `asked`."""
        np = self._np
        if self._count <= count:
            return np.arange(self._count)
        columns, apart = self._columns[:, : self._count], np.empty(self._count, dtype=np.uint16)
        for start in range(0, self._count, BLOCK):
            block = slice(start, start + BLOCK)
            differing = np.bitwise_count(columns[:, block] ^ asked[:, None])
            differing.sum(axis=0, dtype=np.uint16, out=apart[block])
        # A sample may be off by some, so only those at that very distance are cut: the cut takes away the newest.
        farthest = np.searchsorted(np.cumsum(np.bincount(apart[::SAMPLED])), count // SAMPLED)
        nearer = np.flatnonzero(apart < farthest)
        return np.concatenate((nearer, np.flatnonzero(apart == farthest)[: max(0, count - len(nearer))]))

    def _refresh(self) -> None:
        at = self.path.stat()
        if self._db is None or self._file != (at.st_dev, at.st_ino):
            # An index that was removed and made anew is another file.
            self.close()
            self._db = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
            self._file = (at.st_dev, at.st_ino)
        with self._db:  # one state of the file for all that is read
            log: list[Any] = self._db.execute(
                "SELECT at, number FROM sign_changes WHERE at >= ? ORDER BY at", (self._seen,)
            ).fetchall()
            # Where the last entry seen is missing, too much has changed, or another index was copied over this one.
            known = bool(log) and log[0][0] == self._seen
            if known and self._apply(self._db, {number for _, number in log[1:]}):
                self._seen = log[-1][0]
            else:
                self._read(self._db)

    def _apply(self, db: apsw.Connection, changed: Set[int]) -> bool:
        """Replaces the signs of these chunks; False when there is no room for them."""
        if not changed:
            return True
        np, new = self._np, dict[int, Any]()
        rows: list[Any] = db.execute(
            "SELECT number, embedding FROM chunks WHERE placed = 1 AND number IN (SELECT value FROM json_each(?))",
            (msgspec.json.encode(list(changed)).decode(),),
        ).fetchall()
        for number, blob in rows:
            vectors = np.frombuffer(blob, dtype="<f4").reshape(-1, self._dims)
            signs = np.packbits(vectors > 0, axis=1, bitorder="little").view(np.uint64)
            new |= {number * MOST_VECTORS + int(at): signs[at] for at in np.flatnonzero(vectors.any(axis=1))}
        gone = np.flatnonzero(np.isin(self._keys[: self._count] // MOST_VECTORS, list(changed)))
        for at in gone[::-1]:
            # From the back, so that the last one, which takes the place, is one that stays.
            self._count -= 1
            self._put(at, self._keys[self._count], self._columns[:, self._count])
        if self._count + len(new) > len(self._keys):
            return False
        for key, signs in new.items():
            self._put(self._count, key, signs)
            self._count += 1
        return True

    def _put(self, at: int, key: int, signs: Any) -> None:
        self._keys[at], self._columns[:, at] = key, signs

    def _read(self, db: apsw.Connection) -> None:
        """Reads the signs of all vectors."""
        np, words = self._np, self._dims // WORD
        if db.execute("SELECT value FROM meta WHERE key = 'sign_table'").fetchall() != [(str(self._dims),)]:
            raise ValueError("vectors of another model")
        keys, columns = [], []
        rows: Iterator[Any] = iter(db.execute(_ROWS))
        for rowids, validity, vectors in rows:
            used = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little").astype(bool)
            keys.append(np.frombuffer(rowids, np.int64)[used])
            columns.append(np.frombuffer(vectors, np.uint64).reshape(-1, words)[used].T)
        last: Any = db.execute("SELECT max(at) FROM sign_changes").fetchall()
        self._seen = last[0][0]
        self._count = sum(map(len, keys))
        self._keys = np.concatenate([*keys, np.zeros(ROOM, np.int64)])
        self._columns = np.concatenate([*columns, np.zeros((words, ROOM), np.uint64)], axis=1)
