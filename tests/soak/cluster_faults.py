"""What goes wrong with gateways that share a PostgreSQL: kills, stops, cuts, full disks, and a server that crashes."""

import asyncio
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
from msgspec import Struct

from openclaw.gateway.process import ask_health
from openclaw.gateway.running import running_gateway
from openclaw.testing.postgres import PostgresServer
from tests.gateway.cluster.nodes import Node

PATIENCE = 180.0
SECONDS = {"stop": 20.0, "long stop": 60.0, "cut": 20.0, "disk": 20.0}
"""How long a node is stopped, does not reach the database, or has no room on its disk. Others wait 15 s for a sign."""
DISK_MIB = 48
AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What the database says while it is killed."""


class Fault(Struct, kw_only=True):
    """Something that went wrong, and how long others could notice it."""

    kind: str
    node: str = ""
    began: float
    ended: float = 0.0
    """When others held the agents of the node, or the server was back."""

    @property
    def seconds(self) -> float:
        return self.ended - self.began


async def fetch(url: str, sql: str, *values: object) -> list[Any]:
    connection = await asyncpg.connect(url, timeout=5)
    try:
        return list(await connection.fetch(sql, *values))
    finally:
        await connection.close(timeout=5)


class Cable:
    """The way of one node to the database; while it is cut, what is sent goes nowhere and nobody is told."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.whole = asyncio.Event()
        self.whole.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def lay(self) -> int:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.whole.wait()
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
        except (OSError, asyncio.CancelledError):
            writer.close()
            return
        for source, target in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._carry(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while data := await source.read(65_536):
                    await self.whole.wait()
                    target.write(data)
                    await target.drain()
            await self.whole.wait()
        finally:
            target.close()

    async def remove(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the connections close in the next round of the loop


class Disk:
    """A small disk of its own for the state of a node, so that it can be full; needs the right to mount."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ballast = path / "ballast"
        path.mkdir(parents=True, exist_ok=True)
        self.mounted = _run("mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=700", "tmpfs", str(path))

    def fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 16))

    def clear(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def remove(self) -> None:
        if self.mounted:
            _run("umount", "-l", str(self._path))


def _run(*words: str) -> bool:
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


class Site:
    """A node with all that can fail around it."""

    def __init__(self, node: Node, cable: Cable, disk: Disk) -> None:
        self.node = node
        self.cable = cable
        self.disk = disk
        self.ailing = False


class Chaos:
    """Lets things go wrong, one after another; while a node is stopped, cut off or full, others are killed."""

    def __init__(self, sites: list[Site], server: PostgresServer, url: str, chance: random.Random) -> None:
        self._sites = sites
        self._server = server
        self._url = url
        self.chance = chance
        self.faults: list[Fault] = []
        self.wrong: list[str] = []
        self._ailing: asyncio.Task[None] | None = None

    def plan(self, kills: int, **others: int) -> list[str]:
        """The order of so many kills of nodes, and of the other kinds."""
        kinds = ["kill"] * kills + [name.replace("_", " ") for name, count in others.items() for _ in range(count)]
        if not all(site.disk.mounted for site in self._sites):
            kinds = [kind for kind in kinds if kind != "disk"]
        self.chance.shuffle(kinds)
        return kinds

    async def cause(self, kind: str) -> None:
        if kind == "database":
            fault = self._note(kind)
            await asyncio.to_thread(self._server.kill)
            await asyncio.sleep(self.chance.uniform(0.0, 1.0))
            await asyncio.to_thread(self._server.start)
            fault.ended = time.time()
        elif kind == "kill":
            node = self.chance.choice([site for site in self._sites if not site.ailing]).node
            fault = self._note(kind, node)
            await asyncio.to_thread(node.kill)
            await self._until_taken_over(node, fault)
            await asyncio.to_thread(node.start)
        else:
            await self.recover()
            site = self.chance.choice(self._sites)
            site.ailing = True
            self._ailing = asyncio.create_task(self._ail(kind, site), name=f"{kind} {site.node.name}")

    async def recover(self) -> None:
        """Waits until every node is well."""
        if self._ailing is not None:
            await self._ailing

    def _note(self, kind: str, node: Node | None = None) -> Fault:
        fault = Fault(kind=kind, node=node.name if node is not None else "", began=time.time())
        self.faults.append(fault)
        return fault

    async def _ail(self, kind: str, site: Site) -> None:
        node = site.node
        try:
            before = await self._lives(node)
            fault = self._note(kind, node)
            if kind == "disk":
                await asyncio.to_thread(site.disk.fill)
            elif kind == "cut":
                site.cable.whole.clear()
            else:
                node.signal(signal.SIGSTOP)
            took = asyncio.create_task(self._until_taken_over(node, fault, before))
            await asyncio.sleep(SECONDS[kind])
            if kind == "disk":
                await took  # before it gets them back
                await asyncio.to_thread(site.disk.clear)
            site.cable.whole.set()
            node.signal(signal.SIGCONT)
            await took
            await asyncio.sleep(1.0)
            await self._until_ready(node)
        finally:
            site.cable.whole.set()
            site.ailing = False

    async def _lives(self, node: Node) -> list[str]:
        """The names under which a node holds agents; waits until it holds some."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with suppress(*AWAY):
                sql = "SELECT DISTINCT node FROM cluster_agents WHERE node LIKE $1"
                if rows := await fetch(self._url, sql, f"{node.name}-%"):
                    return [row["node"] for row in rows]
            await asyncio.sleep(0.05)
        return []

    async def _until_taken_over(self, node: Node, fault: Fault, lives: list[str] | None = None) -> None:
        """Waits until no agent is held by a node that is gone; what of it lives again is another one."""
        whose = ("node = ANY($1)", lives) if lives is not None else ("node LIKE $1", f"{node.name}-%")
        while time.time() - fault.began < PATIENCE:
            with suppress(*AWAY):
                async with asyncio.timeout(20):
                    rows = await fetch(
                        self._url,
                        f"SELECT (SELECT COUNT(*) FROM cluster_agents WHERE {whose[0]}) AS held, "
                        "(SELECT COUNT(*) FROM cluster_agents WHERE node = '') AS free",
                        whose[1],
                    )
                if not rows[0]["held"] and not rows[0]["free"]:
                    fault.ended = time.time()
                    return
            await asyncio.sleep(0.02)
        fault.ended = time.time()
        self.wrong.append(f"{fault.kind}: the agents of {node.name} were not taken over")

    async def _until_ready(self, node: Node) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = running_gateway(node.home.state)
            if found is not None and found.port and (await asyncio.to_thread(ask_health, found)).ready:
                node.port = found.port
                return
            if not node.alive:
                self.wrong.append(f"{node.name} ended by itself: {node.output()[-500:]}")
                await asyncio.to_thread(node.start)
                return
            await asyncio.sleep(0.1)
        self.wrong.append(f"{node.name} does not become ready again")
