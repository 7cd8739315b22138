"""Tools that write to a session or say how it stands: `sessions_send`, `session_status`."""

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, structs

from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.keys import SessionKey
from openclaw.core.origin import origin
from openclaw.core.tool import Effects, Output, ToolContext
from openclaw.gateway.tools.shape import SessionVisibility, json_output, spec, taken
from openclaw.trust.wrap import sanitize_external_text
from openclaw.turns.queue import QueueRules
from openclaw.turns.turn import RunRequest


class SessionsSendArgs(Struct, frozen=True, rename="camel"):
    message: str
    session_key: str = ""
    label: str = ""
    agent_id: str = ""
    timeout_seconds: int = 30
    mode: Literal["notify", "steer", "followup", "resume"] = "steer"


class SessionsSend(SessionVisibility):
    """The `sessions_send` tool."""

    spec = spec(
        "sessions_send",
        "Send",
        "write to another session",
        "Send a message into another session you may see and, within timeoutSeconds, wait for its answer. "
        "Name the session by sessionKey, label or agentId.",
        {
            "message": {"type": "string", "description": "What to say there"},
            "sessionKey": {"type": "string", "description": "The session"},
            "label": {
                "type": "string",
                "minLength": 1,
                "maxLength": 512,
                "description": "The session with this label",
            },
            "agentId": {
                "type": "string",
                "minLength": 1,
                "maxLength": 64,
                "description": "The main session of this agent",
            },
            "timeoutSeconds": {"type": "integer", "minimum": 0, "description": "0 does not wait (default 30)"},
            "mode": {
                "type": "string",
                "enum": ["notify", "steer", "followup", "resume"],
                "description": "When it is busy: steer into its run (default) or follow after it",
            },
        },
        "message",
        absent={"watch": "wait with timeoutSeconds, or look later with sessions_history"},
    )

    def effects(self, args: Mapping[str, Any]) -> Effects:
        """Another conversation of the owner's takes the labels over; one that others hear is the world outside."""
        target = str(args.get("sessionKey") or "").lower()
        heard = not target or any(f"{word}:" in target for word in ("group", "channel", "direct"))
        own = bool(args.get("agentId")) and not target and not args.get("label")
        return Effects.SENDS_OUT if heard and not own else Effects.DELEGATES

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        wanted = taken(args, SessionsSendArgs)
        if not wanted.message.strip():
            raise InvalidRequest("The message is empty.")
        key = await self._target(wanted, context)
        if str(key) == context.session_key:
            raise InvalidRequest("This is your own session: just say it.")
        run_id = str(uuid.uuid4())
        said = sanitize_external_text(wanted.message) if context.origins else wanted.message
        turn = RunRequest(
            run_id=run_id,
            key=key,
            text=f"[Message from session {context.session_key}]\n{said}",
            origins=context.origins,
            trigger="system",
        )
        mode: Literal["steer", "followup"] = "followup" if wanted.mode == "followup" else "steer"
        sent = await self._desk.runs.submit(turn, rules=QueueRules(mode=mode))
        result: dict[str, Any] = {
            "runId": run_id,
            "sessionKey": str(key),
            "delivery": {"status": sent.status, "mode": mode},
        }
        if wanted.timeout_seconds <= 0 or wanted.mode == "notify":
            return json_output({**result, "status": "accepted"})
        outcome = await self._desk.runs.wait(run_id, min(wanted.timeout_seconds, 3600))
        if outcome is None:
            return json_output({**result, "status": "timeout"})
        if outcome.steered_into:
            return json_output({**result, "status": "accepted", "steeredInto": outcome.steered_into})
        if outcome.status == "error":
            return json_output({**result, "status": "error", "error": outcome.error}, failed=True)
        if not outcome.texts:
            return json_output({**result, "status": "no_reply"})
        reply = "\n\n".join(outcome.texts)
        origins = await self._desk.origins(key)
        if not origins and key.agent != context.agent_id:
            origins = (origin("external", f"session {key}"),)
        return structs.replace(json_output({**result, "status": "ok", "reply": reply}), origins=origins)

    async def _target(self, wanted: SessionsSendArgs, context: ToolContext) -> SessionKey:
        given = [bool(wanted.session_key), bool(wanted.label), bool(wanted.agent_id and not wanted.label)]
        if sum(given) != 1:
            raise InvalidRequest("Name one session: by sessionKey, by label, or by agentId for its main one.")
        if wanted.session_key:
            return self._reach(context, wanted.session_key)
        if wanted.label:
            rows = await self._desk.list(wanted.agent_id or None)
            named = [each["key"] for each in rows if each.get("label") == wanted.label]
            if len(named) != 1:
                raise NotFound(f"{len(named)} sessions are called {wanted.label!r}: give the sessionKey.")
            return self._reach(context, named[0])
        return self._reach(context, f"agent:{wanted.agent_id}:main")


class SessionStatusArgs(Struct, frozen=True, rename="camel"):
    session_key: str = ""
    model: str = ""


class SessionStatus(SessionVisibility):
    """The `session_status` tool."""

    spec = spec(
        "session_status",
        "Status",
        "time, model and usage of a session",
        "A status card: model, tokens, what runs. With model it sets the session's model; default takes that back.",
        {
            "sessionKey": {"type": "string", "description": "The session (default: this one)"},
            "model": {"type": "string", "description": "Model to use from the next message on, or default"},
        },
        absent={"changesSince": "the card is always whole; compare it with your last one"},
    )

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.SPENDS if args.get("model") else Effects.NONE

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        wanted = taken(args, SessionStatusArgs)
        key = self._reach(context, wanted.session_key or context.session_key)
        situation = self._desk.app.models.situation(key.agent)
        if wanted.model:
            chosen = None if wanted.model.strip().lower() == "default" else str(situation.resolve(wanted.model))
            await self._desk.lifecycle.prefer(key, {"model": chosen})
            await self._desk.changed(key, "patch")
        found = await self._desk.app.index.get(key)
        preferences = await self._desk.lifecycle.preferences(key)
        model = situation.model(situation.resolve(preferences.model) if preferences.model else situation.default)
        zone = await asyncio.to_thread(_local_time, self._desk.app.clock.now())
        lines = [
            f"Session: {key}",
            f"Time: {zone}",
            f"Model: {model.ref}" + (" (chosen for this session)" if preferences.model else ""),
            f"Context: {found.context_tokens if found else 0} of {model.context_window} tokens",
            f"Used: {found.total_tokens if found else 0} tokens in {found.messages if found else 0} messages",
            f"Cost: {'unknown' if found is None or found.cost_usd is None else f'${found.cost_usd:.4f}'}",
            f"Runs: {len(self._desk.runs.active(key))}",
            f"Sub-agents: {len(self._roster.running(str(key)))} running",
        ]
        return Output.of("\n".join(lines))


def _local_time(now: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(now).astimezone().isoformat(timespec="seconds")
