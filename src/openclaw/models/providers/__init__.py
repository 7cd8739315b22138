"""The built-in model providers, one module per wire API, each imported at its first use.

A module has `encode(request)` (the body, pure), a decoder (frames to `ModelEvent`s) and a `Provider` class that
joins the two over `http.ProviderHttp`. Shared by all: `encode` (history and parameters as an API accepts them),
`http` (streaming over HTTP) and `errors` (statuses and bodies to `ProviderError`s). `offline` needs no model.

Start with `open_provider` below, then read `openai_chat`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from openclaw.core.errors import ConfigError, ServerFailed
from openclaw.core.provider import Endpoint, ModelRequest, Provider

if TYPE_CHECKING:
    from openclaw.core.plugin import OpensProvider


def open_provider(endpoint: Endpoint) -> Provider:
    """Opens the provider that speaks the endpoint's wire API."""
    match endpoint.api:
        case "openai-completions":
            from openclaw.models.providers.openai_chat import OpenAIChat

            return OpenAIChat(endpoint)
        case "openai-responses":
            from openclaw.models.providers.openai_responses import OpenAIResponses

            return OpenAIResponses(endpoint)
        case "anthropic-messages":
            from openclaw.models.providers.anthropic import Anthropic

            return Anthropic(endpoint)
        case "google-generative-ai":
            from openclaw.models.providers.google import Google

            return Google(endpoint)
        case "ollama":
            from openclaw.models.providers.ollama import Ollama

            return Ollama(endpoint)
        case "offline":
            from openclaw.models.providers.offline import Offline

            return Offline()
    raise ConfigError(f"{endpoint.provider} speaks {endpoint.api}, which is not supported")


def _body(request: ModelRequest) -> dict[str, Any]:
    """The request body in its wire API."""
    match request.model.api:
        case "openai-completions":
            from openclaw.models.providers.openai_chat import encode as chat_body

            return chat_body(request)
        case "openai-responses":
            from openclaw.models.providers.openai_responses import encode as responses_body

            return responses_body(request)
        case "anthropic-messages":
            from openclaw.models.providers.anthropic import encode as messages_body

            return messages_body(request)
        case "google-generative-ai":
            from openclaw.models.providers.google import encode as google_body

            return google_body(request)
        case "ollama":
            from openclaw.models.providers.ollama import encode as ollama_body

            return ollama_body(request)
    raise ConfigError(f"{request.model.provider} speaks {request.model.api}, which is not supported")


def encode_request(request: ModelRequest) -> bytes:
    """The request body as bytes, exactly as the provider sends it."""
    if request.model.api in ("offline", "plugin", "acp"):
        timeless = [msgspec.structs.replace(message, timestamp=0) for message in request.messages]
        return msgspec.json.encode((request.system, timeless, request.tools))
    from openclaw.models.providers.encode import to_bytes

    return to_bytes(_body(request))


class ProviderPool:
    """Opens a provider for each endpoint once, and closes all of them together."""

    def __init__(self, plugins: Callable[[str], "OpensProvider | None"] | None = None) -> None:
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
        key = (
            endpoint.api,
            endpoint.provider,
            endpoint.base_url,
            endpoint.key,
            tuple(sorted(endpoint.headers.items())),
        )
        if key not in self._open:
            self._open[key] = open_provider(endpoint)
        return self._open[key]

    async def close(self) -> None:
        for provider in self._open.values():
            await provider.close()
        self._open.clear()
