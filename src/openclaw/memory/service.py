"""Opens, caches and closes the agents' memory indexes; forgets lines of notes; syncs when files change."""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from openclaw.agent import settings as agent_settings
from openclaw.agent.settings import AgentsSettings
from openclaw.core.clock import Clock
from openclaw.core.embedder import Vector
from openclaw.core.errors import InvalidRequest, StateError
from openclaw.core.secret import Secret
from openclaw.core.settings import Live
from openclaw.core.tool import Tool
from openclaw.memory import citations, notes
from openclaw.memory.chunk import digest
from openclaw.memory.embedders import embedder_problem, pool
from openclaw.memory.embedders.pool import Build, EmbedderPool, EmbedderSource, build_embedder, provider_keys
from openclaw.memory.files import NoteScope
from openclaw.memory.index import MemoryIndex
from openclaw.memory.notes import resolve
from openclaw.memory.settings import MemorySearchSettings, MemorySettings, overlay
from openclaw.memory.sync import SyncPlan
from openclaw.memory.tools import MemoryGet, MemorySearch
from openclaw.memory.watch import sync_periodically, watch
from openclaw.models.settings import ModelsSettings
from openclaw.plugins.settings import MEMORY_CORE, PluginsSettings
from openclaw.process.environment import Environment
from openclaw.process.tasks import supervise
from openclaw.storage.atomic import replace_file
from openclaw.workspace.seed import Workspaces

log = logging.getLogger(__name__)


# Forgetting.


class Tombstone(Struct, frozen=True, kw_only=True, rename="camel"):
    """A forgotten text: its former place, and digests that recognise it without revealing it."""

    at: str
    path: str
    start: int
    end: int
    digests: tuple[str, ...]


def tombstone_path(index: Path) -> Path:
    """The path of the tombstones beside an index; the file outlives the index."""
    return index.with_name(f"{index.stem}.forgotten.jsonl")


def read_tombstones(path: Path) -> frozenset[str]:
    """Reads the digests of all forgotten texts."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}") from error
    found: set[str] = set()
    for line in lines:
        try:
            found.update(msgspec.json.decode(line, type=Tombstone).digests)
        except msgspec.DecodeError:
            continue
    return frozenset(found)


def parse_citation(citation: str) -> tuple[str, int, int]:
    """Parses a citation into note, first and last line."""
    found = re.fullmatch(r"(.+?)#L?(\d+)(?:-L?(\d+))?", citation.strip())
    if not found:
        raise InvalidRequest(f"{citation!r} names no lines: write a citation such as memory/2026-01-31.md#L3-L5")
    return found[1], int(found[2]), int(found[3] or found[2])


async def forget_lines(memory: MemoryIndex, path: str, start: int, end: int, now: float) -> str:
    """Removes lines from a note, the index and the cache; returns the removed text."""
    scope = memory.plan.scope
    file = resolve(path, scope)
    name = scope.name(file)
    await memory.sync()
    hashes = await memory.hashes(name, start, end)
    text = _cut(file, name, start, end, tombstone_path(memory.path), hashes, now)
    await memory.purge(name, hashes)
    return text


def _cut(path: Path, name: str, start: int, end: int, stones: Path, pieces: frozenset[str], now: float) -> str:
    """Removes lines `start` to `end` from the note `path` and writes their tombstone.

    `pieces` are the digests of the text's chunks in the index. The tombstone is written first: after a crash in
    between, the text is hidden from search and can be forgotten again.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
        mode = path.stat().st_mode & 0o777
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}") from error
    if not 1 <= start <= end <= len(lines):
        raise InvalidRequest(f"{name} has {len(lines)} lines: lines {start} to {end} are not all there")
    text = "\n".join(lines[start - 1 : end])
    stone = Tombstone(
        at=datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
        path=name,
        start=start,
        end=end,
        digests=tuple(sorted({digest(text), *pieces})),
    )
    old = stones.read_bytes() if stones.exists() else b""
    replace_file(stones, old + msgspec.json.encode(stone) + b"\n")
    left = "\n".join([*lines[: start - 1], *lines[end:]])
    replace_file(path, left.encode("utf-8", "surrogateescape"), mode)
    return text


# Opening.


def index_path(settings: MemorySearchSettings, agent_id: str, state: Path, home: Path) -> Path:
    """The path of the agent's index."""
    given = settings.store.path
    if not given:
        return state / "state" / "memory" / f"{agent_id}.sqlite"
    text = given.replace("{agentId}", agent_id)
    return home / text[2:] if text.startswith("~/") else state / text


