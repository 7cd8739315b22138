"""What runs publish: accepted, every event on the way, settled; who is told; and what a run amounts to."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import msgspec
from msgspec import Struct

from openclaw.core.events import CompactionEnded, MessageEnded, ModelCalled, RunEnded, RunNotice, TextDelta, ToolEnded
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Assistant, Usage
from openclaw.prompt.report import PromptReport
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.reply import ReplyShaper, ShapedEvent
from openclaw.runs.request import RecordedEvent, RunRequest, SessionRenewed, SessionRepaired
from openclaw.runs.turn import TurnEvent, TurnPrepared
from openclaw.sessions.compaction.plan import capacity


class RunAccepted(Struct, frozen=True):
    """An input is on record."""

    queued: bool
    request: RunRequest


class RunResumed(Struct, frozen=True):
    """An input that an earlier process accepted is taken up."""

    request: RunRequest


class RunPhase(Struct, frozen=True):
    """What a run does before a model is asked."""

    phase: Literal["preparing_workspace", "preparing_context", "starting_model"]


class RunSettled(Struct, frozen=True):
    """An input has its outcome."""

    outcome: RunOutcome


PublishedEvent = (
    ShapedEvent | SessionRepaired | SessionRenewed | RecordedEvent | RunAccepted | RunResumed | RunPhase | RunSettled
)


class RunEvent(Struct, frozen=True, kw_only=True):
    """Something a run says; `seq` counts from 1 in each run."""

    run_id: str
    key: SessionKey
    seq: int
    at: int
    event: PublishedEvent
    node: str = ""
    """The node that says it, when that is another one."""


_BEGINNINGS = frozenset((RunAccepted, RunResumed))
"""Looked up for every event, which is much quicker than `isinstance` of two."""


class RunPublisher:
    """Publishes what runs say to everyone who subscribed: clients, hooks, metrics, waiting callers."""

    def __init__(self, *subscribers: Callable[[RunEvent], None]) -> None:
        self._subscribers = list(subscribers)
        self._some: dict[type, list[Callable[[RunEvent], None]]] = {}
        self._of_kind: dict[type, tuple[Callable[[RunEvent], None], ...]] = {}
        """Who hears the events of a type: those who hear all, then those who hear some."""
        self._of_run: dict[str, list[Callable[[RunEvent], None]]] = {}
        self._of_replies: list[Callable[[RunEvent], None]] = []
        self._of_children: list[Callable[[RunEvent], None]] = []

    def subscribe(self, subscriber: Callable[[RunEvent], None], *kinds: type) -> None:
        """From now on `subscriber` hears every event, or those of the given kinds."""
        for kind in kinds:
            self._some.setdefault(kind, []).append(subscriber)
        if not kinds:
            self._subscribers.append(subscriber)
        self._of_kind.clear()

    def subscribe_to_replies(self, subscriber: Callable[[RunEvent], None]) -> None:
        """From now on `subscriber` hears of every run that begins, on any node, and whose answer goes to a channel."""
        self._of_replies.append(subscriber)

    def subscribe_to_children(self, subscriber: Callable[[RunEvent], None]) -> None:
        """From now on `subscriber` hears of every run of a sub-agent that begins."""
        self._of_children.append(subscriber)

    @contextmanager
    def following(self, run_id: str, subscriber: Callable[[RunEvent], None]) -> Iterator[None]:
        """Tells `subscriber` what one run says, for as long as the block lasts."""
        self.follow(run_id, subscriber)
        try:
            yield
        finally:
            self.unfollow(run_id, subscriber)

    def follow(self, run_id: str, subscriber: Callable[[RunEvent], None]) -> None:
        """Tells `subscriber` what one run says, until that has its outcome."""
        self._of_run.setdefault(run_id, []).append(subscriber)

    def unfollow(self, run_id: str, subscriber: Callable[[RunEvent], None]) -> None:
        followers = self._of_run.get(run_id, [])
        if subscriber in followers:
            followers.remove(subscriber)
        if not followers:
            self._of_run.pop(run_id, None)

    def __call__(self, event: RunEvent) -> None:
        kind = type(event.event)
        followers = self._of_run.get(event.run_id)
        if followers:
            for subscriber in tuple(followers):
                subscriber(event)
        subscribers = self._of_kind.get(kind)
        if subscribers is None:
            subscribers = self._of_kind[kind] = (*self._subscribers, *self._some.get(kind, ()))
        for subscriber in subscribers:
            subscriber(event)
        if kind in _BEGINNINGS and isinstance(event.event, RunAccepted | RunResumed):
            replies = self._of_replies if event.event.request.reply_to is not None else ()
            for subscriber in (*replies, *(self._of_children if event.event.request.key.is_subagent else ())):
                subscriber(event)
        if followers and kind is RunSettled:
            self._of_run.pop(event.run_id, None)

    def hear_elsewhere(self, event: RunEvent) -> None:
        """Tells those who follow one run, and those who show answers on channels, what another node says of it."""
        for subscriber in tuple(self._of_run.get(event.run_id, ())):
            subscriber(event)
        if isinstance(event.event, RunAccepted | RunResumed) and event.event.request.reply_to is not None:
            for subscriber in self._of_replies:
                subscriber(event)
        if isinstance(event.event, RunSettled):
            self._of_run.pop(event.run_id, None)


# What a run amounts to.

PAUSED = "paused"
"""The liveness of a run that waits for something it has started."""
NEAR = 0.8
"""The share of the room before a compaction from which a conversation counts as nearly full."""


class RunTally(Struct):
    """Collects what the outcome of a run needs to know beside its texts."""

    started: int
    prepared: TurnPrepared = TurnPrepared()
    last: Assistant | None = None
    thinking: str = ""
    notices: list[str] = []
    compaction: CompactionEnded | None = None
    worked: dict[str, None] = {}
    end: RunEnded | None = None

    def take(self, event: TurnEvent) -> None:
        match event:
            case TextDelta():  # most of the events
                pass
            case TurnPrepared():
                self.prepared = event
            case ModelCalled(thinking=thinking):
                self.thinking = thinking
            case MessageEnded(message=message) if message.asks is None:  # else no model said it
                self.last = message
            case RunNotice(text=text):
                self.notices.append(text)
            case CompactionEnded():
                self.compaction = event
            case ToolEnded(call=call, result=result) if not result.is_error:
                self.worked[call.name] = None
            case RunEnded():
                self.end = event
            case _:
                pass

    def outcome(self, shaper: ReplyShaper, now: int, *, compacts: bool) -> RunOutcome:
        """The outcome, with the texts of `shaper`; `compacts` when a compaction was all that was asked for."""
        end, last = self.end, self.last
        return RunOutcome(
            status="error" if end is None or end.error else "ok",
            stop_reason="error" if end is None else "end_turn" if end.yielded else end.stop_reason,
            texts=shaper.texts,
            payloads=shaper.payloads,
            silent=shaper.silent,
            acknowledged=shaper.acknowledged,
            error=end.error if end else "the run ended without a word",
            error_kind=end.error_code if end else None,
            provider=last.provider if last else "",
            model=last.model if last else "",
            thinking=self.thinking,
            requested=self.prepared.model,
            usage=end.usage if end else Usage(),
            last_usage=last.usage if last else Usage(),
            session_id=self.prepared.session_id,
            window=self.prepared.window,
            started_at=self.started,
            ended_at=now,
            turns=end.turns if end else 0,
            yielded=end.yielded if end else False,
            tools=tuple(self.worked),
            delivered=bool(shaper.sent),
            notices=(*self.notices, *shaper.notices),
            compaction=self.compaction if compacts else None,
        )


# The forms for clients.


class BudgetStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """How full the model's window is after a run."""

    used_tokens: int
    context_tokens: int
    compact_at_tokens: int
    percent_used: int
    status: Literal["ok", "near", "full"]


