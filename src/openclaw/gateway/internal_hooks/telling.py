"""What happens in the gateway, in the words that hooks are told it in."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from openclaw.core.clock import Clock
from openclaw.core.events import CompactionEnded, CompactionStarted
from openclaw.core.keys import SessionKey
from openclaw.core.messages import User
from openclaw.gateway.internal_hooks.running import HookFiles
from openclaw.hooks.internal.events import (
    CommandContext,
    CompactContext,
    Context,
    GatewayContext,
    HookEvent,
    HookSession,
    PatchContext,
    ReceivedContext,
    RenewedContext,
    SentContext,
)
from openclaw.sessions.index import SessionRow
from openclaw.turns.agents import default_agent
from openclaw.turns.record import RecordedEvent
from openclaw.turns.runs import RunEvent, RunSettled
from openclaw.turns.turn import RunRequest

if TYPE_CHECKING:
    from openclaw.gateway.app import App

CONTENT_CHARS = 100_000
RESTART_MS = 5_000
MOST_HEARD = 10_000


def event(clock: Clock, kind: str, action: str, context: Context, session_key: str = "") -> HookEvent:
    when = datetime.fromtimestamp(clock.now(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return HookEvent(type=kind, action=action, timestamp=when, context=context, session_key=session_key)


def session(row: SessionRow, path: Path | None) -> HookSession:
    return HookSession(
        session_id=row.session_id,
        session_key=row.session_key,
        session_file=str(path) if path is not None else "",
        title=row.title,
        updated_at=row.updated_at,
        messages=row.messages,
    )


def command(
    clock: Clock, key: SessionKey, action: str, workspace: Path, *, source: str, arguments: str = "", **known: Any
) -> HookEvent:
    """A command was given; `known` are further fields of its context."""
    context = CommandContext(
        agent_id=key.agent,
        workspace_dir=str(workspace),
        command_source=source,
        arguments=arguments,
        **known,
    )
    return event(clock, "command", action, context, str(key))


def renewed(clock: Clock, key: SessionKey, workspace: Path, why: str, ended: HookSession, next_id: str) -> HookEvent:
    """A conversation started over by itself, because of the hour or a silence."""
    context = RenewedContext(
        agent_id=key.agent,
        workspace_dir=str(workspace),
        reason=why,
        session_entry=ended,
        next_session_id=next_id,
        next_session_key=str(key),
        store_path=str(Path(ended.session_file).parent) if ended.session_file else "",
    )
    return event(clock, "session", "auto-reset", context, str(key))


def patched(clock: Clock, key: SessionKey, row: SessionRow | None, patch: Mapping[str, Any]) -> HookEvent:
    shown = session(row, None) if row is not None else None
    return event(
        clock, "session", "patch", PatchContext(session_entry=shown, patch=msgspec.to_builtins(patch)), str(key)
    )


def gateway(app: "App", action: str, reason: str = "", restart_ms: int | None = None) -> HookEvent:
    workspace = app.workspace(default_agent(app.config.agents))
    context = GatewayContext(workspace_dir=str(workspace), reason=reason, restart_expected_ms=restart_ms)
    return event(app.clock, "gateway", action, context)


async def settle(app: "App", restarts: bool) -> None:
    """The last words to hooks before a gateway ends; nobody waits long for them."""
    if restarts:
        await app.internal_hooks.settle(gateway(app, "pre-restart", "restart", RESTART_MS), 10.0)
    await app.internal_hooks.settle(gateway(app, "shutdown", "restart" if restarts else "stop"), 5.0)


class HookFileSubscriber:
    """Reads the stream of runs and tells hooks of messages and compactions; nobody waits for it."""

    def __init__(self, hooks: HookFiles, clock: Clock) -> None:
        self._hooks = hooks
        self._clock = clock
        self._heard: dict[str, RunRequest] = {}
        """What people asked, until it is answered. Jobs and sub-agents are nobody's messages."""

    def heard(self, turn: RunRequest, lane: str) -> None:
        """A message was accepted."""
        if not self._hooks.on or lane != "main" or turn.compact is not None:
            return
        while len(self._heard) >= MOST_HEARD:
            self._heard.pop(next(iter(self._heard)))
        self._heard[turn.run_id] = turn
        self._tell("message", "received", _received(turn), turn)

    def take(self, said: RunEvent) -> None:
        """Something a run said."""
        if not self._hooks.on:
            return
        match said.event:
            case CompactionStarted() as started:
                context = CompactContext(reason=started.reason, token_count=started.tokens)
                self._hooks.tell(event(self._clock, "session", "compact:before", context, str(said.key)))
            case CompactionEnded() as ended:
                self._hooks.tell(event(self._clock, "session", "compact:after", _compacted(ended), str(said.key)))
            case RecordedEvent(message=User() as message) if message.idempotency_key == f"{said.run_id}:user":
                turn = self._heard.get(said.run_id)
                if turn is not None:
                    self._tell("message", "preprocessed", _received(turn, message.text), turn)
            case RunSettled(outcome=outcome):
                turn = self._heard.pop(said.run_id, None)
                if turn is not None and not outcome.steered_into and (outcome.texts or outcome.error):
                    sent = SentContext(
                        agent_id=turn.key.agent,
                        content="\n\n".join(outcome.texts)[:CONTENT_CHARS],
                        success=outcome.status == "ok",
                        to=str(turn.key),
                        channel_id=turn.channel,
                        message_id=turn.run_id,
                        error=outcome.error or "",
                    )
                    self._tell("message", "sent", sent, turn)

    def _tell(self, kind: str, action: str, context: Context, turn: RunRequest) -> None:
        self._hooks.tell(event(self._clock, kind, action, context, str(turn.key)))


def _received(turn: RunRequest, prepared: str = "") -> ReceivedContext:
    return ReceivedContext(
        agent_id=turn.key.agent,
        content=turn.text[:CONTENT_CHARS],
        channel_id=turn.channel,
        sender=str(turn.key),
        message_id=turn.run_id,
        body_for_agent=prepared[:CONTENT_CHARS],
    )


def _compacted(ended: CompactionEnded) -> CompactContext:
    return CompactContext(
        reason=ended.reason,
        tokens_before=ended.tokens_before,
        tokens_after=ended.tokens_after,
        ok=ended.ok,
        error=ended.error or "",
    )
