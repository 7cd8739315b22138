"""The loader: wings are imported by name, and only those that are used."""

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from openclaw.core.approval import Approver
from openclaw.core.clock import Clock
from openclaw.core.errors import ConfigError, ServerFailed
from openclaw.core.provider import Endpoint, ModelRequest, Provider
from openclaw.core.sandbox import Sandbox
from openclaw.core.tool import Tool

if TYPE_CHECKING:
    from openclaw.core.plugin import Brought, OpensProvider
    from openclaw.core.toolserver import Launch, ToolServer


@cache
def registered(wing: str) -> "Brought":
    """What a wing brings, through the door that plugins come through: `register(api)` of its catalogue."""
    from openclaw.core.plugin import Api

    api = Api("openclaw")
    importlib.import_module(f"openclaw.{wing}.catalog").register(api)
    return api.brought()


class Providers:
    """Opens a provider for each endpoint once, and closes all of them together."""

    def __init__(self) -> None:
        self._open: dict[tuple[Any, ...], Provider] = {}
        self.foreign: Callable[[str], OpensProvider | None] = lambda name: None
        """Providers of plugins, by the name they have in `models.providers`."""

    def __call__(self, endpoint: Endpoint) -> Provider:
        if endpoint.api == "plugin":
            # Not kept: the plugin may be another one the next time.
            opens = self.foreign(endpoint.provider)
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
            known = registered("providers").providers
            if endpoint.api not in known:
                raise ConfigError(f"{endpoint.provider} speaks {endpoint.api}, which is not supported")
            self._open[key] = known[endpoint.api](endpoint)
        return self._open[key]

    async def close(self) -> None:
        for provider in self._open.values():
            await provider.close()
        self._open.clear()


def encoded(request: ModelRequest) -> bytes:
    """The bytes a provider of the request's wire API would be sent."""
    if request.model.api in ("offline", "plugin", "acp"):
        timeless = [msgspec.structs.replace(message, timestamp=0) for message in request.messages]
        return msgspec.json.encode((request.system, timeless, request.tools))
    modules = importlib.import_module("openclaw.providers.catalog").MODULES
    module = importlib.import_module(f"openclaw.providers.{modules[request.model.api]}")
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


def browsers(environ: Callable[[], Mapping[str, str]]) -> Any:
    """The browsers of this process, none of them started; to be closed."""
    return importlib.import_module("openclaw.tools.browser.tool").Browsers(environ)


def browser_tool(browsers: Any, wrap: Any, rules: Mapping[str, Any]) -> Tool:
    module = importlib.import_module("openclaw.tools.browser.tool")
    made: Tool = module.BrowserTool(browsers, module.BrowserRules(**rules), wrap)
    return made


def external_agents(approver: Approver, environ: Callable[[], Mapping[str, str]]) -> Any:
    """Coding agents of other makers, none of them started; to be closed."""
    return importlib.import_module("openclaw.tools.acp.agent").Agents(approver, environ)


def external_agent(agents: Any, **hired: Any) -> Provider:
    found: Provider = agents.agent(importlib.import_module("openclaw.tools.acp.agent").Hired(**hired))
    return found


def pinned(*, allow_private: bool, resolve: Any = None) -> Any:
    """A transport for HTTP that looks a name up once, checks what it finds and connects to that and nothing else.

    `resolve` stands in for the system's look-up of names. An address that may not be talked to raises an error of the
    tree in `core.errors`.
    """
    module = importlib.import_module("openclaw.tools.fetch_transport")
    fence = importlib.import_module("openclaw.tools.guard").Fence(allow_private=allow_private)
    return module.GuardedTransport(fence, resolve or module.system_resolve)


def embedders() -> tuple[Any, Any]:
    """How an embedder is built, and what would keep one from being built."""
    wing = importlib.import_module("openclaw.embedders.catalog")
    return wing.build, wing.problem
