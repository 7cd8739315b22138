"""Ollama's embeddings API, usually on this machine."""

from collections.abc import Sequence

from msgspec import Struct, structs

from openclaw.core.embedder import EmbedderEndpoint, Traits, Vector
from openclaw.memory.embedders.remote import EmbedderHttp, check_vectors

BASE_URL = "http://127.0.0.1:11434"
MODEL = "nomic-embed-text"


class OllamaItems(Struct, frozen=True):
    embeddings: tuple[tuple[float, ...], ...]


def build(endpoint: EmbedderEndpoint) -> "OllamaEmbedder":
    return OllamaEmbedder(structs.replace(endpoint, model=endpoint.model or MODEL))


class OllamaEmbedder:
    def __init__(self, endpoint: EmbedderEndpoint) -> None:
        self.model = endpoint.model
        self.traits = Traits(max_bytes=6_000)
        self._provider = endpoint.provider
        self._http = EmbedderHttp(endpoint, BASE_URL)

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        answer = await self._http.post("/api/embed", {"model": self.model, "input": list(texts)}, OllamaItems)
        return check_vectors(self._provider, texts, answer.embeddings)

    async def close(self) -> None:
        await self._http.close()
