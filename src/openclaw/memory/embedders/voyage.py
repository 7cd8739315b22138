"""Voyage's embeddings API, with separate input types for queries and documents."""

from collections.abc import Sequence

from msgspec import Struct, structs

from openclaw.core.embedder import EmbedderEndpoint, Vector
from openclaw.memory.embedders.remote import EmbedderHttp, check_vectors

BASE_URL = "https://api.voyageai.com/v1"
MODEL = "voyage-4-large"


class VoyageItem(Struct, frozen=True):
    embedding: tuple[float, ...]
    index: int = 0


class VoyageItems(Struct, frozen=True):
    data: tuple[VoyageItem, ...]


def build(endpoint: EmbedderEndpoint) -> "VoyageEmbedder":
    return VoyageEmbedder(structs.replace(endpoint, model=endpoint.model or MODEL))


class VoyageEmbedder:
    def __init__(self, endpoint: EmbedderEndpoint) -> None:
        self.model = endpoint.model
        self._provider = endpoint.provider
        self._http = EmbedderHttp(endpoint, BASE_URL)

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        return await self._embed(texts, "document")

    async def embed_query(self, text: str) -> Vector:
        return (await self._embed([text], "query"))[0]

    async def close(self) -> None:
        await self._http.close()

    async def _embed(self, texts: Sequence[str], kind: str) -> list[Vector]:
        body = {"model": self.model, "input": list(texts), "input_type": kind}
        items = (await self._http.post("/embeddings", body, VoyageItems)).data
        ordered = sorted(items, key=lambda item: item.index)
        return check_vectors(self._provider, texts, [item.embedding for item in ordered])
