"""The tools of every session: those of this machine, those of the gateway, and what policy leaves of them."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, lru_cache
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from openclaw.agent.settings import AgentEntry, default_agent
from openclaw.agent.tool_runner import ToolRunner
from openclaw.config.live import LiveConfig
from openclaw.config.load import LoadedConfig
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.events import ToolEnded
from openclaw.core.keys import MAIN, SessionKey, normalise_agent
from openclaw.core.messages import Image, ToolCall, ToolResult
from openclaw.core.sandbox import BoundSandbox
from openclaw.core.tool import Approver, Tool, ToolSpec
from openclaw.memory.service import MemoryService
from openclaw.plugins.registry import PluginRegistry
from openclaw.security.exec_policy import MODES
from openclaw.security.sandboxes.service import SandboxService
from openclaw.security.settings import AgentToolSettings, Ask, ExecOverride, Security
from openclaw.security.tool_policy import (
    ALIASES,
    Level,
    RequestSender,
    ToolLayer,
    ToolPolicy,
    ToolRequest,
    apply_layers,
    find_empty_allowlist,
    find_unknown_entries,
)
from openclaw.tools.settings import ExecSettings
from openclaw.workspace.seed import Workspaces

if TYPE_CHECKING:
    from openclaw.tools.browser.tool import Browsers
    from openclaw.tools.build import ToolState
    from openclaw.tools.mcp.servers import McpServers

log = logging.getLogger("agents/tool-policy")
_WARNED: set[str] = set()
"""Entries that were already complained about in this process."""


USUAL = AgentToolSettings()
"""An agent that has nothing of its own."""


@lru_cache(maxsize=256)
def tool_request(key: SessionKey, model: str, access: str | None) -> ToolRequest:
    """For whom tools are wanted; `access` is that of the session's sandbox, if it is in one."""
    route = key.route
    sender, group = None, ""
    if route is not None and route.kind == "direct":
        sender = RequestSender(channel=route.channel, id=route.peer)
    elif route is not None:  # anyone of the group may be speaking
        sender, group = RequestSender(channel=route.channel), route.peer
    return ToolRequest(
        agent=key.agent,
        model=model,
        sender=sender,
        group=group,
        boxed=access is not None,
        read_only=access == "ro",
    )


@lru_cache(maxsize=256)
def filter_names(names: tuple[str, ...], layers: tuple[ToolLayer, ...]) -> tuple[str, ...]:
    """The tools that remain; what went is logged, a list that leaves nothing is an error."""
    remain, removed = apply_layers(names, layers)
    for each in removed:
        log.debug("%s was removed by %s (%s)", each.tool, each.by, each.key)
    for entry in set(find_unknown_entries(names, layers)) - _WARNED:
        _WARNED.add(entry)
        log.warning("%s names no tool there is", entry)
    if not remain and (culprit := find_empty_allowlist(names, layers)):
        raise InvalidRequest(f"no tool is left: {culprit} allows none of those there are")
    return remain


def exec_policy(settings: ExecSettings, own: ExecOverride = USUAL.exec) -> tuple[Security, Ask]:
    """What may run and who is asked: an agent's own settings over those for all."""
    security, ask = MODES[own.mode] if own.mode else (settings.security, settings.ask)
    return own.security or security, own.ask or ask


def exec_policies(settings: ExecSettings, agents: Sequence[AgentEntry]) -> dict[str, tuple[Security, Ask]]:
    """What may run and who is asked, for every agent that is listed."""
    return {normalise_agent(entry.id): exec_policy(settings, entry.tools.exec) for entry in agents}


DENIED = (
    "exec",
    "process",
    "spawn",
    "shell",
    "fs_write",
    "fs_delete",
    "fs_move",
    "apply_patch",
    "sessions_spawn",
    "sessions_send",
    "cron",
    "gateway",
    "nodes",
)
"""What is too strong for a single credential without a person in between."""


