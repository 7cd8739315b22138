"""The embedders by the name they have in the settings."""

import importlib

from openclaw.core.embedder import Embedder, EmbedderEndpoint
from openclaw.core.errors import ConfigError
from openclaw.core.plugin import Api

MODULES = {
    "local": "local",
    "openai": "openai",
    "openai-compatible": "openai",
    "gemini": "gemini",
    "voyage": "voyage",
    "ollama": "ollama",
    "hash": "hashed",
}


def register(api: Api) -> None:
    """Ours go in as a plugin's would."""
    for name in MODULES:
        api.embedder(name, build)


def build(endpoint: EmbedderEndpoint) -> Embedder:
    """The embedder behind `endpoint`; only its own module is imported."""
    if endpoint.provider not in MODULES:
        raise ConfigError(f"there is no embedder {endpoint.provider!r} (known: {', '.join(MODULES)})")
    embedder: Embedder = importlib.import_module(f"openclaw.embedders.{MODULES[endpoint.provider]}").build(endpoint)
    return embedder


def problem(endpoint: EmbedderEndpoint) -> str:
    """Why the embedder cannot be used on this machine; nothing when it seems that it can."""
    if endpoint.provider != "local":
        return ""
    why: str = importlib.import_module("openclaw.embedders.local").problem(endpoint)
    return why
