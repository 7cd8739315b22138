"""The signs of an index in memory: what is found, and what happens when the index changes."""

import random
from array import array
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.embedder import EmbeddedQuery
from openclaw.memory.chunk import Chunk
from openclaw.memory.database import FOUND, MOST_VECTORS, IndexFile, IndexIdentity
from openclaw.memory.embedders.signs import SignTable
from openclaw.memory.indexer import remove
from openclaw.memory.rank import candidates
from openclaw.memory.writer import FileState, IndexWriter
from tests.memory.conftest import Counting, House

DIMS = 384
BEST = 6


class Notes:
    """An index that is written to, one vector for each note."""

    def __init__(self, path: Path) -> None:
        self.index = IndexFile(path)
        assert not self.index.vector_problem
        identity = IndexIdentity("model", "test", "", ("memory",), "", 400, 80)
        self.writer = IndexWriter(self.index, identity, cache=None)
        with self.index.writing():
            self.index.identify(identity)

    def add(self, *names: str) -> None:
        with self.index.writing():
            for name in names:
                self.writer.put(
                    FileState(path=name, source="memory"), [(Chunk(start=1, end=1, text=f"note {name}"), "")], 0
                )

    def embed(self, vectors: Sequence["array[float]"]) -> None:
        waiting = [number for number, _ in self.writer.waiting(len(vectors))]
        self.writer.set_all_vectors(waiting, [[vector] for vector in vectors])

    def drop(self, name: str) -> None:
        with self.index.writing():
            self.writer.drop(name, "memory", 0)


@pytest.fixture
def numpy() -> Any:
    return pytest.importorskip("numpy", reason="the extra `local` is not installed")


def unit(numbers: Sequence[float]) -> "array[float]":
    length = sum(number * number for number in numbers) ** 0.5
    return array("f", [number / length for number in numbers])


def topics(dice: random.Random, count: int) -> list[list[float]]:
    return [[dice.gauss(0, 1) for _ in range(DIMS)] for _ in range(count)]


