"""Several gateways on one PostgreSQL, each in a process and a home of its own."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from openclaw.gateway.running import running_gateway
from openclaw.testing import TemporaryHome
from tests.e2e.gateway_process import GatewayProcess


class NodeHome(TemporaryHome):
    """The home of one node, with more in its environment."""

    def __init__(self, root: Path, **more: str) -> None:
        super().__init__(root)
        self.more = more

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, **self.more}


class Node(GatewayProcess):
    """A gateway of a cluster."""

    def __init__(self, root: Path, name: str, url: str, config: dict[str, Any], *options: str) -> None:
        home = NodeHome(root / name, OPENCLAW_NODE_NAME=name)
        home.configure({**config, "store": {"url": url}})
        super().__init__(home, *options)
        self.home: NodeHome = home
        self.name = name

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def find(self) -> None:
        """Learns its port after it has begun anew by itself."""
        found = running_gateway(self.home.state)
        assert found is not None, self.output()
        self.port = found.port


@contextmanager
def nodes(root: Path, url: str, config: dict[str, Any], *names: str) -> Iterator[list[Node]]:
    """A gateway for each name, all of them ready."""
    with ExitStack() as stack:
        yield [stack.enter_context(Node(root, name, url, config)) for name in names]
