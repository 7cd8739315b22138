"""The `codex app-server` processes of this gateway: one for each agent and credential, started at first use."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest
from openclaw.core.harness import ModelRouter
from openclaw.core.settings import Live
from openclaw.harnesses.codex.binding import ThreadBindings, digest
from openclaw.harnesses.codex.routing import CodexSession
from openclaw.harnesses.codex.server import CodexLaunch, CodexServer, find_program
from openclaw.harnesses.codex.turn import APIS, CodexTurn

IDLE_SECONDS = 900.0
"""How long a process without a turn is kept."""


class CodexHarness:
    """The Codex processes of this gateway; whoever made it closes it."""

    def __init__(self, agents_dir: Path, variables: Live[Mapping[str, str]], clock: Clock) -> None:
        self._agents_dir = agents_dir
        self._variables = variables
        self.clock = clock
        self._servers: dict[tuple[str, ...], CodexServer] = {}
        self._sweeper: asyncio.Task[None] | None = None

    def turn(self, session: CodexSession, route: ModelRouter) -> CodexTurn:
        """What carries out one turn; raises when it cannot: the program is missing, or the model speaks another API."""
        model = route.attempt.model
        if model.api not in APIS:
            raise InvalidRequest(
                f"The runtime codex asks models over the Responses API, and {model.ref} speaks {model.api}: choose "
                "another model, or agentRuntime.id openclaw."
            )
        return CodexTurn(self, session, route, find_program(self._variables.current))

    def bindings(self, agent_id: str) -> ThreadBindings:
        return ThreadBindings(self._home(agent_id) / "openclaw-threads")

    def _home(self, agent_id: str) -> Path:
        return self._agents_dir / agent_id / "agent" / "codex"

    async def server(self, session: CodexSession, program: str, route: ModelRouter) -> CodexServer:
        """The process that asks this agent's models, running."""
        name = _name(session, program, route)
        for other, stale in [*self._servers.items()]:
            if other[0] == session.agent_id and other != name and stale.idle:
                del self._servers[other]
                await stale.close()
        server = self._servers.get(name)
        if server is None:
            endpoint = route.attempt.endpoint
            assert endpoint is not None
            launch = CodexLaunch(program, self._home(session.agent_id), endpoint, session.posture == "native")
            server = self._servers[name] = CodexServer(launch, self._variables.current)
        server.idle_since = None
        await server.ready()
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep(), name="codex:idle")
        return server

    def serves(self, server: CodexServer, session: CodexSession, program: str, route: ModelRouter) -> bool:
        """Whether `server` is the process that the route asks now."""
        return self._servers.get(_name(session, program, route)) is server

    def released(self, server: CodexServer) -> None:
        """A turn on `server` has ended."""
        if server.idle:
            server.idle_since = self.clock.now()

    async def _sweep(self) -> None:
        """Ends processes that have had nothing to do for long."""
        while True:
            await self.clock.sleep(IDLE_SECONDS / 2)
            now = self.clock.now()
            for name, server in [*self._servers.items()]:
                since = server.idle_since
                if server.idle and since is not None and now - since >= IDLE_SECONDS:
                    del self._servers[name]
                    await server.close()

    async def close(self) -> None:
        sweeper, self._sweeper = self._sweeper, None
        servers = [*self._servers.values()]
        self._servers.clear()
        if sweeper is not None:
            sweeper.cancel()
            await asyncio.gather(sweeper, return_exceptions=True)
        await asyncio.gather(*(server.close() for server in servers))


def _name(session: CodexSession, program: str, route: ModelRouter) -> tuple[str, ...]:
    """What a process is known by: two that differ in it cannot be one."""
    endpoint = route.attempt.endpoint
    assert endpoint is not None
    key = endpoint.key.reveal() if endpoint.key is not None else ""
    access = digest([key, dict(endpoint.headers)])
    return session.agent_id, program, endpoint.base_url, access, session.posture
