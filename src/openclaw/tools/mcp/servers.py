"""The tools of MCP servers: lists them, offers those accepted, and calls them through a worker process per server."""

import asyncio
import json
import logging
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import NotFound, OpenClawError, Unavailable
from openclaw.core.messages import Image, Text
from openclaw.core.settings import Live
from openclaw.core.text import make_origin
from openclaw.core.tool import (
    ApprovalRequest,
    Approver,
    Effects,
    OfferedTool,
    Output,
    ServerResult,
    StartsProgram,
    Tool,
    ToolContext,
    ToolSpec,
)
from openclaw.process.worker import Worker, WorkerSpec
from openclaw.security.effects.intent import reads_by_name
from openclaw.security.external import sanitize_external_text
from openclaw.security.label_service import wrap_untrusted
from openclaw.security.scan import suspicious_patterns
from openclaw.tools.mcp import schema
from openclaw.tools.mcp.accepted import AcceptedMcpTools
from openclaw.tools.mcp.schema import clean_schema, digest, identity, launch
from openclaw.tools.settings import McpServerSettings, McpSettings

# The tool.

SHOWN = 400
DESCRIPTION = 1_500


class McpTool(StartsProgram):
    """A tool as accepted. If its server describes it differently by now, a person is asked first."""

    def __init__(self, name: str, offered: OfferedTool, server: "ConfiguredServer", approver: Approver) -> None:
        self._server = server
        self._offered = offered
        self.starts_program = bool(server.settings.command)
        self._parallel = server.settings.supports_parallel_tool_calls
        self._approver = approver
        self._origins = (make_origin("external", f"MCP {server.name}: {offered.name}"),)
        # Most servers give no hints; a name is as good a claim.
        self._reads = offered.read_only or reads_by_name(offered.name)
        said = sanitize_external_text(offered.description).strip()[:DESCRIPTION]
        self.spec = ToolSpec(
            name=name,
            label=sanitize_external_text(offered.title or offered.name)[:80],
            summary=f"a tool of the MCP server {sanitize_external_text(server.name)[:40]}",
            description=said or f"The tool {name}; its server does not say what it does.",
            parameters=clean_schema(offered.parameters, sanitize_external_text),
        )

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.FETCHES if self._reads else Effects.FETCHES | Effects.SENDS_OUT

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset() if self._parallel else frozenset({f"mcp:{self._server.name}"})

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        try:
            now = await self._server.current(self._offered)
            if now is None:
                return Output.failed(f"The MCP server {self._server.name} does not offer this tool any more.")
            if digest(now) != digest(self._offered):
                refusal = await self._ask(now, args, context)
                if refusal is not None:
                    return Output.failed(refusal)
            # Other conversations use the same server.
            async with nullcontext() if self._parallel else self._server.alone:
                returned = await self._server.held.call(self._offered.name, args, context.report)
        except OpenClawError as error:
            # The error may contain the server's text.
            failed = Output.failed(wrap_untrusted(error.message, "mcp"))
            return structs.replace(failed, origins=self._origins, enclosed=True)
        return self._output(returned)

    async def _ask(self, now: OfferedTool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        """Asks whether the tool may be used although its description changed; None when it may."""
        answer = await self._approver.decide(
            ApprovalRequest(
                id=secrets.token_hex(4),
                tool=self.spec.name,
                command=f"{self.spec.name} {json.dumps(dict(args), ensure_ascii=False)}",
                cwd=str(context.workspace),
                agent_id=context.agent_id,
                session_key=context.session_key,
                run_id=context.run_id,
                call=context.call,
                why=f"the MCP server {self._server.name} changed this tool since it was accepted. "
                + _difference(self._offered, now),
            )
        )
        if answer.decision == "allow-always":
            await self._server.accept(now)
        if answer.decision == "deny":
            return (
                f"Not called: the MCP server {self._server.name} changed this tool since it was accepted, and "
                f"{answer.why or 'the user said no'}. `openclaw mcp accept {self._server.name}` accepts the change."
            )
        return None

    def _output(self, returned: ServerResult) -> Output:
        texts = [block.text for block in returned.content if isinstance(block, Text)]
        if not texts and returned.structured is not None:
            texts = [json.dumps(returned.structured, indent=2, ensure_ascii=False)]
        images = [block for block in returned.content if isinstance(block, Image)]
        body = "\n\n".join(texts) or ("(images)" if images else "(nothing)")
        return Output(
            content=(Text(wrap_untrusted(body, "mcp")), *images),
            details={"mcpServer": self._server.name, "mcpTool": self._offered.name},
            is_error=returned.is_error,
            origins=self._origins,
            enclosed=True,
        )


def _difference(was: OfferedTool, now: OfferedTool) -> str:
    """The change, as a person must see it."""
    if was.description != now.description:
        old, new = (sanitize_external_text(each.description)[:SHOWN] for each in (was, now))
        return f"It said: {old!r}. Now it says: {new!r}"
    if was.parameters != now.parameters:
        return "Its parameters are other ones."
    return "Its title or hints are other ones."


# One server.

INSTALL = "MCP servers need the extra `mcp`: install it with: pip install 'openclaw-py[mcp]'"


class McpServer:
    """One server. Its worker starts with the first request, and ends after `idle` seconds without one."""

    def __init__(self, name: str, how: McpServerSettings, *, idle: float, environ: Mapping[str, str]) -> None:
        self._how = how
        self._seconds = how.request_timeout_ms / 1000
        role = WorkerSpec(
            name=f"the MCP server {name}",
            module="openclaw.tools.mcp.worker",
            # The worker's own timeout ends the wait; this one covers a worker that does not even start.
            start_seconds=how.connection_timeout_ms / 1000 + 30.0,
            secrets=(*how.env.values(), *how.headers.values()),
        )
        self._helper = Worker(role, self._start, idle=idle, environ=environ, heard=self._heard)
        self._changes = 0

    @property
    def alive(self) -> bool:
        return self._helper.alive

    @property
    def listings(self) -> int:
        """Increases whenever the server's tool list may have changed."""
        return self._helper.starts + self._changes

    async def list(self) -> Sequence[OfferedTool]:
        body = await self._helper.ask({"do": "list"}, self._seconds)
        try:
            return msgspec.convert(body, tuple[OfferedTool, ...])
        except msgspec.ValidationError as error:
            raise Unavailable(f"{self._helper.name} lists tools that make no sense") from error

    async def call(self, name: str, args: Mapping[str, Any], report: Callable[[str], None]) -> ServerResult:
        asked = {"do": "call", "tool": name, "args": dict(args)}
        return msgspec.convert(await self._helper.ask(asked, self._seconds, report), ServerResult)

    async def close(self) -> None:
        await self._helper.close()

    def _heard(self, news: Any) -> None:
        self._changes += 1

    def _start(self) -> dict[str, Any]:
        """The fields of `McpStart`, with the credentials revealed."""
        if find_spec("mcp") is None:
            raise Unavailable(INSTALL)
        how = self._how
        return {
            **structs.asdict(how),
            "env": {name: value.reveal() for name, value in how.env.items()},
            "headers": {name: _header(name, value.reveal()) for name, value in how.headers.items()},
            "cwd": os.path.expanduser(how.cwd) if how.cwd else "",  # noqa: PTH111 (a text that goes down a pipe)
        }


def _header(name: str, value: str) -> str:
    """Adds the `Bearer` scheme when a secret holds the bare token."""
    bare = name.lower() == "authorization" and value and " " not in value.strip()
    return f"Bearer {value.strip()}" if bare else value


# All servers.

log = logging.getLogger(__name__)

FIRST_LOOK = 10.0
"""Seconds a turn waits for a server that was never listed; later turns do not wait."""
LOOK_AGAIN = 60.0
"""Seconds before an unreachable server is tried again."""


class ConfiguredServer:
    """A server of the configuration: its process, and what is known of its tools."""

    def __init__(
        self,
        name: str,
        settings: McpServerSettings,
        held: McpServer,
        accepted: AcceptedMcpTools,
        clock: Clock,
    ) -> None:
        self.name = name
        self.settings = settings
        self.held = held
        self.alone = asyncio.Lock()
        self.failed_at: float | None = None
        self._identity = identity(settings)
        self._accepted = accepted
        self._clock = clock
        self._looked = -1

    def record(self) -> schema.AcceptedServer | None:
        """What was accepted of it, None for a server that was never listed."""
        record = self._accepted.read().get(self.name)
        return record if record is not None and record.identity == self._identity else None

    async def look(self) -> schema.AcceptedServer:
        """Lists its tools, and stores the result."""
        offered = await self.held.list()
        self._looked, self.failed_at = self.held.listings, None
        update = partial(schema.record_listing, identity=self._identity, offered=offered, now=millis(self._clock))
        record = await asyncio.to_thread(self._accepted.change, self.name, update)
        assert record is not None
        if found := schema.changes(record):
            log.warning("the MCP server %s offers something else than was accepted (%s)", self.name, found)
        for tool in record.accepted:
            for pattern in suspicious_patterns(tool.description):
                log.warning(
                    "the MCP server %s: the description of %s looks like an order (%s)", self.name, tool.name, pattern
                )
        return record

    async def current(self, tool: OfferedTool) -> OfferedTool | None:
        """The tool as the server describes it now, None when it is gone."""
        if self._is_stale():
            async with self.alone:
                if self._is_stale():
                    await self.look()
        record = self._accepted.read().get(self.name)
        if record is None:
            raise Unavailable(f"the MCP server {self.name} was taken off the list: ask again in a new turn")
        return next((each for each in record.now if each.name == tool.name), None)

    def _is_stale(self) -> bool:
        return not self.held.alive or self._looked != self.held.listings

    async def accept(self, tool: OfferedTool) -> None:
        now = millis(self._clock)

        def agreed(record: schema.AcceptedServer | None) -> schema.AcceptedServer | None:
            return schema.accept(record, now, tool.name) if record is not None else None

        await asyncio.to_thread(self._accepted.change, self.name, agreed)


class McpServers:
    """All configured servers of this process; whoever made it closes it."""

    def __init__(
        self,
        state: Path,
        clock: Clock,
        approver: Approver,
        environ: Live[Mapping[str, str]],
        workspace: Callable[[], str],
    ) -> None:
        self._accepted = AcceptedMcpTools(state)
        self._clock = clock
        self._approver = approver
        self._environ = environ
        self._workspace = workspace
        self._settings = McpSettings()
        self._servers: dict[str, ConfiguredServer] | None = {}
        self._retired: list[McpServer] = []
        self._looks: dict[str, asyncio.Task[None]] = {}
        self.problems: dict[str, str] = {}
        """Servers with inconsistent settings, and why."""

    def configure(self, settings: McpSettings) -> None:
        """Uses these settings from now on."""
        if settings != self._settings:
            self._settings = settings
            self._retired += [server.held for server in (self._servers or {}).values()]
            self._servers = None

    def tools(self) -> list[Tool]:
        """The accepted tools of every enabled server; asks none of them."""
        found: list[Tool] = []
        try:
            for server in self._all().values():
                found += self._tools_of(server)
        except OpenClawError as error:
            log.warning("no MCP tools: %s", error.message)
            return []
        return found

    async def ready(self) -> None:
        """Lists servers that were never listed, for a short while; slower ones are available in a later turn."""
        await self.settle()
        for name, server in self._all().items():
            waits = server.failed_at is not None and self._clock.now() - server.failed_at < LOOK_AGAIN
            if server.record() is None and not waits and name not in self._looks:
                self._looks[name] = asyncio.create_task(self._try(server), name=f"mcp look:{name}")
        if self._looks:
            await asyncio.wait(self._looks.values(), timeout=FIRST_LOOK)

    async def look(self, name: str) -> schema.AcceptedServer:
        """Lists a server's tools, and stores the result."""
        server = self._all().get(name)
        if server is None:
            raise NotFound(self.problems.get(name) or f"no MCP server {name!r} is configured and enabled")
        return await server.look()

    async def settle(self) -> None:
        """Stops servers that are no longer configured."""
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

    def _all(self) -> dict[str, ConfiguredServer]:
        """The enabled servers, created from the settings on first use."""
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
                held = McpServer(name, how, idle=idle, environ=self._environ.current)
                self._servers[name] = ConfiguredServer(name, how, held, self._accepted, self._clock)
        return self._servers

    async def _try(self, server: ConfiguredServer) -> None:
        try:
            await server.look()
        except OpenClawError as error:
            server.failed_at = self._clock.now()
            log.warning("%s", error.message)
        finally:
            self._looks.pop(server.name, None)

    def _tools_of(self, server: ConfiguredServer) -> list[Tool]:
        record = server.record()
        if record is None:
            return []
        only = server.settings.tool_filter
        named = schema.name_all(server.name, [tool.name for tool in record.accepted])
        return [
            McpTool(named[tool.name], tool, server, self._approver)
            for tool in record.accepted
            if schema.passes(tool.name, only.include, only.exclude)
        ]
