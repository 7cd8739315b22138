"""Embedders: text to vectors, one module per kind, each imported at its first use.

`local` runs a small model in a child process (`local_worker`); `openai`, `gemini`, `voyage` and `ollama` call
remote APIs through `remote.EmbedderHttp`; `hashed` is for tests. `pool` chooses the embedder from the settings
(plugins' included) and opens it with retries and a fallback.

Start with `open_embedder` below, then `pool.EmbedderPool`.
"""

from openclaw.core.embedder import Embedder, EmbedderEndpoint
from openclaw.core.errors import ConfigError

BUILT_IN = ("local", "openai", "openai-compatible", "gemini", "voyage", "ollama", "hash")


def open_embedder(endpoint: EmbedderEndpoint) -> Embedder:
    """Opens the embedder behind `endpoint`."""
    match endpoint.provider:
        case "local":
            from openclaw.memory.embedders import local

            return local.build(endpoint)
        case "openai" | "openai-compatible":
            from openclaw.memory.embedders import openai

            return openai.build(endpoint)
        case "gemini":
            from openclaw.memory.embedders import gemini

            return gemini.build(endpoint)
        case "voyage":
            from openclaw.memory.embedders import voyage

            return voyage.build(endpoint)
        case "ollama":
            from openclaw.memory.embedders import ollama

            return ollama.build(endpoint)
        case "hash":
            from openclaw.memory.embedders import hashed

            return hashed.build(endpoint)
    raise ConfigError(f"there is no embedder {endpoint.provider!r} (known: {', '.join(BUILT_IN)})")


def embedder_problem(endpoint: EmbedderEndpoint) -> str:
    """Says why the embedder cannot be used on this machine; empty when it seems usable."""
    if endpoint.provider != "local":
        return ""
    from openclaw.memory.embedders import local

    return local.problem(endpoint)
