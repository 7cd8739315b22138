"""Writes a run's events to the transcript: final messages at once, unfinished ones when the run ends."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import structs

from openclaw.core.clock import Clock, millis
from openclaw.core.events import (
    AttemptFailed,
    CompactionEnded,
    Event,
    MessageEnded,
    ModelCalled,
    RunEnded,
    RunNotice,
    Steered,
    TextDelta,
    ToolEnded,
)
from openclaw.core.messages import Assistant, Message, StopReason, Text, ToolCall, ToolResult, Usage
from openclaw.core.text import replace_surrogates
from openclaw.runs.request import RecordedEvent
from openclaw.sessions.compaction.manager import CompactionEvent, FlushEnded
from openclaw.sessions.files import TranscriptFile
from openclaw.sessions.reply_parse import SILENT
from openclaw.sessions.transcript import ConversationTotals, Leaf, MessageEntry, interrupted_result, notice_entry

if TYPE_CHECKING:
    from openclaw.plugins.hooks.points import ReplyMerged
    from openclaw.runs.hooks.runs import TurnHooks


STOPPED = "Stopped by the user before this call finished. Check whether it took effect before repeating it."


class TurnRecorder:
    """Records one run: writes what is final and tracks what is still open."""

    def __init__(
        self, transcript: TranscriptFile, total: ConversationTotals, clock: Clock, hooks: "TurnHooks | None"
    ) -> None:
        self.transcript = transcript
        self._clock = clock
        self._hooks = hooks
        self.said: list[Message] = []
        """Everything written in this run."""
        self._open: dict[str, ToolCall] = {}
        """Calls whose result is not written yet, in the order of the model's message."""
        self._done: dict[str, ToolResult] = {}
        """Results that wait for those of calls before them: a transcript has them in the order of the calls."""
        self._partial: list[str] = []
        self._asked: ModelCalled | None = None
        self.total = total
        self.spent = Usage()
        self.context_tokens: int | None = None
        """What a compaction left, until a model has counted again."""
        self.stop_reason: StopReason = "aborted"
        self.error = ""
        self._ended = False
        self.fresh: list[RecordedEvent] = []
        """Entries that were written and not told yet."""
        self.shrunk = False
        """Whether the last compaction made room."""

    def say(self, message: Message, *, synthetic: bool = False) -> None:
        if self._hooks is not None and isinstance(message, ToolResult):
            message = self._hooks.persisted(message, synthetic=synthetic)
        if self._hooks is not None:
            written = self._hooks.written(message)
            if written is None:
                return
            message = written
        entry = self.transcript.append(MessageEntry(message=message), self._clock.now())
        self.total = self.total.plus(message)
        self.said.append(message)
        self.fresh.append(RecordedEvent(self.transcript.path.stem, entry.id, self.total.messages, message))

    def claimed(self, claim: "ReplyMerged") -> list[Event | RecordedEvent]:
        """Records a turn that a plugin answers, or leaves without an answer, instead of a model."""
        message = Assistant(
            content=(Text(replace_surrogates(claim.reply) or SILENT),),
            provider="plugin",
            model=claim.plugin,
            timestamp=millis(self._clock),
        )
        said, end = MessageEnded(message), RunEnded("stop", self.spent)
        self.take(said)
        self.take(end)
        written, self.fresh = self.fresh, []
        return [said, *written, end]

    async def shrinking(self, compaction: AsyncGenerator[CompactionEvent, None]) -> AsyncGenerator[Event, None]:
        """Records the events of a compaction and tells plugins; those for clients are given on."""
        self.shrunk = False
        async with aclosing(compaction) as events:
            async for event in events:
                if self._hooks is not None:
                    await self._hooks.compacting(event, self.total.messages, str(self.transcript.path))
                if isinstance(event, FlushEnded):
                    self.spent = self.spent + event.usage
                    continue
                self.shrunk = isinstance(event, CompactionEnded) and event.ok
                self.take(event)
                yield event

    def take(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._partial.append(text)
            case CompactionEnded(ok=ok, tokens_after=after, usage=usage):
                self.spent = self.spent + usage
                self.context_tokens = after if ok else self.context_tokens
            case ModelCalled():
                self._asked = event
                self._partial = []
            case AttemptFailed():
                self._partial = []
            case MessageEnded(message=message):
                self._partial = []
                self._open = {call.id: call for call in message.calls}
                self.spent = self.spent + message.usage
                self.context_tokens = None
                self.say(message)
            case Steered(message=message):
                self.say(message)
            case RunNotice(text=text):
                self.transcript.append(notice_entry(text), self._clock.now())
            case ToolEnded(call=call, result=result):
                self._done[call.id] = result
                while (first := next(iter(self._open), "")) in self._done:
                    del self._open[first]
                    self.say(self._done.pop(first))
            case RunEnded(stop_reason=reason, error=error):
                self.stop_reason, self.error, self._ended = reason, error or "", True
                if reason == "error":
                    self._say_partial("error", error)
            case _:
                pass

    def forget(self, leaf: str | None, total: ConversationTotals) -> None:
        """Ends the conversation where it was before the turn; what it cost still counts."""
        self.transcript.append(Leaf(target_id=leaf), self._clock.now())
        self.total = structs.replace(total, usage=self.total.usage)

    def close(self) -> None:
        """Completes the transcript: answers open calls, keeps a partial reply as such."""
        if not self._ended:
            for call in self._open.values():
                done = self._done.get(call.id)
                self.say(done or interrupted_result(call, STOPPED, millis(self._clock)), synthetic=done is None)
            if self._partial:
                self._say_partial("aborted", None)
        self._open = {}

    def _say_partial(self, reason: StopReason, error: str | None) -> None:
        text = "".join(self._partial)
        self._partial = []
        self.say(
            Assistant(
                content=(Text(text),) if text else (),
                provider=self._asked.provider if self._asked else "",
                model=self._asked.model if self._asked else "",
                stop_reason=reason,
                error_message=error,
                timestamp=millis(self._clock),
            )
        )
