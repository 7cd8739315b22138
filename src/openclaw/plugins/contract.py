"""Runs one plugin without a gateway, to test it or to check it against the plugin contract."""

import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from openclaw.core.channel import Channel
from openclaw.core.clock import Clock
from openclaw.core.embedder import Embedder, EmbedderEndpoint
from openclaw.core.errors import NotFound, OpenClawError
from openclaw.core.hook_points import POINTS
from openclaw.core.hooks import HookContext
from openclaw.core.plugin import CommandCall, CommandReply, HttpAnswer, HttpRequest, PluginContributions
from openclaw.core.provider import Endpoint, Provider
from openclaw.core.secret import Secret
from openclaw.core.tool import Output, ToolContext, ToolSpec
from openclaw.plugins.find import FoundPlugin, UnusablePlugin, read_plugin
from openclaw.plugins.manager import PluginManager, PluginStatus
from openclaw.plugins.manifest import FIELDS
from openclaw.plugins.settings import PluginEntry, PluginLimits, PluginLoadSettings, PluginSlots, PluginsSettings
from openclaw.process.tasks import call_function

TYPES = ("string", "number", "integer", "boolean", "array", "object")
FOREIGN = ("anyOf", "oneOf", "allOf", "$ref", "not")
"""What some providers do not accept in a tool's parameters."""


