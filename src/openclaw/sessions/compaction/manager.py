"""Runs compaction, memory flush and pruning for a conversation: before a turn, within one, and on request.

The transcript is append-only: a compaction is one more entry, and the model's context then begins with its summary.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence

import msgspec
from msgspec import Struct

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import ConfigError
from openclaw.core.events import CompactionEnded, CompactionReason, CompactionStarted
from openclaw.core.messages import Assistant, Message, Usage, User
from openclaw.core.provider import Model, System
from openclaw.core.text import estimate_tokens as tokens_of
from openclaw.core.tool import ToolSpec
from openclaw.sessions.compaction import plan
from openclaw.sessions.compaction.plan import estimate, measure
from openclaw.sessions.compaction.summarise import CompactionFailed, MemoryFlush, Summariser
from openclaw.sessions.files import TranscriptFile, load
from openclaw.sessions.settings import CompactionSettings, PruningSettings, seconds_of, size_of
from openclaw.sessions.transcript import (
    AnyEntry,
    Compaction,
    Custom,
    ModelContext,
    build_context,
    path_to_leaf,
    visible_entries,
)

log = logging.getLogger(__name__)

WORTH_ASKING = 2_000
"""A requested compaction of fewer tokens than this is declined as not worth it."""
NOTHING = "there is nothing to compact"


class FlushEnded(Struct, frozen=True):
    """A memory flush ran; it is not shown, but its usage counts."""

    usage: Usage


CompactionEvent = CompactionStarted | CompactionEnded | FlushEnded


def summary_message(context: ModelContext) -> tuple[Message, ...]:
    """The summary as the first message of the context; empty when there is none."""
    return (User(content=f"<summary>\n{context.summary}\n</summary>"),) if context.summary is not None else ()


class CompactionManager:
    """Compacts, flushes and prunes one conversation, for one turn."""

    def __init__(
        self,
        *,
        settings: CompactionSettings,
        pruning: PruningSettings,
        model: Model,
        system: System,
        tools: Sequence[ToolSpec],
        compactor: Summariser,
        flush: MemoryFlush | None,
        clock: Clock,
    ) -> None:
        self.settings = settings
        self._pruning = pruning_of(pruning, model)
        self._window = model.context_window
        self._model = model
        self._system = system
        self._overhead = plan.estimate_text(system.text) + sum(_spec_tokens(spec) for spec in tools)
        self._compactor = compactor
        self._flush = flush
        self._clock = clock

    def check(self) -> None:
        """Raises `ConfigError` when the model's window is too small for a turn."""
        if self._window < plan.HARD_MINIMUM:
            raise ConfigError(
                f"{self._model.ref} has a context window of {self._window} tokens; a turn needs at least "
                f"{plan.HARD_MINIMUM}. Choose another model, or correct its contextWindow under models.providers."
            )
        if self._window < plan.COMFORTABLE:
            log.warning("%s has a context window of only %d tokens", self._model.ref, self._window)

    async def before_turn(
        self, transcript: TranscriptFile, path: Sequence[AnyEntry], question: Message
    ) -> AsyncGenerator[CompactionEvent, None]:
        """Runs a memory flush and a compaction when each is due; `path` is the conversation as loaded."""
        if not self.settings.enabled:
            return
        asked = estimate(question)
        tokens = measure(path, self._overhead) + asked
        large = await self._is_large(transcript, path)
        soft = self._flush.settings.soft_threshold_tokens if self._flush else 0
        if plan.is_nearly_full(tokens, self._window, soft) or large.flush or large.compact:
            async for event in self._flushed(transcript, path):
                yield event
        if plan.is_full(tokens, self._window) or large.compact:
            async for done in self.compact(transcript, "threshold", room_for=asked):
                yield done

    def crowded(self, messages: Sequence[Message]) -> bool:
        """Whether a run should compact before its next model call."""
        if not (self.settings.enabled and self.settings.mid_turn_precheck.enabled):
            return False
        return plan.is_full(self._overhead + plan.estimate_all(messages), self._window)

    async def compact(
        self,
        transcript: TranscriptFile,
        reason: CompactionReason,
        *,
        focus: str = "",
        seen_error: str = "",
        room_for: int = 0,
    ) -> AsyncGenerator[CompactionEvent, None]:
        """Compacts the conversation once; when that fails, changes nothing and says why."""
        path = await _path(transcript)
        before = measure(path, self._overhead)
        window = min(self._window, plan.parse_window(seen_error) or self._window)
        if reason == "manual":
            if measure(path) < WORTH_ASKING:
                yield _failed(reason, before, f"{NOTHING}: the conversation is short")
                return
            async for event in self._flushed(transcript, path):
                yield event
            path = await _path(transcript)
        keep = plan.keep_budget(self.settings.keep_recent_tokens, window, before, self._overhead + room_for)
        cut = plan.plan(path, keep)
        if cut is None:
            yield _failed(reason, before, NOTHING)
            return
        yield CompactionStarted(reason=reason, tokens=before)
        try:
            made = await self._compactor.summarise(cut, window=window, focus=focus, must=reason == "overflow")
        except CompactionFailed as error:
            log.warning("compaction failed: %s", error.message)
            yield _failed(reason, before, error.message)
            return
        kept = plan.estimate_all(cut.kept)
        after = min(before, self._overhead + plan.estimate_text(made.text) + kept)
        transcript.append(
            Compaction(
                summary=made.text,
                first_kept_entry_id=cut.first_kept,
                tokens_before=before,
                tokens_after=after,
                details=msgspec.to_builtins(made.details),
            ),
            self._clock.now(),
        )
        await asyncio.to_thread(transcript.sync)
        yield CompactionEnded(
            reason=reason,
            ok=True,
            tokens_before=before,
            tokens_after=after,
            removed=len(cut.removed),
            kept=len(cut.kept),
            will_retry=reason == "overflow",
            usage=made.usage,
        )

    async def messages(self, transcript: TranscriptFile) -> tuple[Message, ...]:
        """The messages of the conversation for the model."""
        path = await _path(transcript)
        return self.shown(transcript, path, build_context(path))

    def shown(self, transcript: TranscriptFile, path: Sequence[AnyEntry], context: ModelContext) -> tuple[Message, ...]:
        """The messages of `context`, pruned; newly pruned results are recorded in the transcript."""
        messages = plan.without_old_images(context.messages)
        if self._pruning is not None:
            before = plan.read_projections(path)
            idle = self._clock.now() - _last_asked(messages) / 1000
            pruned = plan.prune(messages, before, self._pruning, window=self._window, idle=idle)
            if pruned.shown != before:
                data = {"timestamp": millis(self._clock), "shown": dict(pruned.shown)}
                transcript.append(Custom(custom_type=plan.CUSTOM_TYPE, data=data), self._clock.now())
            messages = pruned.messages
        return (*summary_message(context), *messages)

    async def _flushed(self, transcript: TranscriptFile, path: Sequence[AnyEntry]) -> AsyncGenerator[FlushEnded, None]:
        if self._flush is None or not self._flush.due(path):
            return
        done = await self._flush.run(path, self._system, self.shown(transcript, path, build_context(path)))
        transcript.append(done.entry, self._clock.now())
        yield FlushEnded(done.usage)

    async def _is_large(self, transcript: TranscriptFile, path: Sequence[AnyEntry]) -> "_Large":
        """Whether the visible part exceeds the byte limits; measured only when the whole file does."""
        flush = size_of(self._flush.settings.force_flush_transcript_bytes) if self._flush else 0
        most = size_of(self.settings.max_active_transcript_bytes)
        limits = [limit for limit in (flush, most) if limit]
        if not limits or transcript.path.stat().st_size < min(limits):
            return _Large()
        size = await asyncio.to_thread(_shown_bytes, path)
        return _Large(bool(flush) and size >= flush, bool(most) and size >= most)


