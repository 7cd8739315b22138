"""RPC method `mcp.test`: what a configured MCP server offers; the first look accepts its tools."""

from collections.abc import Awaitable, Callable
from typing import Any

from openclaw.protocol.params import NonEmpty, Params
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN
from openclaw.tools.mcp.schema import AcceptedServer, changes


class McpTestParams(Params, frozen=True, kw_only=True):
    """Params of `mcp.test`."""

    name: NonEmpty


def mcp_methods(look: Callable[[str], Awaitable[AcceptedServer]]) -> list[RpcMethod]:
    async def test(params: McpTestParams, caller: Caller) -> Any:
        record = await look(params.name)
        return {
            "ok": True,
            "name": params.name,
            "tools": [{"name": tool.name, "description": tool.description} for tool in record.now],
            "changes": str(changes(record)),
        }

    return [RpcMethod("mcp.test", McpTestParams, test, ADMIN)]
