"""Embedders: text to vectors.

`local` runs a small model in a child process (`local_worker`); `remote` calls the APIs of providers; `hashed` is for
tests. `pool` chooses the embedder from the settings (plugins' included) and opens it with retries and a fallback; a
module is imported when its embedder is first used.

Start with `open_embedder` below, then `pool.EmbedderPool`.
"""

from importlib import import_module

from openclaw.core.embedder import Embedder, EmbedderEndpoint
from openclaw.memory.embedders import local


def open_embedder(endpoint: EmbedderEndpoint) -> Embedder:
    """Opens the built-in embedder behind `endpoint`."""
    name = {"local": "local", "hash": "hashed"}.get(endpoint.provider, "remote")
    embedder: Embedder = import_module(f"openclaw.memory.embedders.{name}").build(endpoint)
    return embedder


def embedder_problem(endpoint: EmbedderEndpoint) -> str:
    """Why the embedder cannot be used here; empty for all but the local one: a server or plugin may start later."""
    return local.problem(endpoint) if endpoint.provider == "local" else ""
