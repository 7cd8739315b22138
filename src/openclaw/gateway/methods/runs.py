"""`agent`, `agent.wait`, `agent.identity.get`: runs started and watched by a program."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import structs

from openclaw.core.errors import InvalidRequest
from openclaw.gateway.commands import SlashCommands
from openclaw.gateway.desk import SessionService
from openclaw.gateway.methods.inputs import images_of, queue_rules
from openclaw.gateway.projection import terminal_reply
from openclaw.turns.agents import view
from openclaw.turns.ledger import RunOutcome
from openclaw.turns.runs import Submission
from openclaw.turns.turn import RunRequest
from openclaw.wire.caller import Caller
from openclaw.wire.frames import UNAVAILABLE, ErrorShape
from openclaw.wire.params.agent import AgentIdentityParams, AgentParams, AgentWaitParams
from openclaw.wire.rpc import MethodFailed, RpcMethod
from openclaw.wire.scopes import READ, WRITE
from openclaw.workspace.identity import parse

DEFAULT_WAIT_MS = 30_000
FOREVER = 7 * 86_400.0


def methods(desk: SessionService, commands: SlashCommands) -> list[RpcMethod]:
    async def agent(params: AgentParams, caller: Caller) -> AsyncIterator[Any]:
        turn = await _turn(desk, params)
        reply = await commands.answer(turn.key, turn.text, turn.channel or "agent")
        if reply is not None and not reply.message:
            yield _said(turn, reply.text, desk.now)
            return
        turn = structs.replace(turn, text=reply.message) if reply else turn
        lane = "subagent" if params.lane == "subagent" else "main"
        submission = await desk.runs.submit(turn, rules=await queue_rules(desk, turn.key, "followup"), lane=lane)
        yield _accepted(submission)
        outcome = submission.outcome or await desk.runs.wait(turn.run_id, FOREVER)
        if outcome is not None:
            yield await _final(desk, turn, outcome)

    async def wait(params: AgentWaitParams, caller: Caller) -> Any:
        limit = DEFAULT_WAIT_MS if params.timeout_ms is None else params.timeout_ms
        outcome = await desk.runs.wait(params.run_id, limit / 1000)
        if outcome is None:
            return {"runId": params.run_id, "status": "timeout"}
        shown: dict[str, Any] = {
            "runId": params.run_id,
            "status": outcome.status,
            "startedAt": outcome.started_at,
            "endedAt": outcome.ended_at,
            "stopReason": outcome.stop_reason,
            "terminalReply": terminal_reply(outcome),
        }
        return {**shown, **({"error": outcome.error} if outcome.error else {})}

    async def identity(params: AgentIdentityParams, caller: Caller) -> Any:
        agent_id = desk.key(params.session_key).agent if params.session_key else params.agent_id
        return identity_of(desk, agent_id or desk.key("main").agent)

    return [
        RpcMethod("agent", AgentParams, agent, WRITE),
        RpcMethod("agent.wait", AgentWaitParams, wait, WRITE),
        RpcMethod("agent.identity.get", AgentIdentityParams, identity, READ),
    ]


def identity_of(desk: SessionService, agent_id: str) -> dict[str, Any]:
    """What an agent is called, and who says so."""
    found = view(desk.app.config.agents, agent_id)
    written = desk.app.workspace(found.id) / "IDENTITY.md"
    own = parse(written.read_text(errors="replace")) if written.is_file() else parse("")
    chosen = found.entry.identity
    name = chosen.name or found.entry.name or own.name or "Assistant"
    source = "config" if chosen.name or found.entry.name else "workspace" if own.name else "default"
    emoji = chosen.emoji or own.emoji
    return {"agentId": found.id, "name": name, "nameSource": source, **({"emoji": emoji} if emoji else {})}


def _said(turn: RunRequest, text: str, now: int) -> dict[str, Any]:
    """The answer to a command: there was no run."""
    meta = {"durationMs": 0, "aborted": False, "stopReason": "stop", "agentMeta": {}}
    result = {"payloads": [{"text": text, "mediaUrl": None}], "meta": meta}
    return {"runId": turn.run_id, "status": "ok", "summary": "completed", "acceptedAt": now, "result": result}


async def _turn(desk: SessionService, params: AgentParams) -> RunRequest:
    key_text = params.session_key
    if key_text is None and params.session_id:
        key_text = (await desk.app.index.find(params.session_id)).session_key
    key = desk.key(key_text or "main", params.agent_id)
    if params.deliver and params.channel not in (None, "", "webchat", "last"):
        raise InvalidRequest(f"no channel {params.channel!r} is connected: leave deliver out, or connect it first")
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


async def _final(desk: SessionService, turn: RunRequest, outcome: RunOutcome) -> Any:
    """The second answer: what came of it."""
    row = await desk.app.index.get(turn.key)
    usage = msgspec.to_builtins(outcome.usage)
    result = {
        "payloads": [payload.shown() for payload in outcome.payloads],
        "meta": {
            "durationMs": max(0, outcome.ended_at - outcome.started_at),
            "aborted": outcome.stop_reason == "aborted",
            "stopReason": outcome.stop_reason,
            "agentMeta": {
                "sessionId": row.session_id if row else "",
                "provider": outcome.provider,
                "model": outcome.model,
                "usage": usage,
                "lastCallUsage": msgspec.to_builtins(outcome.last_usage),
                "promptTokens": outcome.last_usage.prompt_tokens,
                "costUsd": outcome.usage.cost.total if outcome.usage.cost else None,
                "assistantTurns": outcome.turns,
            },
            **({"notices": list(outcome.notices)} if outcome.notices else {}),
        },
    }
    answer = {
        "runId": turn.run_id,
        "status": outcome.status,
        "summary": "completed" if outcome.status == "ok" else outcome.error,
        "result": result,
    }
    if outcome.status == "ok":
        return answer
    return MethodFailed(ErrorShape(code=UNAVAILABLE, message=outcome.error or "the run failed"), answer)
