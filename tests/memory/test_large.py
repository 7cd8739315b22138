"""An index of thousands of chunks: what a search looks at stays bounded, and it finds what it should."""

import random
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from openclaw.memory.chunk import Chunk
from openclaw.memory.database import COMMON_BUDGET, SAMPLE_ABOVE, IndexFile, IndexIdentity
from openclaw.memory.terms import query_terms
from openclaw.memory.writer import FileState, IndexWriter
from tests.memory.conftest import Counting, House

CHUNKS = 2 * max(COMMON_BUDGET, SAMPLE_ABOVE) + 400
DIMS = 60
"""No multiple of eight: the signs of a vector have to fill whole bytes."""
OLD = 7
"""The number of an old chunk, which alone has both of two common words."""


def vector(dice: random.Random) -> "array[float]":
    made = [dice.gauss(0, 1) for _ in range(DIMS)]
    length = sum(value * value for value in made) ** 0.5
    return array("f", [value / length for value in made])


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An index whose chunks all say `harvest`, and half of them `weather`, the other half `market`."""
    path = tmp_path_factory.mktemp("large") / "index.sqlite"
    index = IndexFile(path)
    assert not index.vector_problem
    identity = IndexIdentity("model", "test", "", ("memory",), "", 400, 80)
    writer, dice = IndexWriter(index, identity, cache=None), random.Random(5)
    with index.writing():
        index.identify(identity)
        for number in range(1, CHUNKS + 1):
            word = ("weather", "market")[number % 2] if number > 200 else "weather market" if number == OLD else "word"
            text = f"harvest {word} number{number}"
            note = FileState(path=f"memory/{number}.md", source="memory")
            writer.put(note, [(Chunk(start=1, end=1, text=text), "")], 0)
    numbers = [row[0] for row in index.rows("SELECT number FROM chunks ORDER BY number")]
    writer.set_all_vectors(numbers, [[vector(dice)] for _ in numbers])
    index.close()
    yield path


def test_the_nearest_of_many_are_those_of_a_full_comparison(large: Path) -> None:
    quick, full = IndexFile(large), IndexFile(large, vectors=False)
    stored, other = random.Random(5), random.Random(6)
    for _ in range(20):
        asked = array("f", [0.7 * one + 0.3 * noise for one, noise in zip(vector(stored), vector(other), strict=True)])
        near, exact = quick.vector_hits(asked, 24, ("memory",)), full.vector_hits(asked, 24, ("memory",))
        length = sum(value * value for value in asked) ** 0.5
        assert next(iter(near)) == next(iter(exact))
        assert next(iter(near.values())) == pytest.approx(next(iter(exact.values())) / length, abs=1e-4)
    quick.close()
    full.close()


def test_of_a_word_that_is_everywhere_the_newest_chunks_are_found(large: Path) -> None:
    index = IndexFile(large)
    hits = index.text_hits(index.weighed(query_terms("harvest")), 200)
    assert [hit.number for hit in hits] == list(range(CHUNKS, CHUNKS - 200, -1))
    assert {hit.mask for hit in hits} == {1}
    assert all(-1e-4 < row[0] < 0 for row in index.rows("SELECT rank FROM chunks_fts WHERE chunks_fts MATCH 'harvest'"))
    index.close()


def test_of_a_word_that_thousands_have_the_newest_thousands_are_ranked(large: Path) -> None:
    index = IndexFile(large)
    weighed = index.weighed(query_terms("market"))
    assert COMMON_BUDGET < weighed[0].docs < CHUNKS / 2
    hits = index.text_hits(weighed, 200)
    assert len(hits) == 200 and min(hit.number for hit in hits) >= CHUNKS - 2 * COMMON_BUDGET - 2
    index.close()


def test_a_chunk_with_all_of_the_common_words_comes_first_however_old(large: Path) -> None:
    index = IndexFile(large)
    weighed = index.weighed(query_terms("weather market"))
    assert min(term.docs for term in weighed) > COMMON_BUDGET
    hits = index.text_hits(weighed, 200)
    assert hits[0].number == OLD and hits[0].mask == 0b11 and len(hits) > 100
    index.close()


def test_a_word_is_counted_anew_when_the_index_has_changed(large: Path) -> None:
    index, other = IndexFile(large), IndexFile(large)
    terms = query_terms("zanzibar")
    assert [term.docs for term in index.weighed(terms)] == [0]
    writer = IndexWriter(other, IndexIdentity("model", "test", "", ("memory",), "", 400, 80), cache=None)
    with other.writing():
        note = FileState(path="memory/z.md", source="memory")
        writer.put(note, [(Chunk(start=1, end=1, text="zanzibar"), "")], 0)
    assert [term.docs for term in index.weighed(terms)] == [1]
    with other.writing():
        writer.drop("memory/z.md", "memory", 0)
    assert [term.docs for term in index.weighed(terms)] == [0]
    index.close()
    other.close()


@pytest.mark.anyio
async def test_an_index_of_an_earlier_version_keeps_its_vectors(house: House) -> None:
    for number in range(30):
        house.write(f"memory/{number}.md", f"word{number} other{number % 3}\n")
    async with house.opened(provider="hash") as memory:
        await memory.sync()
        before = await memory.search("other1 word4")
        path = memory.path
    index = IndexFile(path)
    with index.writing():
        rows = index.rows("SELECT number, embedding FROM chunks")
        index.db.execute("DROP TABLE chunks_signs")
        index.db.execute("DROP TABLE chunks_sample")
        index.db.execute("DROP TABLE sign_changes")
        index.db.execute("DELETE FROM meta WHERE key = 'sign_table'")
        index.db.execute("CREATE VIRTUAL TABLE chunks_vec USING vec0(embedding float[256] distance_metric=cosine)")
        index.db.executemany("INSERT INTO chunks_vec (rowid, embedding) VALUES (?, ?)", [(n * 64, e) for n, e in rows])
        index.note("vector_table", "256")
    index.close()
    async with house.opened(provider="hash") as memory:
        await memory.sync()
        after = await memory.search("other1 word4")
        embedder = house.embedders["hash"]
        assert isinstance(embedder, Counting)
        assert len([text for text in embedder.seen if "word4" in text and text != "other1 word4"]) == 1
    assert after.mode == "hybrid"
    assert [hit.piece.path for hit in after.results] == [hit.piece.path for hit in before.results]
    assert after.results[0].cosine == pytest.approx(before.results[0].cosine, abs=1e-4)
    index = IndexFile(path)
    names = {row[0] for row in index.rows("SELECT name FROM sqlite_schema")}
    assert "chunks_signs" in names and "chunks_vec" not in names
    index.close()


@pytest.mark.anyio
async def test_an_index_without_a_log_of_changes_gets_one(house: House) -> None:
    house.write("memory/a.md", "a word\n")
    async with house.opened(provider="hash") as memory:
        await memory.sync()
    index = IndexFile(memory.path)
    index.db.execute("DROP TABLE sign_changes")
    index.close()
    async with house.opened(provider="hash") as memory:
        await memory.sync()
        index = IndexFile(memory.path)
        assert len(index.rows("SELECT * FROM sign_changes")) == 1
        house.write("memory/a.md", "another word\n")
        await memory.sync()
        assert [row[0] for row in index.rows("SELECT number FROM sign_changes ORDER BY at")] == [0, 1, 2]
        index.close()
