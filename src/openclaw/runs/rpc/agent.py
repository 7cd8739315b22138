"""RPC methods `agent`, `agent.wait`, `agents.*`, and those that drive sessions, with their parameter types."""

import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from msgspec import Meta, structs

from openclaw.agent.settings import AgentsSettings, agent_ids, default_agent, resolve_agent
from openclaw.config.edit import Editor
from openclaw.config.live import LiveConfig
from openclaw.config.rpc import AgentsCreateParams
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.keys import normalise_agent
from openclaw.core.settings import Live
from openclaw.models import rpc, thinking
from openclaw.models.rpc import ModelsAuthStatusParams, ModelsListParams
from openclaw.models.service import ModelService
from openclaw.process.environment import Environment
from openclaw.prompt.archive import PromptArchive
from openclaw.protocol.frames import UNAVAILABLE, ErrorShape
from openclaw.protocol.params import InputProvenance, NonEmpty, NonNegative, NoParams, Params, Positive
from openclaw.protocol.rpc import Caller, MethodFailed, RpcMethod, surface_of
from openclaw.protocol.scopes import ADMIN, READ, WRITE
from openclaw.runs.commands.catalog import CommandRequest
from openclaw.runs.commands.service import SlashCommands
from openclaw.runs.control import SessionControl
from openclaw.runs.events import liveness, run_result, terminal_receipt, terminal_reply
from openclaw.runs.inbox import LastRoutes
from openclaw.runs.queue import NO_OPTIONS, QueuePolicy
from openclaw.runs.request import ReplyMode, RunRequest, Submission
from openclaw.runs.rpc.tools import OfferedSkills
from openclaw.runs.uploads import images_of
from openclaw.runs.worker import RunService
from openclaw.sessions.index import SessionIndex
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.params import (
    SessionsAbortParams,
    SessionsCompactParams,
    SessionsCreateParams,
    SessionsDeleteParams,
    SessionsResetParams,
    SessionsSendParams,
)
from openclaw.sessions.service import SessionService
from openclaw.workspace.files import parse
from openclaw.workspace.seed import Workspaces, identity_of


def agent_methods(
    sessions: SessionService,
    models: ModelService,
    workspaces: Workspaces,
    live: LiveConfig,
    environment: Environment,
) -> list[RpcMethod]:
    """The methods about agents and their models."""

    async def agents(params: NoParams, caller: Caller) -> Any:
        config = live.current.config
        return {
            "defaultId": default_agent(config.agents),
            "mainKey": config.session.main_key,
            "scope": config.session.scope,
            "agents": [_agent(models, workspaces, live.agents, agent_id) for agent_id in agent_ids(config.agents)],
        }

    async def create(params: AgentsCreateParams, caller: Caller) -> Any:
        wanted = normalise_agent(params.name.strip().replace(" ", "-"))
        config = live.current.config
        if wanted in agent_ids(config.agents):
            raise InvalidRequest(f"there is an agent {wanted!r} already")
        entry: dict[str, Any] = {"id": wanted, "name": params.name}
        entry |= {name: value for name, value in (("workspace", params.workspace), ("model", params.model)) if value}
        first = [] if config.agents.list else [{"id": "main", "default": True}]
        home = environment.home
        Editor(home, environment.environ, "a client of the gateway").patch({"agents": {"list": [*first, entry]}})
        place = params.workspace or str(home.state / f"workspace-{wanted}")
        return {"ok": True, "agentId": wanted, "name": params.name, "workspace": place}

    async def list_models(params: ModelsListParams, caller: Caller) -> Any:
        agent = sessions.key(params.session_key or "main", params.agent_id).agent
        situation = models.model_set(agent)
        default = situation.default.key
        listed = []
        seen = set()
        for found in (situation.model(situation.default), *situation.registry.list()):
            if found.ref in seen or (params.provider and found.provider != params.provider):
                continue
            seen.add(found.ref)
            available = situation.has_key(found.provider, sessions.now)
            if available or params.view == "all":
                tags = ("default",) if found.ref == default else ()
                listed.append(rpc.model_to_json(found, available=available, tags=tags))
        return {"models": listed, "accountSelection": {"kind": "automatic", "label": "Automatic"}}

    async def auth(params: ModelsAuthStatusParams, caller: Caller) -> Any:
        situation = models.model_set(sessions.key("main", params.agent_id or None).agent)
        providers: list[dict[str, Any]] = [
            {
                "provider": facts.id,
                "authProvider": facts.id,
                "displayName": facts.id,
                "status": "ok" if situation.has_key(facts.id, sessions.now) else "missing",
                "profiles": [],
            }
            for facts in situation.registry.providers
        ]
        return {"ts": sessions.now, "providers": providers, "providerCapabilities": []}

    return [
        RpcMethod("agents.list", NoParams, agents, READ),
        RpcMethod("agents.create", AgentsCreateParams, create, ADMIN),
        RpcMethod("models.list", ModelsListParams, list_models, READ),
        RpcMethod("models.authStatus", ModelsAuthStatusParams, auth, READ),
    ]


