"""Model calls of compaction: summarises the removed messages in chunks, and runs the memory flush.

Nothing is written to the transcript here; a failed summary changes nothing.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from openclaw.core.clock import Clock, millis, zone_of
from openclaw.core.errors import ContextTooLong, OpenClawError, Unavailable
from openclaw.core.harness import AskModel, RunJob, RunTools
from openclaw.core.messages import Message, Usage, User
from openclaw.core.provider import System
from openclaw.core.text import replace_surrogates
from openclaw.core.tool import Effects, Output, Tool, ToolContext, ToolSpec
from openclaw.process.tasks import with_timeout
from openclaw.sessions.compaction import summary
from openclaw.sessions.compaction.plan import CompactionPlan, compactions, estimate_all, estimate_text
from openclaw.sessions.compaction.summary import EssentialDetails
from openclaw.sessions.settings import CompactionSettings, MemoryFlushSettings
from openclaw.sessions.transcript import AnyEntry, Custom

# Summaries.

log = logging.getLogger(__name__)

SMALLER_TRIES = 3
"""How often the chunk size is reduced when the summarising model rejects a chunk as too long."""


class CompactionFailed(Unavailable):
    """No acceptable summary could be made; the conversation is unchanged."""


class Summary(Struct, frozen=True, kw_only=True):
    """The text that replaces the removed messages."""

    text: str
    details: EssentialDetails
    usage: Usage = Usage()


class Summariser(Struct):
    """Makes summaries. `tools` are none: a summarising model has nothing to do but write."""

    settings: CompactionSettings
    model: AskModel
    tools: RunTools
    clock: Clock
    window: int
    """Of the summarising model."""
    spent: Usage = Usage()
    """The usage of the summary in work, also when it fails half-way."""

    async def summarise(self, plan: CompactionPlan, *, window: int, focus: str = "", must: bool = False) -> Summary:
        """Summarises what `plan` removes, in fewer tokens; `window` is that of the conversation's model.

        With `must` the conversation cannot go on without one: when every model fails, it is made without a model.
        """
        strict = self.settings.identifier_policy == "strict"
        want = summary.SummaryRequirements(
            headings=summary.HEADINGS[self.settings.mode],
            identifiers=summary.identifiers(plan.removed) if strict else (),
            ask=plan.unanswered,
        )
        self.spent = Usage()
        try:
            work = self._notes(plan, want, focus)
            notes, split = await with_timeout(work, self.settings.timeout_seconds, self.clock, "the summary")
        except OpenClawError as error:
            if not must:
                raise CompactionFailed(error.message) from error
            log.warning("no summary could be had (%s): going on with what is known for certain", error.message)
            notes, split = summary.fallback_summary(want, self.settings.mode), ""
        notes, split = replace_surrogates(notes), replace_surrogates(split)
        turns = self.settings.recent_turns_preserve if self.settings.mode == "safeguard" else 0
        text, details = summary.finish_summary(notes, plan, want, window=window, turns=turns, split=split)
        before = estimate_all(plan.removed) + estimate_text(plan.previous.summary if plan.previous else "")
        if estimate_text(text) >= before:
            raise CompactionFailed("a summary would not be shorter than what it stands for")
        return Summary(text=text, details=details, usage=self.spent)

    async def _notes(self, plan: CompactionPlan, want: summary.SummaryRequirements, focus: str) -> tuple[str, str]:
        """The summary, and that of the split turn's beginning."""
        inside = 0 < plan.split < len(plan.removed) or (plan.split == 0 and plan.previous is not None)
        older = plan.removed[: plan.split] if inside else plan.removed
        begun = plan.removed[plan.split :] if inside else ()
        notes = plan.previous.summary.partition(summary.APPENDIX)[0] if plan.previous else ""
        if older or not notes:
            notes = await self._guarded(summary.render_messages(older), notes, want, focus)
        if not begun:
            return notes, ""
        return notes, await self._in_pieces(summary.render_messages(begun), "", summary.SPLIT_TURN_PROMPT, "")

    async def _guarded(self, texts: Sequence[str], previous: str, want: summary.SummaryRequirements, focus: str) -> str:
        """Summarises and checks the headings, with retries. Missing identifiers and requests are appended later."""
        settings = self.settings
        wish = summary.summary_prompt(settings.mode, strict=settings.identifier_policy == "strict", focus=focus)
        guarded = settings.quality_guard.enabled and settings.mode == "safeguard"
        correction = ""
        notes = ""
        for _ in range(1 + (settings.quality_guard.max_retries if guarded else 0)):
            notes = await self._in_pieces(texts, previous, wish, correction)
            correction = summary.find_faults(notes, want) if guarded else ""
            if not correction:
                break
        if not notes.strip():
            raise CompactionFailed("the model gave an empty summary")
        if guarded and summary.missing_headings(notes, want.headings):
            raise CompactionFailed(f"the summary was not good enough: {correction}")
        return notes

    async def _in_pieces(self, texts: Sequence[str], previous: str, wish: str, correction: str) -> str:
        """Summarises `texts`: in one request when they fit, else chunk by chunk, the notes so far with each."""
        limit = summary.chunk_limit(self.window)
        for left in range(SMALLER_TRIES, -1, -1):
            try:
                notes = previous
                for piece in summary.chunks(texts, limit) or [""]:
                    said = await self._say(wish, summary.summary_request(piece, notes, correction))
                    if not said.strip():
                        return ""
                    notes = said[: summary.MOST_CHARS]
                return notes
            except ContextTooLong:
                if not left or limit <= summary.SMALLEST_CHUNK:
                    raise
                limit = max(summary.SMALLEST_CHUNK, limit // 2)
        raise AssertionError("unreachable")

    async def _say(self, wish: str, text: str) -> str:
        job = RunJob(system=System(stable=wish), messages=(User(content=text),))
        said = await self.model.ask(job, self.tools)
        self.spent = self.spent + said.usage
        return said.text


# Memory flush.

CUSTOM_TYPE = "openclaw.memory-flush"
NOTE_CHARS = 20_000
TIMEOUT = 180.0


class AppendNotes:
    """The tool of a memory flush: appends to one file of the workspace."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            name="append",
            label="Append",
            description=f"Append text to {self._name}. Nothing else can be written.",
            parameters={
                "type": "object",
                "properties": {"text": {"type": "string", "minLength": 1, "maxLength": NOTE_CHARS}},
                "required": ["text"],
            },
            summary="append to today's notes",
            aliases={"content": "text"},
        )

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.WRITES_FILES

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset({str(context.workspace / self._name)})

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        path = context.workspace / self._name
        if not path.resolve().is_relative_to(context.workspace.resolve()):
            return Output.failed(f"{self._name} leads out of the workspace: nothing was written")
        try:
            _append(path, replace_surrogates(args["text"]))
        except OSError as error:
            return Output.failed(f"cannot write {self._name}: {error.strerror}")
        return Output.of(f"Appended to {self._name}.")


def _append(path: Path, text: str) -> None:
    """Appends in one write, on lines of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        start = file.seek(0, os.SEEK_END)
        if start:
            file.seek(start - 1)
        gap = b"" if not start else b"\n" if file.read(1) == b"\n" else b"\n\n"
        file.write(gap + text.strip().encode() + b"\n")


class FlushResult(Struct, frozen=True):
    """The result of a flush; `entry` goes into the transcript, so that there is one flush per compaction."""

    entry: Custom
    usage: Usage


class MemoryFlush(Struct, frozen=True):
    """Runs a silent turn that writes notes. `tools` makes a toolbox of the writing tool and the reading ones."""

    settings: MemoryFlushSettings
    model: AskModel
    tools: Callable[[Tool], RunTools]
    clock: Clock
    workspace: Path
    timezone: str

    def due(self, path: Sequence[AnyEntry]) -> bool:
        """Whether none ran since the last compaction, and the workspace is writable."""
        count = compactions(path)
        done = any(
            isinstance(entry, Custom)
            and entry.custom_type == CUSTOM_TYPE
            and isinstance(entry.data, dict)
            and entry.data.get("compactionCount") == count
            for entry in path
        )
        return self.settings.enabled and not done and os.access(self.workspace, os.W_OK)

    async def run(self, path: Sequence[AnyEntry], system: System, messages: tuple[Message, ...]) -> FlushResult:
        """Runs the turn; a failure counts as done too, so that it is not repeated."""
        name = f"memory/{datetime.fromtimestamp(self.clock.now(), zone_of(self.timezone)):%Y-%m-%d}.md"
        job = RunJob(system=system, messages=(*messages, User(content=_wish(name), timestamp=millis(self.clock))))
        usage, error = Usage(), ""
        try:
            work = self.model.ask(job, self.tools(AppendNotes(name)))
            usage = (await with_timeout(work, TIMEOUT, self.clock, "writing notes")).usage
        except OpenClawError as failure:
            log.warning("no notes were written before the compaction: %s", failure.message)
            error = failure.message
        data = {"at": millis(self.clock), "compactionCount": compactions(path), **({"error": error} if error else {})}
        return FlushResult(Custom(custom_type=CUSTOM_TYPE, data=data), usage)


def _wish(name: str) -> str:
    return (
        "This conversation is about to be shortened; this message is from the runtime, nobody reads your answer. "
        f"If something in it should be known weeks from now (decisions, preferences, facts about people, open "
        f"promises), append it with the tool `append`, which writes to {name} and only there. Read that file first "
        "when it may already be noted. Do not write what is there already, make no other file, and change nothing "
        "else. When you are done, or when there is nothing to note, answer NO_REPLY."
    )
