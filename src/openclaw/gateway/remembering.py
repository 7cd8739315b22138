"""The notes of this installation's agents, opened when they are first asked for."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from openclaw.config.load import LoadedConfig
from openclaw.core.clock import Clock
from openclaw.core.embedder import Vector
from openclaw.core.errors import InvalidRequest
from openclaw.core.tool import Tool
from openclaw.gateway.embedders import BringsEmbedders, EmbedderRegistry
from openclaw.gateway.surroundings import Environment
from openclaw.memory import citations, reading
from openclaw.memory.choose import usual_keys
from openclaw.memory.index import MemoryIndex
from openclaw.memory.opening import open_memory
from openclaw.memory.settings import overlay
from openclaw.memory.tools import MemoryGet, MemorySearch
from openclaw.plugins.settings import MEMORY_CORE
from openclaw.turns import agents

log = logging.getLogger(__name__)


class MemoryService:
    def __init__(
        self,
        surroundings: Environment,
        clock: Clock,
        loaded: Callable[[], LoadedConfig],
        workspace: Callable[[str], Path],
        plugins: Callable[[], BringsEmbedders],
        opened: Callable[[MemoryIndex], None],
    ) -> None:
        self._surroundings = surroundings
        self._clock = clock
        self._loaded = loaded
        self._workspace = workspace
        self._embedders = EmbedderRegistry(plugins)
        self._opened = opened
        self._open: dict[str, MemoryIndex] = {}

    def of(self, agent_id: str) -> MemoryIndex | None:
        """The notes of an agent, searchable; None when it is switched off, or a plugin's in its place."""
        loaded = self._loaded()
        config = loaded.config
        if config.plugins.slots.memory != MEMORY_CORE:
            return None
        if agent_id not in self._open:
            agent = agents.view(config.agents, agent_id)
            own = next((entry for entry in config.agents.list if entry.id == agent.entry.id), None)
            settings = overlay(config.agents.defaults.memory_search, own.memory_search if own else None)
            if not settings.enabled:
                return None
            providers = config.models.providers
            configured = {name: section.api_key for name, section in providers.items() if section.api_key}
            self._open[agent_id] = open_memory(
                settings,
                agent_id=agent_id,
                workspace=self._workspace(agent_id),
                state=self._surroundings.home.state,
                home=self._surroundings.home_dir,
                clock=self._clock,
                keys=usual_keys(loaded.variables, configured),
                build=self._embedders.build,
                problem=self._embedders.problem,
                warn=log.warning,
            )
            self._opened(self._open[agent_id])
        return self._open[agent_id]

    def tools(self, agent_id: str) -> list[Tool]:
        memory = self.of(agent_id)
        if memory is None:
            return []
        return [MemorySearch(memory, self._loaded().config.memory.citations), MemoryGet(memory)]

    def proofread(self, agent_id: str, text: str) -> str:
        """An answer without sources that do not exist."""
        memory = self.of(agent_id) if citations.cites(text) else None
        return citations.checked(text, partial(reading.length, memory.plan.scope)) if memory is not None else text

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Texts as vectors, from the embedder of the default agent's memory."""
        memory = self.of(agents.default_agent(self._loaded().config.agents))
        vectors = memory.means.vectors() if memory is not None else None
        if vectors is None:
            raise InvalidRequest(
                "there is no embedder: set agents.defaults.memorySearch.provider, or install openclaw-py[local]"
            )
        return await vectors.of(texts)

    async def close(self) -> None:
        for memory in self._open.values():
            await memory.close()
        self._open.clear()