def find_tool(wanted: str, box: ToolRunner) -> ToolSpec:
    """The tool of `box` that is meant."""
    name = ALIASES.get(wanted.lower(), wanted.lower())
    for spec in box.specs:
        if spec.name.lower() == name:
            return spec
    raise NotFound(f"Tool not available: {wanted[:100]}")


async def invoke_tool(box: ToolRunner, spec: ToolSpec, args: dict[str, Any]) -> ToolResult:
    """One call, without a model."""
    call = ToolCall(id=f"call_{secrets.token_hex(8)}", name=spec.name, arguments=args)
    result: ToolResult | None = None
    async for event in box.run_all([call]):
        if isinstance(event, ToolEnded):
            result = event.result
    if result is None:
        raise RuntimeError("a tool call ended without a result")
    return result


class SessionTools(Protocol):
    """What a running gateway adds to the tools of this machine, and the limits that only it knows."""

    def tools(self, key: SessionKey) -> list[Tool]: ...

    def layers(self, key: SessionKey) -> list[ToolLayer]: ...

    async def refresh(self) -> None:
        """Reads what other processes have changed in those limits; asked before each turn."""
        ...


class NoSessionTools:
    """There is no gateway around: for a prompt that is only looked at, and for tests."""

    def tools(self, key: SessionKey) -> list[Tool]:
        return []

    def layers(self, key: SessionKey) -> list[ToolLayer]:
        return []

    async def refresh(self) -> None:
        return


LookAt = Callable[[str, str, Sequence[Image]], Awaitable[str]]
"""What the image model of an agent says about images."""


class MachineTools:
    """The tools that need nothing but this machine: files, commands, the web, notes, plugins, MCP servers."""

    def __init__(
        self,
        live: LiveConfig,
        state: Path,
        clock: Clock,
        sandboxes: SandboxService,
        workspaces: Workspaces,
        approver: Approver,
        memories: MemoryService,
        plugins: PluginRegistry,
        look_at: LookAt,
    ) -> None:
        self._live = live
        self._state = state
        self._clock = clock
        self._sandboxes = sandboxes
        self._workspaces = workspaces
        self._approver = approver
        self._memories = memories
        self._plugins = plugins
        self._look_at = look_at
        self._usual: dict[tuple[str, bool, Level], list[Tool]] = {}
        """The tools of agents without a sandbox, under this configuration."""
        self._usual_for: LoadedConfig | None = None
        self.has_standing = asyncio.Event()
        """Whether `standing` was made: with the first tools, not before."""

    async def settle(self) -> None:
        """Takes a changed configuration up, and ends what an earlier one had running."""
        if "mcp" in self.__dict__:
            self.mcp.configure(self._live.config.mcp)
            await self.mcp.settle()

    def of(self, key: SessionKey, *, background: bool, level: Level = "off") -> list[Tool]:
        """The tools of a session before policy."""
        if self._usual_for is not self._live.current:
            self._usual, self._usual_for = {}, self._live.current
        boxed = self._sandboxes.of(key)
        kind = (key.agent, background, level)
        usual = self._usual.get(kind) if boxed is None else None
        if usual is None:
            usual = self._own(key, background=background, level=level, boxed=boxed)
            if boxed is None:
                self._usual[kind] = usual
        return usual

    def _own(self, key: SessionKey, *, background: bool, level: Level, boxed: BoundSandbox | None) -> list[Tool]:
        """The tools that depend on nothing but the configuration and the agent: they keep nothing between calls."""
        from openclaw.tools.build import build_browser_tools, build_machine_tools  # first use: it loads every tool

        config = self._live.config
        built = build_machine_tools(
            config.tools,
            self._live.current.variables,
            self.standing,
            self._look_at,
            background=background,
            own=self._sandboxes.tool_settings(key.agent),
            boxed=boxed,
            elevated=level,
        )
        built += self._memories.tools(key.agent)
        return built + build_browser_tools(config.browser, self._state, self._open_browsers)

    def _open_browsers(self) -> "Browsers":
        return self.browsers

    @cached_property
    def standing(self) -> "ToolState":
        """What tools keep from one call to the next: commands in the background, pages read lately."""
        from openclaw.tools.build import ToolState

        self.has_standing.set()
        return ToolState(self._clock, kept_for=self._live.config.tools.exec.cleanup_ms / 1000)

    @cached_property
    def browsers(self) -> "Browsers":
        """The browsers of the assistant; none is started before a page is looked at."""
        from openclaw.tools.browser.tool import Browsers

        return Browsers(self._live.variables)

    @cached_property
    def mcp(self) -> "McpServers":
        """The tools of other programs; nothing of it is loaded before a server is configured."""
        from openclaw.tools.mcp.servers import McpServers

        servers = McpServers(self._state, self._clock, self._approver, self._live.variables, self._default_workspace)
        servers.configure(self._live.config.mcp)
        return servers

    def _default_workspace(self) -> str:
        return str(self._workspaces.of(default_agent(self._live.config.agents)))

    async def close(self) -> None:
        for name in ("mcp", "browsers", "standing"):
            if name in self.__dict__:  # made at its first use
                await self.__dict__[name].close()


