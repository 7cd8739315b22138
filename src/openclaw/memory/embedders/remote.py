"""The embedders of remote APIs (OpenAI, Gemini, Voyage, Ollama), and their HTTP client."""

import math
from array import array
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Struct, structs

from openclaw.core import errors
from openclaw.core.embedder import EmbedderEndpoint, Traits, Vector
from openclaw.core.errors import BadRequest, BadResponse, NetworkFailed, ProviderError
from openclaw.core.secret import Secret, redact
from openclaw.memory.embedders.pool import ADDRESSES
from openclaw.protocol.peer import is_loopback

CONNECT_SECONDS = 20.0
BODY_BYTES = 256 * 1024 * 1024
ERROR_CHARS = 200

Shape = TypeVar("Shape")


class EmbedderHttp:
    """The connections of one embedder, opened at the first call; translates failures to `ProviderError`s."""

    def __init__(self, endpoint: EmbedderEndpoint, key_header: str = "") -> None:
        self._endpoint = endpoint
        self._base = (endpoint.base_url or ADDRESSES[endpoint.provider]).rstrip("/")
        self._key_header = key_header
        self._client: httpx2.AsyncClient | None = None

    async def post(self, path: str, body: Mapping[str, Any], shape: type[Shape]) -> Shape:
        """Sends `body` and reads the answer as `shape`."""
        who = self._endpoint.provider
        try:
            client = self._ready()
            url = self._base + path
            async with client.stream("POST", url, content=msgspec.json.encode(body), headers=self._headers()) as answer:
                content = await _bounded(answer, BODY_BYTES)
                if answer.status_code >= 300:
                    raise self._failure(answer, content)
        except httpx2.ConnectError as error:
            raise NetworkFailed(f"no connection to {who} for embeddings: check the network and the address") from error
        except httpx2.TimeoutException as error:
            raise errors.ProviderTimeout(f"{who} gave no embeddings within {self._endpoint.timeout:g} s") from error
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise BadRequest(
                f"the address of {who} cannot be used: set memorySearch.remote.baseUrl to an http address"
            ) from error
        except httpx2.HTTPError as error:
            raise NetworkFailed(f"{who} broke off while sending embeddings: try again") from error
        try:
            return msgspec.json.decode(content, type=shape)
        except msgspec.DecodeError as error:
            raise BadResponse(
                f"{who} answered something that is not embeddings: check its address and model"
            ) from error

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def _ready(self) -> httpx2.AsyncClient:
        if self._client is None:
            timeout = httpx2.Timeout(self._endpoint.timeout, connect=CONNECT_SECONDS)
            # A proxy from the environment cannot reach this machine's loopback.
            self._client = httpx2.AsyncClient(
                timeout=timeout, trust_env=not is_loopback(urlsplit(self._base).hostname or "")
            )
        return self._client

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json", "user-agent": "openclaw"}
        if self._endpoint.key:
            key = self._endpoint.key.reveal().strip()
            headers[self._key_header or "authorization"] = key if self._key_header else f"Bearer {key}"
        headers.update(self._endpoint.headers)
        for name, value in headers.items():
            if not (name + value).isascii() or not (name + value).isprintable():
                raise BadRequest(
                    f"a header or key for {self._endpoint.provider} has characters that cannot be sent: correct "
                    "memorySearch.remote"
                )
        return headers

    def _failure(self, answer: httpx2.Response, content: bytes) -> ProviderError:
        status, who = answer.status_code, self._endpoint.provider
        text = content[:4096].decode(errors="replace")
        secrets = (self._endpoint.key, *(Secret(value) for value in self._endpoint.headers.values()))
        said = redact(" ".join(text.split())[:ERROR_CHARS], *secrets)
        wait = _seconds(answer.headers.get("retry-after", ""))
        match status:
            case 401 | 403:
                return errors.AuthFailed(f"{who} refused the key for embeddings: check it ({said})", status=status)
            case 402:
                return errors.BillingFailed(f"{who} wants payment for embeddings ({said})", status=status)
            case 404:
                return errors.ModelNotFound(
                    f"{who} has no embedding model {self._endpoint.model!r} at this address ({said})", status=status
                )
            case 429 if "quota" in text and "per minute" not in text.lower():
                return errors.BillingFailed(f"the quota of {who} for embeddings is used up ({said})", status=status)
            case 429:
                return errors.RateLimited(
                    f"{who} limits how many embeddings may be asked for", status=status, retry_after=wait
                )
            case 503 | 529:
                return errors.Overloaded(f"{who} is overloaded", status=status, retry_after=wait)
            case _ if status >= 500:
                return errors.ServerFailed(f"{who} failed (status {status}): {said}", status=status, retry_after=wait)
            case _:
                return BadRequest(f"{who} rejected the texts (status {status}): {said}", status=status)


