"""Our tools for other programs: an MCP server on standard input and output, over a client of the gateway.

Importing it needs the extra `mcp`.
"""

from contextlib import aclosing, suppress
from typing import Any

import msgspec

from openclaw.automation.cron.tool import CronTool
from openclaw.core.errors import OpenClawError, Unavailable
from openclaw.core.messages import Image, Text
from openclaw.gateway import services
from openclaw.protocol.client import GatewayClient
from openclaw.version import __version__

try:
    import mcp_types as types
    from mcp.server import lowlevel, stdio
except ModuleNotFoundError as error:
    raise Unavailable(
        "`openclaw mcp serve` needs the extra `mcp`: install it with: pip install 'openclaw-py[mcp]'"
    ) from error

GATEWAY_TOOLS = (*services.NAMES, CronTool.spec.name)
"""What only a gateway that goes on has. A person can be asked there."""
NEVER_LENT = ("bundle-mcp",)
"""Tools of other servers are not passed on: a server could lead back to itself."""
UNATTENDED = "nobody can be asked over MCP (allow it in a chat first, or change tools.exec.security and tools.exec.ask)"


class LentTools:
    """The tools of one session for one MCP client."""

    def __init__(self, client: GatewayClient, borrowed: dict[str, Any]) -> None:
        self._client = client
        self._id = str(borrowed["borrowed"])
        self._tools: list[dict[str, Any]] = borrowed["tools"]

    def server(self) -> Any:
        return lowlevel.Server(
            "openclaw",
            version=__version__,
            instructions="Tools of a personal assistant. Its owner's policy decides what each of them may do.",
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(self, context: Any, params: Any) -> Any:
        tools = [
            types.Tool(
                name=tool["name"],
                title=tool["label"],
                description=tool["description"],
                input_schema={**tool["parameters"], "type": "object"},
            )
            for tool in self._tools
        ]
        return types.ListToolsResult(tools=tools)

    async def _call(self, context: Any, params: Any) -> Any:
        asked = {"borrowed": self._id, "name": params.name, "args": dict(params.arguments or {})}
        if params.name not in GATEWAY_TOOLS:
            asked["unattended"] = UNATTENDED
        try:
            async with aclosing(self._client.answers("tools.call", asked)) as answers:
                async for answer in answers:
                    if answer["status"] == "ok":
                        break
                    with suppress(RuntimeError):  # a client that did not ask for progress
                        await context.session.report_progress(0.0, None, answer["text"][-200:])
        except OpenClawError as error:
            failed = types.TextContent(text=f"The gateway did not do it: {error.message}")
            return types.CallToolResult(content=[failed], is_error=True)
        content: list[Any] = [
            types.TextContent(text=block.text)
            if isinstance(block, Text)
            else types.ImageContent(data=block.data, mime_type=block.mime_type)
            for block in msgspec.convert(answer["content"], tuple[Text | Image, ...])
        ]
        return types.CallToolResult(content=content, is_error=answer["isError"])


async def serve(client: GatewayClient, session: str | None, agent_id: str | None) -> None:
    """Serves the tools of a session until the MCP client hangs up."""
    given = {"sessionKey": session, "agentId": agent_id}
    asked: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    asked["without"] = NEVER_LENT
    async with aclosing(client.answers("tools.borrow", asked)) as lending:
        tools = LentTools(client, await anext(lending))
        async with stdio.stdio_server() as (reading, writing):
            server = tools.server()
            await server.run(reading, writing, server.create_initialization_options())