def _agent(
    models: ModelService, workspaces: Workspaces, agents_settings: Live[AgentsSettings], agent_id: str
) -> dict[str, Any]:
    agent = resolve_agent(agents_settings.current, agent_id)
    situation = models.model_set(agent_id)
    chosen = situation.model(situation.default)
    place = workspaces.of(agent_id)
    written = place / "IDENTITY.md"
    own = parse(written.read_text(errors="replace")) if written.is_file() else parse("")
    identity = {
        "name": agent.entry.identity.name or own.name,
        "theme": agent.entry.identity.theme or own.vibe,
        "emoji": agent.entry.identity.emoji or own.emoji,
        "avatar": agent.entry.identity.avatar or own.avatar,
    }
    shown: dict[str, Any] = {
        "id": agent.id,
        "kind": "agent",
        "workspace": str(place),
        "workspaceGit": (place / ".git").exists(),
        "identity": {name: value for name, value in identity.items() if value},
        "model": {"primary": str(situation.default), "fallbacks": [str(ref) for ref in situation.fallbacks]},
        "agentRuntime": models.runtime(agent_id, chosen).shown,
        "thinkingLevels": [{"id": level, "label": level} for level in thinking.supported_levels(chosen)],
        "thinkingDefault": "medium" if chosen.reasoning else "off",
    }
    name = agent.entry.name or identity["name"]
    return {**shown, **({"name": name} if name else {})}


# Runs.


class InternalAttachment(Params, frozen=True, kw_only=True):
    type: Literal["image", "audio", "video", "file"] | None = None
    path: str | None = None
    url: str | None = None
    media_url: str | None = None
    file_path: str | None = None
    mime_type: str | None = None
    name: str | None = None
    size_bytes: float | None = None
    duration_ms: float | None = None
    width: float | None = None
    height: float | None = None


class InternalEvent(Params, frozen=True, kw_only=True):
    type: Literal["task_completion"]
    source: Literal["subagent", "cron", "image_generation", "video_generation", "music_generation"]
    child_session_key: str
    child_session_id: str | None = None
    announce_type: str
    task_label: str
    status: Literal["ok", "timeout", "error", "unknown"]
    status_label: str
    result: str
    no_visible_result: bool | None = None
    model_route_change: str | None = None
    attachments: tuple[InternalAttachment, ...] | None = None
    media_urls: tuple[str, ...] | None = None
    stats_line: str | None = None
    reply_instruction: str


