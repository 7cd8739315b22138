"""Google's embeddings API, with separate task types for queries and documents."""

from collections.abc import Sequence

from msgspec import Struct, structs

from openclaw.core.embedder import EmbedderEndpoint, Traits, Vector
from openclaw.memory.embedders.remote import EmbedderHttp, check_vectors

BASE_URL = "https://generativelanguage.googleapis.com/v1beta"
MODEL = "gemini-embedding-001"
BATCH_SIZE = 100
"""Most texts of one request."""


class GeminiItem(Struct, frozen=True):
    values: tuple[float, ...]


class GeminiItems(Struct, frozen=True):
    embeddings: tuple[GeminiItem, ...]


def build(endpoint: EmbedderEndpoint) -> "GeminiEmbedder":
    return GeminiEmbedder(structs.replace(endpoint, model=endpoint.model.removeprefix("models/") or MODEL))


class GeminiEmbedder:
    def __init__(self, endpoint: EmbedderEndpoint) -> None:
        self.model = endpoint.model
        self.traits = Traits(max_bytes=6_000)
        self._provider = endpoint.provider
        self._http = EmbedderHttp(endpoint, BASE_URL, key_header="x-goog-api-key")

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        found: list[Vector] = []
        for start in range(0, len(texts), BATCH_SIZE):
            found += await self._embed(texts[start : start + BATCH_SIZE], "RETRIEVAL_DOCUMENT")
        return found

    async def embed_query(self, text: str) -> Vector:
        return (await self._embed([text], "RETRIEVAL_QUERY"))[0]

    async def close(self) -> None:
        await self._http.close()

    async def _embed(self, texts: Sequence[str], task: str) -> list[Vector]:
        name = f"models/{self.model}"
        requests = [{"model": name, "content": {"parts": [{"text": text}]}, "taskType": task} for text in texts]
        answer = await self._http.post(f"/{name}:batchEmbedContents", {"requests": requests}, GeminiItems)
        return check_vectors(self._provider, texts, [item.values for item in answer.embeddings])