def check_vectors(who: str, texts: Sequence[str], vectors: Sequence[Sequence[float]]) -> list[Vector]:
    """Returns `vectors`; raises when their number, lengths or values are wrong."""
    if len(vectors) != len(texts):
        raise BadResponse(f"{who} gave {len(vectors)} embeddings for {len(texts)} texts")
    found: list[Vector] = []
    for vector in vectors:
        if not vector or len(vector) != len(vectors[0]):
            raise BadResponse(f"{who} gave embeddings of different lengths")
        try:
            numbers = array("f", vector)
        except OverflowError as error:
            raise BadResponse(f"{who} gave an embedding with numbers that are too large") from error
        if not all(map(math.isfinite, numbers)):
            raise BadResponse(f"{who} gave an embedding with values that are not numbers")
        found.append(numbers)
    return found


async def _bounded(answer: httpx2.Response, limit: int) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > limit:
            raise BadResponse("the answer with embeddings is absurdly long")
    return bytes(body)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 86_400 else None


# The APIs.


class _Numbered(Struct, frozen=True):
    embedding: tuple[float, ...]
    index: int = 0


class _NumberedList(Struct, frozen=True):
    data: tuple[_Numbered, ...]

    def in_order(self) -> list[tuple[float, ...]]:
        return [item.embedding for item in sorted(self.data, key=attrgetter("index"))]


class RemoteEmbedder:
    """`Embedder` over a provider's API. A subclass says what is sent and how the answer is read."""

    default_model = ""
    key_header = ""
    batch_size = 1 << 20
    """Most texts of one request."""
    traits = Traits()

    def __init__(self, endpoint: EmbedderEndpoint) -> None:
        self.model = endpoint.model or self.default_model
        self._provider = endpoint.provider
        self._http = EmbedderHttp(structs.replace(endpoint, model=self.model), self.key_header)

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        found: list[Vector] = []
        for start in range(0, len(texts), self.batch_size):
            some = texts[start : start + self.batch_size]
            found += check_vectors(self._provider, some, await self._ask(some, query=False))
        return found

    async def embed_query(self, text: str) -> Vector:
        return check_vectors(self._provider, [text], await self._ask([text], query=True))[0]

    async def close(self) -> None:
        await self._http.close()

    async def _ask(self, texts: Sequence[str], *, query: bool) -> Sequence[Sequence[float]]:
        raise NotImplementedError


class OpenAIEmbedder(RemoteEmbedder):
    """OpenAI, and servers compatible with it."""

    default_model = "text-embedding-3-small"

    def __init__(self, endpoint: EmbedderEndpoint) -> None:
        super().__init__(endpoint)
        if "-3-" in self.model:
            self.traits = Traits(max_bytes=8_000, unrelated=0.1, alike=0.65)

    async def _ask(self, texts: Sequence[str], *, query: bool) -> Sequence[Sequence[float]]:
        body = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        return (await self._http.post("/embeddings", body, _NumberedList)).in_order()


class VoyageEmbedder(RemoteEmbedder):
    default_model = "voyage-4-large"

    async def _ask(self, texts: Sequence[str], *, query: bool) -> Sequence[Sequence[float]]:
        body = {"model": self.model, "input": list(texts), "input_type": "query" if query else "document"}
        return (await self._http.post("/embeddings", body, _NumberedList)).in_order()


class _GeminiItem(Struct, frozen=True):
    values: tuple[float, ...]


class _GeminiList(Struct, frozen=True):
    embeddings: tuple[_GeminiItem, ...]


class GeminiEmbedder(RemoteEmbedder):
    default_model = "gemini-embedding-001"
    key_header = "x-goog-api-key"
    batch_size = 100
    traits = Traits(max_bytes=6_000)

    def __init__(self, endpoint: EmbedderEndpoint) -> None:
        super().__init__(structs.replace(endpoint, model=endpoint.model.removeprefix("models/")))

    async def _ask(self, texts: Sequence[str], *, query: bool) -> Sequence[Sequence[float]]:
        name, task = f"models/{self.model}", "RETRIEVAL_QUERY" if query else "RETRIEVAL_DOCUMENT"
        requests = [{"model": name, "content": {"parts": [{"text": text}]}, "taskType": task} for text in texts]
        answer = await self._http.post(f"/{name}:batchEmbedContents", {"requests": requests}, _GeminiList)
        return [item.values for item in answer.embeddings]


class _OllamaList(Struct, frozen=True):
    embeddings: tuple[tuple[float, ...], ...]


class OllamaEmbedder(RemoteEmbedder):
    default_model = "nomic-embed-text"
    traits = Traits(max_bytes=6_000)

    async def _ask(self, texts: Sequence[str], *, query: bool) -> Sequence[Sequence[float]]:
        body = {"model": self.model, "input": list(texts)}
        return (await self._http.post("/api/embed", body, _OllamaList)).embeddings


_APIS = {"gemini": GeminiEmbedder, "voyage": VoyageEmbedder, "ollama": OllamaEmbedder}


def build(endpoint: EmbedderEndpoint) -> RemoteEmbedder:
    return _APIS.get(endpoint.provider, OpenAIEmbedder)(endpoint)
