"""`chat.*`: a conversation as chat windows need it."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Assistant, Text, User
from openclaw.gateway import rows
from openclaw.gateway.commands import SlashCommands, catalog
from openclaw.gateway.desk import SessionService
from openclaw.gateway.methods.inputs import images_of, queue_rules
from openclaw.gateway.methods.uploads import deliver, sorted_out
from openclaw.gateway.projection import EventProjection, on_record
from openclaw.sessions import history
from openclaw.turns.turn import RunRequest
from openclaw.wire.caller import Caller
from openclaw.wire.params.chat import (
    ChatAbortParams,
    ChatHistoryParams,
    ChatInjectParams,
    ChatMessageGetParams,
    ChatMetadataParams,
    ChatSendParams,
    ChatStartupParams,
)
from openclaw.wire.rpc import RpcMethod
from openclaw.wire.scopes import ADMIN, READ, WRITE

DEFAULT_LIMIT = 200
DEFAULT_BYTES = 512 * 1024
MOST_PENDING = 20


def methods(desk: SessionService, projector: EventProjection, commands: SlashCommands) -> list[RpcMethod]:
    async def send(params: ChatSendParams, caller: Caller) -> Any:
        key = desk.key(params.session_key, params.agent_id)
        pictures, files = sorted_out(params.attachments or ())
        images = images_of(pictures)
        if not params.message.strip() and not images and not files:
            raise InvalidRequest("the message is empty: write something, or attach something")
        text = params.message
        reply = None if params.suppress_command_interpretation else await commands.answer(key, text, "webchat")
        if reply is not None:
            if not reply.message:
                _say(desk, key, params.idempotency_key, reply.text)
                return {"runId": params.idempotency_key, "status": "ok"}
            text = reply.message
        await _expect_leaf(desk, key, params.expected_leaf_entry_id)
        if files:
            place = desk.app.workspace(key.agent)
            told = await asyncio.to_thread(deliver, files, place, params.idempotency_key)
            text = f"{text}\n\n{told}".strip()
        turn = RunRequest(
            run_id=params.idempotency_key,
            key=key,
            text=text,
            images=images,
            thinking=params.thinking,
            timeout=params.timeout_ms / 1000 if params.timeout_ms else None,
            channel="webchat",
        )
        submission = await desk.runs.submit(turn, rules=await queue_rules(desk, key, "steer", params.queue_mode))
        status = submission.status if submission.status in ("in_flight", "ok", "error") else "started"
        return {"runId": submission.run_id, "status": status}

    async def startup(params: ChatStartupParams, caller: Caller) -> Any:
        if params.session_key is None:
            found = await desk.app.index.find(params.short_id or "")
            return await _history(desk, projector, desk.key(found.session_key), params.limit, 0, params.max_bytes, None)
        key = desk.key(params.session_key, params.agent_id)
        if params.cursor is not None:
            return {"kind": "reset"}
        return await _history(
            desk, projector, key, params.limit, params.offset or 0, params.max_bytes, params.max_chars
        )

    async def get_history(params: ChatHistoryParams, caller: Caller) -> Any:
        if params.cursor is not None:
            return {"kind": "reset"}
        key = desk.key(params.session_key, params.agent_id)
        return await _history(
            desk, projector, key, params.limit, params.offset or 0, params.max_bytes, params.max_chars
        )

    async def abort(params: ChatAbortParams, caller: Caller) -> Any:
        stopped = await desk.stop(desk.key(params.session_key, params.agent_id), params.run_id, "chat.abort")
        return {"ok": True, "aborted": bool(stopped), "runIds": stopped}

    async def inject(params: ChatInjectParams, caller: Caller) -> Any:
        key = desk.key(params.session_key, params.agent_id)
        text = f"[{params.label}] {params.message}" if params.label else params.message
        message = Assistant(content=(Text(text),), provider="openclaw", model="note", timestamp=desk.now)
        entry_id = await desk.app.turns.inject(key, message, f"inject:{caller.conn_id}")
        await desk.changed(key, "inject")
        return {"ok": True, "messageId": entry_id}

    async def metadata(params: ChatMetadataParams, caller: Caller) -> Any:
        key = desk.key(params.session_key or "main", params.agent_id)
        situation = desk.app.models.situation(key.agent)
        models = [
            rows.model(found, available=situation.has_key(found.provider, desk.now))
            for found in situation.registry.list()
        ]
        return {
            "models": [each for each in models if each["available"]],
            "commands": [command.shown() for command in catalog(desk.app.extensions)],
            "swarmEnabled": False,
            "accountSelection": {"kind": "automatic", "label": "Automatic"},
            "runtimeSelectionLocked": True,
        }

    async def get_message(params: ChatMessageGetParams, caller: Caller) -> Any:
        key = desk.key(params.session_key, params.agent_id)
        _, loaded = await desk.load(key)
        for each in history.rows_of(loaded.entries) if loaded else []:
            if each.entry_id == params.message_id:
                whole = on_record(each, partial(desk.app.proofread, key))
                return {"message": history.within([whole], 4_000_000, params.max_chars or 200_000)[0]}
        raise NotFound(f"no message {params.message_id} in {key}")

    return [
        RpcMethod("chat.send", ChatSendParams, send, WRITE),
        RpcMethod("chat.history", ChatHistoryParams, get_history, READ),
        RpcMethod("chat.startup", ChatStartupParams, startup, READ),
        RpcMethod("chat.abort", ChatAbortParams, abort, WRITE),
        RpcMethod("chat.inject", ChatInjectParams, inject, ADMIN),
        RpcMethod("chat.metadata", ChatMetadataParams, metadata, READ),
        RpcMethod("chat.message.get", ChatMessageGetParams, get_message, READ),
    ]


def _say(desk: SessionService, key: SessionKey, run_id: str, text: str) -> None:
    """A reply of the gateway itself, as chat windows expect one."""
    message = {"role": "assistant", "content": [{"type": "text", "text": text}], "timestamp": desk.now}
    payload = {
        "runId": run_id,
        "sessionKey": str(key),
        "agentId": key.agent,
        "seq": 1,
        "state": "final",
        "stopReason": "stop",
        "message": message,
    }
    desk.bus.publish("chat", payload, str(key))


async def _expect_leaf(desk: SessionService, key: SessionKey, expected: Any) -> None:
    """A client that shows an older state of the conversation is told before it adds to it."""
    if not isinstance(expected, str):
        return
    _, loaded = await desk.load(key)
    known = {each.entry_id for each in history.rows_of(loaded.entries)} if loaded else set()
    if expected not in known:
        raise InvalidRequest("the conversation has changed since you loaded it: reload and send again")


def _pending(desk: SessionService, key: SessionKey, said: Sequence[history.HistoryRow]) -> dict[str, Any]:
    """What waits to be read, oldest first, and is not among what was `said`."""
    known = {each.message.idempotency_key for each in said if isinstance(each.message, User)}
    unread = [each for each in desk.runs.unread(key) if f"{each[0].run_id}:user" not in known]
    items = [
        {
            "id": turn.run_id,
            "runId": turn.run_id,
            "message": {"role": "user", "content": turn.text, "timestamp": round(at * 1000)},
            "acceptedAt": round(at * 1000),
            "state": "queued",
        }
        for turn, at in unread[:MOST_PENDING]
    ]
    return {"items": items, "total": len(unread)}


async def _history(
    desk: SessionService,
    projector: EventProjection,
    key: SessionKey,
    limit: int | None,
    offset: int,
    max_bytes: int | None,
    max_chars: int | None,
) -> dict[str, Any]:
    session_id, loaded = await desk.load(key)
    page = history.page(loaded.entries if loaded else (), limit=limit or DEFAULT_LIMIT, offset=offset)
    messages = history.within(
        [on_record(each, partial(desk.app.proofread, key)) for each in page.rows],
        max_bytes or DEFAULT_BYTES,
        max_chars or history.BLOCK_CHARS,
    )
    next_offset = page.next_offset
    if len(messages) < len(page.rows):
        next_offset = offset + len(messages)
    info = await desk.row(key)
    active = desk.runs.active(key)
    answer: dict[str, Any] = {
        "sessionKey": str(key),
        "sessionId": session_id,
        "messages": messages,
        "pendingInputs": _pending(desk, key, page.rows),
        "deltaCursor": f"{session_id}:{page.total}",
        "hasMore": next_offset is not None,
        "totalMessages": page.total,
        "defaults": rows.defaults(desk.app.models.situation(key.agent)),
        "sessionInfo": info,
    }
    if next_offset is not None:
        answer["nextOffset"] = next_offset
    if active and desk.runs.is_running(key):
        answer["inFlightRun"] = {"runId": active[0], "text": projector.in_flight(active[0])}
    return answer
