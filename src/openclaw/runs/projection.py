"""Turns run events into events for clients: `agent`, `chat`, `session.message` and `sessions.changed`.

Pure but for its state of each run: how much text there is, how much of it was sent. Chat text is throttled, so that a
fast model does not flood a slow client; nothing is held back past the next event or the end.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct, field, structs

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
from openclaw.core.messages import Image, ToolCall, ToolResult
from openclaw.protocol.events import BusEvent, EventBus
from openclaw.runs.events import (
    RunAccepted,
    RunEvent,
    RunPhase,
    RunResumed,
    RunSettled,
    liveness,
    terminal_receipt,
    terminal_reply,
)
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.outbox import alert_of
from openclaw.runs.reply import NoteShaped, ReplyShaped, TextShaped, ThoughtShaped
from openclaw.runs.request import AlertRules, RecordedEvent, SessionRepaired
from openclaw.security.redaction import redact_credentials
from openclaw.sessions.history import message_to_json

SIP_MS = 120
SHOWN_CHARS = 200_000
GAP = "\n\n"
"""Between two messages of one run."""
TITLE_CHARS = 120
COMMANDS = ("exec", "bash")
"""Tools whose output is also told as that of a command."""
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
    key: str
    about: dict[str, Any]
    """What every event of it says: whose it is."""
    seq: int = 0
    began: int = 0
    said: str = ""
    """The text of the current message."""
    message: int = 1
    """Its number in the run."""
    tools: dict[str, int] = field(default_factory=dict)
    """When the calls that run now began."""
    thought: str = ""
    shown: str = ""
    """The text of the messages before it."""
    sent: int = 0
    sent_at: int = 0
    alert: AlertRules | None = None
    """It is a heartbeat: its answer is shown when it is worth telling, and not before its end."""
    held: list[BusEvent] = field(default_factory=list)
    """What a heartbeat has written down, until it is known whether it is shown."""


class EventProjection:
    """Turns run events into bus events for clients."""

    def __init__(self, proofread: Proofread | None = None) -> None:
        self._runs: dict[str, _Run] = {}
        self._proofread = proofread

    def publish(self, bus: EventBus, told: RunEvent, *, here: bool = True) -> None:
        """Puts a run's event on the bus, in the words of the wire. Other nodes make their own words of it."""
        for notice in self.project(told):
            bus.put(notice, here=here)

    def in_flight(self, run_id: str) -> str:
        """The text of an unfinished run so far, for a client that joins late."""
        run = self._runs.get(run_id)
        return (run.shown + run.said) if run else ""

    def project(self, told: RunEvent) -> list[BusEvent]:
        """What clients are told of a run's event."""
        run = self._runs.get(told.run_id)
        if run is None:
            key = str(told.key)
            about = {"runId": told.run_id, "sessionKey": key, "agentId": told.key.agent}
            run = self._runs[told.run_id] = _Run(key, about)
        data: dict[str, Any]
        match told.event:
            case TextShaped(text=text):
                return self._text(told, run, text)
            case RunPhase(phase=phase):
                return _status(told, run, phase)
            case RecordedEvent():
                if run.alert is not None:
                    run.held.append(self._recorded(told, run, told.event))
                    return []
                return [self._recorded(told, run, told.event)]
            case ModelCalled(provider=provider, model=model):
                start: list[BusEvent] = []
                if not run.began:
                    run.began = told.at
                    start += _status(told, run, "starting_model")
                    start.append(_agent(told, run, "lifecycle", {"phase": "start", "startedAt": told.at}))
                    start.append(_changed(told, run, phase="start"))
                data = {"phase": "model", "provider": provider, "model": model}
                return [*start, _agent(told, run, "lifecycle", data)]
            case RunAccepted(queued=queued, request=request):
                run.alert = request.alert
                return [_changed(told, run, reason="send", queued=queued)]
            case RunResumed(request=request):
                run.alert = request.alert
                return []
            case ThoughtShaped(text=text):
                run.thought = (run.thought + text)[-THOUGHT_CHARS:]
                return [_agent(told, run, "thinking", {"text": run.thought, "delta": text})]
            case AttemptFailed(provider=provider, model=model, reason=reason, error=error, wait=wait):
                return self._failed_attempt(told, run, provider, model, reason, error, wait)
            case ReplyShaped(usage=spent, reasoning=reasoning, text=text, calls=calls):
                sip = self._sip(told, run)
                if calls and text.strip():
                    data = {
                        "kind": "preamble",
                        "phase": "end",
                        "itemId": f"{told.run_id}:{run.message}",
                        "progressText": text,
                    }
                    sip.append(_agent(told, run, "item", data))
                run.shown += run.said
                run.said, run.thought = "", ""
                run.message += 1
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
                return [*self._sip(told, run), *_tool_started(told, run, call)]
            case ToolUpdated(call=call, text=text):
                return _tool_updated(told, run, call, redact_credentials(text[-SHOWN_CHARS:]))
            case ToolEnded(call=call, result=result):
                return _tool_ended(told, run, call, result)
            case CompactionStarted(reason=reason, tokens=tokens):
                data = {"phase": "start", "reason": reason, "tokensBefore": tokens}
                return [_agent(told, run, "compaction", data)]
            case CompactionEnded():
                return [_agent(told, run, "compaction", _compaction(told.event))]
            case SessionRepaired(problems=problems):
                mended = [{"kind": problem.kind, "detail": problem.detail} for problem in problems]
                return [_agent(told, run, "lifecycle", {"phase": "repaired", "problems": mended})]
            case RunEnded(stop_reason=reason):
                data = {"phase": "finishing", "stopReason": reason, "aborted": reason == "aborted", "endedAt": told.at}
                return [*self._sip(told, run), _agent(told, run, "lifecycle", data)]
            case RunSettled(outcome=outcome):
                del self._runs[told.run_id]
                return self._settled(told, run, outcome)
            case _:
                return []

    def _text(self, told: RunEvent, run: _Run, text: str) -> list[BusEvent]:
        gap = GAP if run.shown and not run.said and not run.shown.endswith(GAP) else ""
        run.shown += gap
        run.said += text
        if run.alert is not None:
            return []  # whether it is worth telling is known at its end
        # The deltas of a run make up all it says; `text` is that of the message they belong to.
        data = {"text": run.said[-SHOWN_CHARS:], "delta": gap + text, "itemId": f"{told.run_id}:{run.message}"}
        notices = [_agent(told, run, "assistant", data)]
        if told.at - run.sent_at >= SIP_MS:
            notices += self._sip(told, run)
        return notices

    def _sip(self, told: RunEvent, run: _Run) -> list[BusEvent]:
        """The text that was not sent yet, as one chat delta."""
        whole = run.shown + run.said
        fresh = whole[run.sent :]
        if not fresh or run.alert is not None:
            return []
        run.sent, run.sent_at = len(whole), told.at
        return [_chat(run, state="delta", deltaText=fresh, message=_said(whole, told.at))]

    def _failed_attempt(
        self, told: RunEvent, run: _Run, provider: str, model: str, reason: str, error: str, wait: float
    ) -> list[BusEvent]:
        """The streamed text is void: tells clients to restore what was there before."""
        notices = []
        if run.said and run.sent > len(run.shown):
            notices.append(
                _chat(
                    run,
                    state="delta",
                    deltaText=run.shown,
                    replace=True,
                    message=_said(run.shown, told.at),
                )
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

    def _recorded(self, told: RunEvent, run: _Run, recorded: RecordedEvent) -> BusEvent:
        """A message of the transcript, without the credentials in what tools were given and gave."""
        proofread = partial(self._proofread, told.key.agent) if self._proofread is not None else str
        row = message_to_json(recorded.message, recorded.entry_id, recorded.number, told.run_id, proofread)
        content = row.get("content")
        if row.get("role") == "toolResult":
            row["content"] = _redacted(content)
        elif not isinstance(content, str):
            row["content"] = [_redacted(each) if each.get("type") == "toolCall" else each for each in content or ()]
        named = {"sessionId": recorded.session_id, "messageId": recorded.entry_id, "messageSeq": recorded.number}
        return BusEvent("session.message", {**run.about, **named, "message": row}, run.key, relay=False)

    def _settled(self, told: RunEvent, run: _Run, outcome: RunOutcome) -> list[BusEvent]:
        ended = {"startedAt": run.began or told.at, "endedAt": told.at, "executionSettled": True}
        shown: list[BusEvent] = []
        data: dict[str, Any]
        chat: dict[str, Any]
        if outcome.status == "ok":
            if run.alert is not None:
                alert = alert_of(run.alert, outcome)
                payloads = (alert,) if alert is not None else ()
                shown = run.held if alert is not None else []
                texts = tuple(each.text for each in payloads if each.text)
                outcome = structs.replace(outcome, payloads=payloads, texts=texts)
            text = outcome.texts[-1] if outcome.texts else ""
            reply = terminal_reply(outcome)
            data = {
                "phase": "end",
                **ended,
                "aborted": False,
                "stopReason": outcome.stop_reason,
                **liveness(outcome),
                "terminalReply": reply,
                "terminalReceipt": terminal_receipt(told.run_id, outcome),
            }
            chat = {"state": "final", "stopReason": outcome.stop_reason, "usage": msgspec.to_builtins(outcome.usage)}
            if outcome.yielded:
                chat["yielded"] = True
            media = [source for payload in outcome.payloads for source in payload.media]
            if text or media:
                reasoning = GAP.join(payload.text for payload in outcome.payloads if payload.kind == "reasoning")
                chat["message"] = _said(GAP.join(outcome.texts), told.at, reasoning, media)
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
        changed = _changed(told, run, phase=data["phase"])
        return [*shown, _agent(told, run, "lifecycle", data), _chat(run, **chat), changed]


def _said(text: str, at: int, reasoning: str = "", media: Sequence[str] = ()) -> dict[str, Any]:
    thought = [{"type": "thinking", "thinking": reasoning}] if reasoning else []
    words = [{"type": "text", "text": text}] if text or not media else []
    message = {"role": "assistant", "content": [*thought, *words], "timestamp": at}
    return {**message, "mediaUrls": list(media)} if media else message


def _status(told: RunEvent, run: _Run, phase: str) -> list[BusEvent]:
    """What a run does before its first word."""
    return [_agent(told, run, "run_status", {"phase": phase}), _chat(run, state="status", phase=phase)]


# Tools: each call is told as `tool`, as `item`, and what a command prints as `command_output`.


def _tool_started(told: RunEvent, run: _Run, call: ToolCall) -> list[BusEvent]:
    run.tools[call.id] = told.at
    data = {"phase": "start", "name": call.name, "toolCallId": call.id, "args": _redacted(call.arguments)}
    return [_tool_item(told, run, call, "start", "running"), _agent(told, run, "tool", data)]


def _tool_updated(told: RunEvent, run: _Run, call: ToolCall, text: str) -> list[BusEvent]:
    about = {"name": call.name, "toolCallId": call.id}
    so_far = {"content": [{"type": "text", "text": text}]}
    notices = [_agent(told, run, "tool", {"phase": "update", **about, "partialResult": so_far})]
    if call.name in COMMANDS:
        notices.append(_agent(told, run, "command_output", {"phase": "delta", **about, "output": text}))
    return notices


def _tool_ended(told: RunEvent, run: _Run, call: ToolCall, result: ToolResult) -> list[BusEvent]:
    about = {"name": call.name, "toolCallId": call.id}
    texts = [
        f"[image {block.mime_type}]" if isinstance(block, Image) else redact_credentials(block.text[:SHOWN_CHARS])
        for block in result.content
    ]
    shown = {"content": [{"type": "text", "text": text} for text in texts], "details": _redacted(result.details)}
    notices = [
        _agent(told, run, "tool", {"phase": "result", **about, "isError": result.is_error, "result": shown}),
        _tool_item(told, run, call, "end", "failed" if result.is_error else "completed"),
    ]
    details = result.details or {}
    if call.name in COMMANDS:
        ended = {name: details[name] for name in ("exitCode", "durationMs", "cwd") if details.get(name) is not None}
        output = {"phase": "end", **about, "output": "\n".join(texts), **ended}
        notices.append(_agent(told, run, "command_output", output))
    if call.name == "update_plan" and not result.is_error:
        steps = {"steps": details.get("plan", []), "explanation": details.get("explanation", "")}
        notices.append(_agent(told, run, "plan", {"phase": "update", "toolCallId": call.id, **_redacted(steps)}))
    run.tools.pop(call.id, None)
    return notices


def _tool_item(told: RunEvent, run: _Run, call: ToolCall, phase: str, status: str) -> BusEvent:
    words = " ".join(str(value) for value in call.arguments.values())
    title = " ".join(redact_credentials(f"{call.name} {words[:SHOWN_CHARS]}").split())
    data = {
        "kind": "tool",
        "phase": phase,
        "itemId": call.id,
        "name": call.name,
        "title": title if len(title) <= TITLE_CHARS else f"{title[: TITLE_CHARS - 1]}…",
        "status": status,
        "startedAt": run.tools.get(call.id, told.at),
        **({"endedAt": told.at} if phase == "end" else {}),
    }
    return _agent(told, run, "item", data)


def _redacted(value: Any) -> Any:
    """`value` without credentials in any of its texts."""
    match value:
        case str():
            return redact_credentials(value)
        case dict():
            return {name: _redacted(each) for name, each in value.items()}
        case list() | tuple():
            return [_redacted(each) for each in value]
        case _:
            return value


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


def _agent(told: RunEvent, run: _Run, stream: str, data: dict[str, Any]) -> BusEvent:
    run.seq += 1
    payload = {**run.about, "seq": run.seq, "stream": stream, "ts": told.at, "data": data}
    return BusEvent("agent", payload, run.key, relay=False)


def _chat(run: _Run, **more: Any) -> BusEvent:
    run.seq += 1
    return BusEvent("chat", {**run.about, "seq": run.seq, **more}, run.key, relay=False)


def _changed(told: RunEvent, run: _Run, **more: Any) -> BusEvent:
    """The session changed; not of the run's stream, and not numbered with it."""
    return BusEvent("sessions.changed", {**run.about, "ts": told.at, **more}, run.key, relay=False)
