"""A snapshot of the usable models: registry, credentials, aliases, and the default model with its fallbacks."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct, structs

from openclaw.core.errors import AuthFailed, ConfigError, InvalidRequest, NotFound
from openclaw.core.provider import Endpoint, Model
from openclaw.models import credentials, discover, failover, refs
from openclaw.models.credentials import Credential, Keyring
from openclaw.models.discover import DiscoveredModel, Probe
from openclaw.models.profiles import Profiles
from openclaw.models.refs import ModelNames, ModelRef
from openclaw.models.registry import ModelCatalog, ModelRegistry
from openclaw.models.settings import AuthSettings, ModelsSettings
from openclaw.models.tiers import Tier, is_below, tier_of


class ModelSet(Struct, frozen=True, kw_only=True, dict=True):
    """Resolves references to models and lists the candidates and credentials of a turn.

    It never changes, so what a turn asks of it is computed once; a new configuration or new profiles make a new set.
    """

    registry: ModelRegistry
    keyring: Keyring
    book: ModelNames
    pick: DiscoveredModel
    """The default model."""
    primary: str | None = None
    """The primary model as it was configured."""
    fallbacks: tuple[ModelRef, ...] = ()
    context_tokens: int | None = None
    """The most of any model's window that is used."""
    min_tier: Tier | None = None
    """Weaker models are refused."""

    def resolve(self, text: str) -> ModelRef:
        """The model that a typed reference, alias or bare name stands for."""
        return refs.resolve(text, self.book)

    def named(self, word: str) -> ModelRef | None:
        """The model that `word` names, if it is the name of one: a reference, an alias or a bare name."""
        if not word or word.lower() == "default":
            return None
        try:
            return self.resolve(word)
        except (InvalidRequest, NotFound):
            return None

    def aliases(self) -> tuple[dict[str, ModelRef], tuple[str, ...]]:
        """The aliases that resolve, and an error text for each of the others."""
        good: dict[str, ModelRef] = {}
        broken = []
        for alias in self.book.aliases:
            try:
                good[alias] = self.resolve(alias)
            except (InvalidRequest, NotFound) as error:
                broken.append(f"alias {alias!r}: {error.message}")
        return good, tuple(broken)

    @cached_property
    def default(self) -> ModelRef:
        return self.resolve("default")

    @cached_property
    def default_name(self) -> str:
        return str(self.default)

    @cached_property
    def _default_chain(self) -> tuple[ModelRef, ...]:
        return failover.list_candidates(self.default, fallbacks=self.fallbacks)

    @cached_property
    def _models(self) -> dict[ModelRef, Model]:
        return {}

    @cached_property
    def _endpoints(self) -> dict[tuple[str, str, str | None, str], Endpoint]:
        return {}

    @cached_property
    def _lasting(self) -> dict[ModelRef, tuple[Credential, ...]]:
        """Credentials of models without stored profiles: only profiles expire or rest."""
        return {}

    def chain(self, requested: ModelRef | None = None, *, strict: bool = False) -> tuple[ModelRef, ...]:
        """The candidate models of a turn, in order; `strict` when the user picked this very model."""
        if requested is not None and strict:
            found: tuple[ModelRef, ...] = (requested,)
        elif requested is not None:
            found = failover.list_candidates(requested, primary=self.default, fallbacks=self.fallbacks)
        else:
            found = self._default_chain
        floor = self.min_tier
        if floor is None:
            return found
        kept = tuple(ref for ref in found if not is_below(tier_of(str(ref)), floor))
        if not kept or (strict and requested not in kept):
            weak = requested or found[0]
            raise InvalidRequest(f"{weak} is weaker than models.minTier ({floor}): choose another model, or lower it")
        return kept

    def model(self, ref: ModelRef) -> Model:
        found = self._models.get(ref)
        if found is None:
            found = self.registry.model(ref)
            if ref.key == self.pick.ref and self.pick.context_window is not None:
                found = structs.replace(found, context_window=self.pick.context_window)
            if self.context_tokens is not None:
                found = structs.replace(found, context_window=min(found.context_window, self.context_tokens))
            self._models[ref] = found
        return found

    def endpoint(self, model: Model, credential: Credential) -> Endpoint:
        """How `model` is reached with `credential`."""
        name = (model.provider, model.id, credential.profile_id, credential.source)
        found = self._endpoints.get(name)
        if found is None:
            found = self.registry.endpoint(model, credential.key, bearer=credential.kind in ("oauth", "token"))
            self._endpoints[name] = found
        return found

    def credentials(self, ref: ModelRef, now: int) -> tuple[Credential, ...]:
        """The credentials for `ref`, best first; raises `AuthFailed` when there is none."""
        found = self._lasting.get(ref)
        if found is None:
            facts = self.registry.provider(ref.provider)
            found = credentials.list_credentials(facts, self.keyring, now, model=ref.model, pinned=ref.profile)
            if not self.keyring.stored.of(facts.id):
                self._lasting[ref] = found
        return found

    def has_key(self, provider: str, now: int) -> bool:
        """Whether the provider can be called at all."""
        try:
            credentials.list_credentials(self.registry.provider(provider), self.keyring, now)
        except AuthFailed:
            return False
        return True


def build_model_set(
    models: ModelsSettings,
    catalog: ModelCatalog,
    *,
    environ: Mapping[str, str],
    probe: Probe,
    auth: AuthSettings,
    stored: Profiles,
    primary: str | None = None,
    fallbacks: Sequence[str] = (),
    aliases: Mapping[str, str | None] | None = None,
    context_tokens: int | None = None,
) -> ModelSet:
    """Builds the set; `aliases` is reference to alias, as in the configuration. Calls `probe` only if it must."""
    registry = ModelRegistry(models, catalog)
    names = refs.aliases_of(aliases or {})
    book = registry.book(names)
    if primary is not None:
        pick = DiscoveredModel(str(_configured("the primary model", primary, book)), "configured as the primary model")
    else:
        signed_in = tuple({profile.provider: None for profile in stored.profiles.values()})
        pick = discover.configured_pick(registry) or discover.pick(environ, probe, registry.providers, signed_in)
    return ModelSet(
        registry=registry,
        keyring=Keyring(environ=environ, auth=auth, stored=stored),
        book=registry.book(names, pick.ref),
        pick=pick,
        primary=primary,
        fallbacks=tuple(_configured(f"fallback {place}", name, book) for place, name in enumerate(fallbacks, 1)),
        context_tokens=context_tokens,
        min_tier=models.min_tier,
    )


def _configured(what: str, name: str, book: ModelNames) -> ModelRef:
    try:
        return refs.resolve(name, book)
    except (InvalidRequest, NotFound) as error:
        raise ConfigError(f"{what} is configured as {name!r}: {error.message}") from error