def context_budget(outcome: RunOutcome) -> BudgetStatus | None:
    """How full the window is; None when no model was asked."""
    used, window = outcome.last_usage.prompt_tokens + outcome.last_usage.output, outcome.window
    if not (used and window):
        return None
    room = capacity(window)
    return BudgetStatus(
        used_tokens=used,
        context_tokens=window,
        compact_at_tokens=room,
        percent_used=round(100 * used / window),
        status="full" if used >= room else "near" if used >= NEAR * room else "ok",
    )


def terminal_reply(outcome: RunOutcome) -> dict[str, Any]:
    """How a run ended for the caller: with text, silently, or without an answer."""
    if outcome.texts:
        return {"disposition": "visible", "text": outcome.texts[-1]}
    return {"disposition": "silent" if outcome.silent else "empty"}


def terminal_receipt(run_id: str, outcome: RunOutcome) -> dict[str, Any]:
    """Who answered, and what was done on the way; for programs that check."""
    wanted, _, name = outcome.requested.partition("/")
    requested = {"provider": wanted, "model": name}
    effective = {"provider": outcome.provider, "model": outcome.model}
    return {
        "runId": run_id,
        "sessionId": outcome.session_id,
        "turnId": run_id,
        "requested": requested,
        "effective": {**effective, "responseModel": outcome.model},
        "successfulToolNames": list(outcome.tools),
        "rerouted": bool(outcome.provider) and bool(wanted) and requested != effective,
        "terminalDisposition": terminal_reply(outcome)["disposition"] if outcome.status == "ok" else "error",
        **({"sourceReplyDelivered": True} if outcome.delivered else {}),
    }


def liveness(outcome: RunOutcome) -> dict[str, Any]:
    """What is said of a run that goes on later; nothing of others."""
    return {"yielded": True, "livenessState": PAUSED} if outcome.yielded else {}


def run_result(run_id: str, session_key: str, outcome: RunOutcome, report: PromptReport | None) -> dict[str, Any]:
    """The second answer to `agent`: what came of the run."""
    about = {
        "sessionId": outcome.session_id,
        "provider": outcome.provider,
        "model": outcome.model,
        "contextTokens": outcome.window or None,
        "usage": msgspec.to_builtins(outcome.usage),
        "lastCallUsage": msgspec.to_builtins(outcome.last_usage),
        "promptTokens": outcome.last_usage.prompt_tokens,
        "costUsd": outcome.usage.cost.total if outcome.usage.cost else None,
        "contextBudgetStatus": msgspec.to_builtins(context_budget(outcome)),
        "assistantTurns": outcome.turns,
        "terminalReceipt": terminal_receipt(run_id, outcome),
    }
    meta = {
        "durationMs": max(0, outcome.ended_at - outcome.started_at),
        "startedAt": outcome.started_at,
        "endedAt": outcome.ended_at,
        "aborted": outcome.stop_reason == "aborted",
        "stopReason": outcome.stop_reason,
        **liveness(outcome),
        "agentMeta": about,
        **({"systemPromptReport": msgspec.to_builtins(report)} if report is not None else {}),
        **({"notices": list(outcome.notices)} if outcome.notices else {}),
    }
    return {
        "runId": run_id,
        "sessionKey": session_key,
        "status": outcome.status,
        "summary": "completed" if outcome.status == "ok" else outcome.error,
        "result": {"payloads": [payload.shown() for payload in outcome.payloads], "meta": meta},
    }
