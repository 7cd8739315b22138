"""Runs compaction, memory flush and pruning for a conversation: before a turn, within one, and on request.

The transcript is append-only: a compaction is one more entry, and the model's context then begins with its summary.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import cached_property

import msgspec
from msgspec import Struct

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import ConfigError
from openclaw.core.events import CompactionEnded, CompactionReason, CompactionStarted
from openclaw.core.messages import Assistant, Message, Usage, User
from openclaw.core.provider import Model, System
from openclaw.core.tool import ToolSpec
from openclaw.sessions.compaction import plan
from openclaw.sessions.compaction.plan import estimate, measure
from openclaw.sessions.compaction.summarise import CompactionFailed, MemoryFlush, Summariser
from openclaw.sessions.files import TranscriptFile, load
from openclaw.sessions.history import Conversation
from openclaw.sessions.settings import CompactionSettings, PruningSettings, seconds_of, size_of
from openclaw.sessions.transcript import (
    AnyEntry,
    Compaction,
    Custom,
    ModelContext,
    build_context,
    path_to_leaf,
)

log = logging.getLogger(__name__)

WORTH_ASKING = 2_000
"""A requested compaction of fewer tokens than this is declined as not worth it."""
SECTIONS_INTRO = "Parts of AGENTS.md that hold after the summary as before:"
NOTHING = "there is nothing to compact"


class FlushEnded(Struct, frozen=True):
    """A memory flush ran; it is not shown, but its usage counts."""

    usage: Usage


CompactionEvent = CompactionStarted | CompactionEnded | FlushEnded


class CompactionManager(Struct, frozen=True, kw_only=True, dict=True):
    """Compacts, flushes and prunes one conversation, for one turn."""

    settings: CompactionSettings
    pruning: PruningSettings
    model: Model
    system: System
    tools: Sequence[ToolSpec]
    compactor: Summariser
    flush: MemoryFlush | None
    clock: Clock
    sections: Callable[[], str] = str
    """The parts of AGENTS.md that stand behind a summary, as they are now."""

    def _overhead(self) -> int:
        """The tokens of the prompt beside the conversation."""
        tools = sum(-(-(len(spec.description) + len(spec.schema)) // 4) for spec in self.tools)
        return plan.estimate_steady(self.system.stable) + plan.estimate_steady(f"\n{self.system.dynamic}") + tools

    @cached_property
    def _byte_limits(self) -> tuple[int, int]:
        """The sizes on disk from which on notes are written, and the conversation is compacted; 0 is never."""
        flush_bytes = size_of(self.flush.settings.force_flush_transcript_bytes) if self.flush else 0
        return flush_bytes, size_of(self.settings.max_active_transcript_bytes)

    def check(self) -> None:
        """Raises `ConfigError` when the model's window is too small for a turn, or a limit cannot be read."""
        assert self._byte_limits >= (0, 0)
        window = self.model.context_window
        if window < plan.HARD_MINIMUM:
            raise ConfigError(
                f"{self.model.ref} has a context window of {window} tokens; a turn needs at least "
                f"{plan.HARD_MINIMUM}. Choose another model, or correct its contextWindow under models.providers."
            )
        if window < plan.COMFORTABLE:
            log.warning("%s has a context window of only %d tokens", self.model.ref, window)

    def is_due(self, known: Conversation, question: Message) -> bool:
        """Whether `before_turn` has something to do; `known` is the conversation as loaded."""
        flush_bytes, most_bytes = self._byte_limits
        if any(limit and known.size.bytes >= limit for limit in (flush_bytes, most_bytes)):
            return self.settings.enabled
        soft = self.flush.settings.soft_threshold_tokens if self.flush else 0
        tokens = known.size.tokens(self._overhead) + estimate(question)
        return self.settings.enabled and tokens >= plan.flush_threshold(self.model.context_window, soft)

    async def before_turn(
        self, transcript: TranscriptFile, known: Conversation, question: Message
    ) -> AsyncGenerator[CompactionEvent, None]:
        """Runs a memory flush and a compaction when each is due."""
        asked = estimate(question)
        tokens = known.size.tokens(self._overhead) + asked
        window = self.model.context_window
        flush_bytes, most_bytes = self._byte_limits
        size = known.size.bytes
        large = bool(most_bytes) and size >= most_bytes
        soft = self.flush.settings.soft_threshold_tokens if self.flush else 0
        if tokens >= plan.flush_threshold(window, soft) or large or (flush_bytes and size >= flush_bytes):
            async for event in self._run_flush(transcript, known.marks):
                yield event
        if tokens >= plan.capacity(window) or large:
            async for done in self.compact(transcript, "threshold", room_for=asked):
                yield done

    def crowded(self, messages: Sequence[Message]) -> bool:
        """Whether a run should compact before its next model call."""
        if not (self.settings.enabled and self.settings.mid_turn_precheck.enabled):
            return False
        return self._overhead() + plan.estimate_all(messages) >= plan.capacity(self.model.context_window)

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
        size = measure(path)
        before = size.tokens(self._overhead)
        window = self.model.context_window
        window = min(window, plan.parse_window(seen_error) or window)
        if reason == "manual":
            if size.tokens() < WORTH_ASKING:
                yield CompactionStarted(reason=reason, tokens=before)
                yield _failure(reason, before, f"{NOTHING}: the conversation is short")
                return
            async for event in self._run_flush(transcript, path):
                yield event
            path = await _path(transcript)
        keep = plan.keep_budget(self.settings.keep_recent_tokens, window, before, self._overhead() + room_for)
        cut = plan.plan(path, keep)
        if cut is None:
            if reason != "threshold":  # nobody asked, and it would be said at every turn
                yield CompactionStarted(reason=reason, tokens=before)
                yield _failure(reason, before, NOTHING)
            return
        yield CompactionStarted(reason=reason, tokens=before)
        try:
            made = await self.compactor.summarise(cut, window=window, focus=focus, must=reason == "overflow")
        except CompactionFailed as error:
            log.warning("compaction failed: %s", error.message)
            yield _failure(reason, before, error.message)
            return
        kept = plan.estimate_all(cut.kept)
        after = min(before, self._overhead() + plan.estimate_text(made.text) + kept)
        transcript.append(
            Compaction(
                summary=made.text,
                first_kept_entry_id=cut.first_kept,
                tokens_before=before,
                tokens_after=after,
                details=msgspec.to_builtins(made.details),
            ),
            self.clock.now(),
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

    def shown(
        self, transcript: TranscriptFile, marks: Sequence[AnyEntry], context: ModelContext, *, pictured: bool = True
    ) -> tuple[Message, ...]:
        """The messages of `context`, pruned; newly pruned results are recorded in the transcript.

        `marks` has what was recorded about them so far; `pictured` is false when there are no images in them.
        """
        messages = plan.without_old_images(context.messages) if pictured else context.messages
        # On by default for Anthropic, which charges for cache lifetime.
        if (self.pruning.mode or ("cache-ttl" if self.model.api == "anthropic-messages" else "off")) != "off":
            messages = self._prune(transcript, marks, messages)
        if context.summary is None:
            return messages
        again = self.sections()
        behind = f"\n\n{SECTIONS_INTRO}\n\n{again}" if again else ""
        return (User(content=f"<summary>\n{context.summary}\n</summary>{behind}"), *messages)

    def _prune(
        self, transcript: TranscriptFile, marks: Sequence[AnyEntry], messages: tuple[Message, ...]
    ) -> tuple[Message, ...]:
        before = plan.read_projections(marks)
        last = next((message.timestamp for message in reversed(messages) if isinstance(message, Assistant)), 0)
        ttl = seconds_of(self.pruning.ttl or ("1h" if self.pruning.mode is None else "5m"))
        cold = self.clock.now() - last / 1000 >= ttl
        pruned = plan.prune(messages, before, self.pruning, window=self.model.context_window, cold=cold)
        if pruned.shown != before:
            data = {"timestamp": millis(self.clock), "shown": dict(pruned.shown)}
            transcript.append(Custom(custom_type=plan.CUSTOM_TYPE, data=data), self.clock.now())
        return pruned.messages

    async def _run_flush(
        self, transcript: TranscriptFile, marks: Sequence[AnyEntry]
    ) -> AsyncGenerator[FlushEnded, None]:
        if self.flush is None or not self.flush.due(marks):
            return
        path = await _path(transcript)
        done = await self.flush.run(path, self.system, self.shown(transcript, path, build_context(path)))
        transcript.append(done.entry, self.clock.now())
        yield FlushEnded(done.usage)


async def _path(transcript: TranscriptFile) -> list[AnyEntry]:
    """Reads the conversation from disk, including what this turn has written."""
    return path_to_leaf((await asyncio.to_thread(load, transcript.path)).entries)


def _failure(reason: CompactionReason, tokens: int, why: str) -> CompactionEnded:
    return CompactionEnded(reason=reason, ok=False, tokens_before=tokens, tokens_after=tokens, error=why)
