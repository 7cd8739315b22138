"""Sessions as the gateway's methods see them: rows with their state; changes are published to everyone."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from openclaw.agent.settings import AgentsSettings, default_agent, resolve_agent
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.keys import SessionKey, parse_session_key
from openclaw.core.provider import Model
from openclaw.core.settings import Live
from openclaw.core.text import Origin
from openclaw.models import thinking
from openclaw.models.model_set import ModelSet
from openclaw.models.registry import OFFLINE
from openclaw.models.service import ModelService
from openclaw.protocol.events import EventBus
from openclaw.sessions.files import LoadedTranscript, load
from openclaw.sessions.history import message_to_json, rows_of
from openclaw.sessions.index import SessionIndex, SessionRow
from openclaw.sessions.lifecycle import SessionLifecycle, SessionPreferences
from openclaw.sessions.settings import SessionSettings
from openclaw.sessions.transcript import path_origins, path_to_leaf

_SESSION_ID = re.compile(r"[\w-]{1,64}")
_STATUSES = ("queued", "running", "done", "failed", "killed", "timeout")
_OPTIONAL = ("label thinkingLevel verboseLevel reasoningLevel parentSessionKey spawnedBy category icon color").split()
"""Preferences that a row has only when they are set."""


def defaults_to_json(models: ModelService, agent_id: str) -> dict[str, Any]:
    """The values of sessions without preferences."""
    situation = models.model_set(agent_id)
    chosen = situation.model(situation.default)
    return {
        "modelProvider": chosen.provider,
        "model": chosen.id,
        "contextTokens": chosen.context_window,
        "thinkingLevels": [{"id": level, "label": level} for level in thinking.supported_levels(chosen)],
        "thinkingDefault": "medium" if chosen.reasoning else "off",
        "modelConfigured": chosen.provider != OFFLINE,
        "agentRuntime": models.runtime(agent_id, chosen).shown,
    }


_JOB = re.compile(r"\[cron:[\w-]+ ([^\]\n]+)\]")


def _plain_title(title: str) -> str:
    """A title for people: a job's conversation is called like the job."""
    job = _JOB.match(title)
    return job[1] if job else title


def _answering_model(row: SessionRow, preferences: SessionPreferences, models: ModelSet) -> Model:
    """The model of a session: the one a person picked, else the one that answered last, else the default."""
    ref = models.named(preferences.model) if preferences.model else None
    if ref is None and row.provider and row.model:
        ref = models.named(f"{row.provider}/{row.model}")
    return models.model(ref or models.default)


class RunState(Protocol):
    """What sessions need to know of runs."""

    def active(self, key: SessionKey) -> tuple[str, ...]: ...

    def is_running(self, key: SessionKey) -> bool: ...


