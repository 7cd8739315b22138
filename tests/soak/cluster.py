"""Kills three gateways on one PostgreSQL while they are busy, and the server: scripts/soak cluster [KILLS [AGENTS]].

Nodes are killed and started again, and so is the database, a tenth as often. Beside that one node after another is
stopped, cut off from the database, or has no room on its disk (as root), for 20 seconds or a minute. At the end the
tables are asked: every accepted message has one outcome and is in its conversation once, every conversation is a chain,
every slot of a job ran once, every message to people left once, and no run took longer than what went wrong meanwhile
explains.
"""

import asyncio
import hashlib
import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from openclaw.protocol.client import GatewayClient
from openclaw.sessions.transcript_store import decode_stored
from openclaw.testing import Says
from openclaw.testing.postgres import running_postgres
from openclaw.testing.server import MockModelServer, Reply
from tests.channels.matrix.server import TOKEN as MATRIX_TOKEN
from tests.channels.matrix.server import MatrixServer
from tests.gateway.cluster.nodes import Node
from tests.soak.cluster_faults import PATIENCE, Cable, Chaos, Disk, Fault, Site, fetch

NAMES = ("one", "two", "three")
PEOPLE = 3
"""On Matrix."""
PAUSE = 2.0
"""The longest time for which a person thinks about an answer."""
OWN_SECONDS = 30.0
"""What a run may take beside what went wrong meanwhile, on a machine with too much to do."""
_QUESTION = re.compile(r"(?:question|person)-[a-z0-9]+-\d+")
ATTEMPTS = 3
KINDS = ("kill", "database", "stop", "long stop", "cut", "disk")


class EchoModel(MockModelServer):
    """Answers every question with its name; does not remember requests."""

    def _next(self, request: dict[str, Any]) -> tuple[Reply, ...]:
        self.requests.append({})
        asked = [each for each in request["messages"] if each["role"] == "user"]
        found = _QUESTION.findall(json.dumps(asked[-1]))
        return (Says("; ".join(f"answer to {name}" for name in found) or "Done.", piece=8),)


class ClusterReport(Struct, kw_only=True):
    """What came of it."""

    faults: list[Fault] = []
    accepted: int = 0
    answered: int = 0
    given_up: int = 0
    """Those that were killed too often, and said so."""
    told: set[str] = set()
    """Questions whose runs were given up: whoever asked was told that it did not work."""
    fires: int = 0
    sent: int = 0
    longest: float = 0.0
    """Seconds from accepting to the end, of any input."""
    longest_own: float = 0.0
    """The same without the time in which something was wrong."""
    slowest: str = ""
    """Which one that was."""
    wrong: list[str] = []
    seconds: float = 0.0

    def count(self, kind: str) -> int:
        return sum(fault.kind == kind for fault in self.faults)


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
            await asyncio.sleep(self._chance.uniform(0.0, PAUSE))

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


