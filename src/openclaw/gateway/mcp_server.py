"""Tools that only a running gateway has, lent by another process of the same home."""

import asyncio
import importlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.util import find_spec
from typing import Any

import msgspec

from openclaw.agent.tool_runner import ToolRunner
from openclaw.automation.cron.tool import CronTool
from openclaw.core.errors import OpenClawError, Unavailable
from openclaw.core.events import ToolEnded, ToolUpdated
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Image, Text, ToolCall
from openclaw.core.text import Origin
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest, Effects, Output, Tool, ToolContext, ToolSpec
from openclaw.gateway import tool_catalog
from openclaw.gateway.app import open_app
from openclaw.gateway.client_target import find, introduction
from openclaw.gateway.process import running
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.protocol.client import GatewayClient, connect
from openclaw.security.tool_policy import ToolLayer
from openclaw.version import __version__

KINDS: tuple[Any, ...] = (*tool_catalog.TOOLS, CronTool)
"""What a gateway has and a process by itself has not."""


AFRESH = "Do it in a chat with the assistant, or over a new connection."


class RemoteTool:
    """A tool of the gateway. What a call does is judged here too, by the arguments alone."""

    def __init__(self, kind: Any, client: GatewayClient, key: SessionKey) -> None:
        self._kind = kind
        self._client = client
        self._key = key
        self.spec: ToolSpec = kind.spec

    def effects(self, args: Mapping[str, Any]) -> Effects:
        found: Effects = self._kind.effects(self, args)
        return found

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        if context.origins and self.effects(args) != Effects.NONE:
            # A label cannot go along through the socket, and without it the words would pass for the owner's.
            return Output.failed(f"Not done: {self.spec.name} after text from elsewhere was read here. {AFRESH}")
        asked = {"name": self.spec.name, "args": dict(args), "sessionKey": str(self._key)}
        try:
            answer = await self._client.call("tools.invoke", asked, timeout=None)
        except OpenClawError as error:
            return Output.failed(f"The gateway did not do it: {error.message}")
        if "output" not in answer:
            return Output.failed(str((answer.get("error") or {}).get("message") or "The gateway refused it."))
        content = msgspec.convert(answer["output"].get("content") or (), tuple[Text | Image, ...])
        origins = msgspec.convert(answer.get("origins") or (), tuple[Origin, ...])
        # The gateway has cleaned and enclosed what strangers wrote.
        return Output(content=content, is_error=not answer.get("ok"), origins=origins, enclosed=True)


@asynccontextmanager
async def lent(surroundings: Environment, key: SessionKey) -> AsyncIterator[list[Tool]]:
    """The gateway's own tools that a session has there, for as long as the block lasts."""
    target = find(surroundings)
    async with connect(target.url, introduction(target), pinned=target.fingerprint) as client:
        there = await client.call("tools.effective", {"sessionKey": str(key)})
        names = {tool["id"] for group in there["groups"] for tool in group["tools"]}
        yield [RemoteTool(kind, client, key) for kind in KINDS if kind.spec.name in names]


INSTALL = "`openclaw mcp serve` needs the extra `mcp`: install it with: pip install 'openclaw-py[mcp]'"
LENT = ("bundle-mcp",)
"""Tools of other servers are not passed on: a server could lead back to itself."""


class NoApprover:
    """There is nobody to ask at the other end of a pipe."""

    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        why = f"{request.why or 'it needs your approval'}, and nobody can be asked over MCP"
        return ApprovalAnswer(
            "deny", why=f"{why} (allow it in a chat first, or change tools.exec.security and tools.exec.ask)"
        )


class LentTools:
    """The tools of one session for one client. What the client has read counts, call after call, as in a run."""

    def __init__(self, box: ToolRunner) -> None:
        self._box = box
        self._calls = 0

    def server(self) -> Any:
        lowlevel = importlib.import_module("mcp.server.lowlevel")
        return lowlevel.Server(
            "openclaw",
            version=__version__,
            instructions="Tools of a personal assistant. Its owner's policy decides what each of them may do.",
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(self, context: Any, params: Any) -> Any:
        types = importlib.import_module("mcp_types")
        tools = [
            types.Tool(
                name=spec.name,
                title=spec.label,
                description=spec.description,
                input_schema={**spec.parameters, "type": "object"},
            )
            for spec in self._box.specs
        ]
        return types.ListToolsResult(tools=tools)

    async def _call(self, context: Any, params: Any) -> Any:
        types = importlib.import_module("mcp_types")
        self._calls += 1
        call = ToolCall(id=f"mcp_{self._calls}", name=params.name, arguments=dict(params.arguments or {}))
        async for event in self._box.run_all([call]):
            if isinstance(event, ToolUpdated):
                with suppress(RuntimeError):  # a client that did not ask for progress
                    await context.session.report_progress(0.0, None, event.text[-200:])
            if isinstance(event, ToolEnded):
                result = event.result
        content = [
            types.TextContent(text=block.text)
            if isinstance(block, Text)
            else types.ImageContent(data=block.data, mime_type=block.mime_type)
            for block in result.content
        ]
        return types.CallToolResult(content=content, is_error=result.is_error)


class Borrowed:
    """The tools of the running gateway, as tools of a session here."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = list(tools)

    def tools(self, key: SessionKey) -> list[Tool]:
        return self._tools

    def layers(self, key: SessionKey) -> list[ToolLayer]:
        return []

    async def refresh(self) -> None:
        return


async def serve(surroundings: Environment, session: str | None, agent_id: str | None, *, local: bool = False) -> None:
    """Serves until the client hangs up; with the tools of the gateway when one runs, unless it is to be `local`."""
    if find_spec("mcp") is None:
        raise Unavailable(INSTALL)
    stdio = await asyncio.to_thread(importlib.import_module, "mcp.server.stdio")
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(open_app(surroundings, clock=SystemClock(), approver=NoApprover()))
        key = app.key(session, agent_id)
        if not local and running(surroundings.home.state) is not None:
            added = Borrowed(await stack.enter_async_context(lent(surroundings, key)))
        else:
            added = Borrowed([])
        reading, writing = await stack.enter_async_context(stdio.stdio_server())
        server = LentTools(app.preparer.tool_runner(app.toolset(added), key, without=LENT)).server()
        await server.run(reading, writing, server.create_initialization_options())
