"""Vectors that can be relied on: asked for in batches, again after a failure, and checked before they are kept."""

import asyncio
import math
from array import array
from collections.abc import Sequence

from openclaw.core.clock import Clock
from openclaw.core.embedder import Embedder, EmbedsQueries, HasTraits, Traits, Vector
from openclaw.core.errors import BadRequest, BadResponse, ProviderError, ProviderTimeout, RateLimited
from openclaw.memory.chunk import windows

BATCH_BYTES = 8_000
BATCH_TEXTS = 64
QUERY_SECONDS = 8.0
TRIES, FIRST_WAIT, LONGEST_WAIT = 3, 0.5, 8.0
LIMITED_TRIES, LIMITED_FIRST, LIMITED_LONGEST = 5, 5.0, 60.0


class CheckedVectors:
    """An embedder with patience."""

    def __init__(self, embedder: Embedder, clock: Clock) -> None:
        self.embedder = embedder
        self._clock = clock

    @property
    def model(self) -> str:
        return self.embedder.model

    @property
    def traits(self) -> Traits:
        return self.embedder.traits if isinstance(self.embedder, HasTraits) else Traits()

    async def query(self, text: str, dims: int) -> "array[float]":
        """The vector of a question, in time or not at all."""
        text = windows(text, self.traits.max_bytes)[0]
        try:
            async with asyncio.timeout(QUERY_SECONDS):
                return unit(await self._question(text), dims)
        except TimeoutError as error:
            raise ProviderTimeout(f"no vector for the question within {QUERY_SECONDS:g} s") from error

    async def pieces(self, texts: Sequence[str], dims: int) -> list[list["array[float]"]]:
        """The vectors of each text: one for every part the model can read whole."""
        parts = [(at, part) for at, text in enumerate(texts) for part in windows(text, self.traits.max_bytes)]
        found: list[list[array[float]]] = [[] for _ in texts]
        for batch in _batches(parts):
            for (at, _), vector in zip(batch, await self._patiently([part for _, part in batch]), strict=True):
                found[at].append(unit(vector, dims or (len(found[0][0]) if found[0] else 0)))
        return found

    async def of(self, texts: Sequence[str]) -> list[Vector]:
        """Each text as one vector, as the embedder gives it."""
        found: list[Vector] = []
        for start in range(0, len(texts), BATCH_TEXTS):
            found += await self._patiently(texts[start : start + BATCH_TEXTS])
        return found

    async def close(self) -> None:
        await self.embedder.close()

    async def _question(self, text: str) -> Vector:
        for attempt in range(TRIES):
            try:
                if isinstance(self.embedder, EmbedsQueries):
                    return await self.embedder.embed_query(text)
                return (await self.embedder.embed([text]))[0]
            except ProviderError as error:
                if not error.retryable or attempt == TRIES - 1:
                    raise
                await self._clock.sleep(error.retry_after or min(LONGEST_WAIT, FIRST_WAIT * 2**attempt))
        raise AssertionError("unreachable")

    async def _patiently(self, texts: Sequence[str]) -> Sequence[Vector]:
        attempt = 0
        while True:
            try:
                vectors = await self.embedder.embed(texts)
                if len(vectors) != len(texts):
                    raise BadResponse(f"{self.model} gave {len(vectors)} vectors for {len(texts)} texts")
                return vectors
            except BadRequest:
                # Too much at once, or one text it cannot take: the halves show which.
                if len(texts) < 2:
                    raise
                middle = len(texts) // 2
                return [*await self._patiently(texts[:middle]), *await self._patiently(texts[middle:])]
            except ProviderError as error:
                attempt += 1
                limited = isinstance(error, RateLimited)
                if not error.retryable or attempt >= (LIMITED_TRIES if limited else TRIES):
                    raise
                first, longest = (LIMITED_FIRST, LIMITED_LONGEST) if limited else (FIRST_WAIT, LONGEST_WAIT)
                wait = min(longest, first * 2 ** (attempt - 1))
                await self._clock.sleep(min(longest, max(wait, error.retry_after or 0)))


def unit(vector: Vector, dims: int) -> "array[float]":
    """`vector` with length 1, or of zeros; refused when it cannot be compared with the others."""
    if dims and len(vector) != dims:
        raise BadResponse(
            f"the embedding model gave {len(vector)} numbers, and the index has {dims}: openclaw memory index --force"
        )
    length = math.sqrt(math.fsum(value * value for value in vector))
    if not vector or not math.isfinite(length):
        raise BadResponse("the embedding model gave a vector with values that are not numbers")
    return array("f", [value / length for value in vector] if length else vector)


def _batches(parts: Sequence[tuple[int, str]]) -> list[list[tuple[int, str]]]:
    found: list[list[tuple[int, str]]] = [[]]
    used = 0
    for part in parts:
        cost = len(part[1].encode("utf-8", "replace"))
        if found[-1] and (used + cost > BATCH_BYTES or len(found[-1]) >= BATCH_TEXTS):
            found.append([])
            used = 0
        found[-1].append(part)
        used += cost
    return [batch for batch in found if batch]
