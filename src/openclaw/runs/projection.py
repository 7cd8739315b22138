"""Turns run events into events for clients: `agent`, `chat`, `session.message` and `sessions.changed`.

Pure but for its state of each run: how much text there is, how much of it was sent. Chat text is throttled, so that a
fast model does not flood a slow client; nothing is held back past the next event or the end.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.core.events import (
    AttemptFailed,
    CompactionEnded,
    CompactionStarted,
    ModelCalled,
    RunEnded,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
)
from openclaw.core.messages import Image, ToolResult
from openclaw.protocol.events import BusEvent, EventBus
from openclaw.runs.events import RunAccepted, RunEvent, RunSettled
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.reply import NoteShaped, ReplyShaped, TextShaped, ThoughtShaped
from openclaw.runs.request import RecordedEvent, SessionRepaired
from openclaw.sessions.history import message_to_json

SIP_MS = 120
SHOWN_CHARS = 200_000
GAP = "\n\n"
"""Between two messages of one run."""
THOUGHT_CHARS = 20_000
"""How much of the reasoning is sent again with every addition."""
ERROR_KINDS = {
    "refused": "refusal",
    "timeout": "timeout",
    "rate_limit": "rate_limit",
    "context_overflow": "context_length",
}


Proofread = Callable[[str, str], str]
"""The last look at an answer before people see it."""


class _Run(Struct, eq=False):
    seq: int = 0
    began: int = 0
    said: str = ""
    """The text of the current message."""
    thought: str = ""
    shown: str = ""
    """The text of the messages before it."""
    sent: int = 0
    sent_at: int = 0


class EventProjection:
    """Turns run events into bus events for clients."""

    def __init__(self, proofread: Proofread | None = None) -> None:
        self._runs: dict[str, _Run] = {}
        self._proofread = proofread

    def publish(self, bus: EventBus, told: RunEvent) -> None:
        """Puts a run's event on the bus, in the words of the wire."""
        for notice in self.project(told):
            bus.publish(notice.event, notice.payload, notice.session_key)

    def project(self, told: RunEvent) -> list[BusEvent]:
        run = self._runs.get(told.run_id) or self._runs.setdefault(told.run_id, _Run())
        notices = self._notices(told, run)
        if isinstance(told.event, RunSettled):
            del self._runs[told.run_id]
        return notices

    def in_flight(self, run_id: str) -> str:
        """The text of an unfinished run so far, for a client that joins late."""
        run = self._runs.get(run_id)
        return (run.shown + run.said) if run else ""

    def _notices(self, told: RunEvent, run: _Run) -> list[BusEvent]:
        data: dict[str, Any]
        match told.event:
            case RunAccepted(queued=queued):
                return [_changed(told, reason="send", queued=queued)]
            case ModelCalled(provider=provider, model=model):
                start = []
                if not run.began:
                    run.began = told.at
                    start.append(_agent(told, run, "lifecycle", {"phase": "start", "startedAt": told.at}))
                    start.append(_changed(told, phase="start"))
                data = {"phase": "model", "provider": provider, "model": model}
                return [*start, _agent(told, run, "lifecycle", data)]
            case TextShaped(text=text):
                return self._text(told, run, text)
            case ThoughtShaped(text=text):
                run.thought = (run.thought + text)[-THOUGHT_CHARS:]
                return [_agent(told, run, "thinking", {"text": run.thought, "delta": text})]
            case AttemptFailed(provider=provider, model=model, reason=reason, error=error, wait=wait):
                return self._failed_attempt(told, run, provider, model, reason, error, wait)
            case ReplyShaped(usage=spent, reasoning=reasoning):
                sip = self._sip(told, run)
                run.shown += run.said
                run.said, run.thought = "", ""
                usage = {"outputTokens": spent.output, "inputTokens": spent.prompt_tokens}
                thought = {"text": reasoning[-SHOWN_CHARS:], "delta": reasoning[-SHOWN_CHARS:], "complete": True}
                shown = [_agent(told, run, "thinking", thought)] if reasoning else []
                return [*shown, *sip, _agent(told, run, "usage", usage)]
            case NoteShaped(payload=payload):
                if payload.kind == "error":
                    return [*self._text(told, run, payload.text), *self._sip(told, run)]
                data = {"kind": payload.kind, "phase": "end", "progressText": payload.text}
                return [_agent(told, run, "item", data)]
            case ToolStarted(call=call):
                data = {"phase": "start", "name": call.name, "toolCallId": call.id, "args": call.arguments}
                return [*self._sip(told, run), _agent(told, run, "tool", data)]
            case ToolUpdated(call=call, text=text):
                so_far = {"content": [{"type": "text", "text": text}]}
                data = {"phase": "update", "name": call.name, "toolCallId": call.id, "partialResult": so_far}
                return [_agent(told, run, "tool", data)]
            case ToolEnded(call=call, result=result):
                data = {
                    "phase": "result",
                    "name": call.name,
                    "toolCallId": call.id,
                    "isError": result.is_error,
                    "result": _result(result),
                }
                return [_agent(told, run, "tool", data)]
            case CompactionStarted(reason=reason, tokens=tokens):
                data = {"phase": "start", "reason": reason, "tokensBefore": tokens}
                return [_agent(told, run, "compaction", data)]
            case CompactionEnded():
                return [_agent(told, run, "compaction", _compaction(told.event))]
            case SessionRepaired(problems=problems):
                mended = [{"kind": problem.kind, "detail": problem.detail} for problem in problems]
                return [_agent(told, run, "lifecycle", {"phase": "repaired", "problems": mended})]
            case RecordedEvent():
                return [self._recorded(told, told.event)]
            case RunEnded(stop_reason=reason):
                data = {"phase": "finishing", "stopReason": reason, "aborted": reason == "aborted", "endedAt": told.at}
                return [*self._sip(told, run), _agent(told, run, "lifecycle", data)]
            case RunSettled(outcome=outcome):
                return self._settled(told, run, outcome)
            case _:
                return []

    def _text(self, told: RunEvent, run: _Run, text: str) -> list[BusEvent]:
        gap = GAP if run.shown and not run.said and not run.shown.endswith(GAP) else ""
        run.shown += gap
        run.said += text
        shown = (run.shown + run.said)[-SHOWN_CHARS:]
        notices = [_agent(told, run, "assistant", {"text": shown, "delta": gap + text, "itemId": told.run_id})]
        if told.at - run.sent_at >= SIP_MS:
            notices += self._sip(told, run)
        return notices

    def _sip(self, told: RunEvent, run: _Run) -> list[BusEvent]:
        """The text that was not sent yet, as one chat delta."""
        whole = run.shown + run.said
        fresh = whole[run.sent :]
        if not fresh:
            return []
        run.sent, run.sent_at = len(whole), told.at
        return [_chat(told, run, "delta", deltaText=fresh, message=_said(whole, told.at))]

    def _failed_attempt(
        self, told: RunEvent, run: _Run, provider: str, model: str, reason: str, error: str, wait: float
    ) -> list[BusEvent]:
        """The streamed text is void: tells clients to restore what was there before."""
        notices = []
        if run.said and run.sent > len(run.shown):
            notices.append(
                _chat(told, run, "delta", deltaText=run.shown, replace=True, message=_said(run.shown, told.at))
            )
        run.said, run.sent = "", min(run.sent, len(run.shown))
        data = {
            "phase": "fallback_step",
            "provider": provider,
            "model": model,
            "reason": reason,
            "error": error,
            "retryInMs": round(wait * 1000),
        }
        return [*notices, _agent(told, run, "lifecycle", data)]

    def _recorded(self, told: RunEvent, recorded: RecordedEvent) -> BusEvent:
        proofread = partial(self._proofread, told.key.agent) if self._proofread is not None else str
        return _event(
            "session.message",
            told,
            sessionId=recorded.session_id,
            messageId=recorded.entry_id,
            messageSeq=recorded.number,
            message=message_to_json(recorded.message, recorded.entry_id, recorded.number, told.run_id, proofread),
        )

    def _settled(self, told: RunEvent, run: _Run, outcome: RunOutcome) -> list[BusEvent]:
        ended = {"startedAt": run.began or told.at, "endedAt": told.at, "executionSettled": True}
        data: dict[str, Any]
        chat: dict[str, Any]
        if outcome.status == "ok":
            text = outcome.texts[-1] if outcome.texts else ""
            reply = terminal_reply(outcome)
            data = {
                "phase": "end",
                **ended,
                "aborted": False,
                "stopReason": outcome.stop_reason,
                "terminalReply": reply,
            }
            chat = {"state": "final", "stopReason": outcome.stop_reason, "usage": msgspec.to_builtins(outcome.usage)}
            if text:
                reasoning = GAP.join(payload.text for payload in outcome.payloads if payload.kind == "reasoning")
                chat["message"] = _said(GAP.join(outcome.texts), told.at, reasoning)
        elif outcome.stop_reason == "aborted":
            data = {"phase": "end", **ended, "aborted": True, "stopReason": "aborted"}
            chat = {"state": "aborted", "stopReason": "rpc", "errorMessage": outcome.error}
        else:
            data = {"phase": "error", **ended, "error": outcome.error, "reason": outcome.error_kind}
            kind = ERROR_KINDS.get(outcome.error_kind or "", "unknown")
            chat = {
                "state": "error",
                "errorMessage": outcome.error,
                "errorKind": kind,
                "stopReason": outcome.stop_reason,
            }
        if outcome.notices:
            chat["notices"] = list(outcome.notices)
        lifecycle = _agent(told, run, "lifecycle", data)
        return [lifecycle, _chat(told, run, **chat), _changed(told, phase=data["phase"])]


