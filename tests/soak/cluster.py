"""Kills three gateways on one PostgreSQL while they are busy, and the server: scripts/soak cluster [KILLS [AGENTS]].

Nodes are killed and started again; every tenth time the database is, every fifteenth a node is stopped, or cut off from
the database, until the others have taken over. At the end the tables are asked: every accepted message has one outcome
and is in its conversation once, every conversation is a chain, every slot of a job ran once, every message to people
left once.
"""

import asyncio
import hashlib
import json
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
from msgspec import Struct

from openclaw.gateway.process import ask_health
from openclaw.gateway.running import running_gateway
from openclaw.protocol.client import GatewayClient
from openclaw.sessions.transcript_store import decode_stored
from openclaw.testing import Says
from openclaw.testing.postgres import PostgresServer, running_postgres
from openclaw.testing.server import MockModelServer, Reply
from tests.channels.matrix.server import TOKEN as MATRIX_TOKEN
from tests.channels.matrix.server import MatrixServer
from tests.gateway.cluster.nodes import Node

NAMES = ("one", "two", "three")
PEOPLE = 3
"""On Matrix."""
PATIENCE = 180.0
STOPPED = 20.0
"""Seconds for which a node is stopped: longer than others wait for a sign of it."""
DATABASE_EVERY, STOP_EVERY = 10, 15
_QUESTION = re.compile(r"(?:question|person)-[a-z0-9]+-\d+")
ATTEMPTS = 3


class EchoModel(MockModelServer):
    """Answers every question with its name; does not remember requests."""

    def _next(self, request: dict[str, Any]) -> tuple[Reply, ...]:
        self.requests.append({})
        asked = [each for each in request["messages"] if each["role"] == "user"]
        found = _QUESTION.findall(json.dumps(asked[-1]))
        return (Says("; ".join(f"answer to {name}" for name in found) or "Done.", piece=8),)


class ClusterReport(Struct, kw_only=True):
    """What came of it."""

    kills: int = 0
    crashes: int = 0
    """Of the database."""
    stops: int = 0
    cuts: int = 0
    """Nodes that did not reach the database for a while."""
    accepted: int = 0
    answered: int = 0
    given_up: int = 0
    """Those that were killed too often, and said so."""
    fires: int = 0
    sent: int = 0
    takeovers: list[float] = []
    """Seconds from a kill until others held all of its agents."""
    wrong: list[str] = []
    seconds: float = 0.0


class Load:
    """Clients that talk to agents by way of any node, each asks, waits for the answer and asks the next."""

    def __init__(self, nodes: list[Node], chance: random.Random) -> None:
        self._nodes = nodes
        self._chance = chance
        self.accepted: set[str] = set()
        self.outcomes: dict[str, str] = {}
        self.stopping = asyncio.Event()

    async def talk(self, agent: str) -> None:
        number = 0
        while not self.stopping.is_set():
            number += 1
            name = f"question-{agent}-{number}"
            params = {"sessionKey": f"agent:{agent}:main", "message": name, "idempotencyKey": name}
            deadline = time.monotonic() + PATIENCE
            while name not in self.outcomes and time.monotonic() < deadline:
                node = self._chance.choice(self._nodes)
                with suppress(Exception):  # it was killed: another one is asked
                    async with asyncio.timeout(60), node.client() as client:
                        await self._ask(client, name, params)
                await asyncio.sleep(0.02)

    async def _ask(self, client: GatewayClient, name: str, params: dict[str, Any]) -> None:
        if name not in self.accepted:
            await client.call("chat.send", params)
            self.accepted.add(name)
        told = await client.call("agent.wait", {"runId": name, "timeoutMs": 20_000}, timeout=30)
        if told["status"] in ("ok", "error"):
            self.outcomes[name] = told["status"]


