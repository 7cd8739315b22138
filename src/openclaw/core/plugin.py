"""The plugin API: what a plugin registers, as frozen values collected by the `Api` that `register(api)` is given.

Registering only collects. Nothing is started, opened or changed, so that the contributions can be inspected first.
"""

import inspect
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from openclaw.core.channel import Channel
from openclaw.core.embedder import Embedder, EmbedderEndpoint
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.provider import OpenProvider
from openclaw.core.text import compile_lazily
from openclaw.core.tool import Effects, Output, Tool, ToolContext, ToolSpec

NAME = compile_lazily(r"[a-zA-Z][a-zA-Z0-9_.-]{0,63}\Z")
COMMAND = compile_lazily(r"[a-z][a-z0-9_-]{0,31}\Z")
PATH = compile_lazily(r"/[A-Za-z0-9._~/-]{1,199}\Z")

Scope = Literal["operator.read", "operator.write", "operator.admin"]


class CommandCall(Struct, frozen=True, kw_only=True):
    """A slash command as somebody typed it."""

    name: str
    args: str = ""
    session_key: str = ""
    agent_id: str = "main"


class CommandReply(Struct, frozen=True, kw_only=True):
    """The immediate answer of a command, and the text the model then continues with, if any."""

    text: str = ""
    then: str = ""


class Command(Struct, frozen=True, kw_only=True):
    """A slash command; it is answered without a model."""

    name: str
    description: str
    run: Callable[[CommandCall], "Awaitable[CommandReply | str] | CommandReply | str"]
    args: str = ""
    """The usage of its arguments in the command list; empty when it takes none."""


class Method(Struct, frozen=True, kw_only=True):
    """A gateway RPC method. `run` gets the params and returns the payload."""

    name: str
    run: Callable[[Mapping[str, Any]], Any]
    scope: Scope = "operator.admin"


class HttpRequest(Struct, frozen=True, kw_only=True):
    """A request to a plugin's route. The gateway's credentials are removed from the headers."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class HttpAnswer(Struct, frozen=True, kw_only=True):
    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpRoute(Struct, frozen=True, kw_only=True):
    """An HTTP route on the gateway's port."""

    path: str
    run: Callable[[HttpRequest], "Awaitable[HttpAnswer] | HttpAnswer"]
    auth: Literal["gateway", "plugin"] = "gateway"
    """Whether the gateway authenticates requests, or the plugin does (for example by a signature)."""
    match: Literal["exact", "prefix"] = "exact"
    scope: Scope = "operator.write"


class Service(Protocol):
    """A background service with the lifetime of the plugin."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Hook(Struct, frozen=True, kw_only=True):
    """A handler at a hook point: `run(event, context)` returns the point's answer type, a mapping like it, or None."""

    point: str
    run: Callable[[Any, Any], Any]
    priority: int = 0
    timeout_ms: int | None = None
    matcher: tuple[str, ...] = ()
    """At tool hook points: only calls of these tools; all when empty."""


OpensEmbedder = Callable[[EmbedderEndpoint], Embedder]


class PluginContributions(Struct, frozen=True, kw_only=True):
    """Everything one plugin registered."""

    tools: tuple[Tool, ...] = ()
    optional_tools: frozenset[str] = frozenset()
    """Offered only to those who allow them by name."""
    hooks: tuple[Hook, ...] = ()
    commands: tuple[Command, ...] = ()
    methods: tuple[Method, ...] = ()
    routes: tuple[HttpRoute, ...] = ()
    channels: tuple[Channel, ...] = ()
    providers: Mapping[str, OpenProvider] = field(default_factory=dict)
    embedders: Mapping[str, OpensEmbedder] = field(default_factory=dict)
    services: Mapping[str, Service] = field(default_factory=dict)

    def names(self) -> dict[str, tuple[str, ...]]:
        """The names registered, by kind; compared with the manifest and shown to people."""
        return {
            "tools": tuple(tool.spec.name for tool in self.tools),
            "hooks": tuple(dict.fromkeys(hook.point for hook in self.hooks)),
            "commands": tuple(command.name for command in self.commands),
            "methods": tuple(method.name for method in self.methods),
            "routes": tuple(route.path for route in self.routes),
            "channels": tuple(channel.name for channel in self.channels),
            "providers": tuple(self.providers),
            "embedders": tuple(self.embedders),
            "services": tuple(self.services),
        }


