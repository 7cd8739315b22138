"""OpenAI's embeddings API, and servers compatible with it."""

from collections.abc import Sequence

from msgspec import Struct, structs

from openclaw.core.embedder import EmbedderEndpoint, Traits, Vector
from openclaw.memory.embedders.remote import EmbedderHttp, check_vectors

BASE_URL = "https://api.openai.com/v1"
MODEL = "text-embedding-3-small"


class OpenAIItem(Struct, frozen=True):
    embedding: tuple[float, ...]
    index: int = 0


class OpenAIItems(Struct, frozen=True):
    data: tuple[OpenAIItem, ...]


def build(endpoint: EmbedderEndpoint) -> "OpenAIEmbedder":
    return OpenAIEmbedder(structs.replace(endpoint, model=endpoint.model or MODEL))


class OpenAIEmbedder:
    def __init__(self, endpoint: EmbedderEndpoint) -> None:
        self.model = endpoint.model
        self.traits = Traits(max_bytes=8_000, unrelated=0.1, alike=0.65) if "-3-" in endpoint.model else Traits()
        self._provider = endpoint.provider
        self._http = EmbedderHttp(endpoint, BASE_URL)

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        body = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        items = (await self._http.post("/embeddings", body, OpenAIItems)).data
        ordered = sorted(items, key=lambda item: item.index)
        return check_vectors(self._provider, texts, [item.embedding for item in ordered])

    async def close(self) -> None:
        await self._http.close()