class People:
    """People on Matrix, whose messages come in at the node that speaks for the account."""

    def __init__(self, matrix: MatrixServer) -> None:
        self._matrix = matrix
        self.asked: set[str] = set()

    def answers(self) -> Counter[str]:
        others = list(self._matrix.other)
        edits = {each["m.relates_to"]["event_id"]: each["m.new_content"] for each in others if "m.new_content" in each}
        gone = {each["redacts"] for each in others if "redacts" in each}
        shown = [each for each in list(self._matrix.sent) if each["event_id"] not in gone]
        texts = [edits.get(each["event_id"], each)["body"] for each in shown]
        return Counter(name for text in texts for name in _QUESTION.findall(text))

    async def talk(self, number: int, stopping: asyncio.Event) -> None:
        count = 0
        while not stopping.is_set():
            count += 1
            name = f"person-{number}-{count}"
            self.asked.add(name)
            self._matrix.says(name, sender=f"@person{number}:test")
            deadline = time.monotonic() + PATIENCE
            while name not in self.answers() and time.monotonic() < deadline:
                await asyncio.sleep(0.1)


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


class Chaos:
    """What goes wrong."""

    def __init__(
        self,
        nodes: list[Node],
        cables: list[Cable],
        server: PostgresServer,
        url: str,
        chance: random.Random,
        database_every: int,
    ) -> None:
        self._nodes = nodes
        self._cables = cables
        self._server = server
        self._url = url
        self.chance = chance
        self._database_every = database_every
        self.report = ClusterReport()

    async def round(self, number: int) -> None:
        if number % self._database_every == 0:
            await asyncio.to_thread(self._server.kill)
            await asyncio.sleep(self.chance.uniform(0.0, 1.0))
            await asyncio.to_thread(self._server.start)
            self.report.crashes += 1
            await asyncio.sleep(2.0)
        elif number % STOP_EVERY == STOP_EVERY // 2:
            place = self.chance.randrange(len(self._nodes))
            node, cable = self._nodes[place], self._cables[place]
            if number // STOP_EVERY % 2:
                cable.whole.clear()
                await asyncio.sleep(STOPPED)
                cable.whole.set()
                self.report.cuts += 1
            else:
                node.signal(signal.SIGSTOP)
                await asyncio.sleep(STOPPED)
                node.signal(signal.SIGCONT)
                self.report.stops += 1
            await asyncio.sleep(1.0)
            await self._until_ready(node)
        else:
            node = self.chance.choice(self._nodes)
            began = time.monotonic()
            await asyncio.to_thread(node.kill)
            self.report.kills += 1
            if (took := await self._takeover(node, began)) is not None:
                self.report.takeovers.append(took)
            await asyncio.to_thread(node.start)

    async def _takeover(self, node: Node, began: float) -> float | None:
        """Seconds until nobody's agents are held by a node that is dead."""
        while time.monotonic() - began < PATIENCE:
            with suppress(OSError, asyncpg.PostgresError):
                async with asyncio.timeout(20):
                    rows = await fetch(
                        self._url,
                        "SELECT (SELECT COUNT(*) FROM cluster_agents WHERE node LIKE $1) AS held, "
                        "(SELECT COUNT(*) FROM cluster_agents WHERE node = '') AS free",
                        f"{node.name}-%",
                    )
                if not rows[0]["held"] and not rows[0]["free"]:
                    return time.monotonic() - began
            await asyncio.sleep(0.02)
        self.report.wrong.append(f"the agents of {node.name} were not taken over")
        return None

    async def _until_ready(self, node: Node) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = running_gateway(node.home.state)
            if found is not None and found.port and (await asyncio.to_thread(ask_health, found)).ready:
                node.port = found.port
                return
            assert node.process is not None
            if node.process.poll() is not None:
                self.report.wrong.append(f"{node.name} ended after it was stopped: {node.output()[-500:]}")
                await asyncio.to_thread(node.start)
                return
            await asyncio.sleep(0.1)


async def fetch(url: str, sql: str, *values: object) -> list[Any]:
    connection = await asyncpg.connect(url, timeout=5)
    try:
        return list(await connection.fetch(sql, *values))
    finally:
        await connection.close(timeout=5)


