"""Ranks search hits: text score, vector score, age decay, and diversity (MMR). Pure.

The text score is the share of the query's terms that a chunk contains, each weighted by its rarity, so that a word
found everywhere decides nothing. The vector score is the cosine on the scale of its model. Both are added with their
weights; a chunk that contains the query's rare term is never outranked by merely similar ones.
"""

import math
import re
from collections.abc import Sequence
from datetime import date
from functools import cache

from msgspec import Struct, structs

from openclaw.core.embedder import Traits
from openclaw.memory.terms import Term, word_set

MOST_CANDIDATES = 200
WORST_TEXT = 0.001
COVER_SHARE = 0.85
"""The share of coverage in the text score; the rest is BM25."""
SHARPNESS = 1.25
"""Exponent on coverage: half of the words scores less than half."""
RARE_SHARE = 0.03
RARE_COUNT = 3
CERTAIN_COVERAGE = 0.8
"""From this coverage on, a hit with a rare term counts as certain."""
LIFT_FROM = 0.45

_DATED = re.compile(r"(?:^|/)(\d{4})-(\d{2})-(\d{2})(?:-[^/]+)?\.md$")
_SECONDS = 86_400.0


class WeightedTerm(Struct, frozen=True):
    """A query term with its weight in this index."""

    term: Term
    docs: int
    worth: float
    rare: bool


class IndexedChunk(Struct, frozen=True):
    """A chunk as stored in the index."""

    number: int
    path: str
    source: str
    start: int
    end: int
    text: str
    mtime: float = 0.0
    """Seconds since the epoch."""
    label: str = ""
    """Its trust label, when it differs from an ordinary note's."""
    owner: str = ""
    """The session a conversation belongs to."""


class RankedHit(Struct, frozen=True, kw_only=True):
    """A chunk found by a search, with every part of its score."""

    piece: IndexedChunk
    vector: float | None = None
    text: float | None = None
    matched: tuple[str, ...] = ()
    sure: bool = False
    """It contains the query's rare terms."""
    relevance: float = 0.0
    age: float = 1.0
    """The factor of its age."""
    score: float = 0.0
    cosine: float | None = None


def candidates(max_results: int, multiplier: float) -> int:
    """How many candidates the keyword and the vector search each return."""
    return min(MOST_CANDIDATES, max(1, math.floor(max_results * multiplier)))


def bm25_to_score(rank: float) -> float:
    """Maps SQLite's BM25 rank, where less is better, to 0..1."""
    if not math.isfinite(rank):
        return WORST_TEXT
    return -rank / (1 - rank) if rank < 0 else 1 / (1 + rank)


def weigh(terms: Sequence[Term], docs: Sequence[int], total: int) -> tuple[WeightedTerm, ...]:
    """Weighs each term by rarity: `docs` of `total` chunks contain it; a term found nowhere weighs most."""
    most = max(RARE_COUNT, round(total * RARE_SHARE))
    return tuple(
        WeightedTerm(term, count, term.weight * math.log(1 + (total - count + 0.5) / (count + 0.5)), count <= most)
        for term, count in zip(terms, docs, strict=True)
    )


def text_score(terms: Sequence[WeightedTerm], mask: int, rank: float) -> tuple[float, bool]:
    """The text score of a chunk with the terms in the bits of `mask`, and whether it counts as certain."""
    total = sum(weighed.worth for weighed in terms)
    matched = [weighed for at, weighed in enumerate(terms) if mask >> at & 1]
    if not matched or total <= 0:
        return 0.0, False
    covered = sum(weighed.worth for weighed in matched) / total
    score = covered**SHARPNESS * (COVER_SHARE + (1 - COVER_SHARE) * bm25_to_score(rank))
    exact = any(weighed.rare and weighed.term.exact for weighed in matched)
    return score, exact or (covered >= CERTAIN_COVERAGE and any(weighed.rare for weighed in matched))


def vector_score(cosine: float, traits: Traits) -> float:
    """Scales a cosine by its model's traits: about 1/8 for unrelated, 7/8 for similar texts."""
    middle, spread = (traits.unrelated + traits.alike) / 2, max(1e-6, (traits.alike - traits.unrelated) / 4)
    return 1 / (1 + math.exp(min(60.0, (middle - cosine) / spread)))