class KeptTools(Struct, frozen=True):
    """What rules left of the tools of an agent."""

    built: list[Tool]
    rules: list[ToolLayer]
    kept: list[Tool]


class Toolset:
    """The tools of every session: what there is, and what policy leaves of it."""

    def __init__(
        self,
        machine: MachineTools,
        session_tools: SessionTools,
        plugins: PluginRegistry,
        sandboxes: SandboxService,
        live: LiveConfig,
    ) -> None:
        self._machine = machine
        self._session_tools = session_tools
        self._plugins = plugins
        self._sandboxes = sandboxes
        self._live = live
        self._policy = ToolPolicy()
        self._last: dict[str, KeptTools] = {}
        """By agent, because the next turn mostly has the same."""

    async def ready(self) -> None:
        """Waits for the tools of other programs, and for the limits that other processes set."""
        await self._session_tools.refresh()
        if self._live.config.mcp.servers:
            await self._machine.mcp.ready()

    def of(
        self, key: SessionKey | None = None, caps: Sequence[ToolLayer] = (), *, model: str = "", level: Level = "off"
    ) -> list[Tool]:
        """The tools that remain after policy for a session: the main one of the default agent unless told otherwise."""
        key = key or SessionKey(default_agent(self._live.config.agents), MAIN)
        built = self._built(key, background=True, level=level)
        rules = self.rules(key, model, caps)
        last = self._last.get(key.agent)
        if (
            last is not None
            and last.rules == rules
            and len(last.built) == len(built)
            and all(map(is_, last.built, built))
        ):
            return [*last.kept]
        kept = filter_names(tuple([tool.spec.name for tool in built]), tuple(rules))
        before = built
        if "process" not in kept:  # nobody could look after what exec leaves running
            built = self._built(key, background=False, level=level)
        tools = [tool for tool in built if tool.spec.name in kept]
        self._last[key.agent] = KeptTools(before, rules, tools)
        return [*tools]

    def rules(self, key: SessionKey, model: str = "", caps: Sequence[ToolLayer] = ()) -> list[ToolLayer]:
        """Every layer that may take a tool from a session, in order."""
        config = self._live.config
        boxed = self._sandboxes.of(key)
        request = tool_request(key, model, boxed.box.access if boxed is not None else None)
        found = self._policy.layers(config.tools, config.agents, request, config.channels)
        layers = [*found, *self._session_tools.layers(key), *caps]
        return self._plugins.layers(config.tools, layers) if self._plugins.tools else layers

    def offered(self, key: SessionKey) -> tuple[str, ...]:
        """The names of all tools there are for a session, before policy."""
        return tuple(tool.spec.name for tool in self._built(key, background=True))

    def _built(self, key: SessionKey, *, background: bool, level: Level = "off") -> list[Tool]:
        own = self._machine.of(key, background=background, level=level)
        lent = self._machine.mcp.tools() if self._live.config.mcp.servers else ()
        return [*own, *self._session_tools.tools(key), *self._plugins.tools, *lent]
