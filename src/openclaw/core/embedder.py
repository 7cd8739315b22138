"""The embedder seam: texts in, vectors out, so that what means the same lies close together."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

from openclaw.core.secret import Secret

Vector = Sequence[float]


class Traits(Struct, frozen=True, kw_only=True):
    """What a reader of vectors must know of the model that made them."""

    max_bytes: int = 24_000
    """The longest text it reads whole; what is longer is handed over in pieces."""
    unrelated: float = 0.0
    """The cosine of two texts that have nothing to do with each other."""
    alike: float = 1.0
    """The cosine of a question and a text that answers it well."""


class Embedder(Protocol):
    """One model. A vector of zeros means that the model cannot read the text; a failure is a `ProviderError`."""

    @property
    def model(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]: ...

    async def close(self) -> None: ...


@runtime_checkable
class EmbedsQueries(Protocol):
    """A model that reads a question differently from a text that may answer it."""

    async def embed_query(self, text: str) -> Vector: ...


@runtime_checkable
class HasTraits(Protocol):
    @property
    def traits(self) -> Traits: ...


@runtime_checkable
class Prepares(Protocol):
    """An embedder that learns its model by asking; before `prepared`, its `model` and `traits` mean nothing."""

    @property
    def prepared(self) -> bool: ...

    async def prepare(self) -> None: ...


class EmbedderEndpoint(Struct, frozen=True, kw_only=True):
    """How an embedder is reached; the adapters are built from this."""

    provider: str
    model: str = ""
    base_url: str = ""
    key: Secret | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    model_path: str = ""
    """A model file on this machine, in place of the one that is installed."""
    timeout: float = 120.0
