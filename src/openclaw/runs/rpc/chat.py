"""RPC methods `chat.*`, which chat clients use, with their parameter types and the handling of attachments."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, structs

from openclaw.core.commands import may_be_command
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Assistant, Image, Text, User
from openclaw.core.settings import Live
from openclaw.memory.service import MemoryService
from openclaw.models import rpc
from openclaw.models.service import ModelService
from openclaw.plugins.registry import PluginRegistry
from openclaw.protocol.events import EventBus
from openclaw.protocol.params import (
    AttachmentParam,
    InputProvenance,
    Mentions,
    NonEmpty,
    NonNegative,
    Params,
    PermissionMode,
    Positive,
    SessionKeyParams,
    SessionToolOverrides,
    all_different,
    exactly_one,
    not_both,
)
from openclaw.protocol.rpc import Caller, RpcMethod, surface_of
from openclaw.protocol.scopes import ADMIN, READ, WRITE
from openclaw.runs.commands.catalog import CommandRequest, catalog
from openclaw.runs.commands.service import SlashCommands
from openclaw.runs.control import SessionControl
from openclaw.runs.projection import EventProjection
from openclaw.runs.queue import NO_OPTIONS, QueuePolicy, parse_mode
from openclaw.runs.request import RunRequest
from openclaw.runs.turn import TurnRunner
from openclaw.runs.uploads import ChatUpload, images_of, split_attachments, write_files
from openclaw.runs.worker import RunService
from openclaw.sessions import history, service
from openclaw.sessions.history import stored_row_to_json
from openclaw.sessions.index import SessionIndex
from openclaw.sessions.service import SessionService
from openclaw.sessions.settings import SessionSettings
from openclaw.workspace.seed import Workspaces

if TYPE_CHECKING:
    from openclaw.runs.rpc.tools import OfferedSkills

# Parameters.


class WorkContext(Params, frozen=True, kw_only=True):
    page: Annotated[str, Meta(min_length=1, max_length=64)]
    title: Annotated[str, Meta(max_length=96)] | None = None
    session_key: Annotated[str, Meta(max_length=192)] | None = None
    session_id: Annotated[str, Meta(max_length=64)] | None = None
    agent_id: Annotated[str, Meta(max_length=64)] | None = None
    workspace: Annotated[str, Meta(max_length=224)] | None = None
    file: Annotated[str, Meta(max_length=224)] | None = None
    selection: Annotated[str, Meta(max_length=640)] | None = None


class SendIntent(Params, frozen=True, kw_only=True):
    kind: Literal["session-goal-start"]
    version: Literal[1]
    issued_at_ms: NonNegative


class ChatSendParams(Params, frozen=True, kw_only=True):
    """Params of `chat.send`."""

    session_key: Annotated[str, Meta(min_length=1, max_length=512)]
    agent_id: NonEmpty | None = None
    session_id: NonEmpty | None = None
    message: str
    mentions: Mentions | None = None
    work_context: WorkContext | None = None
    intent: SendIntent | None = None
    thinking: str | None = None
    fast_mode: Literal["auto"] | bool | None = None
    fast_auto_on_seconds: Positive | None = None
    queue_mode: Literal["steer", "followup", "collect", "interrupt"] | None = None
    deliver: bool | None = None
    originating_channel: str | None = None
    originating_to: str | None = None
    originating_account_id: str | None = None
    originating_thread_id: str | None = None
    reply_to_id: NonEmpty | None = None
    attachments: tuple[AttachmentParam, ...] | None = None
    tool_bindings: Annotated[dict[str, Any], Meta(max_length=16)] | None = None
    timeout_ms: NonNegative | None = None
    system_input_provenance: InputProvenance | None = None
    system_provenance_receipt: str | None = None
    suppress_command_interpretation: bool | None = None
    expected_leaf_entry_id: NonEmpty | UnsetType | None = UNSET
    expected_session_routing_contract: NonEmpty | None = None
    expected_permission_mode: PermissionMode | UnsetType | None = UNSET
    expected_tool_overrides: SessionToolOverrides | UnsetType | None = UNSET
    idempotency_key: NonEmpty


class _HistoryPage(Params, frozen=True, kw_only=True):
    """Which part of a conversation is asked for."""

    agent_id: NonEmpty | None = None
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] | None = None
    max_bytes: Annotated[int, Meta(ge=1024)] | None = None
    offset: NonNegative | None = None
    pending_before: Positive | None = None
    input_run_ids: (
        Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...], Meta(min_length=1, max_length=50)]
        | None
    ) = None
    message_id: NonEmpty | None = None
    session_id: NonEmpty | None = None
    max_chars: Annotated[int, Meta(ge=1, le=500_000)] | None = None

    def __post_init__(self) -> None:
        all_different(inputRunIds=self.input_run_ids)


class ChatHistoryParams(_HistoryPage, frozen=True, kw_only=True):
    """Params of `chat.history`."""

    session_key: NonEmpty


class ChatStartupParams(_HistoryPage, frozen=True, kw_only=True):
    """Params of `chat.startup`."""

    session_key: NonEmpty | None = None
    short_id: NonEmpty | None = None
    slug_hint: NonEmpty | None = None

    def __post_init__(self) -> None:
        exactly_one(sessionKey=self.session_key, shortId=self.short_id)
        all_different(inputRunIds=self.input_run_ids)
        if self.short_id is not None and self.agent_id is None:
            raise ValueError("must have required property 'agentId'")


class ChatAbortParams(SessionKeyParams, frozen=True, kw_only=True):
    """Params of `chat.abort`."""

    run_id: NonEmpty | None = None
    preserve_side_runs: bool | None = None


class ChatInjectParams(SessionKeyParams, frozen=True, kw_only=True):
    """Params of `chat.inject`."""

    message: NonEmpty
    label: Annotated[str, Meta(max_length=100)] | None = None


class ChatMetadataParams(Params, frozen=True, kw_only=True):
    """Params of `chat.metadata`."""

    agent_id: NonEmpty | None = None
    auth_profile_id: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    session_key: NonEmpty | None = None

    def __post_init__(self) -> None:
        not_both(sessionKey=self.session_key, authProfileId=self.auth_profile_id)


class ChatMessageGetParams(SessionKeyParams, frozen=True, kw_only=True):
    """Params of `chat.message.get`."""

    message_id: NonEmpty
    max_chars: Annotated[int, Meta(ge=1, le=2_000_000)] | None = None


# The methods.

DEFAULT_LIMIT = 200
DEFAULT_BYTES = 512 * 1024
MOST_PENDING = 20


def send_methods(
    sessions: SessionService,
    control: SessionControl,
    runs: RunService,
    workspaces: Workspaces,
    turns: TurnRunner,
    bus: EventBus,
    commands: SlashCommands,
    queue: QueuePolicy,
    offered: "OfferedSkills",
    settings: Live[SessionSettings],
) -> list[RpcMethod]:
    """The methods that write to a conversation, and stop it."""

    async def send(params: ChatSendParams, caller: Caller) -> Any:
        key = sessions.key(params.session_key, params.agent_id)
        images: tuple[Image, ...] = ()
        files: list[ChatUpload] = []
        if params.attachments:
            pictures, files = split_attachments(params.attachments)
            images = images_of(pictures)
        if not params.message.strip() and not images and not files:
            raise InvalidRequest("the message is empty: write something, or attach something")
        text, reply, skills = params.message, None, offered.get(caller.conn_id, ())
        triggers = settings.current.reset_triggers
        if may_be_command(text, triggers) and not params.suppress_command_interpretation:
            asked = CommandRequest(key=key, source="webchat", owner=caller.may(ADMIN), skills=skills)
            reply = await commands.answer(asked, text)
        if reply is not None:
            if not reply.message:
                _say(sessions, bus, key, params.idempotency_key, reply.text)
                return {"runId": params.idempotency_key, "status": "ok"}
            text = reply.message
        if isinstance(params.expected_leaf_entry_id, str):
            await _expect_leaf(sessions, key, params.expected_leaf_entry_id)
        if files:
            place = workspaces.of(key.agent)
            told = await asyncio.to_thread(write_files, files, place, params.idempotency_key)
            text = f"{text}\n\n{told}".strip()
        turn = RunRequest(
            run_id=params.idempotency_key,
            key=key,
            text=text,
            images=images,
            thinking=params.thinking,
            timeout=params.timeout_ms / 1000 if params.timeout_ms else None,
            channel="webchat",
            surface=surface_of(caller),
            skills=skills,
        )
        chosen = NO_OPTIONS if reply is None else reply.queue
        if params.queue_mode:
            chosen = structs.replace(chosen, mode=parse_mode(params.queue_mode))
        if reply is not None:
            turn = reply.onto(turn, text)
        submission = await runs.submit(turn, rules=await queue.rules(key, "webchat", asked=chosen))
        status = submission.status if submission.status in ("in_flight", "ok", "error") else "started"
        return {"runId": submission.run_id, "status": status}

    async def abort(params: ChatAbortParams, caller: Caller) -> Any:
        ended = await control.stop(sessions.key(params.session_key, params.agent_id), params.run_id, "chat.abort")
        return {"ok": True, "aborted": bool(ended.runs), "runIds": ended.runs}

    async def inject(params: ChatInjectParams, caller: Caller) -> Any:
        key = sessions.key(params.session_key, params.agent_id)
        text = f"[{params.label}] {params.message}" if params.label else params.message
        message = Assistant(content=(Text(text),), provider="openclaw", model="note", timestamp=sessions.now)
        entry_id = await turns.inject(key, message, f"inject:{caller.conn_id}")
        await sessions.injected(key, entry_id)
        return {"ok": True, "messageId": entry_id}

    return [
        RpcMethod("chat.send", ChatSendParams, send, WRITE),
        RpcMethod("chat.abort", ChatAbortParams, abort, WRITE),
        RpcMethod("chat.inject", ChatInjectParams, inject, ADMIN),
    ]


def history_methods(
    sessions: SessionService,
    runs: RunService,
    models: ModelService,
    index: SessionIndex,
    plugins: PluginRegistry,
    memories: MemoryService,
    projector: EventProjection,
) -> list[RpcMethod]:
    """The methods that show a conversation, and what can be chosen for it."""

    async def read(key: SessionKey, page_of: _HistoryPage) -> dict[str, Any]:
        offset = page_of.offset or 0
        session_id, loaded = await sessions.load(key)
        page = history.page(loaded.entries if loaded else (), limit=page_of.limit or DEFAULT_LIMIT, offset=offset)
        messages = history.limit_rows(
            [stored_row_to_json(each, partial(memories.proofread, key.agent)) for each in page.rows],
            page_of.max_bytes or DEFAULT_BYTES,
            page_of.max_chars or history.BLOCK_CHARS,
        )
        next_offset = page.next_offset
        if len(messages) < len(page.rows):
            next_offset = offset + len(messages)
        info = await sessions.row(key)
        active = runs.active(key)
        answer: dict[str, Any] = {
            "sessionKey": str(key),
            "sessionId": session_id,
            "messages": messages,
            "pendingInputs": _pending(runs, key, page.rows),
            "deltaCursor": f"{session_id}:{page.total}",
            "hasMore": next_offset is not None,
            "totalMessages": page.total,
            "defaults": service.defaults_to_json(models, key.agent),
            "sessionInfo": info,
        }
        if next_offset is not None:
            answer["nextOffset"] = next_offset
        if active and runs.is_running(key):
            answer["inFlightRun"] = {"runId": active[0], "text": projector.in_flight(active[0])}
        return answer

    async def get_history(params: ChatHistoryParams | ChatStartupParams, caller: Caller) -> Any:
        key = sessions.key(params.session_key or "main", params.agent_id)
        return {"kind": "reset"} if params.cursor is not None else await read(key, params)

    async def startup(params: ChatStartupParams, caller: Caller) -> Any:
        if params.session_key is None:
            found = await index.find(params.short_id or "")
            return await read(sessions.key(found.session_key), structs.replace(params, offset=0, max_chars=None))
        return await get_history(params, caller)

    async def get_message(params: ChatMessageGetParams, caller: Caller) -> Any:
        key = sessions.key(params.session_key, params.agent_id)
        _, loaded = await sessions.load(key)
        for each in history.rows_of(loaded.entries) if loaded else []:
            if each.entry_id == params.message_id:
                whole = stored_row_to_json(each, partial(memories.proofread, key.agent))
                return {"message": history.limit_rows([whole], 4_000_000, params.max_chars or 200_000)[0]}
        raise NotFound(f"no message {params.message_id} in {key}")

    async def metadata(params: ChatMetadataParams, caller: Caller) -> Any:
        key = sessions.key(params.session_key or "main", params.agent_id)
        situation = models.model_set(key.agent)
        listed = [
            rpc.model_to_json(found, available=situation.has_key(found.provider, sessions.now))
            for found in situation.registry.list()
        ]
        return {
            "models": [each for each in listed if each["available"]],
            "commands": [command.shown() for command in catalog(plugins)],
            "swarmEnabled": False,
            "accountSelection": {"kind": "automatic", "label": "Automatic"},
            "runtimeSelectionLocked": True,
        }

    return [
        RpcMethod("chat.history", ChatHistoryParams, get_history, READ),
        RpcMethod("chat.startup", ChatStartupParams, startup, READ),
        RpcMethod("chat.message.get", ChatMessageGetParams, get_message, READ),
        RpcMethod("chat.metadata", ChatMetadataParams, metadata, READ),
    ]


def _say(sessions: SessionService, bus: EventBus, key: SessionKey, run_id: str, text: str) -> None:
    """A reply of the gateway itself, as chat windows expect one."""
    message = {"role": "assistant", "content": [{"type": "text", "text": text}], "timestamp": sessions.now}
    payload = {
        "runId": run_id,
        "sessionKey": str(key),
        "agentId": key.agent,
        "seq": 1,
        "state": "final",
        "stopReason": "stop",
        "message": message,
    }
    bus.publish("chat", payload, str(key))


async def _expect_leaf(sessions: SessionService, key: SessionKey, expected: str) -> None:
    """A client that shows an older state of the conversation is told before it adds to it."""
    _, loaded = await sessions.load(key)
    known = {each.entry_id for each in history.rows_of(loaded.entries)} if loaded else set()
    if expected not in known:
        raise InvalidRequest("the conversation has changed since you loaded it: reload and send again")


def _pending(runs: RunService, key: SessionKey, said: Sequence[history.HistoryRow]) -> dict[str, Any]:
    """What waits to be read, oldest first, and is not among what was `said`."""
    known = {each.message.idempotency_key for each in said if isinstance(each.message, User)}
    unread = [each for each in runs.unread(key) if f"{each[0].run_id}:user" not in known]
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
