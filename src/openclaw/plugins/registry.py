"""What running plugins have registered, for everyone who uses it: tools, hooks, commands, methods, channels, models."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from openclaw.core.clock import Clock
from openclaw.core.commands import NAMES
from openclaw.core.errors import OpenClawError
from openclaw.core.hook_points import POINTS
from openclaw.core.keys import NO_CHANNEL
from openclaw.core.messages import Text
from openclaw.core.plugin import Command, HttpRoute, Method, OpensEmbedder, PluginContributions
from openclaw.core.provider import OpenProvider
from openclaw.core.settings import Live
from openclaw.core.text import make_origin
from openclaw.core.tool import Effects, Output, Tool, ToolContext
from openclaw.memory.settings import BUILT_IN as EMBEDDERS
from openclaw.plugins.hooks.points import HookRegistration
from openclaw.plugins.settings import MEMORY_CORE, PluginEntry, PluginsSettings
from openclaw.protocol.events import EventBus
from openclaw.protocol.rpc import MethodRegistry
from openclaw.security.label_service import wrap_untrusted
from openclaw.security.tool_policy import GROUPS, ToolLayer
from openclaw.skills.find import PluginDirectory
from openclaw.tools.settings import ToolsSettings

if TYPE_CHECKING:
    from openclaw.plugins.find import FoundPlugin
    from openclaw.plugins.hooks.dispatch import HookDispatcher
    from openclaw.plugins.manager import PluginManager, PluginStatus

log = logging.getLogger("openclaw.plugins")


class PluginRegistry:
    """The registrations of all running plugins. They change at runtime: ask again instead of keeping an answer."""

    def __init__(
        self,
        state: Path,
        home: Path,
        clock: Clock,
        hooks: "HookDispatcher",
        settings: Live[PluginsSettings],
        bus: EventBus,
        methods: MethodRegistry,
        off: str = "",
    ) -> None:
        self._off = off
        """Why no plugin runs, when none may."""
        self._own_methods = methods
        """The gateway's: no plugin takes their names."""
        self._bus = bus
        self._state, self._home, self._clock = state, home, clock
        self._settings = settings
        self._hooks = hooks
        self._here: dict[str, PluginContributions] = {}
        self._trusted: set[str] = set()
        self.tools: tuple[Tool, ...] = ()
        """The tools of plugins; results of those in other processes are wrapped as external text."""
        self._begun: asyncio.Event | None = None
        self.generation = 0
        """Grows with every change."""

    @cached_property
    def plugins(self) -> "PluginManager":
        from openclaw.plugins.manager import PluginManager

        return PluginManager(self._state, self._home, self._clock)

    def _any(self) -> bool:
        """Whether there may be a plugin at all. Most people have none, and those load nothing for it."""
        settings = self._settings.current
        named = bool(settings.load.paths or settings.entries) or settings.slots.memory not in (MEMORY_CORE, "none")
        return "plugins" in self.__dict__ or named or (self._state / "extensions").is_dir()

    def statuses(self) -> "tuple[PluginStatus, ...]":
        return self.plugins.statuses() if self._any() else ()

    async def apply(self) -> None:
        """Starts and stops plugins until they match the settings."""
        begun = self._begun = self._begun or asyncio.Event()
        try:
            if self._any() and not self._off:
                await self.plugins.apply(self._settings.current, self)
        except BaseException:
            # Leave it unstarted, so that nothing runs as if there were no plugins: the next caller tries again.
            self._begun = None
            raise
        finally:
            begun.set()

    async def ready(self) -> None:
        """Returns when every plugin is running or quarantined; the first call starts them."""
        if self._begun is not None:
            await self._begun.wait()
        if self._begun is None:
            await self.apply()
        if "plugins" in self.__dict__:
            await self.plugins.settled()

    async def reload(self, name: str) -> "PluginStatus":
        return await self.plugins.reload(name, self._settings.current, self)

    async def close(self) -> None:
        if "plugins" in self.__dict__:
            await self.plugins.close()

    # Called by `PluginManager`.

    def taken(self, plugin: str) -> Mapping[str, Iterable[str]]:
        # Whoever takes the place of the memory brings its tools under their usual names.
        own = GROUPS["memory"] if plugin == self._settings.current.slots.memory else ()
        core = {
            "tools": [name for group in GROUPS.values() for name in group if name not in own],
            "commands": list(NAMES),
            "methods": list(self._own_methods.names()),
            "embedders": [*EMBEDDERS, "auto", "none"],
            "channels": [*NO_CHANNEL, "main", "global", "unknown", "direct", "webchat"],
        }
        others = [brought.names() for name, brought in self._here.items() if name != plugin]
        return {
            kind: [*core.get(kind, ()), *(name for names in others for name in names[kind])]
            for kind in ("tools", "commands", "methods", "routes", "channels", "providers", "embedders")
        }

    def join(self, plugin: "FoundPlugin", entry: PluginEntry, brought: PluginContributions) -> tuple[str, ...]:
        self._here[plugin.id] = brought
        if entry.isolation == "inprocess":
            self._trusted.add(plugin.id)
        notes = []
        for hook in brought.hooks:
            point = POINTS.get(hook.point)  # type: ignore[call-overload]
            if point is None:
                notes.append(f"there is no hook point {hook.point}")
                continue
            if point.name == "provider_prompt_contribution" and not brought.providers:
                notes.append(f"{hook.point} is for plugins that bring a provider, and it brings none")
                continue
            if point.kind == "sync" and entry.isolation == "process":
                notes.append(
                    f"{hook.point} is asked while a result is written and cannot wait for another process: "
                    f"set plugins.entries.{plugin.id}.isolation to inprocess if you trust the plugin"
                )
                continue
            settings = entry.hooks
            if settings.timeout_ms is None and hook.timeout_ms is not None:
                settings = structs.replace(settings, timeout_ms=hook.timeout_ms)
            refused = self._hooks.add(
                HookRegistration(
                    plugin=plugin.id,
                    hook=point.name,
                    handler=hook.run,
                    priority=hook.priority,
                    settings=settings,
                    tools=hook.matcher,
                    providers=tuple(brought.providers),
                )
            )
            notes += [refused] if refused else []
        self._changed()
        return tuple(notes)

    def leave(self, plugin: str) -> None:
        gone = self._here.pop(plugin, None)
        self._trusted.discard(plugin)
        if gone is None:
            return
        if gone.hooks:
            self._hooks.remove(plugin)
        self._changed()

    def _changed(self) -> None:
        self.tools = tuple(
            tool if plugin in self._trusted else ExternalTool(tool, plugin)
            for plugin, brought in self._here.items()
            for tool in brought.tools
        )
        self.generation += 1
        self._bus.publish("plugins.changed", {"generation": self.generation})

    # Called by everyone else.

    def layers(self, settings: ToolsSettings, layers: Sequence[ToolLayer]) -> list[ToolLayer]:
        """`layers` with plugin ids and `group:plugins` expanded, and one more layer for optional tools.

        Optional tools are there only for those that allow them: by name, by plugin, or with all plugins.
        """
        groups = {plugin: brought.names()["tools"] for plugin, brought in self._here.items() if brought.tools}
        every = tuple(name for names in groups.values() for name in names)
        groups["group:plugins"] = ("group:plugins", *every)

        def written_out(entries: Sequence[str]) -> tuple[str, ...]:
            return tuple(name for entry in entries for name in groups.get(entry.strip().lower(), (entry,)))

        widened = [
            structs.replace(
                layer, allow=None if layer.allow is None else written_out(layer.allow), deny=written_out(layer.deny)
            )
            for layer in layers
        ]
        named = set(written_out((*settings.allow, *settings.also_allow)))
        everything = settings.profile == "full" or "*" in named
        optional = [name for brought in self._here.values() for name in brought.optional_tools]
        missing = tuple(name for name in optional if not everything and name not in named)
        return [*widened, ToolLayer(name="optional tools of plugins", deny=missing)] if missing else widened

    def commands(self) -> list[Command]:
        return [command for brought in self._here.values() for command in brought.commands]

    def command(self, name: str) -> Command | None:
        return next((command for command in self.commands() if command.name == name), None)

    def methods(self) -> dict[str, Method]:
        return {method.name: method for brought in self._here.values() for method in brought.methods}

    def route(self, path: str) -> HttpRoute | None:
        """The route for `path`: an exact match first, then the longest prefix."""
        routes = [route for brought in self._here.values() for route in brought.routes]
        for route in routes:
            if route.path.rstrip("/") == path.rstrip("/"):
                return route
        longest = sorted((route for route in routes if route.match == "prefix"), key=lambda route: -len(route.path))
        return next((route for route in longest if path.startswith(f"{route.path.rstrip('/')}/")), None)

    def provider(self, name: str) -> OpenProvider | None:
        return next((brought.providers[name] for brought in self._here.values() if name in brought.providers), None)

    def embedder(self, name: str) -> OpensEmbedder | None:
        return next((brought.embedders[name] for brought in self._here.values() if name in brought.embedders), None)

    def channels(self) -> dict[str, Any]:
        return {channel.name: channel for brought in self._here.values() for channel in brought.channels}

    def channel_owner(self, name: str) -> str:
        """The plugin that brings a channel; empty when none does."""
        return next((plugin for plugin, brought in self._here.items() if name in brought.names()["channels"]), "")

    def skills(self) -> tuple[PluginDirectory, ...]:
        """The skill directories of running plugins."""
        found = self.plugins.found() if "plugins" in self.__dict__ else ()
        return tuple(PluginDirectory(each.id, each.directory / path) for each in found for path in each.manifest.skills)


async def start_plugins(extensions: PluginRegistry) -> None:
    """Starts the plugins of a gateway in the background. Runs wait for them."""
    try:
        await extensions.ready()
    except OpenClawError as error:
        log.error("plugins were not started: %s", error.message)


class ExternalTool:
    """A tool whose results are wrapped as external text."""

    def __init__(self, tool: Tool, plugin: str) -> None:
        self.spec = tool.spec
        self._tool = tool
        self._origin = make_origin("tool", f"plugin {plugin}: {tool.spec.name}")

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return self._tool.effects(args)

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return self._tool.resources(args, context)

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        output = await self._tool.call(args, context)
        content = tuple(
            Text(wrap_untrusted(block.text, "plugin")) if isinstance(block, Text) else block for block in output.content
        )
        return structs.replace(output, content=content, origins=(self._origin,), enclosed=True)
