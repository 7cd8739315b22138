"""RPC methods `memory.search`, `memory.status` and `memory.notes.*` (list, get and set notes)."""

import asyncio
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from openclaw.core.errors import Conflict, InvalidRequest, NotFound
from openclaw.core.keys import KeyResolver
from openclaw.memory import files, notes
from openclaw.memory.citations import status_to_json
from openclaw.memory.index import MemoryIndex
from openclaw.memory.service import MemoryService
from openclaw.memory.tools import hit_to_json
from openclaw.protocol.params import NonEmpty, Params
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN, READ
from openclaw.storage import atomic


class MemoryAgentParams(Params, frozen=True, kw_only=True):
    """Params of `memory.status` and `memory.notes.list`."""

    agent_id: NonEmpty | None = None


class MemorySearchParams(MemoryAgentParams, frozen=True, kw_only=True):
    """Params of `memory.search`."""

    query: Annotated[str, Meta(min_length=1, max_length=4000)]
    max_results: Annotated[int, Meta(ge=1, le=50)] | None = None
    min_score: Annotated[float, Meta(ge=0, le=1)] | None = None


class MemoryNotesGetParams(MemoryAgentParams, frozen=True, kw_only=True):
    """Params of `memory.notes.get`."""

    path: NonEmpty


class MemoryNotesSetParams(MemoryAgentParams, frozen=True, kw_only=True):
    """Params of `memory.notes.set`. Without a hash the note must not be there yet."""

    path: NonEmpty
    content: Annotated[str, Meta(max_length=1_000_000)]
    expected_hash: Annotated[str, Meta(min_length=64, max_length=64, pattern=r"^[a-fA-F0-9]{64}$")] | None = None


MOST_BYTES = 1_000_000


def memory_methods(sessions: KeyResolver, memories: MemoryService) -> list[RpcMethod]:
    def memory_of(agent_id: str | None) -> tuple[str, MemoryIndex]:
        agent = sessions.key("main", agent_id).agent
        memory = memories.of(agent)
        if memory is None:
            raise InvalidRequest(f"memory search is off for {agent}: set agents.defaults.memorySearch.enabled to true")
        return agent, memory

    async def list_notes(params: MemoryAgentParams, caller: Caller) -> Any:
        agent, memory = memory_of(params.agent_id)
        found = await asyncio.to_thread(files.discover, memory.plan.scope)
        notes = [
            {"path": each.name, "size": each.size, "updatedAtMs": each.mtime // 1_000_000}
            for each in sorted(found.files, key=attrgetter("mtime"), reverse=True)
        ]
        return {"agentId": agent, "notes": notes}

    async def get(params: MemoryNotesGetParams, caller: Caller) -> Any:
        agent, memory = memory_of(params.agent_id)
        path = notes.resolve(params.path, memory.plan.scope)
        return {"agentId": agent, **await asyncio.to_thread(_note, memory, path)}

    async def put(params: MemoryNotesSetParams, caller: Caller) -> Any:
        agent, memory = memory_of(params.agent_id)
        path = notes.resolve(params.path, memory.plan.scope)
        shown = await asyncio.to_thread(_replace, memory, path, params.content, params.expected_hash)
        memory.changed()
        return {"ok": True, "agentId": agent, **shown}

    async def search(params: MemorySearchParams, caller: Caller) -> Any:
        agent, memory = memory_of(params.agent_id)
        found = await memory.search(params.query, max_results=params.max_results, min_score=params.min_score)
        return {
            "agentId": agent,
            "provider": found.provider,
            "model": found.model,
            "mode": found.mode,
            "syncing": found.syncing,
            "results": [hit_to_json(each, cite=True) for each in found.results],
            **({"reason": found.reason} if found.reason else {}),
        }

    async def status(params: MemoryAgentParams, caller: Caller) -> Any:
        agent = sessions.key("main", params.agent_id).agent
        memory = memories.of(agent)
        if memory is None:
            return {"agentId": agent, "enabled": False}
        return {"agentId": agent, "enabled": True, **status_to_json(await memory.status(), memory, None)}

    return [
        RpcMethod("memory.notes.list", MemoryAgentParams, list_notes, READ),
        RpcMethod("memory.notes.get", MemoryNotesGetParams, get, READ),
        RpcMethod("memory.notes.set", MemoryNotesSetParams, put, ADMIN),
        RpcMethod("memory.search", MemorySearchParams, search, READ),
        RpcMethod("memory.status", MemoryAgentParams, status, READ),
    ]


def _note(memory: MemoryIndex, path: Path) -> dict[str, Any]:
    name = memory.plan.scope.name(path)
    if not path.exists():
        raise NotFound(f"there is no note {name}")
    if path.stat().st_size > MOST_BYTES:
        raise InvalidRequest(f"{name} is too large to be shown here: open it on the machine itself")
    found = files.read(path)
    if found.problem:
        raise InvalidRequest(f"{name} cannot be shown: {found.problem}")
    return {"path": name, "content": found.text, "hash": found.hash, "updatedAtMs": found.mtime // 1_000_000}


def _replace(memory: MemoryIndex, path: Path, content: str, expected: str | None) -> dict[str, Any]:
    name = memory.plan.scope.name(path)
    if len(content.encode()) > MOST_BYTES:
        raise InvalidRequest("the note is too large: keep it under 1 MB, or make two of it")
    if path.exists():
        if _note(memory, path)["hash"] != expected:
            raise Conflict(f"{name} has changed since you opened it: reload it first")
    elif expected is not None:
        raise Conflict(f"{name} is not there any more: reload it first")
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    atomic.replace_file(path, content.encode(), mode)
    return _note(memory, path)
