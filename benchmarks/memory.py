"""What memory costs: indexing, one changed note, a question, for growing numbers of small notes.

    python benchmarks/memory.py [--notes 1000,10000] [--vectors] [--recall]

`none` searches words alone, `hash` has vectors of word hashes. `--vectors` adds the local model: it embeds every query
and some thousand real texts, and the notes get vectors near those, because 100,000 notes would take it an hour.
`--recall` also compares what its searches find with the six notes that are really nearest.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from lean import cpu_ms

from openclaw.core.embedder import EmbeddedQuery, Embedder, EmbedderEndpoint, Vector
from openclaw.memory import embedders, rank
from openclaw.memory.chunk import windows
from openclaw.memory.database import FOUND, MOST_VECTORS, IndexFile, pack_vector
from openclaw.memory.embedders.local import LocalEmbedder
from openclaw.memory.index import MemoryIndex
from openclaw.memory.service import open_memory
from openclaw.memory.settings import EmbedderName, MemorySearchSettings
from openclaw.process.tasks import SystemClock
from tests.e2e.gateway_process import pss

WORDS = 20_000
QUERIES = 200
REAL, QUESTIONS = 4_000, 150
"""Texts the local model really embeds; and others from the same pages, whose first words are asked for."""
NOISE = 0.25
BEST = 6


class LocalMixtures:
    """The local model; the vectors of notes are made from those of real texts: one, a share of another, and noise.

    Noise is the difference of two more, so that it has the shape of real vectors.
    """

    def __init__(self, model: LocalEmbedder) -> None:
        self.child = model
        self.model = model.model
        self.traits = model.traits
        self._made: list[Vector] = []

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        for start in range(len(self._made), REAL, 50):
            self._made += await self.child.embed(real_texts()[start : start + 50])
        return [self._near(random.Random(text)) for text in texts]

    def _near(self, dice: random.Random) -> Vector:
        share = dice.uniform(0.55, 0.95)
        return array(
            "f",
            [
                share * one + (1 - share) * other + NOISE * (plus - minus)
                for one, other, plus, minus in zip(*dice.choices(self._made, k=4), strict=True)
            ],
        )

    async def search_index(self, text: str, index: str, count: int) -> EmbeddedQuery:
        return await self.child.search_index(text, index, count)

    async def close(self) -> None:
        await self.child.close()


@cache
def real_texts() -> list[str]:
    """Windows of this tree's documentation and source, in any order."""
    root = Path(__file__).parent.parent
    pages = [*sorted(root.glob("docs/**/*.md")), *sorted(root.glob("src/**/*.py"))]
    paragraphs = [text for page in pages for text in page.read_text(encoding="utf-8").split("\n\n")]
    found = [part for text in paragraphs for part in windows(text, 300) if len(part) > 100]
    return random.Random(3).sample(found, REAL + QUESTIONS)


def build(endpoint: EmbedderEndpoint) -> Embedder:
    made = embedders.open_embedder(endpoint)
    return LocalMixtures(made) if isinstance(made, LocalEmbedder) else made


def write_notes(folder: Path, count: int) -> None:
    """Notes of about sixty words, with the word frequencies of real language and one name each."""
    dice = random.Random(7)
    words = [f"{dice.choice('bcdfglmnprst')}{dice.choice('aeiou')}{number:x}" for number in range(WORDS)]
    weights = [1 / (rank + 10) for rank in range(WORDS)]
    for number in range(count):
        path = folder / "memory" / f"{number // 1000:03}" / f"note-{number:06}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        body = " ".join(dice.choices(words, weights, k=60))
        path.write_text(f"# Note {number}\n\n{body}\n- ticket TK-{number:06}\n", encoding="utf-8")


def opened(folder: Path, provider: EmbedderName) -> MemoryIndex:
    return open_memory(
        MemorySearchSettings(provider=provider),
        agent_id=provider,
        workspace=folder,
        state=folder / "state",
        home=folder,
        clock=SystemClock(),
        keys={},
        build=build,
        problem=embedders.embedder_problem,
    )