def settings(root: Path, model: MockModelServer, matrix: MatrixServer, agents: list[str]) -> dict[str, Any]:
    config = model.settings()
    config["agents"]["list"] = [{"id": name, "workspace": str(root / "workspaces" / name)} for name in agents]
    config["agents"]["list"][0]["default"] = True
    config["channels"] = {
        "matrix": {
            "homeserver": matrix.url,
            "accessToken": MATRIX_TOKEN,
            "autoJoin": "always",
            "dmPolicy": "open",
            "allowFrom": ["*"],
        }
    }
    return config


async def soak(
    folder: Path, kills: int, count: int = 12, seed: int = 1, database_every: int = DATABASE_EVERY, say: Any = print
) -> ClusterReport:
    """Lets so many things go wrong, lets everything finish, and looks at the tables."""
    chance, agents, began = random.Random(seed), [f"a{number}" for number in range(count)], time.monotonic()
    with running_postgres() as server:
        url = f"{server.url}?search_path=soak"
        with EchoModel([Says("?")]) as model, MatrixServer() as matrix:
            config = settings(folder, model, matrix, agents)
            cables = [Cable(server.port) for _ in NAMES]
            ways = [url.replace(f":{server.port}/", f":{await cable.lay()}/") for cable in cables]
            nodes = [
                Node(folder, name, way, config, "--safe-mode", "off") for name, way in zip(NAMES, ways, strict=True)
            ]
            try:
                for node in nodes:
                    await asyncio.to_thread(node.start)
                chaos = Chaos(nodes, cables, server, url, chance, database_every)
                report = await _storm(nodes, url, agents, matrix, chaos, kills, say)
            finally:
                for node, cable in zip(nodes, cables, strict=True):
                    node.__exit__()
                    await cable.remove()
        report.seconds = time.monotonic() - began
        return report


async def _storm(
    nodes: list[Node], url: str, agents: list[str], matrix: MatrixServer, chaos: "Chaos", kills: int, say: Any
) -> ClusterReport:
    chance = chaos.chance
    load, people = Load(nodes, chance), People(matrix)
    async with nodes[0].client() as client:
        for agent in agents[:4]:
            job = {
                "name": f"job of {agent}",
                "agentId": agent,
                "schedule": {"kind": "every", "everyMs": 2_000},
                "sessionTarget": "isolated",
                "wakeMode": "now",
                "payload": {"kind": "agentTurn", "message": "tick"},
                "delivery": {"mode": "none"},
            }
            await client.call("cron.add", job)
    async with asyncio.TaskGroup() as group:
        for agent in agents:
            group.create_task(load.talk(agent))
        for number in range(PEOPLE):
            group.create_task(people.talk(number, load.stopping))
        for number in range(1, kills + 1):
            await asyncio.sleep(chance.uniform(0.2, 2.0))
            await chaos.round(number)
            if number % 10 == 0:
                say(f"{number} rounds, {len(load.accepted)} accepted, {len(load.outcomes)} answered", flush=True)
        load.stopping.set()
    report = chaos.report
    report.accepted, report.answered = len(load.accepted), sum(each == "ok" for each in load.outcomes.values())
    report.wrong += [f"no outcome: {name}" for name in sorted(load.accepted - load.outcomes.keys())][:10]
    async with nodes[0].client() as client:
        for job in (await client.call("cron.list"))["jobs"]:
            await client.call("cron.remove", {"id": job["id"]})
    await _until_calm(url)
    await check(url, load.accepted, report)
    answers = people.answers()
    report.wrong += [f"never answered on Matrix: {name}" for name in sorted(people.asked) if not answers[name]][:10]
    report.wrong += [f"answered {answers[name]} times: {name}" for name in people.asked if answers[name] > 1][:10]
    return report


