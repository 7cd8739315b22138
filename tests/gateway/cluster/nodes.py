"""Several gateways on one PostgreSQL, each in a process and a home of its own."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from openclaw.gateway.running import running_gateway
from openclaw.protocol.client import GatewayClient
from openclaw.testing import TemporaryHome
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess

AGENTS = [f"a{number}" for number in range(6)]


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
    """A gateway for each name, all of them ready; when the test fails, it shows what they said."""
    with ExitStack() as stack:
        started = [stack.enter_context(Node(root, name, url, config)) for name in names]
        try:
            yield started
        except BaseException:
            for node in started:
                print(f"--- {node.name}\n{node.output()}")
            raise


def settings(root: Path, model: MockModelServer, **more: Any) -> dict[str, Any]:
    config = {**model.settings(), **more}
    config["agents"]["list"] = [{"id": name, "workspace": str(root / "workspaces" / name)} for name in AGENTS]
    return config


async def holders(client: GatewayClient) -> dict[str, str]:
    """The name of the node that holds each agent."""
    told = await client.call("cluster.status")
    return {agent: node["name"] for node in told["nodes"] for agent in node["agents"]}


async def until_spread(client: GatewayClient, *names: str) -> dict[str, str]:
    """Waits until every agent is held, and every one of these nodes holds some."""
    async with asyncio.timeout(60):
        while True:
            held = await holders(client)
            linked = all(node["linked"] for node in (await client.call("cluster.status"))["nodes"])
            if linked and set(held) >= set(AGENTS) and set(held.values()) == set(names):
                return held
            await asyncio.sleep(0.05)


def agent_on(held: dict[str, str], node: Node) -> str:
    return next(agent for agent, name in sorted(held.items()) if name == node.name)


async def until(happened: Any) -> None:
    async with asyncio.timeout(90):
        while not happened():
            await asyncio.sleep(0.05)


async def speaks(node: Node) -> bool:
    """Whether this node has the bot's account, and it is connected."""
    async with node.client() as client:
        told = (await client.call("channels.status"))["channelAccounts"]
        return any(each["connected"] and each["node"] == node.name for accounts in told.values() for each in accounts)
