"""Builds the session rows and default values of the protocol."""

from typing import Any

from openclaw.core.keys import SessionKey
from openclaw.core.provider import Model
from openclaw.models import thinking
from openclaw.models.model_set import ModelSet
from openclaw.sessions.index import SessionRow
from openclaw.sessions.lifecycle import SessionPreferences


def kind_of(key: SessionKey) -> str:
    if key.rest in ("global", "unknown"):
        return key.rest
    return "group" if key.is_group else "direct"


def session(
    row: SessionRow,
    key: SessionKey,
    preferences: SessionPreferences,
    *,
    active: tuple[str, ...],
    running: bool,
    now: int,
    default: Model,
) -> dict[str, Any]:
    """One session as a row of lists and events."""
    shown: dict[str, Any] = {
        "key": row.session_key,
        "kind": kind_of(key),
        "agentId": row.agent_id,
        "sessionId": row.session_id,
        "updatedAt": row.updated_at,
        "createdAt": row.created_at,
        "lastInteractionAt": row.updated_at,
        "lastActivityAt": row.updated_at,
        "snapshotAt": now,
        "status": "running" if running else "queued" if active else _status(row.status),
        "hasActiveRun": running,
        "activeRunIds": list(active),
        "modelProvider": row.provider or default.provider,
        "model": row.model or default.id,
        "contextTokens": default.context_window,
        "inputTokens": row.input_tokens,
        "outputTokens": row.output_tokens,
        "totalTokens": row.context_tokens,
        "totalTokensFresh": True,
        "estimatedCostUsd": row.cost_usd,
        "displayName": preferences.label or row.title or _unnamed(row, key),
        "derivedTitle": row.title or None,
        "isMain": key.is_main,
        "isBackground": key.is_cron or key.is_subagent or key.is_hook,
        "visibility": "shared",
        "sharingRole": "admin",
        "permissionModePending": False,
        "effectiveQueueMode": preferences.queue_mode or "steer",
        "agentRuntime": {"id": "openclaw", "source": "default"},
        "abortedLastRun": row.status == "killed",
        "systemSent": row.messages > 0,
        "pinned": preferences.pinned,
        "archived": preferences.archived,
        "unread": preferences.unread,
    }
    optional = {
        "label": preferences.label,
        "thinkingLevel": preferences.thinking_level,
        "verboseLevel": preferences.verbose_level,
        "reasoningLevel": preferences.reasoning_level,
        "parentSessionKey": preferences.parent_session_key,
        "spawnedBy": preferences.spawned_by,
        "category": preferences.category,
        "icon": preferences.icon,
        "color": preferences.color,
    }
    return {**shown, **{name: value for name, value in optional.items() if value is not None}}


def _unnamed(row: SessionRow, key: SessionKey) -> str:
    if key.is_main:
        return key.rest
    return "New conversation" if row.status == "new" else row.session_key


def _status(status: str) -> str:
    return status if status in ("queued", "running", "done", "failed", "killed", "timeout") else "done"


def defaults(situation: ModelSet) -> dict[str, Any]:
    """The values of sessions without preferences."""
    chosen = situation.model(situation.default)
    return {
        "modelProvider": chosen.provider,
        "model": chosen.id,
        "contextTokens": chosen.context_window,
        "thinkingLevels": [{"id": level, "label": level} for level in thinking.levels(chosen)],
        "thinkingDefault": "medium" if chosen.reasoning else "off",
        "modelConfigured": True,
        "agentRuntime": {"id": "openclaw", "source": "default"},
    }
