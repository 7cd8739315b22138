"""What every embedder promises, whichever it is."""

import math

import pytest

from openclaw.core.embedder import Embedder, EmbedderEndpoint
from openclaw.memory import embedders

pytestmark = pytest.mark.anyio
KINDS = [
    "hash",
    pytest.param(
        "local",
        marks=pytest.mark.skipif(
            bool(embedders.embedder_problem(EmbedderEndpoint(provider="local"))),
            reason="the extra `local` is not installed",
        ),
    ),
]


@pytest.fixture(params=KINDS)
async def embedder(request):
    made = embedders.open_embedder(EmbedderEndpoint(provider=request.param))
    yield made
    await made.close()


async def test_one_vector_for_each_text_all_of_one_length(embedder: Embedder):
    vectors = await embedder.embed(["green tea", "a red boat in the harbour", ""])
    assert len(vectors) == 3 and len({len(vector) for vector in vectors}) == 1
    assert all(math.isfinite(value) for vector in vectors for value in vector)
    assert math.sqrt(sum(value * value for value in vectors[0])) == pytest.approx(1, abs=1e-3)


async def test_the_same_text_has_the_same_vector(embedder: Embedder):
    (first,), (again, _) = await embedder.embed(["green tea"]), await embedder.embed(["green tea", "another text"])
    assert list(first) == pytest.approx(list(again), abs=1e-3)


async def test_it_has_a_name_and_can_be_closed_twice(embedder: Embedder):
    assert embedder.model
    assert list(await embedder.embed([])) == []
    await embedder.close()
    await embedder.close()
