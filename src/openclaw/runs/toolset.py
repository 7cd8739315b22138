"""The tools of every session: what there is, and what policy leaves of it."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openclaw.agent import settings
from openclaw.agent.tool_runner import ToolRunner
from openclaw.config.load import LoadedConfig
from openclaw.config.schema import Config
from openclaw.core.clock import Clock
from openclaw.core.events import ToolEnded
from openclaw.core.keys import MAIN, SessionKey
from openclaw.core.messages import Image, ToolCall, ToolResult
from openclaw.core.sandbox import SandboxedRun
from openclaw.core.tool import Approver, Tool, ToolSpec
from openclaw.gateway.http.problems import HttpProblem
from openclaw.runs import tool_settings
from openclaw.security import tool_policy
from openclaw.security.sandboxes.service import SandboxService
from openclaw.security.tool_policy import ALIASES, Level, ToolLayer
from openclaw.tools import build

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from openclaw.plugins.registry import PluginRegistry
    from openclaw.tools.browser.tool import Browsers
    from openclaw.tools.build import ToolState
    from openclaw.tools.mcp.servers import McpServers

DENIED = (
    "exec",
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
    raise HttpProblem(404, f"Tool not available: {wanted[:100]}", "not_found")


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


class Toolset:
    def __init__(
        self,
        state: Path,
        clock: Clock,
        loaded: Callable[[], LoadedConfig],
        boxes: Callable[[], SandboxService],
        workspace: Callable[[str], Path],
        approver: Approver,
        remembering: Callable[[str], list[Tool]],
        look: "Callable[[str, str, Sequence[Image]], Awaitable[str]]",
        added: "Callable[[], PluginRegistry | None]",
    ) -> None:
        self._state = state
        self._clock = clock
        self._loaded = loaded
        self._boxes = boxes
        self._workspace = workspace
        self._approver = approver
        self._remembering = remembering
        self._look = look
        self._added = added
        self._offered: list[Tool] = []
        self._hall: tool_settings.GatewayToolsSource = tool_settings.NoGatewayTools()
        self._usual: dict[tuple[str, bool, Level], list[Tool]] = {}
        """The tools of agents without a sandbox, under this configuration."""
        self.has_standing = asyncio.Event()
        """Whether `standing` was made: with the first tools, not before."""

    @property
    def _config(self) -> Config:
        return self._loaded().config

    def offer(self, tool: Tool) -> None:
        """Adds a tool that only the running gateway can carry out."""
        self._offered.append(tool)

    def serve_in(self, hall: tool_settings.GatewayToolsSource) -> None:
        """From now on a gateway runs round this assistant: its tools are offered and its limits hold."""
        self._hall = hall

    def reconfigured(self) -> None:
        """Another configuration holds from now on."""
        self._usual.clear()
        if "mcp" in self.__dict__:
            self.mcp.configure(self._config.mcp)

    async def settle(self) -> None:
        """Ends what an earlier configuration had running."""
        if "mcp" in self.__dict__:
            await self.mcp.settle()

    async def ready(self) -> None:
        """Waits for the tools of other programs, and for the limits that other processes set."""
        await self._hall.refresh()
        if self._config.mcp.servers:
            await self.mcp.ready()

    def of(
        self, key: SessionKey | None = None, caps: Sequence[ToolLayer] = (), *, model: str = "", level: Level = "off"
    ) -> list[Tool]:
        """The tools that remain after policy for a session: the main one of the default agent unless told otherwise."""
        key = key or SessionKey(settings.default_agent(self._config.agents), MAIN)
        built = self._built(key, background=True, level=level)
        kept = tool_settings.kept([tool.spec.name for tool in built], self.rules(key, model, caps))
        if "process" not in kept:  # nobody could look after what exec leaves running
            built = self._built(key, background=False, level=level)
        return [tool for tool in built if tool.spec.name in kept]

    def rules(self, key: SessionKey, model: str = "", caps: Sequence[ToolLayer] = ()) -> list[ToolLayer]:
        """Every layer that may take a tool from a session, in order."""
        config, added = self._config, self._added()
        own = self._boxes().tool_settings(key.agent)
        asked = tool_settings.asked(key, model, self._boxes().of(key))
        found = [*tool_policy.layers(config.tools, own, asked, config.channels), *self._hall.layers(key), *caps]
        return added.layers(config.tools, found) if added else found

    def offered(self, key: SessionKey) -> tuple[str, ...]:
        """The names of all tools there are for a session, before policy."""
        return tuple(tool.spec.name for tool in self._built(key, background=True))

    def _built(self, key: SessionKey, *, background: bool, level: Level = "off") -> list[Tool]:
        boxed = self._boxes().of(key)
        kind = (key.agent, background, level)
        usual = self._usual.get(kind) if boxed is None else None
        if usual is None:
            usual = self._own(key, background=background, level=level, boxed=boxed)
            if boxed is None:
                self._usual[kind] = usual
        added = self._added()
        return [
            *usual,
            *self._offered,
            *self._hall.tools(key),
            *(added.tools() if added else ()),
            *(self.mcp.tools() if self._config.mcp.servers else ()),
        ]

    def _own(self, key: SessionKey, *, background: bool, level: Level, boxed: SandboxedRun | None) -> list[Tool]:
        """The tools that depend on nothing but the configuration and the agent: they keep nothing between calls."""
        config = self._config
        built = tool_settings.machine_tools(
            config.tools,
            self._loaded().variables,
            self.standing,
            self._look,
            background=background,
            own=self._boxes().tool_settings(key.agent),
            boxed=boxed,
            elevated=level,
        )
        built += self._remembering(key.agent)
        return built + build.tools(config.browser, self._state, lambda: self.browsers)

    @cached_property
    def standing(self) -> "ToolState":
        """What tools keep from one call to the next: commands in the background, pages read lately."""
        from openclaw.tools.build import ToolState

        self.has_standing.set()
        return ToolState(self._clock, kept_for=self._config.tools.exec.cleanup_ms / 1000)

    @cached_property
    def browsers(self) -> "Browsers":
        """The browsers of the assistant; none is started before a page is looked at."""
        from openclaw.tools.browser.tool import Browsers

        return Browsers(lambda: self._loaded().variables)

    @cached_property
    def mcp(self) -> "McpServers":
        """The tools of other programs; nothing of it is loaded before a server is configured."""
        from openclaw.tools.mcp.servers import open_servers

        def workspace() -> str:
            return str(self._workspace(settings.default_agent(self._config.agents)))

        servers = open_servers(self._state, self._clock, self._approver, lambda: self._loaded().variables, workspace)
        servers.configure(self._config.mcp)
        return servers

    async def close(self) -> None:
        for name in ("mcp", "browsers", "standing"):
            if name in self.__dict__:  # made at its first use
                await self.__dict__[name].close()