def relevance(found: RankedHit, vector_weight: float, text_weight: float) -> float:
    """The weighted mean of both scores, a missing one as 0; a certain text hit is lifted above it."""
    total = vector_weight + text_weight
    if total <= 0:
        return 0.0
    vector, text = found.vector or 0.0, found.text or 0.0
    mixed = (vector_weight * vector + text_weight * text) / total
    if found.sure and text_weight > 0:
        return max(mixed, LIFT_FROM + (1 - LIFT_FROM) * text)
    return mixed


def decay(piece: IndexedChunk, now: float, half_life_days: float) -> float:
    """The factor of a chunk's age: dated notes decay, curated ones do not."""
    if piece.source == "memory" and (piece.path in ("MEMORY.md", "memory.md") or piece.path.startswith("memory/")):
        day = date_in_name(piece.path)
        if day is None:
            return 1.0
        born = (day - date(1970, 1, 1)).days * _SECONDS
    else:
        born = piece.mtime
    age = max(0.0, (now - born) / _SECONDS)
    return math.exp(-math.log(2) / half_life_days * age)


def date_in_name(path: str) -> date | None:
    """The day a note is named after."""
    found = _DATED.search(path)
    try:
        return date(*map(int, found.groups())) if found else None
    except ValueError:
        return None


def order(found: RankedHit) -> tuple[float, str, int, int]:
    return (-found.score, found.piece.path, found.piece.start, found.piece.end)


def apply_decay(
    results: Sequence[RankedHit], now: float, half_life_days: float | None, most: float = 1.0
) -> list[RankedHit]:
    """Applies the age decay, which takes at most the share `most`, and sorts; without a half-life only sorts."""
    out = []
    for result in results:
        kept = decay(result.piece, now, half_life_days) if half_life_days else 1.0
        out.append(structs.replace(result, age=kept, score=result.relevance * (1 - most * (1 - kept))))
    return sorted(out, key=order)


def select_hits(results: Sequence[RankedHit], min_score: float, most: int) -> list[RankedHit]:
    """Selects the results to return, best first.

    The threshold is compared with the relevance before decay; age only orders what passed. When too few pass, chunks
    that share words with the query fill the list.
    """
    least = min(1.0, max(0.0, min_score))
    passed = [result for result in results if result.relevance >= least][:most]
    rest = [result for result in results if result.relevance < least and result.text]
    return passed + rest[: max(0, most - len(passed))]


def diversify(results: Sequence[RankedHit], share: float, most: int) -> list[RankedHit]:
    """Selects at most `most` results by maximal marginal relevance: score minus similarity to those selected."""
    if len(results) < 2:
        return list(results)[:most]
    scores = [result.score for result in results]
    low, high = min(scores), max(scores)
    worth = [1.0 if high == low else (score - low) / (high - low) for score in scores]
    words = cache(lambda at: word_set(results[at].piece.text))
    likeness = [0.0] * len(results)
    compared = [0] * len(results)
    """With how many of those picked each has been compared."""
    left = sorted(range(len(results)), key=lambda at: -worth[at])
    picked: list[int] = []
    while left and len(picked) < most:
        best = (-math.inf, 0.0, 0)
        for at in left:
            if share * worth[at] < best[0]:
                break  # this one and those after it are worth less even if they are like none of those picked
            for other in picked[compared[at] :]:
                alike = similarity(words(at), words(other), results[at], results[other])
                likeness[at] = max(likeness[at], alike)
            compared[at] = len(picked)
            best = max(best, (share * worth[at] - (1 - share) * likeness[at], scores[at], -at))
        left.remove(-best[2])
        picked.append(-best[2])
    return [results[at] for at in picked]


def similarity(one: frozenset[str], other: frozenset[str], first: RankedHit, second: RankedHit) -> float:
    """The share of words two chunks have in common."""
    if not one and not other:
        return 1.0 if first.piece.text.lower() == second.piece.text.lower() else 0.0
    common = len(one & other)
    return common / (len(one) + len(other) - common)
