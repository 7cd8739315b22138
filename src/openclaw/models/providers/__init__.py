"""The built-in model providers, one module per wire API, each imported at its first use.

A module has `encode(request)` (the body, pure), a decoder (frames to `ModelEvent`s) and a `Provider` class that
joins the two (`http.HttpProvider`). Shared by all: `encode` (history and parameters as an API accepts them),
`http` (streaming over HTTP) and `errors` (statuses and bodies to `ProviderError`s). `offline` needs no model.

Start with `open_provider` below, then read `openai_chat`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec

from openclaw.core.errors import ConfigError, ServerFailed
from openclaw.core.provider import Endpoint, ModelApi, ModelRequest, OpenProvider, Provider

_MODULES: dict[str, tuple[str, str]] = {
    "openai-completions": ("openai_chat", "OpenAIChat"),
    "openai-responses": ("openai_responses", "OpenAIResponses"),
    "anthropic-messages": ("anthropic", "Anthropic"),
    "google-generative-ai": ("google", "Google"),
    "ollama": ("ollama", "Ollama"),
    "offline": ("offline", "Offline"),
}
"""The module of each wire API, and its provider."""


def _module(api: ModelApi, provider: str) -> Any:
    if api not in _MODULES:
        raise ConfigError(f"{provider} speaks {api}, which is not supported")
    return import_module(f"openclaw.models.providers.{_MODULES[api][0]}")


def open_provider(endpoint: Endpoint) -> Provider:
    """Opens the provider that speaks the endpoint's wire API."""
    module = _module(endpoint.api, endpoint.provider)
    kind = getattr(module, _MODULES[endpoint.api][1])
    opened: Provider = kind() if endpoint.api == "offline" else kind(endpoint)
    return opened


def encode_request(request: ModelRequest) -> bytes:
    """The request body as bytes, exactly as the provider sends it."""
    if request.model.api in ("offline", "plugin", "acp"):
        timeless = [msgspec.structs.replace(message, timestamp=0) for message in request.messages]
        return msgspec.json.encode((request.system, timeless, request.tools))
    from openclaw.models.providers.encode import to_bytes  # with the wire modules, at the first call

    module = _module(request.model.api, request.model.provider)
    encoded: bytes = (
        module.encode_bytes(request) if hasattr(module, "encode_bytes") else to_bytes(module.encode(request))
    )
    return encoded


class ProviderPool:
    """Opens a provider for each endpoint once, and closes all of them together."""

    def __init__(self, plugins: Callable[[str], OpenProvider | None] | None = None) -> None:
        self._open: dict[tuple[Any, ...], Provider] = {}
        self._plugins = plugins
        """Providers of plugins, by the name they have in `models.providers`."""

    def __call__(self, endpoint: Endpoint) -> Provider:
        if endpoint.api == "plugin":
            # Not kept: the plugin may be another one the next time.
            opens = self._plugins(endpoint.provider) if self._plugins else None
            if opens is None:
                raise ServerFailed(f"no plugin that runs provides {endpoint.provider}: see openclaw plugins list")
            return opens(endpoint)
        headers = tuple(sorted(endpoint.headers.items()))
        key = (endpoint.api, endpoint.provider, endpoint.base_url, endpoint.key, headers)
        if key not in self._open:
            self._open[key] = open_provider(endpoint)
        return self._open[key]

    async def close(self) -> None:
        for provider in self._open.values():
            await provider.close()
        self._open.clear()