def test_the_nearest_of_many_are_among_the_few_it_names(tmp_path: Path, numpy: Any) -> None:
    dice = random.Random(2)
    about = topics(dice, 40)
    noise = topics(dice, 200)

    def near(topic: list[float]) -> "array[float]":
        return unit([one + 1.2 * other for one, other in zip(topic, dice.choice(noise), strict=True)])

    vectors = [near(about[number % 40]) for number in range(5_000)]
    notes = Notes(tmp_path / "index.sqlite")
    notes.add(*(f"memory/{number}.md" for number in range(5_000)))
    notes.embed(vectors)
    table, every = SignTable(tmp_path / "index.sqlite", DIMS, numpy), numpy.array(vectors)
    found = 0
    for topic in about[:20]:
        asked = numpy.array(near(topic))
        keys = table.nearest(asked, 288)
        assert keys is not None and len(keys) == 288
        best = numpy.argsort(-(every @ asked))[:BEST]
        found += len({int(at) + 1 for at in best} & {key // MOST_VECTORS for key in keys})
    assert found >= 0.97 * 20 * BEST
    for at in range(4_900, 5_000):
        assert (at + 1) * MOST_VECTORS in (table.nearest(every[at], 100) or ()), "the newest are found like all others"
    table.close()


def test_what_changes_in_the_index_is_seen_by_the_next_query(tmp_path: Path, numpy: Any) -> None:
    path = tmp_path / "index.sqlite"
    one, other = map(unit, topics(random.Random(3), 2))
    table, asked = SignTable(path, DIMS, numpy), numpy.array(one)
    assert table.nearest(asked, 8) is None, "there is no index yet"
    notes = Notes(path)
    notes.add("memory/a.md")
    assert table.nearest(asked, 8) is None, "no vectors yet"
    notes.embed([one])
    assert table.nearest(asked, 8) == [1 * MOST_VECTORS]
    notes.add("memory/b.md")
    notes.embed([other])
    assert table.nearest(asked, 8) == [1 * MOST_VECTORS, 2 * MOST_VECTORS]
    notes.drop("memory/a.md")
    assert table.nearest(asked, 8) == [2 * MOST_VECTORS]
    notes.drop("memory/b.md")
    assert table.nearest(asked, 8) == []
    assert SignTable(path, 64, numpy).nearest(asked[:64], 8) is None, "vectors of another model"

    remove(path)
    again = Notes(path)
    again.add("memory/c.md", "memory/d.md")
    again.embed([other, one])
    assert table.nearest(asked, 8) == [2 * MOST_VECTORS, 1 * MOST_VECTORS]
    table.close()
    for each in (notes, again):
        each.index.close()


def test_only_what_has_changed_is_read_again(tmp_path: Path, numpy: Any) -> None:
    dice = random.Random(4)
    vectors = [unit(topic) for topic in topics(dice, 40)]
    path, asked = tmp_path / "index.sqlite", numpy.array(vectors[0])
    notes, table = Notes(path), SignTable(path, DIMS, numpy)
    names = [f"memory/{number}.md" for number in range(40)]
    notes.add(*names[:20])
    notes.embed(vectors[:20])
    assert len(table.nearest(asked, 100) or ()) == 20
    here = names[:20]
    for name, vector in zip(names[20:], vectors[20:], strict=True):
        notes.add(name)
        notes.embed([vector])
        here.append(name)
        for _ in range(dice.randrange(3)):
            notes.drop(here.pop(dice.randrange(len(here))))
        if dice.random() < 0.5:
            fresh = SignTable(path, DIMS, numpy)
            assert table.nearest(asked, 100) == fresh.nearest(asked, 100)
            fresh.close()
    notes.index.db.execute("DELETE FROM chunks_signs_chunks")  # what a table that is read as a whole is read from
    assert len(table.nearest(asked, 100) or ()) == len(here)
    table.close()
    notes.index.close()


def test_an_index_that_was_copied_over_another_is_read_anew(tmp_path: Path, numpy: Any) -> None:
    one, other = map(unit, topics(random.Random(5), 2))
    table, asked = SignTable(tmp_path / "0.sqlite", DIMS, numpy), numpy.array(one)
    first, *others = (Notes(tmp_path / f"{number}.sqlite") for number in range(8))
    first.add("memory/a.md", "memory/b.md")
    first.embed([other, one])
    assert table.nearest(asked, 1) == [2 * MOST_VECTORS]
    for notes in others:  # each with as many changes, and the first of them numbered at random
        notes.add("memory/a.md", "memory/b.md", "memory/c.md")
        notes.embed([one, other, other])
        with first.index.db.backup("main", notes.index.db, "main") as copy:
            copy.step()
        assert table.nearest(asked, 1) == [1 * MOST_VECTORS]
        notes.index.close()
        with first.index.writing():
            first.writer.drop("memory/a.md", "memory", 0)
        assert table.nearest(asked, 3) != [1 * MOST_VECTORS]
    table.close()
    first.index.close()


class Searching(Counting):
    """Finds the vectors nearest to a query itself; remembers how many it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []
        self.found: Sequence[int] | None = ()

    async def search_index(self, text: str, index: str, count: int) -> EmbeddedQuery:
        assert Path(index).exists()
        self.counts.append(count)
        return EmbeddedQuery((await self.embed([text]))[0], self.found)


@pytest.mark.anyio
async def test_only_the_vectors_the_embedder_found_are_compared_however_many_notes_there_are(house: House) -> None:
    embedder = house.embedders["hash"] = Searching()
    wanted = candidates(6, 4) * FOUND
    async with house.opened(provider="hash") as memory:
        for notes in (50, 600):
            for number in range(notes):
                house.write(f"memory/{number}.md", f"word{number} other{number % 3}\n")
            await memory.sync()
            memory.changed()
            with closing(IndexFile(memory.path)) as index:
                numbers = dict(index.rows("SELECT path, number FROM chunks"))
            embedder.found = [numbers[f"memory/{number}.md"] * MOST_VECTORS for number in (4, 7, 30)]
            answer = await memory.search("other1")
            compared = {hit.piece.path for hit in answer.results if hit.cosine is not None}
            assert compared <= {f"memory/{number}.md" for number in (4, 7, 30)} and "memory/4.md" in compared
            assert embedder.counts.pop() == wanted and not embedder.counts
        embedder.found = None
        answer = await memory.search("word9")
        assert answer.results[0].piece.path == "memory/9.md" and answer.results[0].cosine is not None
