"""Our tools for other programs: an MCP server on standard input and output, under the policy of a session."""

import asyncio
import importlib
from contextlib import AsyncExitStack, suppress
from importlib.util import find_spec
from typing import Any

from openclaw.agent.toolrun import ToolRunner
from openclaw.core.approval import ApprovalAnswer, ApprovalRequest
from openclaw.core.errors import Unavailable
from openclaw.core.events import ToolEnded, ToolUpdated
from openclaw.core.messages import Text, ToolCall
from openclaw.gateway.app import assistant
from openclaw.gateway.clock import SystemClock
from openclaw.gateway.lock import running
from openclaw.gateway.surroundings import Environment
from openclaw.version import __version__

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


async def serve(surroundings: Environment, session: str | None, agent_id: str | None, *, local: bool = False) -> None:
    """Serves until the client hangs up; with the tools of the gateway when one runs, unless it is to be `local`."""
    if find_spec("mcp") is None:
        raise Unavailable(INSTALL)
    stdio = await asyncio.to_thread(importlib.import_module, "mcp.server.stdio")
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(assistant(surroundings, clock=SystemClock(), approver=NoApprover()))
        key = app.key(session, agent_id)
        if not local and running(surroundings.home.state) is not None:
            from openclaw.gateway.mcp_remote import lent

            for tool in await stack.enter_async_context(lent(surroundings, key)):
                app.tools.offer(tool)
        reading, writing = await stack.enter_async_context(stdio.stdio_server())
        server = LentTools(app.toolbox(key, without=LENT)).server()
        await server.run(reading, writing, server.create_initialization_options())
