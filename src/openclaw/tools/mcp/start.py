"""How a helper reaches its MCP server."""

from collections.abc import Mapping

from msgspec import Struct, field


class McpStart(Struct, frozen=True, kw_only=True):
    transport: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    verify: bool = True
    client_cert: str = ""
    client_key: str = ""
    connect_seconds: float = 30.0
