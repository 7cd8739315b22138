"""The store of accepted MCP tools, `mcp-tools.json`; read again when another process changed it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from openclaw.storage.atomic import JsonFile
from openclaw.storage.locks import hold_lock
from openclaw.tools.mcp.schema import AcceptedServer, PinsDocument

FILE = "mcp-tools.json"


class AcceptedMcpTools:
    """One for the process. A file that cannot be read accepts nothing, and is reported."""

    def __init__(self, state: Path) -> None:
        self._file = JsonFile(state / FILE, PinsDocument, "move it away, then the servers are accepted anew")
        self.path = self._file.path

    def read(self) -> Mapping[str, AcceptedServer]:
        document = self._file.read()
        return document.servers if document is not None else {}

    def change(
        self, server: str, how: Callable[[AcceptedServer | None], AcceptedServer | None]
    ) -> AcceptedServer | None:
        """Replaces the record of one server by the result of `how`; None removes it."""
        with hold_lock(self.path.with_name(f"{FILE}.lock"), "the list of accepted MCP tools"):
            servers = dict(self.read())
            was = servers.get(server)
            new = how(was)
            if new == was:
                return new
            if new is None:
                servers.pop(server, None)
            else:
                servers[server] = new
            document = PinsDocument(servers=dict(sorted(servers.items())))
            self._file.write(document)
            return new