class AgentParams(Params, frozen=True, kw_only=True):
    """Params of `agent`."""

    message: NonEmpty
    agent_id: NonEmpty | None = None
    provider: str | None = None
    model: str | None = None
    to: str | None = None
    reply_to: str | None = None
    session_id: str | None = None
    session_key: str | None = None
    expected_existing_session_id: NonEmpty | None = None
    thinking: str | None = None
    deliver: bool | None = None
    attachments: tuple[Any, ...] | None = None
    channel: str | None = None
    reply_channel: str | None = None
    account_id: str | None = None
    reply_account_id: str | None = None
    thread_id: str | None = None
    group_id: str | None = None
    group_channel: str | None = None
    group_space: str | None = None
    timeout: NonNegative | None = None
    best_effort_deliver: bool | None = None
    lane: str | None = None
    cwd: NonEmpty | None = None
    cleanup_bundle_mcp_on_run_end: bool | None = None
    model_run: bool | None = None
    prompt_mode: Literal["full", "minimal", "none"] | None = None
    extra_system_prompt: str | None = None
    bootstrap_context_mode: Literal["full", "lightweight"] | None = None
    bootstrap_context_run_kind: Literal["default", "heartbeat", "cron"] | None = None
    acp_turn_source: Literal["manual_spawn"] | None = None
    internal_runtime_handoff_id: NonEmpty | None = None
    internal_execution_identity_retry: bool | None = None
    internal_execution_identity_recovery_attempt: Positive | None = None
    exec_approval_followup_expected_session_id: NonEmpty | None = None
    internal_events: tuple[InternalEvent, ...] | None = None
    input_provenance: InputProvenance | None = None
    suppress_prompt_persistence: bool | None = None
    session_effects: Literal["visible", "internal"] | None = None
    source_reply_delivery_mode: ReplyMode | None = None
    disable_message_tool: bool | None = None
    swarm_collector: bool | None = None
    swarm_output_schema: dict[str, Any] | None = None
    force_restart_safe_tools: bool | None = None
    force_code_mode_tools: bool | None = None
    voice_wake_trigger: str | None = None
    idempotency_key: NonEmpty
    label: Annotated[str, Meta(min_length=1, max_length=512)] | None = None


class AgentWaitParams(Params, frozen=True, kw_only=True):
    """Params of `agent.wait`."""

    run_id: NonEmpty
    timeout_ms: NonNegative | None = None


class AgentIdentityParams(Params, frozen=True, kw_only=True):
    """Params of `agent.identity.get`."""

    agent_id: NonEmpty | None = None
    session_key: str | None = None


DEFAULT_WAIT_MS = 30_000
FOREVER = 7 * 86_400.0


def run_methods(
    sessions: SessionService,
    lifecycle: SessionLifecycle,
    runs: RunService,
    index: SessionIndex,
    workspaces: Workspaces,
    agents_settings: Live[AgentsSettings],
    commands: SlashCommands,
    queue: QueuePolicy,
    offered: OfferedSkills,
    routes: LastRoutes,
    archive: PromptArchive,
) -> list[RpcMethod]:
    async def agent(params: AgentParams, caller: Caller) -> AsyncIterator[Any]:
        turn = await _turn(sessions, index, routes, params)
        turn = structs.replace(turn, skills=offered.get(caller.conn_id, ()))
        source = turn.channel or "agent"
        asked = CommandRequest(key=turn.key, source=source, owner=caller.may(ADMIN), skills=turn.skills)
        reply = await commands.answer(asked, turn.text)
        if reply is not None and not reply.message:
            yield await _said(sessions, index, turn, reply.text)
            return
        lane = "subagent" if params.lane == "subagent" else "main"
        turn = structs.replace(reply.onto(turn) if reply else turn, lane=lane)
        chosen = reply.queue if reply else NO_OPTIONS
        rules = await queue.rules(turn.key, turn.channel, asked=chosen, usual="followup")
        submission = await runs.submit(turn, rules=rules)
        yield _accepted(submission)
        outcome = submission.outcome or await runs.wait(turn.run_id, FOREVER)
        if outcome is not None:
            if not outcome.session_id and (row := await index.get(turn.key)) is not None:
                outcome = structs.replace(outcome, session_id=row.session_id)
            answer = run_result(turn.run_id, str(turn.key), outcome, await archive.report(turn.run_id))
            failed = ErrorShape(code=UNAVAILABLE, message=outcome.error or "the run failed")
            yield answer if outcome.status == "ok" else MethodFailed(failed, answer)

    async def wait(params: AgentWaitParams, caller: Caller) -> Any:
        limit = DEFAULT_WAIT_MS if params.timeout_ms is None else params.timeout_ms
        outcome = await runs.wait(params.run_id, limit / 1000)
        if outcome is None:
            waiting: dict[str, Any] = {"runId": params.run_id, "status": "timeout"}
            if runs.draining:
                return {**waiting, "timeoutPhase": "gateway_draining"}
            if runs.is_queued(params.run_id):
                return {**waiting, "status": "pending", "timeoutPhase": "queue", "providerStarted": False}
            return waiting
        shown: dict[str, Any] = {
            "runId": params.run_id,
            "status": outcome.status,
            "startedAt": outcome.started_at,
            "endedAt": outcome.ended_at,
            "stopReason": outcome.stop_reason,
            **liveness(outcome),
            "terminalReply": terminal_reply(outcome),
            "terminalReceipt": terminal_receipt(params.run_id, outcome),
        }
        return {**shown, **({"error": outcome.error} if outcome.error else {})}

    async def identity(params: AgentIdentityParams, caller: Caller) -> Any:
        agent_id = sessions.key(params.session_key).agent if params.session_key else params.agent_id
        return identity_of(workspaces, agents_settings, agent_id or sessions.key("main").agent)

    return [
        RpcMethod("agent", AgentParams, agent, WRITE),
        RpcMethod("agent.wait", AgentWaitParams, wait, WRITE),
        RpcMethod("agent.identity.get", AgentIdentityParams, identity, READ),
    ]


