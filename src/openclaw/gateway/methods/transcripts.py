"""`sessions.search`, `sessions.rewind`, `chat.images.get`, `progressCard.get`: what is in a conversation."""

import asyncio
from typing import Any

from openclaw.core.errors import Conflict, NotFound
from openclaw.core.messages import Image, Message, User
from openclaw.gateway.desk import SessionService
from openclaw.sessions import history, looking
from openclaw.sessions.files import load
from openclaw.sessions.index import SessionRow
from openclaw.sessions.looking import SearchHit
from openclaw.wire.caller import Caller
from openclaw.wire.params.transcripts import (
    ChatImagesGetParams,
    ProgressCardGetParams,
    SessionsRewindParams,
    SessionsSearchParams,
)
from openclaw.wire.rpc import RpcMethod
from openclaw.wire.scopes import ADMIN, READ

MOST_SESSIONS = 200
MOST_HITS = 25


def methods(desk: SessionService) -> list[RpcMethod]:
    async def search(params: SessionsSearchParams, caller: Caller) -> Any:
        agent = desk.key("main", params.agent_id).agent if params.agent_id else None
        named = {str(desk.key(key, params.agent_id)) for key in params.session_keys or ()}
        rows = [row for row in await desk.app.index.list(agent_id=agent) if not named or row.session_key in named]
        limit = params.limit or MOST_HITS
        found: list[tuple[SessionRow, SearchHit]] = []
        for row in rows[:MOST_SESSIONS]:
            found += [(row, hit) for hit in await asyncio.to_thread(_hits, desk, row, params.query)]
        found.sort(key=lambda each: (each[1].score, each[1].row.message.timestamp), reverse=True)
        return {
            "results": [_shown(row, hit) for row, hit in found[:limit]],
            "truncated": len(found) > limit or len(rows) > MOST_SESSIONS,
        }

    async def rewind(params: SessionsRewindParams, caller: Caller) -> Any:
        key = desk.key(params.session_key, params.agent_id)
        if desk.runs.active(key):
            raise Conflict("the assistant is busy here: stop it, then go back")
        undone = await desk.lifecycle.rewind(key, params.entry_id)
        await desk.changed(key, "rewind")
        pictures = _images(undone)
        return {"editorText": undone.text, **({"editorAttachments": pictures} if pictures else {})}

    async def images(params: ChatImagesGetParams, caller: Caller) -> Any:
        key = desk.key(params.session_key, params.agent_id)
        _, loaded = await desk.load(key)
        rows = history.rows_of(loaded.entries) if loaded else []
        found = next((row.message for row in rows if row.entry_id == params.message_id), None)
        if found is None:
            raise NotFound(f"there is no message {params.message_id} in this conversation")
        return {"images": _images(found)}

    async def card(params: ProgressCardGetParams, caller: Caller) -> Any:
        key = desk.key(params.session_key, params.agent_id)
        _, loaded = await desk.load(key)
        plan = looking.plan(history.rows_of(loaded.entries)) if loaded else None
        if plan is None:
            return {"card": None}
        given = plan.call.arguments
        return {
            "card": {
                "sessionKey": str(key),
                "revision": plan.revision,
                "updatedAt": plan.at,
                "steps": given.get("plan", []),
                **({"markdown": given["explanation"]} if given.get("explanation") else {}),
            }
        }

    return [
        RpcMethod("sessions.search", SessionsSearchParams, search, READ),
        RpcMethod("sessions.rewind", SessionsRewindParams, rewind, ADMIN),
        RpcMethod("chat.images.get", ChatImagesGetParams, images, READ),
        RpcMethod("progressCard.get", ProgressCardGetParams, card, READ),
    ]


def _images(message: Message) -> list[dict[str, str]]:
    blocks = () if isinstance(message.content, str) else message.content
    return [{"mimeType": each.mime_type, "data": each.data} for each in blocks if isinstance(each, Image)]


def _hits(desk: SessionService, row: SessionRow, query: str) -> list[SearchHit]:
    path = desk.app.index.path(row.agent_id, row.session_id)
    return looking.find(history.rows_of(load(path).entries), query) if path.exists() else []


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
