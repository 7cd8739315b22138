"""One MCP server as the gateway sees it: a `ToolServer` over a helper process."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from openclaw.core.errors import Unavailable
from openclaw.core.toolserver import OfferedTool, ServerLaunch, ServerResult
from openclaw.tools.helper import Worker, WorkerSpec
from openclaw.tools.mcp.start import McpStart

INSTALL = "MCP servers need the extra `mcp`: install it with: pip install 'openclaw-py[mcp]'"


class McpServer:
    """A `ToolServer`. Its process starts with the first question, and ends when it has been idle for `idle` seconds."""

    def __init__(self, launch: ServerLaunch, *, idle: float, environ: Mapping[str, str]) -> None:
        self._launch = launch
        role = WorkerSpec(
            name=f"the MCP server {launch.name}",
            module="openclaw.tools.mcp.worker",
            missing=INSTALL,
            # The helper's own limit ends the wait; this one is for a helper that does not even start.
            start_seconds=launch.connect_seconds + 30.0,
            secrets=(*launch.env.values(), *launch.headers.values()),
        )
        self._helper = Worker(role, self._start, idle=idle, environ=environ, heard=self._heard)
        self._changes = 0

    @property
    def alive(self) -> bool:
        return self._helper.alive

    @property
    def listings(self) -> int:
        return self._helper.starts + self._changes

    async def list(self) -> Sequence[OfferedTool]:
        body = await self._helper.ask({"do": "list"}, self._launch.request_seconds)
        try:
            return msgspec.convert(body, tuple[OfferedTool, ...])
        except msgspec.ValidationError as error:
            raise Unavailable(f"the MCP server {self._launch.name} lists tools that make no sense") from error

    async def call(self, name: str, args: Mapping[str, Any], report: Callable[[str], None]) -> ServerResult:
        asked = {"do": "call", "tool": name, "args": dict(args)}
        return msgspec.convert(await self._helper.ask(asked, self._launch.request_seconds, report), ServerResult)

    async def close(self) -> None:
        await self._helper.close()

    def _heard(self, news: Any) -> None:
        self._changes += 1

    def _start(self) -> McpStart:
        launch = self._launch
        return McpStart(
            transport=launch.transport,
            command=launch.command,
            args=launch.args,
            env={name: value.reveal() for name, value in launch.env.items()},
            cwd=os.path.expanduser(launch.cwd) if launch.cwd else "",  # noqa: PTH111 (a text that goes down a pipe)
            url=launch.url,
            headers={name: _header(name, value.reveal()) for name, value in launch.headers.items()},
            verify=launch.verify,
            client_cert=launch.client_cert,
            client_key=launch.client_key,
            connect_seconds=launch.connect_seconds,
        )


def _header(name: str, value: str) -> str:
    """A secret usually holds the bare token; the word in front of it is not part of it."""
    bare = name.lower() == "authorization" and value and " " not in value.strip()
    return f"Bearer {value.strip()}" if bare else value
