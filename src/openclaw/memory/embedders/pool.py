"""Chooses and opens the embedder of a memory index: plugins' embedders, the choice, retries, the fallback."""

import asyncio
import math
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from openclaw.core import errors
from openclaw.core.clock import Clock
from openclaw.core.embedder import (
    EmbeddedQuery,
    Embedder,
    EmbedderEndpoint,
    EmbedsQueries,
    HasTraits,
    Prepares,
    SearchesIndex,
    Traits,
    Vector,
)
from openclaw.core.errors import BadResponse, OpenClawError, ProviderError, ServerFailed
from openclaw.core.plugin import OpensEmbedder
from openclaw.core.secret import Secret
from openclaw.memory.chunk import windows
from openclaw.memory.database import IndexIdentity
from openclaw.memory.embedders import open_embedder
from openclaw.memory.settings import BUILT_IN, MemorySearchSettings
from openclaw.memory.sync import SyncPlan
from openclaw.memory.writer import KEYWORDS_ONLY

# Embedders of plugins.

T = TypeVar("T")


class EmbedderSource(Protocol):
    """The running plugins, as far as embedders go."""

    async def ready(self) -> None: ...

    def embedder(self, name: str) -> OpensEmbedder | None: ...


def build_embedder(plugins: EmbedderSource, endpoint: EmbedderEndpoint) -> Embedder:
    """Opens the embedder behind `endpoint`, built-in or of a plugin."""
    return open_embedder(endpoint) if endpoint.provider in BUILT_IN else PluginEmbedder(endpoint, plugins)


class PluginEmbedder:
    """An `Embedder` of a plugin. Looks the plugin up for every call, as it may stop or be replaced."""

    def __init__(self, endpoint: EmbedderEndpoint, plugins: EmbedderSource) -> None:
        self.model = endpoint.model
        self.traits = Traits()
        self._endpoint = endpoint
        self._plugins = plugins
        self._opens: OpensEmbedder | None = None
        self._embedder: Embedder | None = None
        self._opening = asyncio.Lock()

    @property
    def prepared(self) -> bool:
        # A replaced plugin may have another model, so it is asked again. While none runs, the last answer holds:
        # the index made with it stays usable.
        opens = self._plugins.embedder(self._endpoint.provider)
        return self._embedder is not None and opens in (None, self._opens)

    async def prepare(self) -> None:
        await self._found()

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        embedder = await self._same()
        return await self._translated(embedder.embed(texts))

    async def embed_query(self, text: str) -> Vector:
        embedder = await self._same()
        if isinstance(embedder, EmbedsQueries):
            return await self._translated(embedder.embed_query(text))
        return (await self._translated(embedder.embed([text])))[0]

    async def close(self) -> None:
        if self._embedder is not None:
            await self._embedder.close()

    async def _same(self) -> Embedder:
        """The embedder; raises when its model changed since `prepare`."""
        before = (self.model, self.traits) if self._embedder is not None else None
        embedder = await self._found()
        if before not in (None, (self.model, self.traits)):
            raise ProviderError(f"the embedder {self._endpoint.provider} has another model now: {self.model}")
        return embedder

    async def _found(self) -> Embedder:
        name = self._endpoint.provider
        try:
            await self._plugins.ready()
        except OpenClawError as error:
            raise ServerFailed(f"plugins were not started, so there is no embedder {name}: {error.message}") from error
        async with self._opening:
            opens = self._plugins.embedder(name)
            if opens is None:
                raise ServerFailed(
                    f"no plugin that runs brings an embedder {name}: see openclaw plugins list, or choose one of "
                    f"{', '.join(('auto', *BUILT_IN))}"
                )
            if self._embedder is None or self._opens is not opens:
                self._embedder = await self._translated(self._open(opens))
                self._opens = opens
            return self._embedder

    async def _open(self, opens: OpensEmbedder) -> Embedder:
        embedder = opens(self._endpoint)
        if isinstance(embedder, Prepares):
            await embedder.prepare()
        self.model = embedder.model
        self.traits = embedder.traits if isinstance(embedder, HasTraits) else Traits()
        return embedder

    async def _translated(self, asked: Awaitable[T]) -> T:
        try:
            return await asked
        except ProviderError:
            raise
        # A plugin in this process may raise anything; that is the plugin's failure, not a bug of ours.
        except Exception as error:
            raise ProviderError(f"the embedder {self._endpoint.provider} failed: {error}") from error