def _said(text: str, at: int, reasoning: str = "") -> dict[str, Any]:
    thought = [{"type": "thinking", "thinking": reasoning}] if reasoning else []
    return {"role": "assistant", "content": [*thought, {"type": "text", "text": text}], "timestamp": at}


def _compaction(done: CompactionEnded) -> dict[str, Any]:
    return {
        "phase": "end",
        "reason": done.reason,
        "ok": done.ok,
        "willRetry": done.will_retry,
        "tokensBefore": done.tokens_before,
        "tokensAfter": done.tokens_after,
        **({"error": done.error} if done.error else {}),
    }


def _event(name: str, told: RunEvent, **more: Any) -> BusEvent:
    key = str(told.key)
    return BusEvent(name, {"runId": told.run_id, "sessionKey": key, "agentId": told.key.agent, **more}, key)


def _agent(told: RunEvent, run: _Run, stream: str, data: dict[str, Any]) -> BusEvent:
    run.seq += 1
    return _event("agent", told, seq=run.seq, stream=stream, ts=told.at, data=data)


def _chat(told: RunEvent, run: _Run, state: str, **more: Any) -> BusEvent:
    run.seq += 1
    return _event("chat", told, seq=run.seq, state=state, **more)


def _changed(told: RunEvent, **more: Any) -> BusEvent:
    return _event("sessions.changed", told, ts=told.at, **more)


def _result(result: ToolResult) -> dict[str, Any]:
    content = [
        {"type": "text", "text": f"[image {block.mime_type}]"}
        if isinstance(block, Image)
        else {"type": "text", "text": block.text[:SHOWN_CHARS]}
        for block in result.content
    ]
    return {"content": content, "details": result.details}


def terminal_reply(outcome: RunOutcome) -> dict[str, Any]:
    """How a run ended for the caller: with text, silently, or without an answer."""
    if outcome.texts:
        return {"disposition": "visible", "text": outcome.texts[-1]}
    return {"disposition": "silent" if outcome.silent else "empty"}
