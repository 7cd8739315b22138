"""The store of accepted MCP tools, `mcp-tools.json`; read again when another process changed it."""

from collections.abc import Callable
from pathlib import Path

from openclaw.storage.accepted import AcceptedStore
from openclaw.tools.mcp.schema import AcceptedServer

FILE = "mcp-tools.json"


class AcceptedMcpTools(AcceptedStore[AcceptedServer]):
    """By server. One for the process. A file that cannot be read accepts nothing, and is reported."""

    def __init__(self, state: Path) -> None:
        super().__init__(state / FILE, "servers", AcceptedServer, "move it away, then the servers are accepted anew")

    def change(
        self, server: str, how: Callable[[AcceptedServer | None], AcceptedServer | None]
    ) -> AcceptedServer | None:
        """Replaces the record of one server by the result of `how`; None removes it."""
        with self.changing() as servers:
            new = how(servers.pop(server, None))
            if new is not None:
                servers[server] = new
            return new