# The choice.

AUTO = ("local", "openai", "gemini", "voyage")
REMOTE = ("openai", "gemini", "voyage", "ollama", "openai-compatible")
KEY_SOURCES = {
    "openai": ("openai", ("OPENAI_API_KEY",)),
    "gemini": ("google", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    "voyage": ("voyage", ("VOYAGE_API_KEY",)),
}
"""By embedder: its section of `models.providers`, and its environment variables."""
ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
    "voyage": "https://api.voyageai.com/v1",
    "ollama": "http://127.0.0.1:11434",
}

Problem = Callable[[EmbedderEndpoint], str]
"""Says why an embedder cannot be used here; empty when it can."""


class EmbedderChoice(Struct, frozen=True, kw_only=True):
    """The embedder to use; without an endpoint the search is by keywords only, for the reason in `why`."""

    endpoint: EmbedderEndpoint | None = None
    why: str = ""
    strict: bool = False
    """A remote embedder configured by name: its failure is reported instead of falling back to keywords."""

    @property
    def provider(self) -> str:
        return self.endpoint.provider if self.endpoint else "none"


def provider_keys(environ: Mapping[str, str], configured: Mapping[str, Secret]) -> dict[str, Secret]:
    """The providers' own keys: what `models.providers` has, else what the environment has."""
    found = {}
    for provider, (section, names) in KEY_SOURCES.items():
        value = next((environ[name].strip() for name in names if environ.get(name, "").strip()), "")
        if section in configured:
            found[provider] = configured[section]
        elif value:
            found[provider] = Secret(value)
    return found


def choose(settings: MemorySearchSettings, keys: Mapping[str, Secret], problem: Problem) -> EmbedderChoice:
    """Chooses the embedder by the settings."""
    if settings.provider == "none":
        return EmbedderChoice(why="memorySearch.provider is none")
    if settings.provider != "auto":
        return _choice(settings, settings.provider, keys, problem, strict=settings.provider in REMOTE)
    choices = [_choice(settings, name, keys, problem) for name in AUTO]
    return next((choice for choice in choices if choice.endpoint), choices[0])


def fallback(settings: MemorySearchSettings, keys: Mapping[str, Secret], problem: Problem) -> EmbedderChoice | None:
    """The embedder to use when the chosen one fails."""
    if settings.fallback in ("none", settings.provider):
        return None
    # The configured model, address and key belong to the first choice.
    other = msgspec.structs.replace(settings, model="", remote=type(settings.remote)())
    found = _choice(other, settings.fallback, keys, problem, strict=settings.fallback in REMOTE)
    return found if found.endpoint else None


def _choice(
    settings: MemorySearchSettings, name: str, keys: Mapping[str, Secret], problem: Problem, *, strict: bool = False
) -> EmbedderChoice:
    found = endpoint(settings, name, keys)
    why = missing(found) or problem(found)
    return EmbedderChoice(endpoint=None if why else found, why=why, strict=strict)


def endpoint(settings: MemorySearchSettings, provider: str, keys: Mapping[str, Secret]) -> EmbedderEndpoint:
    """The endpoint of `provider`; its usual key is sent to its own address only."""
    remote = settings.remote
    foreign = remote.base_url is not None and remote.base_url.rstrip("/") != ADDRESSES.get(provider)
    key = remote.api_key or (None if foreign else keys.get(provider))
    away = provider in REMOTE
    return EmbedderEndpoint(
        provider=provider,
        model=settings.model if settings.provider == provider or away else "",
        base_url=(remote.base_url or "") if away else "",
        key=key if away else None,
        headers=remote.headers if away else {},
        model_path=(settings.local.model_path or "") if provider == "local" else "",
    )


def missing(endpoint: EmbedderEndpoint) -> str:
    """What a remote embedder lacks: a key or an address. Empty when nothing."""
    if endpoint.provider in KEY_SOURCES and not endpoint.key and not endpoint.base_url:
        variable = KEY_SOURCES[endpoint.provider][1][0]
        return f"no key for embeddings from {endpoint.provider}: set {variable} or memorySearch.remote.apiKey"
    if endpoint.provider == "openai-compatible" and not (endpoint.base_url and endpoint.model):
        return "an OpenAI-compatible embedder needs memorySearch.remote.baseUrl and memorySearch.model"
    return ""