async def _said(sessions: SessionService, index: SessionIndex, turn: RunRequest, text: str) -> dict[str, Any]:
    """The answer to a command: there was no run."""
    row = await index.get(turn.key)
    agent = {"sessionId": row.session_id} if row else {}
    meta = {"durationMs": 0, "aborted": False, "stopReason": "stop", "agentMeta": agent}
    result = {"payloads": [{"text": text, "mediaUrl": None}], "meta": meta}
    return {
        "runId": turn.run_id,
        "sessionKey": str(turn.key),
        "status": "ok",
        "summary": "completed",
        "acceptedAt": sessions.now,
        "result": result,
    }


async def _turn(sessions: SessionService, index: SessionIndex, routes: LastRoutes, params: AgentParams) -> RunRequest:
    key_text = params.session_key
    if key_text is None and params.session_id:
        key_text = (await index.find(params.session_id)).session_key
    key = sessions.key(key_text or "main", params.agent_id)
    address = None
    if params.deliver:
        address = await routes.resolve(
            key,
            params.reply_channel or params.channel,
            params.reply_to or params.to,
            params.reply_account_id or params.account_id,
            params.thread_id,
        )
        if address is None and not params.best_effort_deliver:
            raise InvalidRequest("deliver needs somebody to send to: give channel and to, or write from a channel once")
    if params.provider and not params.model:
        raise InvalidRequest("provider needs model: write model as provider/model")
    model = f"{params.provider}/{params.model}" if params.provider and params.model else params.model
    return RunRequest(
        run_id=params.idempotency_key,
        key=key,
        text=params.message,
        images=images_of(params.attachments or ()),
        model=model,
        thinking=params.thinking,
        timeout=params.timeout,
        place=params.cwd or "",
        channel=params.channel or "",
        reply_to=address,
        reply_mode=params.source_reply_delivery_mode,
        extra=params.extra_system_prompt or "",
    )


def _accepted(submission: Submission) -> dict[str, Any]:
    return {
        "runId": submission.run_id,
        "sessionKey": str(submission.key),
        "agentId": submission.key.agent,
        "status": "in_flight" if submission.status == "in_flight" else "accepted",
        "acceptedAt": submission.accepted_at,
    }


