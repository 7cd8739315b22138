"""This node: its lease, the agents it holds, and the other nodes.

A node has one lease, under which it makes every write. Whoever takes the lease of a node that died, or that was silent
for too long, has waited for the writes that passed and prevents all others; only then are its agents and its rows free.
An agent is a row with its node and an epoch; ten thousand agents cost no lock and no connection.
"""

import asyncio
import json
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import NotFound, StateError
from openclaw.core.secret import Secret
from openclaw.gateway.cluster.database import FencedDatabase
from openclaw.gateway.cluster.placement import ClusterNode, PlacedAgent, PlacementPlan, choose_node, plan
from openclaw.process.tasks import wait_first
from openclaw.sessions.index import SessionIndex
from openclaw.sessions.transcript_store import DatabaseTranscripts
from openclaw.storage.database import AWAY_SECONDS, Database, Lease, LeaseLost, Row, Transaction, transact
from openclaw.storage.documents import sharing
from openclaw.storage.postgres import Postgres
from openclaw.storage.postgres_server import lock_number
from openclaw.version import __version__

log = logging.getLogger("openclaw.cluster")

TICK = 2.0
"""Seconds between two looks at the other nodes when nobody says that something has changed."""
QUICK, MOVING = 0.1, 0.5
"""The same while a node seems to be gone, and while agents have to move."""
SILENT = 15.0
"""Seconds without a sign after which a node that still has its connection counts as gone."""
QUIET = 6.0
"""Seconds without a sign after which nothing is placed on a node: three signs did not come."""
UNLOCKED = 1.0
"""Seconds without its lock after which a node counts as gone: it may be connecting again. One that also refuses
connections is not waited for."""
AFTER_BREAK = 5.0
"""The same when our own connection broke just now: then it was the server, and everybody is connecting again."""
FIGURES = 5.0
LOOK_AGAIN = 10.0
MOVE_SECONDS = 30.0
"""An agent that has to move and is never idle takes nothing new after so long."""
TOPIC = "cluster"
INPUTS = "cluster.inputs."

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS cluster_nodes (
        node_id TEXT PRIMARY KEY, name TEXT NOT NULL, address TEXT NOT NULL DEFAULT '', lock_high BIGINT NOT NULL,
        lock_low BIGINT NOT NULL, draining BIGINT NOT NULL DEFAULT 0, guest BIGINT NOT NULL DEFAULT 0,
        started_at BIGINT NOT NULL, version TEXT NOT NULL DEFAULT '', fingerprint TEXT NOT NULL DEFAULT '',
        figures TEXT NOT NULL DEFAULT '{}'
    )""",
    """CREATE TABLE IF NOT EXISTS cluster_agents (
        agent TEXT PRIMARY KEY, node TEXT NOT NULL DEFAULT '', epoch BIGINT NOT NULL DEFAULT 0,
        pinned TEXT NOT NULL DEFAULT '', taken_at BIGINT NOT NULL DEFAULT 0
    ) WITH (fillfactor = 70)""",
    # What all nodes know: the version of these tables, and the secret they prove to each other.
    "CREATE TABLE IF NOT EXISTS cluster_settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # Whose input it is, and how it queues: any node accepts, the holder of the agent takes.
    """ALTER TABLE inputs ADD COLUMN IF NOT EXISTS agent TEXT GENERATED ALWAYS AS
        (CASE WHEN session_key LIKE 'agent:%' THEN split_part(session_key, ':', 2) ELSE 'main' END) STORED""",
    "ALTER TABLE inputs ADD COLUMN IF NOT EXISTS rules TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX IF NOT EXISTS inputs_in_work ON inputs (agent) WHERE state IN ('queued', 'running')",
    # Several nodes put messages in at once: each gets a place of its own.
    "CREATE SEQUENCE IF NOT EXISTS outbox_positions",
    "SELECT setval('outbox_positions', (SELECT COALESCE(MAX(position), 0) + 1 FROM outbox))",
    """CREATE OR REPLACE FUNCTION outbox_place() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN NEW.position := nextval('outbox_positions'); RETURN NEW; END $$""",
    "CREATE OR REPLACE TRIGGER outbox_place BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION outbox_place()",
)
SCHEMA = "1"
_NODES = """
    SELECT n.*, EXISTS (SELECT 1 FROM pg_locks AS k WHERE k.locktype = 'advisory' AND k.objsubid = 1 AND k.granted AND
        k.classid::bigint = n.lock_high AND k.objid::bigint = n.lock_low) AS locked,
        n.node_id = :me AND EXISTS (SELECT 1 FROM inputs AS i JOIN cluster_agents AS a ON a.agent = i.agent
            WHERE a.node = :me AND i.state IN ('queued', 'running') AND
            i.owner NOT IN (SELECT node_id FROM cluster_nodes)) AS waiting,
        COALESCE(EXTRACT(EPOCH FROM now() - c.seen_at), 0)::float8 AS silent
    FROM cluster_nodes AS n LEFT JOIN store_leases AS l ON l.name = 'node:' || n.node_id
    LEFT JOIN store_connections AS c ON c.id = l.connection
