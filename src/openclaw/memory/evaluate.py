"""Evaluates the search: runs questions with known answers and computes hit rates and MRR."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from openclaw.core.errors import InvalidRequest
from openclaw.memory.index import MemoryIndex
from openclaw.memory.settings import DecaySettings, HybridSettings, MemorySearchSettings, QuerySettings

ASKED = 6
"""Results of a search that count."""
Search = Callable[[str], Awaitable[Iterable[tuple[str, int, int]]]]
"""Finds notes for a question: the path, first and last line of each result."""


class EvalQuestion(Struct, frozen=True, kw_only=True):
    """A question and the note that answers it."""

    question: str
    path: str
    kind: str = "all"
    line: int | None = None
    """A line of the answer, when the note is long."""

    def answered_by(self, path: str, start: int, end: int) -> bool:
        return path == self.path and (self.line is None or start <= self.line <= end)


class EvalMetrics(Struct, frozen=True, kw_only=True):
    """The metrics of one kind of question."""

    kind: str
    questions: int
    hit_at_1: float
    hit_at_5: float
    mrr: float


def parse_questions(data: bytes, name: str) -> tuple[EvalQuestion, ...]:
    """Parses questions from JSON lines."""
    found = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(msgspec.json.decode(line, type=EvalQuestion))
        except msgspec.DecodeError as error:
            raise InvalidRequest(
                f'{name}, line {number}: {error}. Write {{"question": "…", "path": "memory/…"}} on each line.'
            ) from error
    if not found:
        raise InvalidRequest(f"{name} has no questions")
    return tuple(found)


def sample_questions() -> tuple[EvalQuestion, ...]:
    """The shipped questions."""
    return parse_questions(files("openclaw.memory.sample").joinpath("questions.jsonl").read_bytes(), "the sample")


def write_sample(workspace: Path) -> None:
    """Writes the shipped notes into `workspace`."""
    text = files("openclaw.memory.sample").joinpath("notes.txt").read_text(encoding="utf-8")
    for part in text.split("=== ")[1:]:
        name, _, body = part.partition("\n")
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")


def search_in(memory: MemoryIndex) -> Search:
    async def search(question: str) -> list[tuple[str, int, int]]:
        found = await memory.search(question, max_results=ASKED)
        return [(each.piece.path, each.piece.start, each.piece.end) for each in found.results]

    return search


async def ask(search: Search, questions: Sequence[EvalQuestion]) -> list[tuple[EvalQuestion, int]]:
    """Runs each question once, through the same search a person uses.

    Gives each with the rank of its answer in the results; 0 when it was not among them.
    """
    outcomes = []
    for question in questions:
        places = enumerate(await search(question.question), 1)
        outcomes.append((question, next((at for at, place in places if question.answered_by(*place)), 0)))
    return outcomes


LITTLE_AGE = HybridSettings(temporal_decay=DecaySettings(max_share=0.15))
"""The sample's dates are long past: at their full age all of its notes would be nearly worthless."""


async def compare(
    workspace: Path, opened: Callable[[str, MemorySearchSettings], MemoryIndex]
) -> dict[str, list[EvalMetrics]]:
    """Evaluates the sample with keywords, with vectors, and with both. Age counts little."""
    write_sample(workspace)
    both = MemorySearchSettings(query=QuerySettings(hybrid=LITTLE_AGE))
    ways = {
        "keyword": structs.replace(both, provider="none"),
        "vector": structs.replace(both, query=QuerySettings(hybrid=structs.replace(LITTLE_AGE, enabled=False))),
        "hybrid": both,
    }
    found = {}
    for name, settings in ways.items():
        memory = opened(name, settings)
        try:
            await memory.sync()
            found[name] = compute_metrics(await ask(search_in(memory), sample_questions()))
        finally:
            await memory.close()
    return found


def compute_metrics(outcomes: Iterable[tuple[EvalQuestion, int]]) -> list[EvalMetrics]:
    """Hit rates and mean reciprocal rank, by kind of question and over all."""
    by_kind: dict[str, list[int]] = {}
    for question, place in outcomes:
        for kind in dict.fromkeys((question.kind, "all")):
            by_kind.setdefault(kind, []).append(place)
    every = by_kind.pop("all", [])
    return [_figures(kind, places) for kind, places in (*by_kind.items(), ("all", every))]


def _figures(kind: str, places: list[int]) -> EvalMetrics:
    count = max(1, len(places))
    return EvalMetrics(
        kind=kind,
        questions=len(places),
        hit_at_1=sum(place == 1 for place in places) / count,
        hit_at_5=sum(1 <= place <= 5 for place in places) / count,
        mrr=sum(1 / place for place in places if place) / count,
    )
