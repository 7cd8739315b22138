"""Calls hooks around runs: HOOK.md handlers, and the points of a turn for plugins. Changes are recorded first."""

import asyncio
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OpenClawError, StateError
from openclaw.core.events import CompactionEnded, CompactionStarted, Trigger
from openclaw.core.hooks import (
    AfterCompaction,
    AgentEnd,
    AgentTurnPrepare,
    Attachment,
    BeforeAgentReply,
    BeforeAgentStart,
    BeforeCompaction,
    BeforeMessageWrite,
    BeforeModelResolve,
    BeforePromptBuild,
    BeforeReset,
    EndReason,
    GatewayStart,
    GatewayStop,
    HeartbeatPromptContribution,
    HookContext,
    HookName,
    SessionEnd,
    SessionStart,
    ToolResultPersist,
)
from openclaw.core.messages import Assistant, Message, Text, ToolResult, User
from openclaw.core.text import PromptText, fence, neutralise
from openclaw.core.tool import Approver, ToolSpec
from openclaw.models.model_set import ModelSet
from openclaw.plugins.hooks import points
from openclaw.plugins.hooks.dispatch import HookDispatcher, audit_change
from openclaw.plugins.hooks.events import (
    CONTENT_CHARS,
    CompactContext,
    Payload,
    ReceivedContext,
    SentContext,
    make_event,
)
from openclaw.plugins.hooks.files import HookFiles
from openclaw.plugins.hooks.points import HookChange, HookSource, PromptMerged, ReplyMerged
from openclaw.prompt.builder import Additions, BuiltPrompt, apply, entry_to_change, with_changes
from openclaw.prompt.report import ChangeLine
from openclaw.runs.events import RunAccepted, RunEvent, RunSettled
from openclaw.runs.hooks.calls import ModelHooks, ToolHooks
from openclaw.runs.hooks.messages import NO_REPLY, MessageHooks, hook_context
from openclaw.runs.request import RecordedEvent, RunRequest
from openclaw.security.audit import AuditEntry
from openclaw.security.audit_log import AuditLog
from openclaw.security.tool_policy import ToolLayer
from openclaw.sessions.index import SessionIndex, SessionRow

# HOOK.md handlers.

MOST_HEARD = 10_000


class HookFileSubscriber:
    """Reads the events of runs and notifies hooks of messages and compactions, without waiting."""

    kinds = (RunAccepted, CompactionStarted, CompactionEnded, RecordedEvent, RunSettled)
    """The events it reads."""

    def __init__(self, hooks: HookFiles, clock: Clock) -> None:
        self._hooks = hooks
        self._clock = clock
        self._heard: dict[str, RunRequest] = {}
        """What people asked, until it is answered. Jobs and sub-agents are nobody's messages."""

    def _accepted(self, turn: RunRequest) -> None:
        if turn.lane != "main" or turn.compact is not None:
            return
        while len(self._heard) >= MOST_HEARD:
            self._heard.pop(next(iter(self._heard)))
        self._heard[turn.run_id] = turn
        self._tell("message", "received", _received(turn), turn)

    def take(self, said: RunEvent) -> None:
        """Handles an event of a run."""
        if not self._hooks.on:
            return
        match said.event:
            case RunAccepted(request=request):
                self._accepted(request)
            case CompactionStarted() as started:
                context = CompactContext(reason=started.reason, token_count=started.tokens)
                self._hooks.tell(make_event(self._clock, "session", "compact:before", context, str(said.key)))
            case CompactionEnded() as ended:
                context = CompactContext(
                    reason=ended.reason,
                    tokens_before=ended.tokens_before,
                    tokens_after=ended.tokens_after,
                    ok=ended.ok,
                    error=ended.error or "",
                )
                self._hooks.tell(make_event(self._clock, "session", "compact:after", context, str(said.key)))
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

    def _tell(self, kind: str, action: str, context: Payload, turn: RunRequest) -> None:
        self._hooks.tell(make_event(self._clock, kind, action, context, str(turn.key)))


def _received(turn: RunRequest, prepared: str = "") -> ReceivedContext:
    return ReceivedContext(
        agent_id=turn.key.agent,
        content=turn.text[:CONTENT_CHARS],
        channel_id=turn.channel,
        sender=str(turn.key),
        message_id=turn.run_id,
        body_for_agent=prepared[:CONTENT_CHARS],
    )


# The points of a turn.

REVISE = "Nobody has seen your last answer yet. Give it again as a whole, revised as these notes ask:"


