"""An offline embedder for tests and trials: vectors of word hashes, which match words and not meanings."""

import math
import re
import zlib
from array import array
from collections.abc import Sequence

from openclaw.core.embedder import EmbedderEndpoint, Vector

DIMS = 256
_WORD = re.compile(r"\w+")


def build(endpoint: EmbedderEndpoint) -> "HashedEmbedder":
    return HashedEmbedder(endpoint.model or "hash-256")


class HashedEmbedder:
    """Deterministic: the same words give the same vector."""

    def __init__(self, model: str = "hash-256") -> None:
        self.model = model

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        return [_vector(text) for text in texts]

    async def close(self) -> None:
        return None


def _vector(text: str) -> "array[float]":
    vector = array("f", bytes(4 * DIMS))
    for word in _WORD.findall(text.casefold()):
        vector[zlib.crc32(word.encode()) % DIMS] += 1.0
    length = math.sqrt(sum(value * value for value in vector)) or 1.0
    return array("f", [value / length for value in vector])