def contract_violations(
    plugin: FoundPlugin, brought: PluginContributions, brings: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    """Each violation of the contract by a running plugin, as one line."""
    names = {**brought.names(), "services": brings.get("services", ())}
    for kind, declared in plugin.manifest.declared().items():
        for name in declared:
            if name not in names[kind]:
                yield f"{FIELDS[kind]} names {name}, which is not registered"
    for point in plugin.manifest.hooks:
        if point not in POINTS:
            yield f"hooks names {point}, and there is no such hook point"
    for tool in brought.tools:
        yield from _tool(tool.spec)
    for command in brought.commands:
        if not command.description.strip():
            yield f"/{command.name} has no description"
    for path in plugin.manifest.skills:
        if not any((plugin.directory / path).glob("**/SKILL.md")):
            yield f"skills names {path}, and there is no SKILL.md in it"
    if not plugin.manifest.description:
        yield "the manifest has no description"


def _tool(spec: ToolSpec) -> Iterator[str]:
    schema: Mapping[str, Any] = spec.parameters
    if not spec.description.strip():
        yield f"the tool {spec.name} has no description"
    if schema.get("type") != "object":
        yield f"the parameters of {spec.name} are not an object"
    foreign = [word for word in FOREIGN if word in schema]
    if foreign:
        yield f"the parameters of {spec.name} use {foreign[0]}, which not every provider accepts"
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in properties:
            yield f"{spec.name} requires {name}, which is not among its parameters"
    for name, part in properties.items():
        if part.get("type") not in TYPES:
            yield f"{name} of {spec.name} has no plain type"
        if not str(part.get("description", "")).strip():
            yield f"{name} of {spec.name} is not described"
        if part.get("type") == "array" and "items" not in part:
            yield f"{name} of {spec.name} is a list of nothing in particular"


class RunningPlugin:
    """A plugin that runs, and what it brought."""

    def __init__(self, found: FoundPlugin, workspace: Path) -> None:
        self.found = found
        self.brought = PluginContributions()
        self.status = PluginStatus(id=found.id, state="starting", plugin=found)
        self._workspace = workspace

    def taken(self, plugin: str) -> Mapping[str, Iterable[str]]:
        return {}

    def join(self, plugin: FoundPlugin, entry: PluginEntry, brought: PluginContributions) -> tuple[str, ...]:
        self.brought = brought
        return ()

    def leave(self, plugin: str) -> None:
        self.brought = PluginContributions()

    async def tool(self, name: str, /, **args: Any) -> Output:
        """Calls a tool."""
        tool = _named(self.brought.tools, name, "spec.name", "tool")
        return await tool.call(args, ToolContext(call_id="test", workspace=self._workspace))  # type: ignore[no-any-return]

    async def command(self, name: str, args: str = "") -> CommandReply:
        """Runs a slash command."""
        command = _named(self.brought.commands, name, "name", "command")
        said = await call_function(command.run, CommandCall(name=name, args=args))
        return said if isinstance(said, CommandReply) else CommandReply(text=str(said))

    async def hook(self, event: Any, context: HookContext | None = None) -> Any:
        """What the plugin's handler answers to `event`, as the point's answer type; None when it answers nothing."""
        point = next(each for each in POINTS.values() if isinstance(event, each.event))
        hook = _named(self.brought.hooks, point.name, "point", "handler")
        answer = await call_function(hook.run, event, context or HookContext())
        if answer is None or point.answer is None:
            return answer
        return msgspec.convert(answer, point.answer, from_attributes=True)

    async def method(self, name: str, /, **params: Any) -> Any:
        """Calls a method of the gateway's protocol."""
        return await call_function(_named(self.brought.methods, name, "name", "method").run, params)

    async def request(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> HttpAnswer:
        """Sends an HTTP request, past the gateway's own authentication."""
        route = _named(self.brought.routes, path, "path", "address")
        asked = HttpRequest(method=method, path=path, body=body, headers=headers)
        answer: HttpAnswer = await call_function(route.run, asked)
        return answer

    def channel(self, name: str) -> Channel:
        found: Channel = _named(self.brought.channels, name, "name", "channel")
        return found

    def provider(self, name: str, endpoint: Endpoint) -> Provider:
        return self.brought.providers[name](endpoint)

    def embedder(self, name: str, endpoint: EmbedderEndpoint) -> Embedder:
        return self.brought.embedders[name](endpoint)


@asynccontextmanager
async def run_plugin(
    directory: str | Path,
    clock: Clock,
    *,
    config: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    limits: PluginLimits | None = None,
    isolation: str = "process",
) -> AsyncIterator[RunningPlugin]:
    """Starts the plugin in `directory`; raises what keeps it from starting."""
    found = read_plugin(Path(directory))
    if isinstance(found, UnusablePlugin):
        raise NotFound(f"{directory}: {found.why}")
    with tempfile.TemporaryDirectory() as state:
        entry = PluginEntry(
            enabled=True,
            isolation="inprocess" if isolation == "inprocess" else "process",
            config=config or {},
            env={name: Secret(value) for name, value in (env or {}).items()},
        )
        slots = PluginSlots(memory=found.id) if found.manifest.kind == "memory" else PluginSlots()
        settings = PluginsSettings(
            load=PluginLoadSettings(paths=(str(found.directory),)),
            entries={found.id: entry},
            limits=limits or PluginLimits(),
            slots=slots,
        )
        plugin = RunningPlugin(found, Path(state))
        plugins = PluginManager(Path(state), Path(state), clock)
        try:
            await plugins.apply(settings, plugin)
            await plugins.settled()
            plugin.status = plugins.status(found.id)
            if plugin.status.state != "running":
                raise OpenClawError(f"{found.id} does not run: {plugin.status.why}")
            yield plugin
        finally:
            await plugins.close()


async def check_contract(
    directory: str | Path,
    clock: Clock,
    *,
    config: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
) -> list[str]:
    """Checks the plugin in `directory` against the contract; gives every violation."""
    found = read_plugin(Path(directory))
    if isinstance(found, UnusablePlugin):
        return [found.why]
    try:
        async with run_plugin(directory, clock, config=config, env=env) as plugin:
            return [*plugin.status.notes, *contract_violations(found, plugin.brought, plugin.status.brings)]
    except OpenClawError as error:
        return [error.message]


def _named(things: Iterable[Any], name: str, field: str, kind: str) -> Any:
    for each in things:
        if attrgetter(field)(each) == name:
            return each
    raise NotFound(f"the plugin has no {kind} {name}")