class HookScope(Struct, frozen=True, kw_only=True):
    """Text that plugins add around the message of this turn; the transcript keeps the message alone."""

    before: str = ""
    after: str = ""

    def put(self, messages: tuple[Message, ...], run_id: str) -> tuple[Message, ...]:
        """`messages` with the one of `run_id` as the model is to see it."""
        if not (self.before or self.after):
            return messages
        key = f"{run_id}:user"
        return tuple(
            self._said(each) if isinstance(each, User) and each.idempotency_key == key else each for each in messages
        )

    def _said(self, message: User) -> User:
        if isinstance(message.content, str):
            words = "\n\n".join(part for part in (self.before, message.content, self.after) if part)
            return structs.replace(message, content=words)
        before = (Text(self.before),) if self.before else ()
        after = (Text(self.after),) if self.after else ()
        return structs.replace(message, content=(*before, *message.content, *after))


class TurnHooks:
    """Asks plugins about one turn. Without handlers each point costs one dict lookup."""

    def __init__(
        self, hooks: HookDispatcher, audit: AuditLog, context: HookContext, clock: Clock, fence_id: str = ""
    ) -> None:
        self._hooks = hooks
        self._audit = audit
        self._context = context
        self._clock = clock
        self._fence_id = fence_id
        self._began = clock.now()
        self.models = ModelHooks(hooks, context, clock)
        self.entries: list[AuditEntry] = []
        """What was changed before the model was asked."""
        self.around = HookScope()
        self._wishes: tuple[tuple[HookName, PromptMerged], ...] = ()

    async def model(self, turn: RunRequest, preferred: str | None, situation: ModelSet) -> RunRequest | None:
        """The turn with the model a plugin chose, among those with a credential; None when none did."""
        if not (self._hooks.has("before_model_resolve") or self._hooks.has("before_agent_start")):
            return None
        if turn.compact is not None:
            return None
        pictures = tuple(Attachment(mime_type=image.mime_type) for image in turn.images)
        event = BeforeModelResolve(prompt=turn.text, attachments=pictures)
        newer = await self._hooks.ask(points.MODEL, event, self._context)
        older = await self._hooks.ask(points.MODEL_LEGACY, BeforeAgentStart(prompt=turn.text), self._context)
        merged = points.merge_model_points(newer, older)
        named = turn.model or preferred
        usual = str(situation.resolve(named) if named else situation.default)
        chosen, why = usual, ""
        if merged.model is not None or merged.provider is not None:
            try:
                ref = situation.resolve(points.choose_model_ref(usual, merged))
                situation.credentials(ref, millis(self._clock))
                chosen = str(ref)
            except OpenClawError as error:
                why = error.message
        await self._keep("before_model_resolve", newer.changes, before=usual, why=why)
        await self._keep("before_agent_start", older.changes, before=usual, why=why)
        return None if chosen == usual else structs.replace(turn, model=chosen)

    async def prompt(self, turn: RunRequest, messages: tuple[Message, ...]) -> tuple[ToolLayer, ...]:
        """Collects the plugins' changes to the prompt for `applied`; gives the tool layers they add."""
        names: list[HookName] = ["agent_turn_prepare", "before_prompt_build", "before_agent_start"]
        beats = turn.trigger == "heartbeat"
        if beats:
            names.append("heartbeat_prompt_contribution")
        if not any(map(self._hooks.has, names)):
            return ()
        if turn.compact is not None:
            return ()
        preparing = AgentTurnPrepare(prompt=turn.text, messages=messages)
        first = await self._hooks.ask(points.TURN, preparing, self._context)
        beat = PromptMerged()
        if beats:
            beat = await self._hooks.ask(points.HEARTBEAT, HeartbeatPromptContribution(), self._context)
        legacy = BeforeAgentStart(prompt=turn.text, messages=messages)
        older = await self._hooks.ask(points.PROMPT_LEGACY, legacy, self._context)
        event = BeforePromptBuild(prompt=turn.text, messages=messages)
        newer = await self._hooks.ask(points.PROMPT, event, self._context)
        self._wishes = (
            ("agent_turn_prepare", first),
            ("heartbeat_prompt_contribution", beat),
            ("before_agent_start", older),
            ("before_prompt_build", newer),
        )
        return tuple(ToolLayer(name="plugins", allow=allowed) for allowed in (*older.tools_allow, *newer.tools_allow))

    async def applied(self, briefing: BuiltPrompt, tools: Sequence[ToolSpec]) -> BuiltPrompt:
        """The prompt with the plugins' changes; these are recorded before it is used."""
        if not self._wishes:
            return with_changes(briefing, briefing.prompt, self.changes, tools) if self.entries else briefing
        merged = reduce(points.merge_prompt_points, [wishes for _, wishes in self._wishes])
        additions = Additions(
            replace=_quoted(merged.system) if merged.system else None,
            prepend=tuple(map(_quoted, merged.prepend_system)),
            append=tuple(map(_quoted, merged.append_system)),
        )
        prompt = apply(briefing.prompt, additions, self._fence_id)
        left = {piece.id for piece in prompt.sections}
        gone = ", ".join(piece.id for piece in briefing.prompt.sections if piece.id not in left)
        before = briefing.prompt.text
        for hook, wishes in self._wishes:
            for change in wishes.changes:
                replaces = change.field == "systemPrompt" and not change.refused
                note = f"without {gone}" if replaces and gone else ""
                await self._keep(hook, (change,), before=before if change.field == "systemPrompt" else "", note=note)
                before = change.after if replaces else before
        self.around = HookScope(before=self._fenced(merged.prepend_context), after=self._fenced(merged.append_context))
        return with_changes(briefing, prompt, self.changes, tools) if self.entries else briefing

    def _fenced(self, voices: Sequence[HookSource]) -> str:
        pieces = []
        for voice in voices:
            text = neutralise(voice.text.strip())
            source = f"plugin {voice.plugin}"
            pieces.append(fence("PLUGIN_CONTEXT", self._fence_id, text, source=source) if self._fence_id else text)
        return "\n\n".join(pieces)

    async def reply(self, text: str) -> ReplyMerged:
        """The plugin that answers instead of a model, and its answer."""
        if not self._hooks.has("before_agent_reply"):
            return NO_REPLY
        merged = await self._hooks.ask(points.REPLY, BeforeAgentReply(cleaned_body=text), self._context)
        await self._keep("before_agent_reply", merged.changes, note="" if merged.reply else "silence")
        return merged

    def persisted(self, message: ToolResult, *, synthetic: bool = False) -> ToolResult:
        """A tool result as plugins leave it for the transcript. A change that cannot be recorded is dropped."""
        if not self._hooks.has("tool_result_persist"):
            return message
        event = ToolResultPersist(
            tool_name=message.tool_name, tool_call_id=message.tool_call_id, message=message, is_synthetic=synthetic
        )
        merged = self._hooks.ask_now(points.RESULT, event, self._context)
        if not merged.changes:
            return message
        deeds = [
            audit_change("tool_result_persist", change, note=f"tool {message.tool_name}") for change in merged.changes
        ]
        try:
            self._audit.append(deeds, run_id=self._context.run_id, session_key=self._context.session_key)
        except StateError:
            return message
        return merged.message

    def written(self, message: Message) -> Message | None:
        """A message as plugins leave it for the transcript; None when it is left out."""
        if not self._hooks.has("before_message_write"):
            return message
        event = BeforeMessageWrite(message=message, session_key=self._context.session_key)
        merged = self._hooks.ask_now(points.WRITE, event, self._context)
        if not merged.changes:
            return message
        deeds = [audit_change("before_message_write", change) for change in merged.changes]
        try:
            self._audit.append(deeds, run_id=self._context.run_id, session_key=self._context.session_key)
        except StateError:
            return message
        return merged.message if merged.blocked is None else None

    async def objection(self, text: str, messages: tuple[Message, ...], system: str) -> ReplyMerged | None:
        """What is answered instead when a plugin does not let the turn run."""
        merged = await self.models.admit(text, messages, system)
        if merged.blocked is None:
            return None
        await self._keep("before_agent_run", merged.changes)
        said = merged.message or f"This was stopped by the plugin {merged.blocked.plugin}: {merged.blocked.text}."
        return ReplyMerged(plugin=merged.blocked.plugin, reply=said)

    async def revision(self, draft: Assistant, messages: tuple[Message, ...]) -> User | None:
        """What the model is asked instead of giving `draft`, if plugins want another answer."""
        if not self._hooks.has("before_agent_finalize"):
            return None
        merged = await self.models.revision(draft.text, messages)
        await self._keep("before_agent_finalize", merged.changes)
        wishes = self._fenced([HookSource(plugin, wish.instruction) for plugin, wish in merged.revisions])
        return User(content=f"{REVISE}\n\n{wishes}", timestamp=millis(self._clock)) if wishes else None

    async def compacting(self, event: object, messages: int, session_file: str) -> None:
        """Notifies of a compaction: waits before it begins, does not after it."""
        match event:
            case CompactionStarted(tokens=tokens) if self._hooks.has("before_compaction"):
                started = BeforeCompaction(message_count=messages, token_count=tokens, session_file=session_file)
                await self._hooks.told("before_compaction", started, self._context)
            case CompactionEnded(ok=True) if self._hooks.has("after_compaction"):
                ended = AfterCompaction(
                    message_count=event.kept,
                    compacted_count=event.removed,
                    token_count=event.tokens_after,
                    session_file=session_file,
                )
                self._hooks.tell("after_compaction", ended, self._context)

    def session_started(self, session_id: str) -> None:
        if self._hooks.has("session_start"):
            self._hooks.tell("session_start", SessionStart(session_id=session_id), self._context)

    def ended(self, messages: tuple[Message, ...], *, success: bool, error: str) -> None:
        if not self._hooks.has("agent_end"):
            return
        event = AgentEnd(
            run_id=self._context.run_id,
            messages=messages,
            success=success,
            error=error or None,
            duration_ms=round((self._clock.now() - self._began) * 1000),
        )
        self._hooks.tell("agent_end", event, self._context)

    @property
    def changes(self) -> tuple[ChangeLine, ...]:
        """What was changed before the model was asked, for the prompt's report."""
        return tuple(map(entry_to_change, self.entries))

    async def _keep(
        self, hook: HookName, changes: Sequence[HookChange], *, before: str = "", why: str = "", note: str = ""
    ) -> None:
        deeds = [
            audit_change(
                hook, structs.replace(each, before=before or each.before, refused=each.refused or why), note=note
            )
            for each in changes
        ]
        self.entries += await self._audit.record(
            deeds, run_id=self._context.run_id, session_key=self._context.session_key
        )