class FunctionTool:
    """A tool made of one function: `run(args, context)` returns text or an `Output`, directly or awaited."""

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        run: Callable[[Mapping[str, Any], ToolContext], Any],
        *,
        required: tuple[str, ...] = (),
        effects: Effects = Effects.NONE,
        label: str = "",
    ) -> None:
        self._effects = effects
        self.run = run
        self.spec = ToolSpec(
            name=name,
            label=label or name.replace("_", " ").capitalize(),
            description=description,
            parameters={
                "type": "object",
                "properties": dict(parameters),
                "required": list(required),
                "additionalProperties": False,
            },
            summary=description.partition(".")[0],
        )

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return self._effects

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        made = self.run(args, context)
        return output_of(await made if inspect.isawaitable(made) else made)


def output_of(found: Any) -> Output:
    """A function's return value as a tool's output."""
    return found if isinstance(found, Output) else Output.of(str(found))


class Api:
    """The argument of `register(api)`: facts about the plugin, and methods that register what it contributes."""

    def __init__(
        self,
        plugin: str,
        *,
        config: Mapping[str, Any] | None = None,
        directory: Path | None = None,
        state: Path | None = None,
        log: logging.Logger | None = None,
    ) -> None:
        self.id = plugin
        self.config: Mapping[str, Any] = config or {}
        """`plugins.entries.<id>.config`, which fits the manifest's schema."""
        self.directory = directory or Path()
        """Where the plugin's files are."""
        self.state = state or Path()
        """A directory of the plugin's own that is kept."""
        self.log = log or logging.getLogger(f"openclaw.plugin.{plugin}")
        self._hooks: list[Hook] = []
        self._optional: set[str] = set()
        self._found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        """Everything that has a name, by its kind."""

    def tool(self, tool: Tool, *, optional: bool = False) -> None:
        """Registers a tool; an optional one is offered only to agents that allow it by name."""
        self._put("tool", tool.spec.name, tool)
        if optional:
            self._optional.add(tool.spec.name)

    def on(
        self,
        point: str,
        run: Callable[[Any, Any], Any],
        *,
        priority: int = 0,
        timeout_ms: int | None = None,
        matcher: tuple[str, ...] = (),
    ) -> None:
        """Registers a handler at a hook point; higher priorities run first."""
        if timeout_ms is not None and not 0 < timeout_ms <= 600_000:
            raise InvalidRequest(f"the timeout of {point} is {timeout_ms} ms: use 1 to 600000")
        self._hooks.append(Hook(point=point, run=run, priority=priority, timeout_ms=timeout_ms, matcher=matcher))

    def command(self, command: Command) -> None:
        """Registers a slash command for everybody who may command the assistant."""
        if not COMMAND.match(command.name):
            raise InvalidRequest(f"/{command.name} cannot be typed: use letters in lower case, digits, - and _")
        self._put("command", command.name, command)

    def method(self, method: Method) -> None:
        """Registers an RPC method of the gateway."""
        self._put("method", method.name, method)

    def route(self, route: HttpRoute) -> None:
        """Registers an HTTP route on the gateway's port."""
        if not PATH.match(route.path) or "//" in route.path or "/.." in route.path:
            raise InvalidRequest(f"{route.path!r} is not an address: use a path like /hello/there")
        routes, path = self._found["route"], route.path.rstrip("/")
        if path in routes:
            raise InvalidRequest(f"the address {route.path} is registered twice")
        routes[path] = route

    def channel(self, channel: Channel) -> None:
        """Registers a chat channel."""
        self._put("channel", channel.name, channel)

    def provider(self, name: str, opens: OpenProvider) -> None:
        """Registers a model provider, used for `models.providers.<name>` of the configuration only."""
        self._put("provider", name, opens)

    def embedder(self, name: str, opens: OpensEmbedder) -> None:
        """Registers an embedder for `memorySearch.provider: <name>`."""
        self._put("embedder", name, opens)

    def service(self, name: str, service: Service) -> None:
        """Registers a background service, started when the plugin is ready and stopped with it."""
        self._put("service", name, service)

    def brought(self) -> PluginContributions:
        """Everything registered so far."""
        found: dict[str, Any] = {f"{kind}s": tuple(things.values()) for kind, things in self._found.items()}
        found |= {f"{kind}s": dict(self._found[kind]) for kind in ("provider", "embedder", "service")}
        return PluginContributions(optional_tools=frozenset(self._optional), hooks=tuple(self._hooks), **found)

    def _put(self, kind: str, name: str, thing: Any) -> None:
        if not NAME.match(name):
            raise InvalidRequest(f"{name!r} cannot be the name of a {kind}: use letters, digits, _ . and -")
        if name in self._found[kind]:
            raise InvalidRequest(f"the {kind} {name} is registered twice")
        self._found[kind][name] = thing


class PluginFailed(OpenClawError):
    """A plugin's code raised, timed out or is gone; `kind` names its exception."""

    code = "UNAVAILABLE"

    def __init__(self, message: str, *, kind: str = "", meant: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.meant = meant
        """It chose one of our errors to say something (`RateLimited`): an answer, and no fault of the plugin."""