def session_methods(
    sessions: SessionService,
    control: SessionControl,
    lifecycle: SessionLifecycle,
    runs: RunService,
    models: ModelService,
    index: SessionIndex,
    queue: QueuePolicy,
) -> list[RpcMethod]:
    """The methods of `sessions.*` that start or stop runs."""

    async def create(params: SessionsCreateParams, caller: Caller) -> Any:
        agent = sessions.key("main", params.agent_id).agent
        key = sessions.key(params.key or f"agent:{agent}:dashboard:{uuid.uuid4()}", params.agent_id)
        if params.model:
            models.model_set(key.agent).resolve(params.model)
        chosen = {
            "label": params.label or params.display_name,
            "model": params.model,
            "thinking_level": thinking.parse(params.thinking_level) if params.thinking_level else None,
            "category": params.category,
            "parent_session_key": params.parent_session_key,
        }
        made = await lifecycle.create(key, {name: value for name, value in chosen.items() if value is not None})
        await sessions.changed(key, "create")
        answer: dict[str, Any] = {"ok": True, "key": str(key), "sessionId": made.session_id, "runStarted": False}
        if params.message:
            turn = RunRequest(
                run_id=params.idempotency_key or str(uuid.uuid4()),
                key=key,
                text=params.message,
                images=images_of(params.attachments or ()),
                channel="webchat",
                surface=surface_of(caller),
            )
            submission = await runs.submit(turn)
            answer |= {"runStarted": True, "runId": submission.run_id}
        return answer

    async def send(params: SessionsSendParams, caller: Caller) -> Any:
        key = sessions.key(params.key, params.agent_id)
        if not params.message.strip() and not params.attachments:
            raise InvalidRequest("the message is empty")
        turn = RunRequest(
            run_id=params.idempotency_key or str(uuid.uuid4()),
            key=key,
            text=params.message,
            images=images_of(params.attachments or ()),
            thinking=params.thinking,
            timeout=params.timeout_ms / 1000 if params.timeout_ms else None,
        )
        submission = await runs.submit(turn, rules=await queue.rules(key, "webchat"))
        return {"runId": submission.run_id, "status": submission.status}

    async def abort(params: SessionsAbortParams, caller: Caller) -> Any:
        if params.key is None:
            raise InvalidRequest("key is missing: say which session")
        ended = await control.stop(sessions.key(params.key, params.agent_id), params.run_id, "sessions.abort")
        stopped = ended.runs
        return {"ok": True, "abortedRunId": stopped[0] if stopped else None, "status": "aborted" if stopped else "idle"}

    async def reset(params: SessionsResetParams, caller: Caller) -> Any:
        key = sessions.key(params.key, params.agent_id)
        if await index.get(key) is None:
            raise NotFound(f"no session {key}")
        made, _ = await control.start_over(
            key, params.reason or "reset", expected=params.expected_session_id, source="sessions.reset"
        )
        assert made is not None
        return {"ok": True, "key": str(key), "entry": {"sessionId": made.session_id, "updatedAt": made.updated_at}}

    async def delete(params: SessionsDeleteParams, caller: Caller) -> Any:
        key = sessions.key(params.key, params.agent_id)
        await runs.abort(key)
        aside = await lifecycle.delete(key, params.expected_session_id)
        await sessions.changed(key, "delete")
        return {"ok": True, "key": str(key), "deleted": True, "archived": [aside] if aside else []}

    async def compact(params: SessionsCompactParams, caller: Caller) -> Any:
        if params.max_lines is not None:
            raise InvalidRequest("maxLines is not supported, because transcripts are kept whole: leave it out")
        key = sessions.key(params.key, params.agent_id)
        done = await control.compact(key)
        return {"ok": True, "key": str(key), "compacted": done.ok, "reason": done.error or done.reason}

    return [
        RpcMethod("sessions.create", SessionsCreateParams, create, WRITE),
        RpcMethod("sessions.send", SessionsSendParams, send, WRITE),
        RpcMethod("sessions.abort", SessionsAbortParams, abort, WRITE),
        RpcMethod("sessions.compact", SessionsCompactParams, compact, ADMIN),
        RpcMethod("sessions.reset", SessionsResetParams, reset, ADMIN),
        RpcMethod("sessions.delete", SessionsDeleteParams, delete, ADMIN),
    ]
