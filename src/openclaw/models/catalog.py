"""The built-in catalog: which providers there are, how each is reached, and what the well-known models can do.

A price that is not certain is left out: an unknown price is not a guess, and not a free call either.
"""

from functools import cache
from importlib import resources
from typing import Literal

import msgspec
from msgspec import Struct, structs

from openclaw.core.provider import Api, Compat, Price

OFFLINE = "offline"


class CatalogProvider(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A provider we know how to reach."""

    id: str
    name: str
    api: Api
    base_url: str
    env: tuple[str, ...] = ()
    """The variables its key may be in, first one first."""
    default_model: str | None = None
    key_url: str = ""
    """Where a person gets a key."""
    local: bool = False
    """It runs on the user's own machine: no key, no bill."""
    compat: Compat = Compat()


class CatalogModel(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What is known of one model."""

    provider: str
    id: str
    name: str
    context_window: int | None = None
    max_tokens: int | None = None
    reasoning: bool = False
    input: tuple[Literal["text", "image", "audio", "video"], ...] = ("text",)
    cost: Price | None = None
    compat: Compat = Compat()
    status: Literal["available", "deprecated"] = "available"

    @property
    def ref(self) -> str:
        return f"{self.provider}/{self.id}"


class ModelCatalog(Struct, frozen=True, forbid_unknown_fields=True):
    """Providers in the order in which their keys are looked for, and their models, newest first."""

    providers: tuple[CatalogProvider, ...]
    models: tuple[CatalogModel, ...]

    def provider(self, provider: str) -> CatalogProvider | None:
        return next((entry for entry in self.providers if entry.id == provider), None)

    def model(self, provider: str, model: str) -> CatalogModel | None:
        return next((entry for entry in self.models if entry.provider == provider and entry.id == model), None)


@cache
def load() -> ModelCatalog:
    """The shipped catalog, read once."""
    raw = resources.files("openclaw.models").joinpath("catalog.json").read_bytes()
    return msgspec.json.decode(raw, type=ModelCatalog)


def overlay(base: Compat, over: Compat) -> Compat:
    """`base` with everything `over` has an opinion on."""
    said = {name: value for name in Compat.__struct_fields__ if (value := getattr(over, name)) not in (None, ())}
    return structs.replace(base, **said)