def provider_key(endpoint: EmbedderEndpoint, max_bytes: int) -> str:
    """A hash of the endpoint and the window size, without secrets; part of the index identity."""
    public = (endpoint.provider, endpoint.base_url, endpoint.model_path, sorted(endpoint.headers), max_bytes)
    return sha256(msgspec.json.encode(public)).hexdigest()


# Calls with retries and checks.

BATCH_BYTES = 8_000
BATCH_TEXTS = 64
QUERY_SECONDS = 8.0
TRIES, FIRST_WAIT, LONGEST_WAIT = 3, 0.5, 8.0
LIMITED_TRIES, LIMITED_FIRST, LIMITED_LONGEST = 5, 5.0, 60.0
NEGLIGIBLE = 1e-6
"""What a length may be off 1: numbers of 32 bits are no more exact."""


class RetryingEmbedder:
    """Calls an embedder in batches, with timeouts and retries; checks and normalises its vectors."""

    def __init__(self, embedder: Embedder, clock: Clock) -> None:
        self.embedder = embedder
        self._clock = clock

    @property
    def model(self) -> str:
        return self.embedder.model

    @property
    def traits(self) -> Traits:
        return self.embedder.traits if isinstance(self.embedder, HasTraits) else Traits()

    async def query(
        self, text: str, dims: int, index: str = "", count: int = 0
    ) -> tuple["array[float]", Sequence[int] | None]:
        """The vector of a query; raises `ProviderTimeout` after `QUERY_SECONDS`.

        With an index, an embedder that can search it adds the keys of the `count` nearest vectors.
        """
        text = windows(text, self.traits.max_bytes)[0]
        try:
            async with asyncio.timeout(QUERY_SECONDS):
                found = await self._question(text, index, count)
                return normalise_vector(found.vector, dims), found.nearest
        except TimeoutError as error:
            raise errors.ProviderTimeout(f"no vector for the question within {QUERY_SECONDS:g} s") from error

    async def pieces(self, texts: Sequence[str], dims: int) -> list[list["array[float]"]]:
        """The vectors of each text, one for every window of it."""
        parts = [(at, part) for at, text in enumerate(texts) for part in windows(text, self.traits.max_bytes)]
        found: list[list[array[float]]] = [[] for _ in texts]
        for batch in _batches(parts):
            for (at, _), vector in zip(batch, await self._patiently([part for _, part in batch]), strict=True):
                found[at].append(normalise_vector(vector, dims or (len(found[0][0]) if found[0] else 0)))
        return found

    async def of(self, texts: Sequence[str]) -> list[Vector]:
        """One raw vector for each text."""
        found: list[Vector] = []
        for start in range(0, len(texts), BATCH_TEXTS):
            found += await self._patiently(texts[start : start + BATCH_TEXTS])
        return found

    async def close(self) -> None:
        await self.embedder.close()

    async def _question(self, text: str, index: str, count: int) -> EmbeddedQuery:
        for attempt in range(TRIES):
            try:
                if index and isinstance(self.embedder, SearchesIndex):
                    return await self.embedder.search_index(text, index, count)
                if isinstance(self.embedder, EmbedsQueries):
                    return EmbeddedQuery(await self.embedder.embed_query(text))
                return EmbeddedQuery((await self.embedder.embed([text]))[0])
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
            except errors.BadRequest:
                # The batch is too large, or one text is unacceptable: halving finds out which.
                if len(texts) < 2:
                    raise
                middle = len(texts) // 2
                return [*await self._patiently(texts[:middle]), *await self._patiently(texts[middle:])]
            except ProviderError as error:
                attempt += 1
                limited = isinstance(error, errors.RateLimited)
                if not error.retryable or attempt >= (LIMITED_TRIES if limited else TRIES):
                    raise
                first, longest = (LIMITED_FIRST, LIMITED_LONGEST) if limited else (FIRST_WAIT, LONGEST_WAIT)
                wait = min(longest, first * 2 ** (attempt - 1))
                await self._clock.sleep(min(longest, max(wait, error.retry_after or 0)))


