"""RPC methods `sessions.*`: list, create, send, patch, reset, delete; search, rewind, images and plan."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, structs

from openclaw.core.errors import Conflict, InvalidRequest, NotFound, OpenClawError
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Image, Message, User
from openclaw.memory.service import MemoryService
from openclaw.models import thinking
from openclaw.models.service import ModelService, parse_runtime
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN, READ, WRITE
from openclaw.sessions import history, service
from openclaw.sessions.files import load
from openclaw.sessions.history import SearchHit, stored_row_to_json, visible_text
from openclaw.sessions.index import SessionIndex, SessionRow
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.listing import list_document
from openclaw.sessions.params import (
    ChatImagesGetParams,
    ProgressCardGetParams,
    SessionsDescribeParams,
    SessionsGetParams,
    SessionsListParams,
    SessionsOverviewParams,
    SessionsPatchParams,
    SessionsPreviewParams,
    SessionsResolveParams,
    SessionsRewindParams,
    SessionsSearchParams,
)
from openclaw.sessions.service import RunState, SessionService

PATCHABLE = (
    "label icon color category archived pinned unread thinking_level verbose_level reasoning_level response_usage "
    "send_policy model agent_runtime"
).split()
REQUIRED = ("archived", "pinned", "unread")
"""Fields that may be left out of a patch but not be cleared."""


def sessions_methods(
    sessions: SessionService,
    lifecycle: SessionLifecycle,
    models: ModelService,
    index: SessionIndex,
    state_dir: Path,
    memories: MemoryService,
) -> list[RpcMethod]:
    async def describe(params: SessionsDescribeParams, caller: Caller) -> Any:
        return {"session": await sessions.row(sessions.key(params.key, params.agent_id))}

    async def resolve(params: SessionsResolveParams, caller: Caller) -> Any:
        reference = params.reference.key if params.reference else ""
        wanted = params.key or params.session_id or params.short_id or reference
        try:
            if not wanted and params.label:
                found = next((each for each in await sessions.list() if each.get("label") == params.label), None)
                if found is None:
                    raise NotFound(f"no session is called {params.label!r}")
                return {"ok": True, "key": found["key"], "agentId": found["agentId"]}
            session = await index.find(wanted)
        except OpenClawError:
            if params.allow_missing:
                return {"ok": False}
            raise
        return {"ok": True, "key": session.session_key, "agentId": session.agent_id, "displayName": session.title}

    async def patch(params: SessionsPatchParams, caller: Caller) -> Any:
        key = sessions.key(params.key, params.agent_id)
        before = await index.get(key) if params.expected_session_id is not None else None
        if before is not None and before.session_id != params.expected_session_id:
            raise InvalidRequest("the session has changed since you looked: reload and try again")
        changes = await _changes(models, key, params)
        chosen = await lifecycle.prefer(key, changes)
        await sessions.changed(key, "patch", changes)
        found = await index.resolve(key)
        situation = models.model_set(key.agent)
        model = situation.model(situation.resolve(chosen.model) if chosen.model else situation.default)
        return {
            "ok": True,
            "path": str(state_dir / "agents" / key.agent / "sessions"),
            "key": str(key),
            "entry": {"sessionId": found.session_id, "updatedAt": found.updated_at, **msgspec.to_builtins(chosen)},
            "resolved": {"modelProvider": model.provider, "model": model.id},
        }

    async def preview(params: SessionsPreviewParams, caller: Caller) -> Any:
        previews = []
        for text in params.keys:
            key = sessions.key(text)
            _, loaded = await sessions.load(key)
            said = history.rows_of(loaded.entries)[-(params.limit or 6) :] if loaded else []
            items = [
                {"role": each.message.__class__.__name__.lower(), "text": shown[: params.max_chars or 240]}
                for each in said
                if (shown := visible_text(each.message)).strip()
            ]
            previews.append({"key": str(key), "status": "ok" if loaded else "missing", "items": items})
        return {"ts": sessions.now, "previews": previews}

    async def get(params: SessionsGetParams, caller: Caller) -> Any:
        key = sessions.key(params.key)
        _, loaded = await sessions.load(key)
        page = history.page(loaded.entries if loaded else (), limit=params.limit or 200)
        shown = [stored_row_to_json(each, partial(memories.proofread, key.agent)) for each in page.rows]
        return {"messages": history.limit_rows(shown, history.TOTAL_BYTES)}

    async def listed(params: SessionsListParams, caller: Caller) -> Any:
        return await list_sessions(sessions, models, state_dir, params)

    return [
        RpcMethod("sessions.list", SessionsListParams, listed, READ),
        RpcMethod("sessions.describe", SessionsDescribeParams, describe, READ),
        RpcMethod("sessions.resolve", SessionsResolveParams, resolve, READ),
        RpcMethod("sessions.preview", SessionsPreviewParams, preview, READ),
        RpcMethod("sessions.get", SessionsGetParams, get, READ),
        RpcMethod("sessions.patch", SessionsPatchParams, patch, WRITE),
    ]


async def list_sessions(
    sessions: SessionService, models: ModelService, state_dir: Path, params: SessionsListParams
) -> dict[str, Any]:
    """The sessions a client asked for, one page of them."""
    agent = sessions.key("main", params.agent_id).agent if params.agent_id else None
    found = [each for each in await sessions.list(agent) if _wanted(each, params, sessions.now)]
    offset = params.offset or 0
    limit = params.limit or 200
    shown = found[offset : offset + limit]
    more = offset + len(shown) < len(found)
    if params.include_last_message:
        for each in shown:
            _, loaded = await sessions.load(sessions.key(each["key"]))
            rows_there = reversed(history.rows_of(loaded.entries)) if loaded else ()
            said = next((text for item in rows_there if (text := visible_text(item.message)).strip()), "")
            if said:
                each["lastMessagePreview"] = said[:200]
    return {
        "ts": sessions.now,
        "path": str(state_dir / "agents"),
        "count": len(shown),
        "totalCount": len(found),
        "limitApplied": limit,
        "nextOffset": offset + len(shown) if more else None,
        "hasMore": more,
        "owners": [],
        "defaults": service.defaults_to_json(models, sessions.key("main", params.agent_id).agent),
        "sessions": shown,
    }


def _wanted(shown: dict[str, Any], params: SessionsListParams, now: int) -> bool:
    key = shown["key"]
    archived = params.archived if params.archived is not None else False
    return not (
        (archived != "all" and bool(shown["archived"]) != bool(archived))
        or (params.active_minutes and shown["updatedAt"] < now - params.active_minutes * 60_000)
        or (params.active_only and not shown["hasActiveRun"])
        or (params.pinned is not None and shown["pinned"] != params.pinned)
        or (params.label is not None and shown.get("label") != params.label)
        or (params.exclude_subagents and ":subagent:" in key)
        or (params.exclude_cron and ":cron:" in key)
        or (params.spawned_by is not None and shown.get("spawnedBy") != params.spawned_by)
        or (params.search and params.search.lower() not in f"{key} {shown['displayName']}".lower())
    )


async def _changes(models: ModelService, key: SessionKey, params: SessionsPatchParams) -> dict[str, Any]:
    """What a patch changes; a choice that cannot be is an error before anything is written."""
    given = structs.asdict(params)
    changes = {name: given[name] for name in PATCHABLE if given[name] is not UNSET}
    changes = {name: value for name, value in changes.items() if not (name in REQUIRED and value is None)}
    if isinstance(changes.get("model"), str):
        changes["model"] = str(models.model_set(key.agent).resolve(changes["model"]))
    if isinstance(changes.get("agent_runtime"), str):
        changes["agent_runtime"] = parse_runtime(changes["agent_runtime"])
    if isinstance(changes.get("thinking_level"), str):
        changes["thinking_level"] = thinking.parse(changes["thinking_level"])
    return changes


MOST_SESSIONS = 200
MOST_HITS = 25


def transcript_methods(
    sessions: SessionService, lifecycle: SessionLifecycle, runs: RunState, index: SessionIndex, state_dir: Path
) -> list[RpcMethod]:
    async def search(params: SessionsSearchParams, caller: Caller) -> Any:
        agent = sessions.key("main", params.agent_id).agent if params.agent_id else None
        named = {str(sessions.key(key, params.agent_id)) for key in params.session_keys or ()}
        rows = [row for row in await index.list(agent_id=agent) if not named or row.session_key in named]
        limit = params.limit or MOST_HITS
        found: list[tuple[SessionRow, SearchHit]] = []
        for row in rows[:MOST_SESSIONS]:
            path = await index.fetch(row.agent_id, row.session_id)
            found += [(row, hit) for hit in await asyncio.to_thread(_hits, path, params.query)]
        found.sort(key=lambda each: (each[1].score, each[1].row.message.timestamp), reverse=True)
        return {
            "results": [_shown(row, hit) for row, hit in found[:limit]],
            "truncated": len(found) > limit or len(rows) > MOST_SESSIONS,
        }

    async def overview(params: SessionsOverviewParams, caller: Caller) -> Any:
        return await list_document(
            index, state_dir, sessions.now, agent_id=params.agent_id, limit=params.limit or MOST_SESSIONS
        )

    async def rewind(params: SessionsRewindParams, caller: Caller) -> Any:
        key = sessions.key(params.session_key, params.agent_id)
        if runs.active(key):
            raise Conflict("the assistant is busy here: stop it, then go back")
        undone = await lifecycle.rewind(key, params.entry_id)
        await sessions.changed(key, "rewind")
        pictures = _images(undone)
        return {"editorText": undone.text, **({"editorAttachments": pictures} if pictures else {})}

    async def images(params: ChatImagesGetParams, caller: Caller) -> Any:
        key = sessions.key(params.session_key, params.agent_id)
        _, loaded = await sessions.load(key)
        rows = history.rows_of(loaded.entries) if loaded else []
        found = next((row.message for row in rows if row.entry_id == params.message_id), None)
        if found is None:
            raise NotFound(f"there is no message {params.message_id} in this conversation")
        return {"images": _images(found)}

    async def card(params: ProgressCardGetParams, caller: Caller) -> Any:
        key = sessions.key(params.session_key, params.agent_id)
        _, loaded = await sessions.load(key)
        plan = history.plan(history.rows_of(loaded.entries)) if loaded else None
        if plan is None:
            return {"card": None}
        given = plan.call.arguments
        made = {"sessionKey": str(key), "revision": plan.revision, "updatedAt": plan.at, "steps": given.get("plan", [])}
        return {"card": {**made, **({"markdown": given["explanation"]} if given.get("explanation") else {})}}

    return [
        RpcMethod("sessions.search", SessionsSearchParams, search, READ),
        RpcMethod("sessions.overview", SessionsOverviewParams, overview, ADMIN),
        RpcMethod("sessions.rewind", SessionsRewindParams, rewind, ADMIN),
        RpcMethod("chat.images.get", ChatImagesGetParams, images, READ),
        RpcMethod("progressCard.get", ProgressCardGetParams, card, READ),
    ]


def _images(message: Message) -> list[dict[str, str]]:
    blocks = () if isinstance(message.content, str) else message.content
    return [{"mimeType": each.mime_type, "data": each.data} for each in blocks if isinstance(each, Image)]


def _hits(path: Path, query: str) -> list[SearchHit]:
    return history.find(history.rows_of(load(path).entries), query) if path.exists() else []


def _shown(row: SessionRow, hit: SearchHit) -> dict[str, Any]:
    message = hit.row.message
    return {
        "sessionKey": row.session_key,
        "sessionId": row.session_id,
        "messageId": hit.row.entry_id,
        "role": "user" if isinstance(message, User) else "assistant",
        "timestamp": message.timestamp,
        "snippet": hit.snippet,
        "score": hit.score,
    }
