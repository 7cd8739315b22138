"""Links between nodes: each node keeps one connection to every other, over the gateway's own protocol.

A node shows that it knows the cluster's secret without sending it (`protocol/auth.peer_proof`).
"""

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError, Unavailable
from openclaw.gateway.cluster.member import QUICK, ClusterMember
from openclaw.gateway.cluster.placement import ClusterNode
from openclaw.protocol.auth import peer_proof
from openclaw.protocol.client import GatewayClient
from openclaw.protocol.connect_request import ConnectionLost, ConnectOptions
from openclaw.protocol.websocket import connect
from openclaw.version import __version__

log = logging.getLogger("openclaw.cluster")
FIRST_RETRY, RETRY = 0.01, 0.25
"""Seconds between tries: after a link that worked, and in the end."""
STEADY = 0.5
"""Seconds after which a link that breaks has worked."""
REACH_SECONDS = 5.0
"""How long a request waits for the link to a node."""


class PeerLinks:
    """The connections to the other nodes that are there."""

    def __init__(
        self, cluster: ClusterMember, clock: Clock, hear: Callable[[GatewayClient, str], Awaitable[None]]
    ) -> None:
        """`hear` reads what a node tells, until the link breaks."""
        self.cluster = cluster
        self._clock = clock
        self._hear = hear
        self._links: dict[str, asyncio.Task[None]] = {}
        self._clients: dict[str, GatewayClient] = {}
        self._changed = asyncio.Condition()
        self.forwarded = 0

    async def keep(self) -> None:
        """Connects to nodes that come, and forgets those that go, until it is cancelled."""
        try:
            while True:
                there = {node.id: node for node in self.cluster.nodes.values() if node.address}
                there.pop(self.cluster.me, None)
                for gone in [name for name in self._links if name not in there]:
                    await _end(self._links.pop(gone))
                for name, node in there.items():
                    if name not in self._links:
                        self._links[name] = asyncio.create_task(self._link(node), name=f"peer:{node.name}")
                await self._clock.sleep(QUICK)
        finally:
            for task in self._links.values():
                await _end(task)
            self._links.clear()

    async def _link(self, node: ClusterNode) -> None:
        options = ConnectOptions(
            client_id="gateway-client",
            mode="backend",
            version=__version__,
            platform=sys.platform,
            display_name=self.cluster.me,
            prove=partial(peer_proof, self.cluster.secret),
        )
        pause = RETRY
        while True:
            tried = self._clock.now()
            try:
                async with connect(node.address, options, pinned=node.fingerprint, proves=True) as client:
                    await self._set(node.id, client)
                    self.cluster.note_link(node.id, refused=False)
                    await self._hear(client, node.id)
            except OpenClawError as error:
                log.debug("no link to node %s: %s", node.name, error.message)
                if isinstance(error.__cause__, ConnectionRefusedError):
                    self.cluster.note_link(node.id, refused=True)
            except Exception:
                # A node of another version may say what this one does not understand: the others are heard.
                log.exception("the link to node %s failed", node.name)
            finally:
                await self._set(node.id, None)
            # One that worked is tried again at once, and then less and less: a node that died soon refuses.
            pause = FIRST_RETRY if self._clock.now() - tried >= STEADY else min(RETRY, 2 * pause)
            await self._clock.sleep(pause)

    async def _set(self, node: str, client: GatewayClient | None) -> None:
        async with self._changed:
            if client is not None:
                self._clients[node] = client
            else:
                self._clients.pop(node, None)
            self._changed.notify_all()

    async def client(self, node: str, seconds: float = REACH_SECONDS) -> GatewayClient:
        """The link to a node; waits for it a moment."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: node in self._clients)
        except TimeoutError:
            raise Unavailable(f"node {node} cannot be reached: try again in a moment", retry_after=1.0) from None
        return self._clients[node]

    async def call(self, node: str, method: str, params: Any) -> Any:
        """The first answer of a node."""
        client = await self.client(node)
        self.forwarded += 1
        try:
            return await client.call(method, params)
        except ConnectionLost as error:
            raise Unavailable(f"node {node} went away: try again in a moment", retry_after=1.0) from error

    async def answers(self, node: str, method: str, params: Any) -> AsyncGenerator[Any, None]:
        """Every answer of a node to one request."""
        client = await self.client(node)
        self.forwarded += 1
        async with aclosing(client.answers(method, params)) as answers:
            async for answer in answers:
                yield answer

    def is_linked(self, node: str) -> bool:
        return node in self._clients


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