class SessionService:
    """Looks sessions up, and publishes when one changed."""

    def __init__(
        self,
        index: SessionIndex,
        lifecycle: SessionLifecycle,
        models: ModelService,
        runs: RunState,
        bus: EventBus,
        clock: Clock,
        *,
        agents: Live[AgentsSettings],
        settings: Live[SessionSettings],
        patched: Callable[[SessionKey, SessionRow | None, Mapping[str, Any]], None] | None = None,
    ) -> None:
        self._patched = patched
        """Hears which settings of a session changed."""
        self._index = index
        self._lifecycle = lifecycle
        self._models = models
        self._runs = runs
        self._bus = bus
        self._clock = clock
        self._agents = agents
        self._settings = settings

    @property
    def now(self) -> int:
        return millis(self._clock)

    def key(self, text: str | None = None, agent_id: str | None = None) -> SessionKey:
        """The session meant by a key, an agent, both or neither."""
        return resolve_key(text, agent_id, self._agents.current, self._settings.current)

    async def row(self, key: SessionKey) -> dict[str, Any] | None:
        """A session as a row, or None when there is none."""
        found = await self._index.get(key)
        if found is None:
            return None
        models = self._models.model_set(key.agent)
        chosen = await self._lifecycle.preferences(key)
        return self._row(found, key, chosen, models)

    async def list(self, agent_id: str | None = None) -> list[dict[str, Any]]:
        """All sessions as rows, the latest first."""
        chosen = await self._lifecycle.all_preferences()
        out = []
        by_agent: dict[str, ModelSet] = {}
        for found in await self._index.list(agent_id=agent_id):
            if found.agent_id not in by_agent:
                try:
                    models = self._models.model_set(found.agent_id)
                except NotFound:  # an agent that was taken out of the configuration; its sessions are still there
                    models = self._models.model_set(default_agent(self._agents.current))
                by_agent[found.agent_id] = models
            preferences = chosen.get(found.session_key) or SessionPreferences()
            out.append(self._row(found, found.key, preferences, by_agent[found.agent_id]))
        return out

    def _row(
        self, row: SessionRow, key: SessionKey, preferences: SessionPreferences, models: ModelSet
    ) -> dict[str, Any]:
        """One session as a row of lists and events."""
        model = _answering_model(row, preferences, models)
        active, running = self._runs.active(key), self._runs.is_running(key)
        status = row.status if row.status in _STATUSES else "done"
        unnamed = "New conversation" if row.status == "new" else row.session_key
        shown: dict[str, Any] = {
            "key": row.session_key,
            "kind": key.rest if key.rest in ("global", "unknown") else "group" if key.is_group else "direct",
            "agentId": row.agent_id,
            "sessionId": row.session_id,
            "updatedAt": row.updated_at,
            "createdAt": row.created_at,
            "lastInteractionAt": row.updated_at,
            "lastActivityAt": row.updated_at,
            "snapshotAt": self.now,
            "status": "running" if running else "queued" if active else status,
            "hasActiveRun": running,
            "activeRunIds": list(active),
            "modelProvider": model.provider,
            "model": model.id,
            "contextTokens": model.context_window,
            "inputTokens": row.input_tokens,
            "outputTokens": row.output_tokens,
            "totalTokens": row.context_tokens,
            "totalTokensFresh": True,
            "estimatedCostUsd": row.cost_usd,
            "displayName": preferences.label or _plain_title(row.title) or (key.rest if key.is_main else unnamed),
            "derivedTitle": row.title or None,
            "isMain": key.is_main,
            "isBackground": key.is_cron or key.is_subagent or key.is_hook or key.is_single,
            "visibility": "shared",
            "sharingRole": "admin",
            "permissionModePending": False,
            "effectiveQueueMode": preferences.queue_mode or "steer",
            "agentRuntime": self._models.runtime(row.agent_id, model, preferences.agent_runtime).shown,
            "abortedLastRun": row.status == "killed",
            "systemSent": row.messages > 0,
            "pinned": preferences.pinned,
            "archived": preferences.archived,
            "unread": preferences.unread,
        }
        chosen = msgspec.to_builtins(preferences)
        return {**shown, **{name: chosen[name] for name in _OPTIONAL if name in chosen}}

    async def load(self, key: SessionKey) -> tuple[str, LoadedTranscript | None]:
        """The transcript behind `key`, when something was said."""
        found = await self._index.get(key)
        if found is None:
            return "", None
        path = await self._index.fetch(found.agent_id, found.session_id)
        return found.session_id, load(path) if path.exists() else None

    def earlier(self, key: SessionKey, session_id: str) -> LoadedTranscript | None:
        """A conversation that was held under `key` before it started over."""
        if not _SESSION_ID.fullmatch(session_id):
            return None
        path = self._index.path(key.agent, session_id)
        aside = max(path.parent.glob(f"{path.name}.reset.*"), default=None)
        loaded = load(aside) if aside is not None else None
        known = loaded is not None and loaded.header is not None and loaded.header.session_key == str(key)
        return loaded if known else None

    async def origins(self, key: SessionKey) -> tuple[Origin, ...]:
        """Where the untrusted text of a conversation came from, also what it does not see any more."""
        _, loaded = await self.load(key)
        return path_origins(path_to_leaf(loaded.entries)) if loaded else ()

    async def injected(self, key: SessionKey, entry_id: str) -> None:
        """Publishes a message that no run produced, to those who follow the session and those who chat in it."""
        session_id, loaded = await self.load(key)
        row = next((each for each in rows_of(loaded.entries) if each.entry_id == entry_id), None) if loaded else None
        if row is not None:
            run_id = f"inject-{entry_id}"
            about = {"runId": run_id, "sessionKey": str(key), "agentId": key.agent}
            made = message_to_json(row.message, entry_id, row.number)
            recorded = {"sessionId": session_id, "messageId": entry_id, "messageSeq": row.number, "message": made}
            self._bus.publish("session.message", {**about, **recorded}, str(key))
            said = {"role": "assistant", "content": made["content"], "timestamp": self.now}
            final = {"seq": 1, "state": "final", "stopReason": "stop", "message": said}
            self._bus.publish("chat", {**about, **final}, str(key))
        await self.changed(key, "inject")

    async def changed(self, key: SessionKey, reason: str, patch: Mapping[str, Any] | None = None) -> None:
        """Publishes that a session is not what it was; `patch` are the settings of it that changed."""
        row = await self.row(key)
        payload: dict[str, Any] = {"sessionKey": str(key), "agentId": key.agent, "ts": self.now, "reason": reason}
        self._bus.publish("sessions.changed", {**payload, **({"session": row} if row else {})}, str(key))
        if reason == "patch" and self._patched is not None:
            self._patched(key, await self._index.get(key), patch or {})


def resolve_key(
    text: str | None, agent_id: str | None, agents: AgentsSettings, settings: SessionSettings
) -> SessionKey:
    """The session meant by a key, an agent, both or neither."""
    key = parse_session_key(text or "main", agent_id or default_agent(agents), settings.main_key)
    if agent_id is not None and key.agent != resolve_agent(agents, agent_id).id:
        raise InvalidRequest(f"{text} belongs to the agent {key.agent}, not to {agent_id}")
    resolve_agent(agents, key.agent)
    return key
