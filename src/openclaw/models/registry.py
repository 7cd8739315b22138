"""The built-in catalog, and the registry of callable models: the user's providers and models over the catalog."""

import pkgutil
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from ipaddress import ip_address, ip_network
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field, structs

from openclaw.core.deferred import difflib
from openclaw.core.errors import ConfigError, NotFound
from openclaw.core.provider import Compat, Endpoint, Model, ModelApi, Price
from openclaw.core.secret import Secret
from openclaw.models import refs
from openclaw.models.refs import ModelNames, ModelRef
from openclaw.models.settings import InputKind, ModelEntry, ModelsSettings, ProviderSettings

OFFLINE = "offline"


class LoginPaths(Struct, frozen=True, forbid_unknown_fields=True):
    """Where people sign in at a provider that gives keys by OAuth with PKCE to any program, without registering it."""

    page: str
    """Path at the host of its address, where a person agrees."""
    exchange: str
    """Path behind its address, where a code becomes a key."""


class CatalogProvider(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A provider in the built-in catalog."""

    id: str
    name: str
    api: ModelApi
    base_url: str
    env: tuple[str, ...] = ()
    """Environment variables its key may be in, in order of preference."""
    default_model: str | None = None
    key_url: str = ""
    """Where a person gets a key."""
    login: LoginPaths | None = None
    local: bool = False
    """It runs on the user's own machine: no key, no bill."""
    compat: Compat = Compat()


class CatalogModel(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A model in the built-in catalog."""

    provider: str
    id: str
    name: str
    context_window: int | None = None
    max_tokens: int | None = None
    reasoning: bool = False
    input: tuple[InputKind, ...] = ("text",)
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
    """Loads the shipped catalog, once."""
    raw = pkgutil.get_data("openclaw.models", "catalog.json") or b""
    return msgspec.json.decode(raw, type=ModelCatalog)


def merge_compat(base: Compat, over: Compat) -> Compat:
    """`base` with every flag that `over` sets."""
    given = {name: value for name in Compat.__struct_fields__ if (value := getattr(over, name)) not in (None, ())}
    return structs.replace(base, **given)


_OWN_IPV4 = "127.0.0.0/8 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 0.0.0.0/32"
_OWN_NETWORKS = tuple(ip_network(net) for net in (*_OWN_IPV4.split(), "::1/128", "fc00::/7", "fe80::/10"))


@lru_cache(maxsize=256)
def host_of(base_url: str) -> str:
    """The host name in `base_url`, or nothing when it has none."""
    try:
        return (urlsplit(base_url).hostname or "").lower()
    except ValueError:
        return ""


@lru_cache(maxsize=256)
def is_private_address(base_url: str) -> bool:
    """True for loopback, private and link-local addresses, `localhost` and `*.local`."""
    host = host_of(base_url)
    if host == "localhost" or host.endswith((".localhost", ".local")):
        return True
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return any(address in net for net in _OWN_NETWORKS)


# The registry.

DEFAULT_WINDOW = 200_000

# Guesses image input from the model id. A name that says so wins over a family that usually has none.
_SEES = re.compile(
    r"gpt-4o|gpt-4\.1|gpt-[5-9]|(?:^|[/:])o[134](?:-|$)|claude|gemini|[-_]vl|vl[-_:]|llava|pixtral|internvl|minicpm-v|glm-4(?:\.\d)?v|vision",
    re.IGNORECASE,
)


class ProviderFacts(CatalogProvider, frozen=True, kw_only=True):
    """One provider, catalog and configuration merged; `local` is then judged by its address."""

    free: bool = False
    """A program that runs models itself, so that its answers cost nothing."""
    custom: bool = False
    """Not in the catalog: the user described it."""
    configured: bool = False
    api_key: Secret | None = None
    bearer: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float | None = None

    @property
    def needs_key(self) -> bool:
        return not self.local and not self.custom


class ModelRegistry:
    """Looks models up by reference and says how each is reached."""

    def __init__(self, settings: ModelsSettings, catalog: ModelCatalog) -> None:
        self._catalog = catalog
        self._replace = settings.mode == "replace"
        self._settings = {_settings_id(name, given, catalog): given for name, given in settings.providers.items()}
        names = [*self._settings, *(entry.id for entry in catalog.providers if self._shown(entry.id))]
        self._providers = {name: self._facts(name) for name in dict.fromkeys(names)}

    @property
    def providers(self) -> tuple[ProviderFacts, ...]:
        """The user's own first, then the catalog's in its order."""
        return tuple(self._providers.values())

    def provider(self, provider: str) -> ProviderFacts:
        found = self._providers.get(refs.provider_id(provider, self._providers))
        if found is None:
            near = difflib.get_close_matches(provider.lower(), self._providers, n=3, cutoff=0.5)
            guess = f": did you mean {' or '.join(near)}?" if near else f"; known are {', '.join(self._providers)}"
            raise NotFound(f"no provider {provider!r}{guess}")
        return found

    def book(self, aliases: Mapping[str, str], default: str | None = None) -> ModelNames:
        """The names a reference may use here; `aliases` is alias to reference."""
        known = tuple(entry.ref for entry in self._catalog.models if self._shown(entry.provider))
        return ModelNames(
            providers=frozenset(self._providers),
            configured=tuple(ref.key for ref in self.configured()),
            known=known,
            aliases=aliases,
            default=default,
        )

    def model(self, ref: ModelRef) -> Model:
        """The model of `ref`. An unknown id is accepted with defaults; an unknown provider is an error."""
        facts = self.provider(ref.provider)
        given = self._settings.get(facts.id, ProviderSettings())
        entry = next((entry for entry in given.models if entry.id == ref.model), ModelEntry(id=ref.model))
        known = self._catalog.model(facts.id, ref.model) or CatalogModel(
            provider=facts.id, id=ref.model, name=ref.model, input=input_by_id(ref.model)
        )
        api, price = entry.api or facts.api, entry.cost
        if price is None:
            price = Price() if facts.free and facts.local and not is_cloud_id(entry.id) else known.cost
        base_url = _address(entry.base_url, api, f"models.providers.{facts.id}.models")
        limits = [limit for limit in (entry.max_tokens or known.max_tokens, given.max_tokens) if limit is not None]
        return Model(
            provider=facts.id,
            id=ref.model,
            api=api,
            base_url=base_url or facts.base_url,
            name=entry.name or known.name,
            context_window=entry.context_window or known.context_window or DEFAULT_WINDOW,
            max_tokens=min(limits, default=None),
            reasoning=known.reasoning if entry.reasoning is None else entry.reasoning,
            input=known.input if entry.input is None else entry.input,
            price=price,
            compat=merge_compat(merge_compat(facts.compat, known.compat), entry.compat),
            headers=entry.headers,
            params={**given.params, **entry.params},
            timeout_seconds=facts.timeout_seconds,
        )

    def endpoint(self, model: Model, key: Secret | None, *, bearer: bool = False) -> Endpoint:
        """How `model` is reached with `key`; `bearer` when the key is a sign-in token."""
        facts = self._providers[model.provider]
        return Endpoint(
            provider=facts.id,
            api=model.api,
            base_url=model.base_url,
            key=key,
            bearer=bearer or facts.bearer,
            headers=facts.headers,
            timeout_seconds=facts.timeout_seconds,
        )

    def list(self) -> tuple[Model, ...]:
        """The user's models, then the catalog's."""
        known = (ModelRef(entry.provider, entry.id) for entry in self._catalog.models if self._shown(entry.provider))
        return tuple(self.model(ref) for ref in dict.fromkeys((*self.configured(), *known)))

    def configured(self) -> tuple[ModelRef, ...]:
        """The models the user described, in the order of the configuration."""
        return tuple(ModelRef(name, entry.id) for name, given in self._settings.items() for entry in given.models)

    def deprecated(self, model: Model) -> bool:
        known = self._catalog.model(model.provider, model.id)
        return known is not None and known.status == "deprecated"

    def _shown(self, provider: str) -> bool:
        return not self._replace or provider == OFFLINE

    def _facts(self, name: str) -> ProviderFacts:
        given = self._settings.get(name, ProviderSettings())
        known = self._catalog.provider(name)
        base = known or CatalogProvider(id=name, name=name, api="openai-completions", base_url="")
        api, path = given.api or base.api, f"models.providers.{name}.baseUrl"
        base_url = _address(given.base_url, api, path) or base.base_url
        if not base_url and api not in ("offline", "plugin"):
            raise ConfigError(f"models.providers.{name} has no address: set {path}", path=path)
        merged: dict[str, Any] = structs.asdict(base) | {
            "api": api,
            "base_url": base_url,
            "local": is_private_address(base_url) or api == "offline",
        }
        return ProviderFacts(
            **merged,
            free=base.local,
            custom=known is None,
            configured=name in self._settings,
            api_key=given.api_key,
            bearer=bool(given.auth_header) or given.auth in ("token", "oauth"),
            headers=given.headers,
            timeout_seconds=given.timeout_seconds,
        )


def input_by_id(model: str) -> tuple[InputKind, ...]:
    """Guesses the input kinds of an undescribed model from its id."""
    return ("text", "image") if _SEES.search(model) else ("text",)


def is_cloud_id(model: str) -> bool:
    """Whether a local server forwards this id to a cloud model."""
    return model.endswith((":cloud", "-cloud"))


def _settings_id(name: str, given: ProviderSettings, catalog: ModelCatalog) -> str:
    """A provider written under an alias is the built-in one, unless the user described it in full."""
    lowered = name.strip().lower()
    if catalog.provider(lowered) is not None or given.base_url or given.api:
        return lowered
    return refs.provider_id(lowered)


def _address(base_url: str | None, api: ModelApi, path: str) -> str:
    """Normalises `base_url` for the adapters; the error names the setting."""
    if base_url is None:
        return ""
    try:
        parts = urlsplit(base_url.strip())
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise ConfigError(f"{path} is not an address: write it like https://api.example.com/v1", path=path)
    if parts.username or parts.password:
        raise ConfigError(f"{path} holds a credential: move it to apiKey beside it", path=path)
    address = base_url.strip().rstrip("/")
    # These adapters add the version themselves, but people paste addresses that already end in it.
    return address.removesuffix("/v1") if api in ("anthropic-messages", "ollama") else address