def normalise_vector(vector: Vector, dims: int) -> "array[float]":
    """Normalises `vector` to length 1 (zeros stay zeros); raises when its dimensions are wrong."""
    if dims and len(vector) != dims:
        raise BadResponse(
            f"the embedding model gave {len(vector)} numbers, and the index has {dims}: openclaw memory index --force"
        )
    length = math.hypot(*vector)
    if not vector or not math.isfinite(length):
        raise BadResponse("the embedding model gave a vector with values that are not numbers")
    if length and abs(length - 1) > NEGLIGIBLE:
        vector = [value / length for value in vector]
    return array("f", vector)


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


# The pool.

COOLDOWN_SECONDS = 60.0
"""Cooldown of the embedder after a failure."""

Build = Callable[[EmbedderEndpoint], Embedder]


class EmbedderPool:
    """Holds at most one open embedder. Used from the event loop only."""

    def __init__(
        self, choice: EmbedderChoice, build: Build, clock: Clock, fallback: EmbedderChoice | None = None
    ) -> None:
        self.choice = choice
        self.fell_back = ""
        """Why the fallback is used, when it is."""
        self._build = build
        self._clock = clock
        self._fallback = fallback
        self._open: RetryingEmbedder | None = None
        self._retired: list[RetryingEmbedder] = []
        self._rests_until = 0.0
        self._why = ""

    def vectors(self) -> RetryingEmbedder | None:
        """The embedder; None when there is none."""
        if self._open is None and self.choice.endpoint is not None:
            try:
                self._open = RetryingEmbedder(self._build(self.choice.endpoint), self._clock)
            except OpenClawError as error:
                self.choice = EmbedderChoice(why=error.message, strict=self.choice.strict)
        return self._open

    async def prepared(self) -> None:
        """Waits until the embedder knows its model. One that cannot say counts as failed."""
        while (asked := self._unknown()) is not None and not self.resting():
            try:
                await asked.prepare()
            except ProviderError as error:
                self.failed(error)

    def _unknown(self) -> Prepares | None:
        vectors = self.vectors()
        asked: object = vectors.embedder if vectors else None
        return asked if isinstance(asked, Prepares) and not asked.prepared else None

    def resting(self) -> str:
        """Why the embedder is in cooldown; empty when it is not."""
        return self._why if self._clock.now() < self._rests_until else ""

    def failed(self, error: ProviderError) -> bool:
        """Records a failure; True when the fallback takes over, which needs another index."""
        if self._fallback is None:
            self._rests_until, self._why = self._clock.now() + COOLDOWN_SECONDS, error.message
            return False
        self.fell_back = f"{self.choice.provider}: {error.message}"
        self.choice, self._fallback = self._fallback, None
        if self._open is not None:
            self._retired.append(self._open)
            self._open = None
        return True

    async def tried(self) -> str:
        """Requests one vector as a test; returns the error, empty on success."""
        vectors = self.vectors()
        if vectors is None:
            return self.choice.why
        try:
            await vectors.query("a question", 0)
        except ProviderError as error:
            return error.message
        return ""

    def identity(self, plan: SyncPlan) -> IndexIdentity:
        """The identity of an index built now."""
        # While the model is unknown the index has keywords only; it is rebuilt when the model is known.
        vectors = None if self._unknown() else self.vectors()
        endpoint = self.choice.endpoint
        return IndexIdentity(
            model=vectors.model if vectors else KEYWORDS_ONLY,
            provider=self.choice.provider,
            provider_key=provider_key(endpoint, vectors.traits.max_bytes) if endpoint and vectors else "",
            sources=plan.sources,
            scope_hash=plan.scope.digest,
            chunk_tokens=plan.tokens,
            chunk_overlap=plan.overlap,
        )

    async def close(self) -> None:
        for vectors in (*self._retired, *((self._open,) if self._open else ())):
            await vectors.close()
        self._retired, self._open = [], None


def is_compatible(known: IndexIdentity, wanted: IndexIdentity) -> bool:
    """Whether an index can be kept: same identity, or different only in vectors that cannot be queried now."""
    if wanted.model == KEYWORDS_ONLY:
        wanted = msgspec.structs.replace(
            wanted, model=known.model, provider=known.provider, provider_key=known.provider_key
        )
    return known.same(wanted)
