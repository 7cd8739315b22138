"""`/v1/embeddings`: texts as vectors, from the embedder the memory uses."""

import base64
import sys
from array import array
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from openclaw.core.embedder import Vector
from openclaw.core.text import tokens
from openclaw.gateway.http.endpoint import HttpCall
from openclaw.gateway.http.problems import FAILED, HttpProblem

BODY_BYTES = 5_000_000
MOST_TEXTS = 2_048

Embed = Callable[[Sequence[str]], Awaitable[Sequence[Vector]]]


class EmbeddingsRequest(Struct, kw_only=True):
    model: str
    input: Annotated[str, Meta(min_length=1)] | Annotated[list[Any], Meta(min_length=1, max_length=MOST_TEXTS)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None


class Embeddings:
    def __init__(self, embed: Embed | None) -> None:
        self._embed = embed

    async def __call__(self, call: HttpCall) -> None:
        request = call.read(EmbeddingsRequest)
        if self._embed is None:
            raise HttpProblem(
                501,
                "there is no embedder: set agents.defaults.memorySearch.provider, or install openclaw-py[local]",
                FAILED,
            )
        texts = _texts(request.input)
        vectors = await self._embed(texts)
        if request.dimensions is not None and any(len(vector) != request.dimensions for vector in vectors):
            raise HttpProblem(
                400,
                f"the vectors have {len(vectors[0])} dimensions: leave out `dimensions`, they are not cut",
                param="dimensions",
            )
        shown = _packed if request.encoding_format == "base64" else list
        used = sum(tokens(len(text)) for text in texts)
        await call.answer(
            {
                "object": "list",
                "data": [
                    {"object": "embedding", "index": index, "embedding": shown(vector)}
                    for index, vector in enumerate(vectors)
                ],
                "model": request.model,
                "usage": {"prompt_tokens": used, "total_tokens": used},
            }
        )


def _texts(given: str | list[Any]) -> list[str]:
    if isinstance(given, str):
        return [given]
    texts = [each for each in given if isinstance(each, str) and each]
    if len(texts) != len(given):
        raise HttpProblem(400, "`input` must be a text or a list of texts, none of them empty", param="input")
    return texts


def _packed(vector: Vector) -> str:
    """32-bit floats, lowest byte first, in base64: what clients ask for to save space."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()