def usual(kills: int) -> dict[str, int]:
    """How often the other things go wrong beside so many kills."""
    return {
        "database": max(1, kills // 10),
        "stop": max(1, kills // 40),
        "long_stop": kills // 50,
        "cut": max(1, kills // 40),
        "disk": max(1, kills // 40),
    }


async def soak(
    folder: Path, kills: int, count: int = 12, seed: int = 1, others: dict[str, int] | None = None, say: Any = print
) -> ClusterReport:
    """Lets so many things go wrong, lets everything finish, and looks at the tables."""
    chance, agents, began = random.Random(seed), [f"a{number}" for number in range(count)], time.monotonic()
    with running_postgres() as server:
        url = f"{server.url}?search_path=soak"
        with EchoModel([Says("?")]) as model, MatrixServer() as matrix:
            config = settings(folder, model, matrix, agents)
            cables = [Cable(server.port) for _ in NAMES]
            ways = [url.replace(f":{server.port}/", f":{await cable.lay()}/") for cable in cables]
            disks = [Disk(folder / name / ".openclaw") for name in NAMES]
            nodes = [
                Node(folder, name, way, config, "--safe-mode", "off") for name, way in zip(NAMES, ways, strict=True)
            ]
            sites = [Site(*parts) for parts in zip(nodes, cables, disks, strict=True)]
            try:
                for node in nodes:
                    await asyncio.to_thread(node.start)
                chaos = Chaos(sites, server, url, chance)
                plan = chaos.plan(kills, **(usual(kills) if others is None else others))
                report = await _storm(nodes, url, agents, matrix, chaos, plan, say)
            finally:
                for site in sites:
                    site.node.__exit__()
                    await site.cable.remove()
                    site.disk.remove()
        report.seconds = time.monotonic() - began
        return report


async def _storm(
    nodes: list[Node], url: str, agents: list[str], matrix: MatrixServer, chaos: Chaos, plan: list[str], say: Any
) -> ClusterReport:
    chance, began = chaos.chance, time.monotonic()
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
        for number, kind in enumerate(plan, 1):
            await asyncio.sleep(chance.uniform(0.2, 2.0))
            await chaos.cause(kind)
            if number % 10 == 0:
                now = f"{time.monotonic() - began:.0f} s, {number} of {len(plan)} faults"
                say(f"{now}, {len(load.accepted)} accepted, {len(load.outcomes)} answered", chaos.wrong, flush=True)
        await chaos.recover()
        load.stopping.set()
    report = ClusterReport(faults=chaos.faults, wrong=chaos.wrong)
    report.accepted, report.answered = len(load.accepted), sum(each == "ok" for each in load.outcomes.values())
    report.wrong += [f"no outcome: {name}" for name in sorted(load.accepted - load.outcomes.keys())][:10]
    async with nodes[0].client() as client:
        for job in (await client.call("cron.list"))["jobs"]:
            await client.call("cron.remove", {"id": job["id"]})
    await _until_calm(url)
    await check(url, load.accepted, report)
    answers = people.answers()
    silent = [name for name in sorted(people.asked - report.told) if not answers[name]]
    report.wrong += [f"never answered on Matrix: {name}" for name in silent][:10]
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
    inputs = {row["run_id"]: row for row in await fetch(url, "SELECT * FROM inputs")}
    wrong += [f"accepted, and not on record: {name}" for name in sorted(accepted - inputs.keys())][:10]
    open_ones = [
        name for name, row in inputs.items() if row["outcome"] is None or row["state"] in ("queued", "running")
    ]
    wrong += [f"without an outcome: {name} ({inputs[name]['state']})" for name in open_ones][:10]
    failed = {name for name, row in inputs.items() if row["state"] == "failed"}
    given_up = [inputs[name]["request"] for name in failed if inputs[name]["attempts"] >= ATTEMPTS]
    report.given_up = len(given_up)
    report.told = {question for request in given_up for question in _QUESTION.findall(request)}
    wrong += [
        f"failed: {name}: {inputs[name]['outcome'][:200]}" for name in failed if inputs[name]["attempts"] < ATTEMPTS
    ][:10]
    _check_lengths(inputs, report)
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


def _check_lengths(inputs: dict[str, Any], report: ClusterReport) -> None:
    """An input may wait for what went wrong while it was in work, each for as long as it took, and for its own time."""
    for name, row in inputs.items():
        began, ended = row["accepted_at"] / 1000, row["updated_at"] / 1000
        wrong, until = 0.0, began
        for fault in sorted(report.faults, key=lambda fault: fault.began):
            wrong += max(0.0, min(fault.ended, ended) - max(fault.began, until))
            until = max(until, fault.ended)
        report.longest = max(report.longest, ended - began)
        own = ended - began - wrong
        if own > report.longest_own:
            report.longest_own, report.slowest = own, f"{name} at {datetime.fromtimestamp(began):%H:%M:%S}"
        if own > OWN_SECONDS:
            report.wrong.append(f"{name} took {ended - began:.0f} s, of which {wrong:.0f} s are explained")


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
    took = {kind: sorted(each.seconds for each in report.faults if each.kind == kind) for kind in KINDS}
    return (
        f"{', '.join(f'{len(each)} × {kind}' for kind, each in took.items())} in {report.seconds:.0f} s; "
        f"accepted {report.accepted}, answered {report.answered}, given up {report.given_up}; "
        f"{report.fires} slots of jobs, {report.sent} messages sent; takeover (median, longest): "
        f"{', '.join(f'{kind} {t[len(t) // 2]:.2f}, {t[-1]:.2f} s' for kind, t in took.items() if t)}; "
        f"longest run {report.longest:.1f} s, {report.longest_own:.1f} s without what went wrong "
        f"({report.slowest}); "
        f"wrong: {len(report.wrong)} {report.wrong[:20]}"
    )


if __name__ == "__main__":
    made = Path(tempfile.mkdtemp(prefix="openclaw-soak-"))
    wanted, many = (*map(int, sys.argv[1:]), *(30, 12)[len(sys.argv) - 1 :])
    result = asyncio.run(soak(made, wanted, many))
    print(show(result))
    if result.wrong:
        print(f"what the nodes said: {made}/*/gateway.out")
    else:
        shutil.rmtree(made)
    sys.exit(1 if result.wrong else 0)