class _Large(Struct, frozen=True):
    flush: bool = False
    compact: bool = False


def _shown_bytes(path: Sequence[AnyEntry]) -> int:
    shown, _ = visible_entries(path)
    return sum(len(msgspec.json.encode(entry)) for entry in shown)


def pruning_of(settings: PruningSettings, model: Model) -> plan.Pruning | None:
    """The pruning rules for `model`; on by default for Anthropic, which charges for cache lifetime."""
    cached = model.api == "anthropic-messages"
    mode = settings.mode or ("cache-ttl" if cached else "off")
    if mode == "off":
        return None
    return plan.Pruning(
        ttl=seconds_of(settings.ttl or ("1h" if settings.mode is None else "5m")),
        allow=settings.tools.allow,
        deny=settings.tools.deny,
        hard_clear=settings.hard_clear.enabled,
        placeholder=settings.hard_clear.placeholder,
    )


async def _path(transcript: TranscriptFile) -> list[AnyEntry]:
    """Reads the conversation from disk, including what this turn has written."""
    return path_to_leaf((await asyncio.to_thread(load, transcript.path)).entries)


def _last_asked(messages: Sequence[Message]) -> int:
    return max((message.timestamp for message in messages if isinstance(message, Assistant)), default=0)


def _failed(reason: CompactionReason, tokens: int, why: str) -> CompactionEnded:
    return CompactionEnded(reason=reason, ok=False, tokens_before=tokens, tokens_after=tokens, error=why)


def _spec_tokens(spec: ToolSpec) -> int:
    return tokens_of(len(spec.description) + len(spec.schema))
