"""The hook points of a turn: plugins are asked, what they change is put on record first and takes effect second."""

from collections.abc import Callable, Sequence

from msgspec import Struct, structs

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OpenClawError, StateError
from openclaw.core.events import CompactionEnded, CompactionStarted
from openclaw.core.hooks import (
    AfterCompaction,
    AgentEnd,
    Attachment,
    BeforeAgentReply,
    BeforeAgentStart,
    BeforeCompaction,
    BeforeModelResolve,
    BeforePromptBuild,
    HookContext,
    HookName,
    SessionStart,
    ToolResultPersist,
)
from openclaw.core.messages import Message, Text, ToolResult, User
from openclaw.core.text import PromptText, fence, neutralise
from openclaw.core.tool import ToolSpec
from openclaw.hooks import merge, points
from openclaw.hooks.dispatch import HookDispatcher
from openclaw.hooks.merge import HookChange, HookSource, PromptMerged, ReplyMerged
from openclaw.models.situation import ModelSet
from openclaw.policy.layers import ToolLayer
from openclaw.prompt.hooks import Additions, apply
from openclaw.prompt.report import ChangeLine
from openclaw.trust.audit import AuditChange, AuditEntry
from openclaw.trust.auditlog import AuditLog
from openclaw.turns.briefing import BuiltPrompt, changed
from openclaw.turns.changes import lined
from openclaw.turns.turn import RunRequest

NO_REPLY = ReplyMerged()


class HookScope(Struct, frozen=True, kw_only=True):
    """What plugins say around the message of this turn; the transcript keeps the message alone."""

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
    """Asks the plugins about one turn. Where nobody listens, each point costs one look into a dict."""

    def __init__(
        self, hooks: HookDispatcher, audit: AuditLog, context: HookContext, clock: Clock, fence_id: str = ""
    ) -> None:
        self._hooks = hooks
        self._audit = audit
        self._context = context
        self._clock = clock
        self._fence_id = fence_id
        self._began = clock.now()
        self.entries: list[AuditEntry] = []
        """What was changed before the model was asked."""
        self.around = HookScope()
        self._wishes: tuple[tuple[HookName, PromptMerged], ...] = ()

    async def model(self, turn: RunRequest, preferred: str | None, situation: ModelSet) -> RunRequest | None:
        """The turn with the model a plugin chose, out of those there is a credential for; None when none did."""
        if not (self._hooks.has("before_model_resolve") or self._hooks.has("before_agent_start")):
            return None
        if turn.compact is not None:
            return None
        pictures = tuple(Attachment(mime_type=image.mime_type) for image in turn.images)
        event = BeforeModelResolve(prompt=turn.text, attachments=pictures)
        newer = await self._hooks.ask(points.MODEL, event, self._context)
        older = await self._hooks.ask(points.MODEL_LEGACY, BeforeAgentStart(prompt=turn.text), self._context)
        merged = merge.models(newer, older)
        named = turn.model or preferred
        usual = str(situation.resolve(named) if named else situation.default)
        chosen, why = usual, ""
        if merged.model is not None or merged.provider is not None:
            try:
                ref = situation.resolve(merge.wished(usual, merged))
                situation.credentials(ref, millis(self._clock))
                chosen = str(ref)
            except OpenClawError as error:
                why = error.message
        await self._keep("before_model_resolve", newer.changes, before=usual, why=why)
        await self._keep("before_agent_start", older.changes, before=usual, why=why)
        return None if chosen == usual else structs.replace(turn, model=chosen)

    async def prompt(self, turn: RunRequest, messages: tuple[Message, ...]) -> tuple[ToolLayer, ...]:
        """Asks what plugins want of the prompt, for `applied` to put in place; gives what they leave of the tools."""
        if not (self._hooks.has("before_prompt_build") or self._hooks.has("before_agent_start")):
            return ()
        if turn.compact is not None:
            return ()
        legacy = BeforeAgentStart(prompt=turn.text, messages=messages)
        older = await self._hooks.ask(points.PROMPT_LEGACY, legacy, self._context)
        event = BeforePromptBuild(prompt=turn.text, messages=messages)
        newer = await self._hooks.ask(points.PROMPT, event, self._context)
        self._wishes = (("before_agent_start", older), ("before_prompt_build", newer))
        return tuple(ToolLayer(name="plugins", allow=allowed) for allowed in (*older.tools_allow, *newer.tools_allow))

    async def applied(self, briefing: BuiltPrompt, tools: Sequence[ToolSpec]) -> BuiltPrompt:
        """`briefing` with what plugins put into its prompt; on record before anyone sees it."""
        if not self._wishes:
            return changed(briefing, briefing.prompt, self.changes, tools) if self.entries else briefing
        (_, older), (_, newer) = self._wishes
        merged = merge.prompts(older, newer)
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
        return changed(briefing, prompt, self.changes, tools) if self.entries else briefing

    def _fenced(self, voices: Sequence[HookSource]) -> str:
        pieces = []
        for voice in voices:
            text = neutralise(voice.text.strip())
            source = f"plugin {voice.plugin}"
            pieces.append(fence("PLUGIN_CONTEXT", self._fence_id, text, source=source) if self._fence_id else text)
        return "\n\n".join(pieces)

    async def reply(self, text: str) -> ReplyMerged:
        """Who takes the turn instead of a model, and what they say."""
        if not self._hooks.has("before_agent_reply"):
            return NO_REPLY
        merged = await self._hooks.ask(points.REPLY, BeforeAgentReply(cleaned_body=text), self._context)
        await self._keep("before_agent_reply", merged.changes, note="" if merged.reply else "silence")
        return merged

    def persisted(self, message: ToolResult, *, synthetic: bool = False) -> ToolResult:
        """A result as it is to be written down. One whose change cannot be put on record stays as it is."""
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

    async def compacting(self, event: object, messages: int, session_file: str) -> None:
        """Tells of a compaction that begins, and waits; or of one that has ended."""
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

    def ended(self, messages: Callable[[], tuple[Message, ...]], *, success: bool, error: str) -> None:
        if not self._hooks.has("agent_end"):
            return
        event = AgentEnd(
            run_id=self._context.run_id,
            messages=messages(),
            success=success,
            error=error or None,
            duration_ms=round((self._clock.now() - self._began) * 1000),
        )
        self._hooks.tell("agent_end", event, self._context)

    @property
    def changes(self) -> tuple[ChangeLine, ...]:
        """What was changed before the model was asked, for the prompt's report."""
        return tuple(map(lined, self.entries))

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


def audit_change(hook: HookName, change: HookChange, note: str = "") -> AuditChange:
    """A change as the audit takes it."""
    return AuditChange(
        plugin=change.plugin,
        hook=hook,
        field=change.field,
        before=change.before,
        after=change.after,
        priority=change.priority,
        refused=change.refused,
        note=note,
    )


def _quoted(voice: HookSource) -> PromptText:
    return PromptText(voice.text, f"plugin {voice.plugin}", "tool")


def context_of(turn: RunRequest, session_id: str = "", workspace: str = "") -> HookContext:
    """Where a turn happens, as plugins are told."""
    return HookContext(
        agent_id=turn.key.agent,
        session_key=str(turn.key),
        session_id=session_id,
        workspace_dir=workspace,
        channel=turn.channel,
        trigger=turn.trigger,
        run_id=turn.run_id,
    )