async def _until_calm(url: str) -> None:
    """Waits until nothing is in work."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        rows = await fetch(
            url,
            "SELECT (SELECT COUNT(*) FROM inputs WHERE state IN ('queued', 'running')) AS inputs, (SELECT COUNT(*) "
            "FROM outbox WHERE state NOT IN ('sent', 'refused')) AS messages, "
            "(SELECT COUNT(*) FROM cron_fires WHERE status = 'running') AS fires",
        )
        if not any(rows[0]):
            return
        await asyncio.sleep(0.2)


async def check(url: str, accepted: set[str], report: ClusterReport) -> None:
    """Looks for what must not be in the tables."""
    wrong = report.wrong
    inputs = {row["run_id"]: row for row in await fetch(url, "SELECT run_id, state, outcome, attempts FROM inputs")}
    wrong += [f"accepted, and not on record: {name}" for name in sorted(accepted - inputs.keys())][:10]
    open_ones = [
        name for name, row in inputs.items() if row["outcome"] is None or row["state"] in ("queued", "running")
    ]
    wrong += [f"without an outcome: {name} ({inputs[name]['state']})" for name in open_ones][:10]
    failed = {name for name, row in inputs.items() if row["state"] == "failed"}
    report.given_up = sum(inputs[name]["attempts"] >= ATTEMPTS for name in failed)
    wrong += [
        f"failed: {name}: {inputs[name]['outcome'][:200]}" for name in failed if inputs[name]["attempts"] < ATTEMPTS
    ][:10]
    said = await _check_transcripts(url, wrong)
    done = [name for name in accepted if name in inputs and inputs[name]["state"] in ("done", "steered")]
    wrong += [f"{said[name]} times in its conversation: {name}" for name in sorted(done) if said[name] != 1][:10]
    fires = await fetch(url, "SELECT job_id, slot, run_id, status FROM cron_fires")
    report.fires = len(fires)
    wrong += [f"a slot that never ended: {row['slot']}" for row in fires if row["status"] == "running"][:10]
    wrong += [f"a slot without its run: {row['slot']}" for row in fires if row["run_id"] not in inputs][:10]
    wrong += [f"a slot said {said[row['run_id']]} times" for row in fires if said[row["run_id"]] > 1][:10]
    rows = await fetch(url, "SELECT message_id, state, doubled FROM outbox")
    report.sent = sum(row["state"] == "sent" for row in rows)
    wrong += [f"not sent: {row['message_id']} is {row['state']}" for row in rows if row["state"] != "sent"][:10]


async def _check_transcripts(url: str, wrong: list[str]) -> Counter[str]:
    """How often each input is in a conversation; every conversation must be one chain, as its digest says."""
    said: Counter[str] = Counter()
    lines: dict[str, list[bytes]] = {}
    for row in await fetch(url, "SELECT file_id, seq, line FROM transcript_lines ORDER BY file_id, seq"):
        lines.setdefault(row["file_id"], []).append(decode_stored(row["line"]))
        if len(lines[row["file_id"]]) != row["seq"]:
            wrong.append(f"a gap in {row['file_id']} before line {row['seq']}")
    for file in await fetch(url, "SELECT file_id, name, lines, digest FROM transcript_files"):
        digest, parents = "", Counter[str]()
        for line in lines.get(file["file_id"], []):
            digest = hashlib.sha256(digest.encode() + line).hexdigest()
            entry = json.loads(line)
            if entry.get("parentId"):
                parents[entry["parentId"]] += 1
            message = entry.get("message") or {}
            key = str(message.get("idempotencyKey") or "")
            if message.get("role") == "user" and key.endswith(":user"):
                said[key.removesuffix(":user")] += 1
        if digest != file["digest"]:
            wrong.append(f"{file['name']} is not what its digest says")
        wrong += [f"{file['name']} forks at {name}" for name, count in parents.items() if count > 1][:3]
    return said


def show(report: ClusterReport) -> str:
    took = sorted(report.takeovers) or [0.0]
    return (
        f"{report.kills} kills of nodes, {report.crashes} of the database, {report.stops} nodes stopped and "
        f"{report.cuts} cut off, in {report.seconds:.0f} s; accepted {report.accepted}, answered {report.answered}, "
        f"given up {report.given_up}; "
        f"{report.fires} slots of jobs, {report.sent} messages sent; takeover: median "
        f"{took[len(took) // 2]:.2f} s, longest {took[-1]:.2f} s; wrong: {len(report.wrong)} {report.wrong[:10]}"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="openclaw-soak-") as made:
        wanted = [int(each) for each in sys.argv[1:]] or [30]
        result = asyncio.run(soak(Path(made), *wanted))
    print(show(result))
    sys.exit(1 if result.wrong else 0)