def open_memory(
    settings: MemorySearchSettings,
    *,
    agent_id: str,
    workspace: Path,
    state: Path,
    home: Path,
    clock: Clock,
    keys: Mapping[str, Secret],
    build: Build,
    problem: pool.Problem = embedder_problem,
    warn: Callable[[str], None] = log.warning,
) -> MemoryIndex:
    """Makes the memory of `agent_id`; reads and starts nothing before its first use. `keys` are the providers' own."""
    path = index_path(settings, agent_id, state, home)
    plan = SyncPlan(
        scope=NoteScope(workspace=workspace, extra=settings.extra_paths, home=home),
        sources=settings.searched,
        tokens=settings.chunking.tokens,
        overlap=settings.chunking.overlap,
        sessions=state / "agents" / agent_id / "sessions",
        delta_bytes=settings.sync.sessions.delta_bytes,
        delta_messages=settings.sync.sessions.delta_messages,
        forgotten=read_tombstones(tombstone_path(path)),
    )
    means = EmbedderPool(
        pool.choose(settings, keys, problem), build, clock, fallback=pool.fallback(settings, keys, problem)
    )
    return MemoryIndex(path, plan, settings, clock, means, warn)


class MemoryService:
    def __init__(
        self,
        environment: Environment,
        clock: Clock,
        workspaces: Workspaces,
        plugins: EmbedderSource,
        *,
        agents: Live[AgentsSettings],
        settings: Live[MemorySettings],
        models: Live[ModelsSettings],
        slots: Live[PluginsSettings],
        variables: Live[Mapping[str, str]],
    ) -> None:
        self._environment = environment
        self._clock = clock
        self._workspaces = workspaces
        self._build = partial(build_embedder, plugins)
        self._agents = agents
        self._settings = settings
        self._models = models
        self._slots = slots
        self._variables = variables
        self._open: dict[str, MemoryIndex] = {}
        self._opened: asyncio.Queue[MemoryIndex] = asyncio.Queue()
        """Every index that is opened, for `follow`."""

    def of(self, agent_id: str) -> MemoryIndex | None:
        """The notes of an agent, searchable; None when it is switched off, or a plugin's in its place."""
        if self._slots.current.slots.memory != MEMORY_CORE:
            return None
        if agent_id not in self._open:
            agents = self._agents.current
            agent = agent_settings.resolve_agent(agents, agent_id)
            settings = overlay(agents.defaults.memory_search, agent.entry.memory_search)
            if not settings.enabled:
                return None
            providers = self._models.current.providers
            configured = {name: section.api_key for name, section in providers.items() if section.api_key}
            self._open[agent_id] = open_memory(
                settings,
                agent_id=agent_id,
                workspace=self._workspaces.of(agent_id),
                state=self._environment.home.state,
                home=self._environment.home_dir,
                clock=self._clock,
                keys=provider_keys(self._variables.current, configured),
                build=self._build,
            )
            self._opened.put_nowait(self._open[agent_id])
        return self._open[agent_id]

    def require(self, agent_id: str) -> MemoryIndex:
        """The notes of an agent; an error that says why when they cannot be searched."""
        memory = self.of(agent_id)
        if memory is not None:
            return memory
        if (slot := self._slots.current.slots.memory) != MEMORY_CORE:
            raise InvalidRequest(
                f"the built-in memory is not in use: plugins.slots.memory is {slot}, not {MEMORY_CORE}"
            )
        raise InvalidRequest(f"memory search is off for {agent_id}: set agents.defaults.memorySearch.enabled to true")

    def tools(self, agent_id: str) -> list[Tool]:
        memory = self.of(agent_id)
        if memory is None:
            return []
        return [
            MemorySearch(memory, self._settings.current.citations),
            MemoryGet(memory, self.excerpt_chars(agent_id)),
        ]

    def excerpt_chars(self, agent_id: str) -> int:
        """How much of a note is shown at once."""
        return agent_settings.resolve_agent(self._agents.current, agent_id).memory_get_chars

    def proofread(self, agent_id: str, text: str) -> str:
        """An answer without sources that do not exist."""
        memory = self.of(agent_id) if ".md#" in text or ".jsonl#" in text else None
        return citations.remove_dangling(text, partial(notes.count_lines, memory.plan.scope)) if memory else text

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Texts as vectors, from the embedder of the default agent's memory."""
        memory = self.of(agent_settings.default_agent(self._agents.current))
        vectors = memory.means.vectors() if memory is not None else None
        if vectors is None:
            raise InvalidRequest(
                "there is no embedder: set agents.defaults.memorySearch.provider, or install openclaw-py[local]"
            )
        return await vectors.of(texts)

    async def follow(self) -> None:
        """Keeps each index in step with its notes, from the first turn that opens it: nobody asks for them before."""
        async with asyncio.TaskGroup() as group:
            while True:
                memory = await self._opened.get()
                if memory.settings.sync.watch:
                    work = partial(watch, memory, log.warning)
                    group.create_task(supervise(work, "notes", self._clock), name="notes")
                if memory.settings.sync.interval_minutes:
                    group.create_task(sync_periodically(memory, self._clock), name="notes, every so often")

    async def close(self) -> None:
        for memory in self._open.values():
            await memory.close()
        self._open.clear()
