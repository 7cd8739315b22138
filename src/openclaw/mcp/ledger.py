"""The list of accepted tools, in `mcp-tools.json`; small, read again when another process changed it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from openclaw.core.errors import StateError
from openclaw.mcp.pins import Document, Record
from openclaw.store import atomic

FILE = "mcp-tools.json"


class Ledger:
    """One for the process. A file that cannot be read accepts nothing, and says so."""

    def __init__(self, state: Path) -> None:
        self.path = state / FILE
        self._known: tuple[tuple[int, int, int], Mapping[str, Record]] | None = None

    def read(self) -> Mapping[str, Record]:
        try:
            found = self.path.stat()
            identity = (found.st_ino, found.st_mtime_ns, found.st_size)
            if self._known is not None and self._known[0] == identity:
                return self._known[1]
            servers = msgspec.json.decode(self.path.read_bytes(), type=Document).servers
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StateError(f"cannot read {self.path}: {error.strerror}") from error
        except msgspec.DecodeError as error:
            raise StateError(
                f"{self.path} cannot be read ({error}): move it away, then the servers are accepted anew"
            ) from error
        self._known = (identity, servers)
        return servers

    def change(self, server: str, how: Callable[[Record | None], Record | None]) -> Record | None:
        """Replaces the record of one server by what `how` makes of it; None takes it off the list."""
        servers = dict(self.read())
        was = servers.get(server)
        new = how(was)
        if new == was:
            return new
        if new is None:
            servers.pop(server, None)
        else:
            servers[server] = new
        document = Document(servers=dict(sorted(servers.items())))
        atomic.replace(self.path, msgspec.json.format(msgspec.json.encode(document), indent=2))
        return new
