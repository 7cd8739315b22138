"""The loader: wings are imported by name, and only those that are used."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from openclaw.core.clock import Clock
from openclaw.core.errors import ConfigError
from openclaw.core.provider import Endpoint, ModelRequest, Provider
from openclaw.core.sandbox import Sandbox
from openclaw.core.tool import Tool

if TYPE_CHECKING:
    from openclaw.core.toolserver import Launch, ToolServer

PROVIDERS = {
    "openai-completions": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic-messages": "anthropic",
    "google-generative-ai": "google",
    "ollama": "ollama",
    "offline": "offline",
}


class Providers:
    """Opens a provider for each endpoint once, and closes all of them together."""

    def __init__(self) -> None:
        self._open: dict[tuple[Any, ...], Provider] = {}

    def __call__(self, endpoint: Endpoint) -> Provider:
        key = (
            endpoint.api,
            endpoint.provider,
            endpoint.base_url,
            endpoint.key,
            tuple(sorted(endpoint.headers.items())),
        )
        if key not in self._open:
            if endpoint.api not in PROVIDERS:
                raise ConfigError(f"{endpoint.provider} speaks {endpoint.api}, which is not supported")
            module = importlib.import_module(f"openclaw.providers.{PROVIDERS[endpoint.api]}")
            self._open[key] = module.build(endpoint)
        return self._open[key]

    async def close(self) -> None:
        for provider in self._open.values():
            await provider.close()
        self._open.clear()


def encoded(request: ModelRequest) -> bytes:
    """The bytes a provider of the request's wire API would be sent."""
    if request.model.api == "offline":
        timeless = [msgspec.structs.replace(message, timestamp=0) for message in request.messages]
        return msgspec.json.encode((request.system, timeless, request.tools))
    module = importlib.import_module(f"openclaw.providers.{PROVIDERS[request.model.api]}")
    body: bytes = importlib.import_module("openclaw.providers.request").to_bytes(module.encode(request))
    return body


def tools(settings: Mapping[str, Any]) -> list[Tool]:
    """The tools of this machine."""
    built: list[Tool] = importlib.import_module("openclaw.tools.catalog").build(**settings)
    return built


def standing(clock: Clock, *, kept_for: float) -> Any:
    """What the tools of this machine keep from one call to the next; to be closed."""
    return importlib.import_module("openclaw.tools.catalog").Standing(clock, kept_for=kept_for)


def web_tools(standing: Any, wrap: Any, fence: Mapping[str, Any], settings: Mapping[str, Any]) -> list[Tool]:
    """The tools that read the web."""
    module = importlib.import_module("openclaw.tools.catalog")
    values = module.WebSettings(fence=module.Fence(**fence), **settings)
    built: list[Tool] = module.build_web(standing, wrap, values)
    return built


def sandbox(backend: str, environ: Mapping[str, str]) -> Sandbox:
    """The engine for boxes."""
    engine: Sandbox = importlib.import_module("openclaw.sandboxes.choose").build(backend, environ)
    return engine


def tool_server(launch: "Launch", *, idle: float, environ: Mapping[str, str]) -> "ToolServer":
    """An MCP server, not started yet."""
    held: ToolServer = importlib.import_module("openclaw.tools.mcp.server").Held(launch, idle=idle, environ=environ)
    return held


def embedders() -> tuple[Any, Any]:
    """How an embedder is built, and what would keep one from being built."""
    wing = importlib.import_module("openclaw.embedders.catalog")
    return wing.build, wing.problem
