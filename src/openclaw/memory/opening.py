"""Putting an agent's memory together from its settings."""

from collections.abc import Callable, Mapping
from pathlib import Path

from openclaw.core.clock import Clock
from openclaw.core.secret import Secret
from openclaw.memory import choose
from openclaw.memory.discover import NoteScope
from openclaw.memory.forget import forgotten, tombstones
from openclaw.memory.index import MemoryIndex
from openclaw.memory.means import Build, EmbedderPool
from openclaw.memory.settings import MemorySearchSettings
from openclaw.memory.sync import SyncPlan


def index_path(settings: MemorySearchSettings, agent_id: str, state: Path, home: Path) -> Path:
    """Where the agent's index is."""
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
    problem: choose.Problem,
    warn: Callable[[str], None] = lambda line: None,
) -> MemoryIndex:
    """The memory of `agent_id`; nothing is read or started before it is used. `keys` are the providers' own."""
    path = index_path(settings, agent_id, state, home)
    plan = SyncPlan(
        scope=NoteScope(workspace=workspace, extra=settings.extra_paths, home=home),
        sources=settings.searched,
        tokens=settings.chunking.tokens,
        overlap=settings.chunking.overlap,
        sessions=state / "agents" / agent_id / "sessions",
        delta_bytes=settings.sync.sessions.delta_bytes,
        delta_messages=settings.sync.sessions.delta_messages,
        forgotten=forgotten(tombstones(path)),
    )
    means = EmbedderPool(
        choose.choose(settings, keys, problem), build, clock, fallback=choose.fallback(settings, keys, problem)
    )
    return MemoryIndex(path, plan, settings, clock, means, warn)
