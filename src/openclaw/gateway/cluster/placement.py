"""Decides which node holds which agent: rendezvous hashing, so that a node that joins or leaves moves its share."""

import hashlib
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct


class ClusterNode(Struct, frozen=True, kw_only=True):
    """A gateway of the cluster, as its row says."""

    id: str
    """Of this life of it: a restart has another one."""
    name: str
    """What it is called over restarts; agents are placed by it."""
    address: str = ""
    draining: bool = False
    guest: bool = False
    """A command with a gateway of its own: it holds agents only where nobody else does."""
    started_at: int = 0
    version: str = ""
    fingerprint: str = ""
    """SHA-256 of its certificate; empty without TLS."""
    figures: str = "{}"
    """What it measured of itself, as JSON."""
    trouble: str = ""
    """Why it cannot carry out anything."""
    silent: bool = False
    """It may be stopped, or cut off: what it holds is its own until it counts as gone, and nothing is added."""

    @property
    def able(self) -> bool:
        """Whether agents are placed there."""
        return not (self.draining or self.guest or self.trouble or self.silent)


class PlacedAgent(Struct, frozen=True, kw_only=True):
    """Where an agent is, and where a person wants it."""

    agent: str
    node: str = ""
    """The id of the node that holds it; empty when nobody does."""
    epoch: int = 0
    pinned: str = ""
    """The name of the node it was moved to."""


class PlacementPlan(Struct, frozen=True, kw_only=True):
    """What one node has to do."""

    take: tuple[str, ...] = ()
    release: tuple[str, ...] = ()


def choose_node(agent: str, nodes: Sequence[ClusterNode], pinned: str = "") -> ClusterNode | None:
    """The node that should hold `agent`; None when none may."""
    able = [node for node in nodes if node.able]
    # Better a node that is about to leave, or a command, than nobody.
    able = able or [node for node in nodes if not node.guest] or list(nodes)
    wanted = [node for node in able if node.name == pinned]
    return max(wanted or able, key=lambda node: (_weight(agent, node.name), node.id), default=None)


def _weight(agent: str, name: str) -> bytes:
    return hashlib.blake2b(f"{agent}\0{name}".encode(), digest_size=8).digest()


def plan(
    me: str, nodes: Sequence[ClusterNode], placed: Mapping[str, PlacedAgent], agents: Collection[str]
) -> PlacementPlan:
    """What `me` takes of `agents`, and releases of what it holds. Only what nobody alive holds is taken."""
    alive = {node.id for node in nodes}
    take, release = [], []
    for agent in sorted({*agents, *(name for name, where in placed.items() if where.node == me)}):
        where = placed.get(agent, PlacedAgent(agent=agent))
        chosen = choose_node(agent, nodes, where.pinned)
        mine = chosen is not None and chosen.id == me
        if where.node == me and not mine:
            release.append(agent)
        elif mine and where.node not in alive:
            take.append(agent)
    return PlacementPlan(take=tuple(take), release=tuple(release))
