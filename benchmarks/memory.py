"""What memory costs: indexing, one changed note, a question, for growing numbers of small notes.

    python benchmarks/memory.py [--notes 1000,10000] [--vectors]

`none` searches words alone, `hash` has vectors of word hashes. `--vectors` adds the local model: it embeds the first
texts and every query, and later texts get mixtures of what it made, because 100,000 notes would take it an hour.
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
from operator import add
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from lean import cpu_ms

from openclaw.core.embedder import Embedder, EmbedderEndpoint, Vector
from openclaw.memory import embedders
from openclaw.memory.embedders.local import LocalEmbedder
from openclaw.memory.index import MemoryIndex
from openclaw.memory.service import open_memory
from openclaw.memory.settings import EmbedderName, MemorySearchSettings
from openclaw.process.tasks import SystemClock
from tests.e2e.gateway_process import pss

WORDS = 20_000
QUERIES = 200
REAL = 2_000
"""Texts the local model really embeds."""


class LocalMixtures:
    """The local model; of texts after the first it makes mixtures of two vectors it has made."""

    def __init__(self, model: LocalEmbedder) -> None:
        self.child = model
        self.model = model.model
        self.traits = model.traits
        self._made: list[Vector] = []

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        if len(self._made) < REAL:
            self._made += (made := await self.child.embed(texts))
            return made
        picked = [random.Random(text).sample(self._made, 2) for text in texts]
        return [array("f", map(add, one, other)) for one, other in picked]

    async def embed_query(self, text: str) -> Vector:
        return (await self.child.embed([text]))[0]

    async def close(self) -> None:
        await self.child.close()


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


async def measure(folder: Path, count: int, provider: EmbedderName) -> dict[str, object]:
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
    }


def child_cpu_ms(memory: MemoryIndex) -> float:
    """CPU of the process the local model runs in."""
    vectors = memory.means.vectors()
    pid = vectors.embedder.child.pid if vectors and isinstance(vectors.embedder, LocalMixtures) else None
    return cpu_ms(pid) if pid else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", default="1000,10000", help="how many, with commas")
    parser.add_argument("--vectors", action="store_true", help="also with the local model")
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
                print(json.dumps(asyncio.run(measure(Path(folder), count, provider))), flush=True)


if __name__ == "__main__":
    main()