async def measure(folder: Path, count: int, provider: EmbedderName, recall: bool) -> dict[str, object]:
    memory, before = opened(folder, provider), pss(os.getpid())
    wall, cpu = time.perf_counter(), time.process_time()
    await memory.sync()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    questions = [
        f"TK-{(n * 37) % count:06}" if n % 2 else f"note about ba{n:x} and ce{n * 3:x}" for n in range(QUERIES)
    ]
    memory.watched = True
    times = []
    for question in questions[:4]:
        await memory.search(question)
    used, child = time.process_time(), child_cpu_ms(memory)
    for question in questions:
        began = time.perf_counter()
        answer = await memory.search(question)
        times.append((time.perf_counter() - began) * 1000)
        assert not question.startswith("TK") or answer.results[0].piece.text.count(question)
    used = (time.process_time() - used) / len(questions) * 1000
    child = (child_cpu_ms(memory) - child) / len(questions)
    recalled = {"recall": round(await measure_recall(memory), 4)} if recall and provider == "local" else {}
    note = folder / "memory" / "000" / "changed.md"
    note.write_text(f"# Changed\n\nzanzibar {time.time()}\n", encoding="utf-8")
    began = time.perf_counter()
    report = await memory.sync(only=frozenset({str(note)}))
    update = (time.perf_counter() - began) * 1000
    assert report.changed == 1
    began = time.perf_counter()
    await memory.sync()
    look = (time.perf_counter() - began) * 1000
    status, resident = await memory.status(), pss(os.getpid())
    await memory.close()
    times.sort()
    return {
        "notes": count,
        "provider": provider,
        "index_wall_s": round(wall, 2),
        "index_cpu_s": round(cpu, 2),
        "query_cpu_ms": round(used, 2),
        "query_model_cpu_ms": round(child, 2),
        "query_p50_ms": round(times[len(times) // 2], 2),
        "query_p99_ms": round(times[int(len(times) * 0.99)], 2),
        "one_changed_ms": round(update, 1),
        "look_at_all_ms": round(look, 1),
        "index_mb": round(status.bytes / 1e6, 1),
        "pss_mb": round(resident),
        "pss_grown_mb": round(resident - before, 1),
        **recalled,
    }


async def measure_recall(memory: MemoryIndex) -> float:
    """The share of the notes whose vectors are really nearest to a question among those that a search finds."""
    index, vectors, found = IndexFile(memory.path), memory.means.vectors(), []
    identity = index.identity()
    assert vectors is not None and identity is not None
    limit = rank.candidates(BEST, memory.settings.query.hybrid.candidate_multiplier)
    for text in real_texts()[REAL:]:
        question = " ".join(text.split()[:8])
        vector, keys = await vectors.query(question, identity.vector_dims, str(memory.path), limit * FOUND)
        if any(vector):
            near = list(index.vector_hits(vector, limit, memory.plan.sources, keys))[:BEST]
            found.append(len(set(near) & compare_all(index, vector)) / BEST)
    index.close()
    return sum(found) / len(found)


def compare_all(index: IndexFile, query: Vector) -> set[int]:
    """The notes nearest to `query`, by the cosines of all their vectors."""
    blob = pack_vector(array("f", query))
    rows = index.rows(
        "WITH RECURSIVE part(at) AS (SELECT 0 UNION ALL SELECT at + 1 FROM part WHERE at + 1 < ?1) "
        "SELECT c.number FROM chunks AS c JOIN part ON at * ?2 < length(c.embedding) GROUP BY c.number "
        "ORDER BY min(vec_distance_cosine(substr(c.embedding, 1 + at * ?2, ?2), ?3)) LIMIT ?4",
        (MOST_VECTORS, len(blob), blob, BEST),
    )
    return {row[0] for row in rows}


def child_cpu_ms(memory: MemoryIndex) -> float:
    """CPU of the process the local model runs in."""
    vectors = memory.means.vectors()
    pid = vectors.embedder.child.pid if vectors and isinstance(vectors.embedder, LocalMixtures) else None
    return cpu_ms(pid) if pid else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", default="1000,10000", help="how many, with commas")
    parser.add_argument("--vectors", action="store_true", help="also with the local model")
    parser.add_argument("--recall", action="store_true", help="also compare with the true nearest notes")
    arguments = parser.parse_args()
    providers: list[EmbedderName] = ["none", "hash"]
    if arguments.vectors:
        if why := embedders.embedder_problem(EmbedderEndpoint(provider="local")):
            parser.error(why)
        providers.append("local")
    for count in map(int, arguments.notes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            write_notes(Path(folder), count)
            for provider in providers:
                print(json.dumps(asyncio.run(measure(Path(folder), count, provider, arguments.recall))), flush=True)


if __name__ == "__main__":
    main()
