"""The tools of MCP servers: looked at once, offered as they were accepted, called through a process of their own."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from openclaw.core.approval import Approver
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import NotFound, OpenClawError, Unavailable
from openclaw.core.tool import Tool
from openclaw.core.toolserver import OfferedTool, ServerLaunch, ToolServer
from openclaw.gateway.tools.mcp_tool import McpTool
from openclaw.mcp import names, pins
from openclaw.mcp.launch import identity, launch
from openclaw.mcp.ledger import AcceptedMcpTools
from openclaw.mcp.settings import McpServerSettings, McpSettings
from openclaw.tools.mcp.server import McpServer
from openclaw.trust.scan import suspicious_patterns

log = logging.getLogger(__name__)

FIRST_LOOK = 10.0
"""Seconds a turn waits for a server that was never seen before; later ones wait for nobody."""
LOOK_AGAIN = 60.0
"""A server that could not be reached is left alone for so long."""


class _Server(Struct):
    """A configured server."""

    settings: McpServerSettings
    launch: ServerLaunch
    identity: str
    held: ToolServer
    alone: asyncio.Lock
    looked: int = -1
    failed_at: float | None = None
    failure: str = ""


def open_servers(
    state: Path,
    clock: Clock,
    approver: Approver,
    environ: Callable[[], Mapping[str, str]],
    workspace: Callable[[], str],
) -> "McpServers":
    return McpServers(AcceptedMcpTools(state), clock, approver, environ, workspace)


class McpServers:
    """All configured servers of this process; whoever made it closes it."""

    def __init__(
        self,
        ledger: AcceptedMcpTools,
        clock: Clock,
        approver: Approver,
        environ: Callable[[], Mapping[str, str]],
        workspace: Callable[[], str],
    ) -> None:
        self.ledger = ledger
        self._clock = clock
        self._approver = approver
        self._environ = environ
        self._workspace = workspace
        self._settings = McpSettings()
        self._servers: dict[str, _Server] | None = {}
        self._retired: list[ToolServer] = []
        self._looks: dict[str, asyncio.Task[None]] = {}
        self.problems: dict[str, str] = {}
        """Servers whose settings make no sense, and why."""

    def configure(self, settings: McpSettings) -> None:
        """From now on these servers."""
        if settings != self._settings:
            self._settings = settings
            self._retired += [server.held for server in (self._servers or {}).values()]
            self._servers = None

    def tools(self) -> list[Tool]:
        """What was accepted of every server in use; asks nobody."""
        if not self._all():
            return []
        try:
            records = self.ledger.read()
        except OpenClawError as error:
            log.warning("no MCP tools: %s", error.message)
            return []
        found: list[Tool] = []
        for name, server in self._all().items():
            record = records.get(name)
            if record is not None and record.identity == server.identity:
                found += self._tools_of(name, server, record)
        return found

    async def ready(self) -> None:
        """Looks at servers that were never seen, for a short while; what takes longer is there for a later turn."""
        await self.settle()
        if not self._all():
            return
        records = self.ledger.read()
        for name, server in self._all().items():
            record = records.get(name)
            known = record is not None and record.identity == server.identity
            waits = server.failed_at is not None and self._clock.now() - server.failed_at < LOOK_AGAIN
            if not known and not waits and name not in self._looks:
                task = asyncio.create_task(self._try(name, server), name=f"mcp look:{name}")
                self._looks[name] = task
                task.add_done_callback(lambda done, name=name: self._looks.pop(name, None))  # type: ignore[misc]
        if self._looks:
            await asyncio.wait(self._looks.values(), timeout=FIRST_LOOK)

    async def look(self, name: str) -> pins.PinnedTool:
        """Asks a server what it offers, and writes that down."""
        server = self._all().get(name)
        if server is None:
            raise NotFound(self.problems.get(name) or f"no MCP server {name!r} is configured and enabled")
        return await self._look(name, server)

    async def settle(self) -> None:
        """Ends servers that are not in use any more."""
        while self._retired:
            await self._retired.pop().close()

    async def close(self) -> None:
        tasks = list(self._looks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._retired += [server.held for server in (self._servers or {}).values()]
        self._servers = {}
        await asyncio.gather(*(held.close() for held in self._retired))
        self._retired.clear()

    def _all(self) -> dict[str, _Server]:
        """The servers in use, made from the settings when they are first needed."""
        if self._servers is None:
            self._servers = {}
            self.problems = {}
            for name, settings in self._settings.servers.items():
                if not settings.enabled:
                    continue
                try:
                    how = launch(name, settings, workspace=self._workspace())
                except OpenClawError as error:
                    self.problems[name] = error.message
                    log.warning("%s", error.message)
                    continue
                idle = self._settings.session_idle_ttl_ms / 1000
                held = McpServer(how, idle=idle, environ=self._environ())
                self._servers[name] = _Server(settings, how, identity(how), held, asyncio.Lock())
        return self._servers

    async def _try(self, name: str, server: _Server) -> None:
        try:
            await self._look(name, server)
        except OpenClawError as error:
            server.failed_at, server.failure = self._clock.now(), error.message
            log.warning("%s", error.message)

    async def _look(self, name: str, server: _Server) -> pins.PinnedTool:
        offered = await server.held.list()
        server.looked, server.failed_at, server.failure = server.held.listings, None, ""
        now = millis(self._clock)
        record = await asyncio.to_thread(
            self.ledger.change, name, lambda was: pins.seen(was, server.identity, offered, now)
        )
        assert record is not None
        if found := pins.changes(record):
            log.warning("the MCP server %s offers something else than was accepted (%s)", name, found)
        for tool in record.accepted:
            for pattern in suspicious_patterns(tool.description):
                log.warning(
                    "the MCP server %s: the description of %s looks like an order (%s)", name, tool.name, pattern
                )
        return record

    def _tools_of(self, name: str, server: _Server, record: pins.PinnedTool) -> list[Tool]:
        kept = [
            tool
            for tool in record.accepted
            if names.passes(tool.name, server.settings.tool_filter.include, server.settings.tool_filter.exclude)
        ]
        named = names.name_all(name, [tool.name for tool in record.accepted])
        return [
            McpTool(
                server=name,
                name=named[tool.name],
                offered=tool,
                parallel=server.settings.supports_parallel_tool_calls,
                link=_Link(self, name, server),
                approver=self._approver,
            )
            for tool in kept
        ]


class _Link:
    """One server as its tools see it."""

    def __init__(self, servers: McpServers, name: str, server: _Server) -> None:
        self._servers = servers
        self._name = name
        self._server = server

    async def current(self, tool: OfferedTool) -> OfferedTool | None:
        """What the server says of the tool now, None when it is gone."""
        server = self._server
        if not server.held.alive or server.looked != server.held.listings:
            async with server.alone:
                if not server.held.alive or server.looked != server.held.listings:
                    await self._servers._look(self._name, server)
        record = self._servers.ledger.read().get(self._name)
        if record is None:
            raise Unavailable(f"the MCP server {self._name} was taken off the list: ask again in a new turn")
        return next((each for each in record.now if each.name == tool.name), None)

    async def accept(self, tool: OfferedTool, now: int) -> None:
        def agreed(record: pins.PinnedTool | None) -> pins.PinnedTool | None:
            return pins.accept(record, now, tool.name) if record is not None else None

        await asyncio.to_thread(self._servers.ledger.change, self._name, agreed)

    @property
    def held(self) -> ToolServer:
        return self._server.held

    @property
    def alone(self) -> asyncio.Lock:
        return self._server.alone

    @property
    def now(self) -> int:
        return millis(self._servers._clock)
