"""RPC methods about runs on record: `runs.list`, `runs.get`, `runs.replay`, `runs.compare`, `runs.export`.

A record may be larger than a frame: `runs.get`, `runs.compare` and `runs.export` answer in several parts, the last of
which says `last`.
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from openclaw.agent.settings import agent_ids
from openclaw.config.live import LiveConfig
from openclaw.core.clock import Clock
from openclaw.core.keys import KeyResolver
from openclaw.core.messages import Assistant
from openclaw.core.text import strip_unprintable
from openclaw.models.recording import CallRecorder, RecordedCall
from openclaw.models.service import ModelService
from openclaw.protocol.params import NonEmpty, Params, Positive
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN, READ
from openclaw.runs.replay import compare_models, export, replay
from openclaw.runs.route import ModelRoutes
from openclaw.security.redaction import Redactor, secret_variables, secrets_in
from openclaw.storage.database import Database

LINE_CHARS = 160
PART_CHARS = 4_000_000


class RunsListParams(Params, frozen=True, kw_only=True):
    """Params of `runs.list`."""

    limit: Positive = 20


class RunParams(Params, frozen=True, kw_only=True):
    """Params of `runs.replay` and `runs.export`: the id of a run, or its beginning."""

    run_id: NonEmpty


class RunsGetParams(RunParams, frozen=True, kw_only=True):
    """Params of `runs.get`; with `include_requests` every call has the bytes of its request."""

    include_requests: bool = False


class RunsCompareParams(RunParams, frozen=True, kw_only=True):
    """Params of `runs.compare`: the model that is sent the recorded requests."""

    model: NonEmpty


def record_methods(
    sessions: KeyResolver,
    db: Database,
    recorder: CallRecorder,
    routes: ModelRoutes,
    models: ModelService,
    live: LiveConfig,
    clock: Clock,
) -> list[RpcMethod]:
    async def find(run_id: str) -> tuple[str, list[RecordedCall]]:
        found = await recorder.find(run_id)
        return found, await recorder.calls(found)

    async def list_runs(params: RunsListParams, caller: Caller) -> Any:
        rows = await db.read(
            "SELECT runs.*, (SELECT COUNT(*) FROM call_records WHERE call_records.run_id = runs.run_id) AS recorded "
            "FROM runs ORDER BY started_at DESC, run_id LIMIT :limit",
            {"limit": params.limit},
        )
        return {
            "runs": [
                {
                    "runId": row["run_id"],
                    "sessionKey": row["session_key"],
                    "status": row["status"],
                    "startedAt": row["started_at"],
                    "endedAt": row["ended_at"],
                    "calls": row["recorded"],
                    "costUsd": row["cost_usd"],
                    "error": row["error"] or None,
                }
                for row in rows
            ]
        }

    async def get(params: RunsGetParams, caller: Caller) -> AsyncIterator[Any]:
        run_id, calls = await find(params.run_id)
        seen = 0
        for number, call in enumerate(calls, 1):
            document = _call_to_json(call)
            if params.include_requests:
                document["request"] = recorder.encode(call.request).decode(errors="replace")
            messages = call.request.messages
            added = messages[seen:] if seen <= len(messages) else messages
            seen = len(messages)
            yield {
                "runId": run_id,
                "call": document,
                "added": [{"role": type(each).__name__.lower(), "text": _line(each.text)} for each in added],
                "outcome": _outcome(call),
                "last": number == len(calls),
            }

    async def replay_run(params: RunParams, caller: Caller) -> Any:
        run_id, calls = await find(params.run_id)
        found = await replay(calls, recorder.encode, clock)
        difference = {"call": found.difference.call, "what": found.difference.what} if found.difference else None
        return {
            "runId": run_id,
            "identical": found.identical,
            "calls": found.calls,
            "difference": difference,
            "text": str(found),
        }

    async def compare(params: RunsCompareParams, caller: Caller) -> AsyncIterator[Any]:
        run_id, calls = await find(params.run_id)
        async with routes.lend(sessions.key(), params.model) as attempt:
            async for each in compare_models(calls, attempt, clock):
                found = {"call": each.call, "same": each.same, "recorded": _gist(each.recorded), "now": _gist(each.now)}
                yield {"runId": run_id, "call": found, "last": False}
        yield {"runId": run_id, "call": None, "last": True}

    async def export_run(params: RunParams, caller: Caller) -> AsyncIterator[Any]:
        run_id, calls = await find(params.run_id)
        rows = await db.read("SELECT session_key FROM runs WHERE run_id = :run", {"run": run_id})
        redact = Redactor()
        redact.know(secrets_in(live.config))
        redact.know(secret_variables(live.current.variables))
        for agent_id in agent_ids(live.config.agents):
            redact.know(secrets_in(models.model_set(agent_id).keyring.stored))
        text = export(run_id, rows[0]["session_key"] if rows else "", calls, redact).decode()
        for start in range(0, len(text), PART_CHARS):
            end = start + PART_CHARS
            yield {"runId": run_id, "calls": len(calls), "data": text[start:end], "last": end >= len(text)}

    return [
        RpcMethod("runs.list", RunsListParams, list_runs, READ),
        RpcMethod("runs.get", RunsGetParams, get, READ),
        RpcMethod("runs.replay", RunParams, replay_run, READ),
        RpcMethod("runs.compare", RunsCompareParams, compare, ADMIN),
        RpcMethod("runs.export", RunParams, export_run, READ),
    ]


def _call_to_json(call: RecordedCall) -> dict[str, Any]:
    return {
        "callId": call.call_id,
        "model": call.request.model.ref,
        "thinking": call.request.thinking,
        "messages": len(call.request.messages),
        "tools": [tool.name for tool in call.request.tools],
        "wire": call.wire,
        "events": len(call.events),
        "reply": msgspec.to_builtins(call.reply) if call.reply else None,
        "failure": msgspec.to_builtins(call.failure) if call.failure else None,
    }


def _outcome(call: RecordedCall) -> str:
    """What became of a call, in one line."""
    if call.failure is not None:
        return f"failed: {call.failure.message} ({call.failure.reason})"
    return _line(_gist(call.reply)) if call.reply is not None else "broke off"


def _gist(message: Assistant) -> str:
    called = [f"{call.name}({', '.join(map(str, call.arguments.values()))})" for call in message.calls]
    return " ".join(part for part in (message.text.strip(), *called) if part)


def _line(text: str) -> str:
    line = " ".join(strip_unprintable(text).split())
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…"