def _quoted(voice: HookSource) -> PromptText:
    return PromptText(voice.text, f"plugin {voice.plugin}", "tool")


GOODBYE_SECONDS = 2.0
"""Seconds all plugins together get at shutdown for the end of sessions."""
MOST_SESSIONS = 1_000


# All of them.


class RunHooks:
    """The hook points of this process: of turns, messages, sessions and the gateway."""

    def __init__(self, audit: AuditLog, approver: Approver, clock: Clock, fence_id: str) -> None:
        self.hooks = HookDispatcher(clock)
        self.tools = ToolHooks(self.hooks, audit, approver)
        self.messages = MessageHooks(self.hooks, audit, clock)
        self._audit = audit
        self._clock = clock
        self._fence_id = fence_id
        self._open: dict[str, RunRequest] = {}
        """Sessions that were spoken in while this process lived, by key, with the last turn of each."""

    def turn(self, turn: RunRequest, session_id: str, workspace: Path) -> TurnHooks:
        """The hook points of one turn."""
        self._open.pop(str(turn.key), None)
        self._open[str(turn.key)] = turn
        if len(self._open) > MOST_SESSIONS:
            del self._open[next(iter(self._open))]
        where = hook_context(turn, session_id, str(workspace))
        return TurnHooks(self.hooks, self._audit, where, self._clock, self._fence_id)

    def errand(self, trigger: Trigger) -> HookContext:
        """The context of something that belongs to no turn."""
        return HookContext(trigger=trigger)

    async def session_resets(self, row: SessionRow, why: EndReason, file: Path) -> None:
        """Notifies that a session is about to begin anew, and waits."""
        if self.hooks.has("before_reset"):
            event = BeforeReset(session_file=str(file), reason=why, message_count=row.messages)
            await self.hooks.told("before_reset", event, _place(row))

    def session_ended(self, row: SessionRow, why: EndReason) -> None:
        """Notifies that a session ended."""
        self._open.pop(row.session_key, None)
        if self.hooks.has("session_end"):
            self.hooks.tell("session_end", self._end(row, why), _place(row))

    def gateway_started(self, port: int) -> None:
        if self.hooks.has("gateway_start"):
            self.hooks.tell("gateway_start", GatewayStart(port=port), HookContext(trigger="system"))

    async def gateway_stops(self, why: Literal["stop", "restart"], index: SessionIndex) -> None:
        """Notifies that sessions and the gateway end; plugins that take too long are not waited for."""
        if self.hooks.has("session_end") and self._open:
            reason: EndReason = "restart" if why == "restart" else "shutdown"
            rows = [row for turn in self._open.values() if (row := await index.get(turn.key)) is not None]
            goodbyes = {
                asyncio.create_task(self.hooks.told("session_end", self._end(row, reason), _place(row))) for row in rows
            }
            if goodbyes:
                _, late = await asyncio.wait(goodbyes, timeout=GOODBYE_SECONDS)
                for task in late:
                    task.cancel()
                await asyncio.gather(*late, return_exceptions=True)
        if self.hooks.has("gateway_stop"):
            await self.hooks.told("gateway_stop", GatewayStop(reason=why), HookContext(trigger="system"))

    def _end(self, row: SessionRow, why: EndReason) -> SessionEnd:
        return SessionEnd(
            session_id=row.session_id,
            message_count=row.messages,
            duration_ms=max(0, millis(self._clock) - row.created_at),
            reason=why,
        )


def _place(row: SessionRow) -> HookContext:
    return HookContext(agent_id=row.agent_id, session_key=row.session_key, session_id=row.session_id, trigger="system")
