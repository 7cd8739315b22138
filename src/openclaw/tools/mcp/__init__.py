"""Tools of MCP servers, each server in a worker process with the official SDK.

`servers` (`McpServers`, `McpTool`) is our side, `worker` the worker process, `schema` (pure) names, cleans and compares
what a server offers, `accepted` stores what the owner accepted.

Start with `servers`.
"""
