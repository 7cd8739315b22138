"""RPC methods `memory.*`: search, explain, status, index, forget, reset, and `memory.notes.*` for the notes."""

import asyncio
from collections.abc import AsyncIterator
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from openclaw.core.clock import Clock
from openclaw.core.errors import Conflict, InvalidRequest, NotFound
from openclaw.core.keys import KeyResolver
from openclaw.memory import files, notes
from openclaw.memory.citations import explain_search, status_to_json
from openclaw.memory.index import MemoryIndex
from openclaw.memory.service import MemoryService, forget_lines
from openclaw.memory.tools import MemorySearch, excerpt_to_json
from openclaw.protocol.params import NonEmpty, Params
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN, READ, WRITE
from openclaw.storage import atomic


class MemoryAgentParams(Params, frozen=True, kw_only=True):
    """Params of `memory.reset` and `memory.notes.list`."""

    agent_id: NonEmpty | None = None


class MemoryStatusParams(MemoryAgentParams, frozen=True, kw_only=True):
    """Params of `memory.status`. `deep` also tries whether meaning can be searched."""

    deep: bool = False


class MemoryIndexParams(MemoryAgentParams, frozen=True, kw_only=True):
    """Params of `memory.index`. `force` makes the index anew."""

    force: bool = False


class MemorySearchParams(MemoryAgentParams, frozen=True, kw_only=True):
    """Params of `memory.search` and `memory.explain`."""

    query: Annotated[str, Meta(min_length=1, max_length=4000)]
    max_results: Annotated[int, Meta(ge=1, le=50)] | None = None
    min_score: Annotated[float, Meta(ge=0, le=1)] | None = None


class MemoryNotesGetParams(MemoryAgentParams, frozen=True, kw_only=True):
    """Params of `memory.notes.get`."""

    path: NonEmpty


class MemoryNotesLinesParams(MemoryNotesGetParams, frozen=True, kw_only=True):
    """Params of `memory.notes.lines`."""

    start: Annotated[int, Meta(ge=1)] | None = msgspec.field(default=None, name="from")
    lines: Annotated[int, Meta(ge=1)] | None = None


class MemoryForgetParams(MemoryNotesGetParams, frozen=True, kw_only=True):
    """Params of `memory.forget`."""

    start_line: Annotated[int, Meta(ge=1)]
    end_line: Annotated[int, Meta(ge=1)]


class MemoryNotesSetParams(MemoryAgentParams, frozen=True, kw_only=True):
    """Params of `memory.notes.set`. Without a hash the note must not be there yet."""

    path: NonEmpty
    content: Annotated[str, Meta(max_length=1_000_000)]
    expected_hash: Annotated[str, Meta(min_length=64, max_length=64, pattern=r"^[a-fA-F0-9]{64}$")] | None = None


MOST_BYTES = 1_000_000


def memory_methods(sessions: KeyResolver, memories: MemoryService) -> list[RpcMethod]:
    """The methods that search the memory and keep its index."""

    async def search(params: MemorySearchParams, caller: Caller) -> Any:
        agent, memory = _memory_of(sessions, memories, params.agent_id)
        found = await memory.search(params.query, max_results=params.max_results, min_score=params.min_score)
        return {
            "agentId": agent,
            **MemorySearch(memory, "on").document(found, ""),
            "model": found.model,
            "mode": found.mode,
            "syncing": found.syncing,
            **({"reason": found.reason} if found.reason else {}),
            **({"unavailable": True} if found.unavailable else {}),
        }

    async def explain(params: MemorySearchParams, caller: Caller) -> Any:
        agent, memory = _memory_of(sessions, memories, params.agent_id)
        found = await memory.search(params.query, max_results=params.max_results, min_score=params.min_score)
        return {"agentId": agent, **explain_search(found), **({"unavailable": True} if found.unavailable else {})}

    async def status(params: MemoryStatusParams, caller: Caller) -> Any:
        agent = sessions.key("main", params.agent_id).agent
        try:
            memory = memories.require(agent)
        except InvalidRequest as error:
            return {"agentId": agent, "enabled": False, "reason": error.message}
        tried = await memory.means.tried() if params.deep else None
        return {"agentId": agent, "enabled": True, **status_to_json(await memory.status(), memory, tried)}

    async def index(params: MemoryIndexParams, caller: Caller) -> AsyncIterator[Any]:
        agent, memory = _memory_of(sessions, memories, params.agent_id)
        loop, steps = asyncio.get_running_loop(), asyncio.Queue[tuple[int, int, str] | None]()

        def step(done: int, total: int, stage: str) -> None:  # from the thread that reads the notes, too
            loop.call_soon_threadsafe(steps.put_nowait, (done, total, stage))

        syncing = asyncio.create_task(memory.sync(force=params.force, grown=True, progress=step), name="memory:index")
        syncing.add_done_callback(lambda _: steps.put_nowait(None))
        try:
            while (at := await steps.get()) is not None:
                yield {"agentId": agent, "done": at[0], "total": at[1], "stage": at[2], "last": False}
            report, now = await syncing, await memory.status()
        finally:
            syncing.cancel()
        yield {
            "agentId": agent,
            "files": report.files,
            "changed": report.changed,
            "removed": report.removed,
            "pieces": now.pieces,
            "waiting": now.waiting,
            "reason": now.reason,
            "problems": list(report.problems),
            "last": True,
        }

    async def reset(params: MemoryAgentParams, caller: Caller) -> Any:
        agent, memory = _memory_of(sessions, memories, params.agent_id)
        await memory.reset()
        return {"ok": True, "agentId": agent, "index": str(memory.path)}

    return [
        RpcMethod("memory.search", MemorySearchParams, search, READ),
        RpcMethod("memory.explain", MemorySearchParams, explain, READ),
        RpcMethod("memory.status", MemoryStatusParams, status, READ),
        RpcMethod("memory.index", MemoryIndexParams, index, WRITE),
        RpcMethod("memory.reset", MemoryAgentParams, reset, ADMIN),
    ]


