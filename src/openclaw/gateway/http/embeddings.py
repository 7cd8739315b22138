"""`/v1/embeddings`, `/v1/models` and the history of a session."""

import asyncio
import base64
import sys
from array import array
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from openclaw.core.embedder import Vector
from openclaw.core.text import estimate_tokens
from openclaw.gateway.http.endpoint import HttpCall
from openclaw.gateway.http.problems import FAILED, HttpProblem
from openclaw.gateway.http.requests import DEFAULT, PREFIX, HttpBackend
from openclaw.sessions.files import load
from openclaw.sessions.history import message_to_json, page

BODY_BYTES = 5_000_000
MOST_TEXTS = 2_048

Embed = Callable[[Sequence[str]], Awaitable[Sequence[Vector]]]


class EmbeddingsRequest(Struct, kw_only=True):
    model: str
    input: Annotated[str, Meta(min_length=1)] | Annotated[list[Any], Meta(min_length=1, max_length=MOST_TEXTS)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None


async def embeddings(embed: Embed | None, call: HttpCall) -> None:
    request = call.read(EmbeddingsRequest)
    if embed is None:
        why = "there is no embedder: set agents.defaults.memorySearch.provider, or install openclaw-py[local]"
        raise HttpProblem(501, why, FAILED)
    texts = _texts(request.input)
    vectors = await embed(texts)
    if request.dimensions is not None and any(len(vector) != request.dimensions for vector in vectors):
        why = f"the vectors have {len(vectors[0])} dimensions: leave out `dimensions`, they are not cut"
        raise HttpProblem(400, why, param="dimensions")
    shown = _packed if request.encoding_format == "base64" else list
    data = [{"object": "embedding", "index": at, "embedding": shown(vector)} for at, vector in enumerate(vectors)]
    used = sum(estimate_tokens(len(text)) for text in texts)
    usage = {"prompt_tokens": used, "total_tokens": used}
    await call.answer({"object": "list", "data": data, "model": request.model, "usage": usage})


def _texts(given: str | list[Any]) -> list[str]:
    if isinstance(given, str):
        return [given]
    texts = [each for each in given if isinstance(each, str) and each]
    if len(texts) != len(given):
        raise HttpProblem(400, "`input` must be a text or a list of texts, none of them empty", param="input")
    return texts


def _packed(vector: Vector) -> str:
    """32-bit little-endian floats in base64, which clients request to save space."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


# History.

DEFAULT_LIMIT = 200
MOST = 1_000


async def history(backend: HttpBackend, call: HttpCall) -> None:
    limit = _limit(call.request.query_params.get("limit"))
    key = backend.key_of(call.request.path_params["key"], None)
    found = await backend.index.get(key)
    if found is None:
        raise HttpProblem(404, f"Session not found: {key}", "not_found")
    path = await backend.index.fetch(found.agent_id, found.session_id)
    entries = (await asyncio.to_thread(load, path)).entries if path.exists() else ()
    shown = page(entries, limit=limit)
    items = [message_to_json(each.message, each.entry_id, each.number) for each in shown.rows]
    more = shown.next_offset is not None
    await call.answer({"sessionKey": str(key), "sessionId": found.session_id, "items": items, "hasMore": more})


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise HttpProblem(400, "limit must be a number from 1 on", param="limit")
    return min(int(text), MOST)


# Models.


async def models(backend: HttpBackend, call: HttpCall) -> None:
    """All models, or the one in the path."""
    names = [PREFIX, f"{PREFIX}/{DEFAULT}", *(f"{PREFIX}/{agent}" for agent in backend.agents())]
    wanted = call.request.path_params.get("id")
    if wanted is None:
        await call.answer({"object": "list", "data": [_shape(name) for name in names]})
    elif wanted in names:
        await call.answer(_shape(wanted))
    else:
        why = f"there is no model {wanted[:100]!r}: /v1/models lists what there is"
        raise HttpProblem(404, why, code="model_not_found")


def _shape(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "openclaw", "permission": []}
