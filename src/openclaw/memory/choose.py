"""Which embedder turns notes into vectors, and how it is reached. Pure."""

from collections.abc import Callable, Mapping
from hashlib import sha256

import msgspec
from msgspec import Struct

from openclaw.core.embedder import EmbedderEndpoint
from openclaw.core.secret import Secret
from openclaw.memory.settings import MemorySearchSettings

AUTO = ("local", "openai", "gemini", "voyage")
REMOTE = ("openai", "gemini", "voyage", "ollama", "openai-compatible")
NEEDS_KEY = {"openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY", "voyage": "VOYAGE_API_KEY"}
USUAL = {
    "openai": ("openai", ("OPENAI_API_KEY",)),
    "gemini": ("google", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    "voyage": ("voyage", ("VOYAGE_API_KEY",)),
}
"""By embedder: its section of `models.providers`, and its environment variables."""
OWN_ADDRESS = {
    "openai": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
    "voyage": "https://api.voyageai.com/v1",
}

Problem = Callable[[EmbedderEndpoint], str]
"""Why an embedder cannot be used here; nothing when it can."""


class EmbedderChoice(Struct, frozen=True, kw_only=True):
    """The embedder to use; none of them means words alone, for the reason in `why`."""

    endpoint: EmbedderEndpoint | None = None
    why: str = ""
    strict: bool = False
    """It was asked for by name and is elsewhere: when it fails, that is said instead of searching words alone."""

    @property
    def provider(self) -> str:
        return self.endpoint.provider if self.endpoint else "none"


def usual_keys(environ: Mapping[str, str], configured: Mapping[str, Secret]) -> dict[str, Secret]:
    """The providers' own keys: what `models.providers` has, else what the environment has."""
    found = {}
    for provider, (section, names) in USUAL.items():
        value = next((environ[name].strip() for name in names if environ.get(name, "").strip()), "")
        if section in configured:
            found[provider] = configured[section]
        elif value:
            found[provider] = Secret(value)
    return found


def choose(settings: MemorySearchSettings, keys: Mapping[str, Secret], problem: Problem) -> EmbedderChoice:
    """The embedder the settings ask for."""
    if settings.provider == "none":
        return EmbedderChoice(why="memorySearch.provider is none")
    if settings.provider != "auto":
        found = endpoint(settings, settings.provider, keys)
        why = missing(found) or problem(found)
        strict = settings.provider in REMOTE
        return EmbedderChoice(endpoint=None if why else found, why=why, strict=strict)
    reasons = []
    for name in AUTO:
        found = endpoint(settings, name, keys)
        if not (why := missing(found) or problem(found)):
            return EmbedderChoice(endpoint=found)
        reasons.append(why)
    return EmbedderChoice(why=reasons[0])


def fallback(settings: MemorySearchSettings, keys: Mapping[str, Secret], problem: Problem) -> EmbedderChoice | None:
    """What to use when the chosen one fails."""
    if settings.fallback in ("none", settings.provider):
        return None
    # The model, the address and the key were given for the first choice and mean nothing to the second.
    other = msgspec.structs.replace(settings, model="", remote=type(settings.remote)())
    found = endpoint(other, settings.fallback, keys)
    why = missing(found) or problem(found)
    return None if why else EmbedderChoice(endpoint=found, strict=settings.fallback in REMOTE)


def endpoint(settings: MemorySearchSettings, provider: str, keys: Mapping[str, Secret]) -> EmbedderEndpoint:
    """How `provider` is reached; its usual key goes only to its own address."""
    remote = settings.remote
    foreign = remote.base_url is not None and remote.base_url.rstrip("/") != OWN_ADDRESS.get(provider)
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
    """What a remote embedder still needs."""
    name = NEEDS_KEY.get(endpoint.provider)
    if name and not endpoint.key and not endpoint.base_url:
        return f"no key for embeddings from {endpoint.provider}: set {name} or memorySearch.remote.apiKey"
    if endpoint.provider == "openai-compatible" and not (endpoint.base_url and endpoint.model):
        return "an OpenAI-compatible embedder needs memorySearch.remote.baseUrl and memorySearch.model"
    return ""


def provider_key(endpoint: EmbedderEndpoint, max_bytes: int) -> str:
    """What tells two set-ups of one provider apart, and how texts were cut for it; no secret is in it."""
    public = (endpoint.provider, endpoint.base_url, endpoint.model_path, sorted(endpoint.headers), max_bytes)
    return sha256(msgspec.json.encode(public)).hexdigest()