"""
_LEASE = "SELECT epoch, holder FROM store_leases WHERE name = :name"
_TAKE = """
    INSERT INTO cluster_agents (agent, node, epoch, taken_at)
        SELECT a.name, :me, 1, :now FROM json_array_elements_text(CAST(:agents AS json)) AS a (name)
    ON CONFLICT (agent) DO UPDATE SET node = :me, epoch = cluster_agents.epoch + 1, taken_at = :now
    WHERE cluster_agents.node <> :me AND NOT EXISTS
        (SELECT 1 FROM cluster_nodes AS n WHERE n.node_id = cluster_agents.node)
"""


class ClusterMember:
    """One node of the cluster, from its joining to its leaving. It is also the `Owners` of the rows it works on."""

    def __init__(self, db: Database, clock: Clock, name: str, schema: str = "public") -> None:
        self.me = f"{name}-{secrets.token_hex(4)}"
        self.name = name
        self.db = FencedDatabase(db, self, self, self)
        self.nodes: dict[str, ClusterNode] = {}
        self.placed: dict[str, PlacedAgent] = {}
        self.secret = Secret("")
        self.draining = self.away = False
        self.trouble = ""
        """Why this machine can carry out nothing."""
        self.takeovers = 0
        self.fenced = asyncio.Event()
        """Set when others have taken this node for gone: it may do nothing any more."""
        self.changed = asyncio.Event()
        """Set when nodes or agents have changed, or may have."""
        self.waiting = asyncio.Event()
        """Set when there are inputs for our agents that nobody works on."""
        self.taken: Callable[[Collection[str]], Awaitable[None]] | None = None
        """Called with the agents that were taken, once they are ours."""
        self.is_idle: Callable[[str], bool] = lambda agent: True
        self.agents: Callable[[], Collection[str]] = tuple
        self.figures: Callable[[], Mapping[str, Any]] = dict
        self.find_trouble: Callable[[], str] = str
        self._clock = clock
        self._plain = db
        self._schema = schema
        self._lease: Lease | None = None
        self._renewing = asyncio.Lock()
        self._renewed_at = float("-inf")
        self._held: set[str] = set()
        self._moving: dict[str, float] = {}
        """Agents that have to move once they are idle, with when that began."""
        self._closed: set[str] = set()
        """Those of them that take nothing new."""
        self._stale = True
        """Whether somebody may hold other agents than we know of."""
        self._looked = 0.0
        self._unlocked: dict[str, float] = {}
        self._refusing: dict[str, float] = {}
        """Nodes that refuse connections, with since when."""
        self._guest = True
        self._planned: tuple[object, PlacementPlan] = (None, PlacementPlan())
        self._told = self._probed = 0.0
        self._urgent: dict[str, Any] = {}
        """What other nodes must know at once, as they were told last."""

    # As the owner of rows.

    async def gone(self, tx: Transaction, names: set[str]) -> set[str]:
        rows = await tx.read("SELECT node_id FROM cluster_nodes")
        return names - {row["node_id"] for row in rows}

    def is_alive(self, name: str) -> bool:
        return name in self.nodes

    def ended_in_order(self, name: str) -> bool:
        return not name

    # Joining and leaving.

    async def join(self) -> None:
        """Enters this node as a guest: it may accept and write, and holds nothing yet."""

        async def prepare(tx: Transaction) -> str:
            made = bool((await tx.read("SELECT to_regclass('cluster_settings') IS NOT NULL AS made"))[0]["made"])
            known = dict.fromkeys(("schema", "secret"), "")
            if made:
                known |= {row["name"]: row["value"] for row in await tx.read("SELECT * FROM cluster_settings")}
            if known["schema"] != SCHEMA:
                known = {"secret": secrets.token_urlsafe(32), **{k: v for k, v in known.items() if v}, "schema": SCHEMA}
                for statement in _SCHEMA:
                    await tx.write(statement)
                for name, value in known.items():
                    await tx.write(
                        "INSERT INTO cluster_settings (name, value) VALUES (:name, :value) "
                        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                        {"name": name, "value": value},
                    )
            return known["secret"]

        self.secret = Secret(await transact(self._plain, prepare, "cluster"))
        self._lease = await self._patiently(lambda: self._plain.lease(f"node:{self.me}", self.me))
        if self._lease is None:
            raise StateError("the lease of this node cannot be had: start it again")
        number = lock_number(self._schema, "lease", f"node:{self.me}") & 0xFFFFFFFFFFFFFFFF
        await self.db.write(
            "INSERT INTO cluster_nodes (node_id, name, lock_high, lock_low, guest, started_at, version) "
            "VALUES (:id, :name, :high, :low, 1, :now, :version)",
            {
                "id": self.me,
                "name": self.name,
                "high": number >> 32,
                "low": number & 0xFFFFFFFF,
                "now": millis(self._clock),
                "version": __version__,
            },
        )
        await self.look()

    async def serve(self, address: str, fingerprint: str = "") -> None:
        """From now on other nodes reach this one at `address`, and agents are placed here."""
        self._guest = False
        await self.db.write(
            "UPDATE cluster_nodes SET address = :address, fingerprint = :print, guest = 0 WHERE node_id = :me",
            {"address": address, "print": fingerprint, "me": self.me},
        )
        await self._announce()

    async def leave(self) -> None:
        """Leaves the cluster: what this node held is free at once."""
        self._held.clear()
        with suppress(StateError):
            if not self.fenced.is_set():
                await self.db.write_all(
                    ("UPDATE cluster_agents SET node = '' WHERE node = :me", {"me": self.me}),
                    ("DELETE FROM cluster_nodes WHERE node_id = :me", {"me": self.me}),
                )
                await self._plain.notify(TOPIC)
        if self._lease is not None:
            with suppress(StateError):
                await self._lease.release()

    # The lease.

    async def current(self) -> Lease:
        if self._lease is None or self.fenced.is_set():
            raise LeaseLost("other gateways have taken over from this one: nothing was written")
        if not self._lease.lost.is_set():
            return self._lease
        async with self._renewing:
            if self._lease.lost.is_set() and not self.fenced.is_set():
                await self._renew(self._lease)
        if self.fenced.is_set():
            raise LeaseLost("other gateways have taken over from this one: nothing was written")
        return self._lease

    async def _renew(self, before: Lease) -> None:
        """Takes our lease again after the connection broke; if somebody had it meanwhile, we are gone."""
        known = before.epoch

        async def take() -> Lease | None:
            nonlocal known
            (row,) = await self._plain.read(_LEASE, {"name": before.name})
            # The answer to our last try may have been lost: then the epoch after the one we know is ours, too.
            ours = row["holder"] == self.me and row["epoch"] in (known, known + 1)
            known = row["epoch"]
            return await self._plain.lease(before.name, self.me) if ours else None

        again = await self._patiently(take)
        if again is None or again.epoch != known + 1:
            log.error("other gateways have taken over from this one, which was silent for too long")
            self.fenced.set()
            if again is not None:
                await again.release()
            return
        self._lease = again
        self._renewed_at = self._clock.now()
        self._stale = True  # what was said meanwhile nobody heard
        self.changed.set()

    async def _patiently(self, take: Callable[[], Awaitable[Lease | None]]) -> Lease | None:
        """Takes a lease while the server comes and goes."""
        began = self._clock.now()
        while True:
            try:
                return await take()
            except StateError:
                if self._clock.now() - began > AWAY_SECONDS:
                    raise
                await self._clock.sleep(QUICK)

    # Agents.

    def holds(self, agent: str) -> bool:
        return agent in self._held and agent not in self._closed and not self.stands_aside

    def held(self) -> frozenset[str]:
        return frozenset(self._held)

    @property
    def stands_aside(self) -> bool:
        """Whether this node can carry out nothing, and another one can."""
        return bool(self.trouble) and any(node.able for node in self.nodes.values() if node.id != self.me)

    async def look_for_trouble(self) -> bool:
        """Whether this node stands aside as of now; tells the others when that has changed."""
        before, self.trouble = self.trouble, await asyncio.to_thread(self.find_trouble)
        self._probed = self._clock.now()
        if self.trouble != before:
            log.warning(
                "this node %s", f"cannot write to its disk: {self.trouble}" if self.trouble else "is well again"
            )
            await self._tell()
            await self._announce()
            self.changed.set()
        return self.stands_aside

    def holder(self, agent: str) -> ClusterNode | None:
        """The node that holds `agent`, or else should."""
        where = self.placed.get(agent)
        if where is not None and where.node in self.nodes:
            return self.nodes[where.node]
        return choose_node(agent, list(self.nodes.values()), where.pinned if where else "")

    async def take(self, agents: Collection[str]) -> None:
        """Takes those of `agents` that nobody alive holds."""
        if not agents or self.fenced.is_set():
            return
        await self.db.write(_TAKE, {"me": self.me, "now": millis(self._clock), "agents": json.dumps(sorted(agents))})
        await self._announce()
        self.changed.set()

    async def release(self, agent: str) -> None:
        """Gives an agent away that is idle."""
        self._held.discard(agent)
        await self.db.write(
            "UPDATE cluster_agents SET node = '' WHERE agent = :agent AND node = :me", {"agent": agent, "me": self.me}
        )
        await self._announce()

    async def drain(self) -> None:
        """Places nothing here any more; what is here moves away as it becomes idle."""
        await self.set_draining(self.me, draining=True)

    async def set_draining(self, node: str, *, draining: bool) -> ClusterNode:
        found = await self.find(node)
        await self.db.write(
            "UPDATE cluster_nodes SET draining = :on WHERE node_id = :id", {"on": int(draining), "id": found.id}
        )
        await self._announce()
        return found

    async def pin(self, agent: str, node: str) -> None:
        """Moves an agent to the node called `node`, or with an empty name to where it belongs."""
        name = (await self.find(node)).name if node else ""
        await self.db.write(
            "INSERT INTO cluster_agents (agent, pinned) VALUES (:agent, :name) "
            "ON CONFLICT (agent) DO UPDATE SET pinned = excluded.pinned",
            {"agent": agent, "name": name},
        )
        await self._announce()

    async def find(self, wanted: str) -> ClusterNode:
        """A node by its name or its id; one that has just come may not be known here yet."""
        if not any(wanted in (node.id, node.name) for node in self.nodes.values()):
            await self.refresh()
        for node in self.nodes.values():
            if wanted in (node.id, node.name):
                return node
        known = ", ".join(sorted(node.name for node in self.nodes.values()))
        raise NotFound(f"no node {wanted!r}: there is {known}")

    async def refresh(self) -> None:
        """Reads everything anew."""
        self._stale = True
        await self.look()

    async def _announce(self) -> None:
        """Looks at what we changed, and tells the others."""
        await self.refresh()
        await self._plain.notify(TOPIC)

    # Looking after all of it.

    async def keep(self) -> None:
        """Watches the nodes and moves agents, until it is cancelled or others have taken over."""
        async with self._plain.listen(TOPIC) as heard:
            self._stale = True  # whatever was said before we listened
            listening = asyncio.create_task(self._hear(heard), name="cluster:heard")
            settling: asyncio.Task[None] | None = None
            try:
                while not self.fenced.is_set():
                    self.changed.clear()
                    try:
                        await self.current()
                        if self._clock.now() - self._probed >= FIGURES:
                            await self.look_for_trouble()
                        await self.look()
                        await self._bury()
                        # It may wait for a lock of a node that was stopped, which has to be buried meanwhile.
                        settling = settling or asyncio.create_task(self.settle(), name="cluster:settle")
                        await asyncio.wait([settling], timeout=MOVING)
                        if settling.done():
                            settled, settling = settling, None
                            settled.result()
                        await self._tell()
                        self.away = False
                    except LeaseLost:
                        break
                    except StateError as error:  # the server is away: everything waits for it
                        self.away = True
                        log.warning("cluster: %s", error.message)
                    pause = self._pause() if settling is None else MOVING
                    await wait_first(self.changed.wait(), self.fenced.wait(), self._clock.sleep(pause))
            finally:
                tasks = [listening, *([settling] if settling is not None else [])]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _pause(self) -> float:
        now = self._clock.now()
        doubts = [*self._unlocked.values(), *(at for name, at in self._refusing.items() if name in self.nodes)]
        if any(now - since < AFTER_BREAK for since in doubts):
            return QUICK
        return MOVING if self._moving else TICK

    def note_link(self, node: str, *, refused: bool) -> None:
        """A node was reached, or refuses connections: without its lock, too, it is gone for certain."""
        if not refused:
            self._refusing.pop(node, None)
        elif node not in self._refusing:
            self._refusing[node] = self._clock.now()
            self.changed.set()

    async def _hear(self, heard: Any) -> None:
        async for _ in heard:
            self._stale = True
            self.changed.set()

    async def look(self) -> None:
        """Reads who is there; who holds what is read when somebody said that it has changed, and now and then."""
        rows = await self._plain.read(_NODES, {"me": self.me})
        now, nodes = self._clock.now(), {row["node_id"]: _node(row, self.me) for row in rows}
        if self._stale or nodes.keys() != self.nodes.keys() or now - self._looked >= LOOK_AGAIN:
            self._stale, self._looked = False, now
            placed = await self._plain.read("SELECT agent, node, epoch, pinned FROM cluster_agents")
            self.placed = {row["agent"]: PlacedAgent(**row) for row in placed}
        self.nodes = nodes
        if any(row["waiting"] for row in rows):
            self.waiting.set()
        self._refusing = {name: since for name, since in self._refusing.items() if name in nodes}
        if self.me in nodes:
            self.draining = nodes[self.me].draining
        self._unlocked = {
            row["node_id"]: self._unlocked.get(row["node_id"], now)
            for row in rows
            if row["node_id"] != self.me and (not row["locked"] or row["silent"] > SILENT)
        }

    async def _bury(self) -> None:
        """Takes the leases of nodes that are gone: from then on they write nothing, and what was theirs is free."""
        now = self._clock.now()
        patience = AFTER_BREAK if now - self._renewed_at < 2 * AFTER_BREAK else UNLOCKED
        for node in [n for n, since in self._unlocked.items() if n in self._refusing or now - since >= patience]:
            lease = await self._plain.lease(f"node:{node}", self.me)
            if lease is None:
                continue  # it is there after all, or another node was faster, or its connection is being ended
            log.warning("node %s is gone: its agents move", node)
            self.takeovers += 1
            await self.db.write("DELETE FROM cluster_nodes WHERE node_id = :id", {"id": node})
            await lease.release()
            await self._announce()

    async def settle(self) -> None:
        """Takes the agents that belong here, and gives away those that do not."""
        wanted = PlacementPlan() if self._guest else self._plan()
        if wanted.take:
            await self.take(wanted.take)
        mine = {agent for agent, where in self.placed.items() if where.node == self.me}
        self._held &= mine
        if new := mine - self._held:
            self._held |= new
            try:
                if self.taken is not None:
                    await self.taken(new)
            except BaseException:
                self._held -= new  # what waits for them is taken up with the next try
                raise
        now = self._clock.now()
        self._moving = {agent: self._moving.get(agent, now) for agent in wanted.release}
        self._closed = {agent for agent, since in self._moving.items() if self.draining or now - since > MOVE_SECONDS}
        for agent in wanted.release:
            if self.is_idle(agent):
                await self.release(agent)

    def _plan(self) -> PlacementPlan:
        """What to take and release; decided anew only when something has changed, because agents may be many."""
        nodes = [structs.replace(node, figures="{}") for node in self.nodes.values()]
        facts = (nodes, self.placed, self.agents())
        if facts != self._planned[0]:
            self._planned = (facts, plan(self.me, nodes, self.placed, {*facts[2], *self.placed}))
        return self._planned[1]

    async def _tell(self) -> None:
        now, figures = self._clock.now(), {**self.figures(), "trouble": self.trouble}
        urgent = {name: figures.get(name) for name in ("approvers", "webhooks", "connected", "trouble")}
        if self._guest or (now - self._told < FIGURES and urgent == self._urgent):
            return
        self._told, self._urgent = now, urgent
        await self.db.write(
            "UPDATE cluster_nodes SET figures = :figures WHERE node_id = :me",
            {"figures": json.dumps(figures), "me": self.me},
        )


@asynccontextmanager
async def shared_state(
    server: Postgres, again: Callable[[], Awaitable[Postgres]], state: Path, clock: Clock, environ: Mapping[str, str]
) -> AsyncIterator[tuple[Database, SessionIndex]]:
    """The state on `server` as a member of the cluster writes to it; leaves the cluster with the block.

    Files that the nodes share are read and written over connections of their own, which `again` opens.
    """
    member = ClusterMember(server, clock, node_name(environ), server.schema)
    async with sharing(again, state):
        await member.join()
        try:
            yield member.db, SessionIndex(member.db, state, clock, DatabaseTranscripts(member.db, state))
        finally:
            await member.leave()


def _node(row: Row, me: str) -> ClusterNode:
    return ClusterNode(
        id=row["node_id"],
        name=row["name"],
        address=row["address"],
        draining=bool(row["draining"]),
        guest=bool(row["guest"]),
        started_at=row["started_at"],
        version=row["version"],
        fingerprint=row["fingerprint"],
        figures=row["figures"],
        silent=row["silent"] > QUIET and row["node_id"] != me,
        trouble=msgspec.json.decode(row["figures"]).get("trouble", ""),
    )


def node_name(environ: Mapping[str, str]) -> str:
    """What this node is called; containers and machines have a host name of their own."""
    return environ.get("OPENCLAW_NODE_NAME", "").strip() or socket.gethostname() or f"node-{os.getpid()}"
