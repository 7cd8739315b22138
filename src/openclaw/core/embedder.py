"""The embedder seam: turns texts into vectors whose distance reflects their meaning."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

from openclaw.core.secret import Secret

Vector = Sequence[float]


class Traits(Struct, frozen=True, kw_only=True):
    """Properties of an embedding model that readers of its vectors need."""

    max_bytes: int = 24_000
    """The longest text the model reads whole; longer ones are split."""
    unrelated: float = 0.0
    """The cosine of two unrelated texts."""
    alike: float = 1.0
    """The cosine of a question and a text that answers it well."""


class Embedder(Protocol):
    """One embedding model. A zero vector means that it cannot read the text; failures raise `ProviderError`."""

    @property
    def model(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]: ...

    async def close(self) -> None: ...


@runtime_checkable
class EmbedsQueries(Protocol):
    """A model that embeds queries differently from documents."""

    async def embed_query(self, text: str) -> Vector: ...


class EmbeddedQuery(Struct, frozen=True):
    """The vector of a query, and the keys of the indexed vectors nearest to it; None when they were not looked for."""

    vector: Vector
    nearest: Sequence[int] | None = None


@runtime_checkable
class SearchesIndex(Protocol):
    """A model that also finds the vectors of an index file nearest to a query, faster than the database does."""

    async def search_index(self, text: str, index: str, count: int) -> EmbeddedQuery: ...


@runtime_checkable
class HasTraits(Protocol):
    @property
    def traits(self) -> Traits: ...


@runtime_checkable
class Prepares(Protocol):
    """An embedder that asks its server which model it runs; before `prepared`, `model` and `traits` are meaningless."""

    @property
    def prepared(self) -> bool: ...

    async def prepare(self) -> None: ...


class EmbedderEndpoint(Struct, frozen=True, kw_only=True):
    """How to reach an embedder; adapters are built from this."""

    provider: str
    model: str = ""
    base_url: str = ""
    key: Secret | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    model_path: str = ""
    """A local model file, instead of the installed one."""
    timeout: float = 120.0