def note_methods(sessions: KeyResolver, memories: MemoryService, clock: Clock) -> list[RpcMethod]:
    """The methods that read, change and forget notes."""

    async def list_notes(params: MemoryAgentParams, caller: Caller) -> Any:
        agent, memory = _memory_of(sessions, memories, params.agent_id)
        found = await asyncio.to_thread(files.discover, memory.plan.scope)
        notes = [
            {"path": each.name, "size": each.size, "updatedAtMs": each.mtime // 1_000_000}
            for each in sorted(found.files, key=attrgetter("mtime"), reverse=True)
        ]
        return {"agentId": agent, "notes": notes}

    async def get(params: MemoryNotesGetParams, caller: Caller) -> Any:
        agent, memory = _memory_of(sessions, memories, params.agent_id)
        path = notes.resolve(params.path, memory.plan.scope)
        return {"agentId": agent, **await asyncio.to_thread(_note, memory, path)}

    async def put(params: MemoryNotesSetParams, caller: Caller) -> Any:
        agent, memory = _memory_of(sessions, memories, params.agent_id)
        path = notes.resolve(params.path, memory.plan.scope)
        shown = await asyncio.to_thread(_replace, memory, path, params.content, params.expected_hash)
        memory.changed()
        return {"ok": True, "agentId": agent, **shown}

    async def lines(params: MemoryNotesLinesParams, caller: Caller) -> Any:
        agent, memory = _memory_of(sessions, memories, params.agent_id)
        scope = memory.plan.scope
        path = notes.resolve(params.path, scope)
        most = memories.excerpt_chars(agent)
        found = await asyncio.to_thread(notes.excerpt, path, scope.name(path), params.start, params.lines, most)
        return {"agentId": agent, **excerpt_to_json(found)}

    async def forget(params: MemoryForgetParams, caller: Caller) -> Any:
        agent, memory = _memory_of(sessions, memories, params.agent_id)
        await forget_lines(memory, params.path, params.start_line, params.end_line, clock.now())
        return {
            "ok": True,
            "agentId": agent,
            "path": params.path,
            "startLine": params.start_line,
            "endLine": params.end_line,
        }

    return [
        RpcMethod("memory.notes.list", MemoryAgentParams, list_notes, READ),
        RpcMethod("memory.notes.get", MemoryNotesGetParams, get, READ),
        RpcMethod("memory.notes.set", MemoryNotesSetParams, put, ADMIN),
        RpcMethod("memory.notes.lines", MemoryNotesLinesParams, lines, READ),
        RpcMethod("memory.forget", MemoryForgetParams, forget, ADMIN),
    ]


def _memory_of(sessions: KeyResolver, memories: MemoryService, agent_id: str | None) -> tuple[str, MemoryIndex]:
    agent = sessions.key("main", agent_id).agent
    return agent, memories.require(agent)


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
