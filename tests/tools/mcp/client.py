"""The official client, using our tools as a server: python -m tests.mcp.client COMMAND ENVIRONMENT CALLS, all JSON."""

import asyncio
import json
import sys
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters


async def main(command: list[str], environ: dict[str, str], calls: list[tuple[str, dict[str, Any]]]) -> None:
    server = StdioServerParameters(command=command[0], args=command[1:], env=environ)
    async with Client(server) as client:
        told: dict[str, Any] = {"tools": {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}}
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            told.setdefault("results", []).append([result.content[0].text, bool(result.is_error)])  # type: ignore[union-attr]
        print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(*map(json.loads, sys.argv[1:])))
