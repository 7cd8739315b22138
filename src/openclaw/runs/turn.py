"""Runs one turn: lock and load the session, ask the model, record each event, release.

Every event goes to the transcript first and to listeners second, so that what was seen was also recorded. However the
turn ends (an answer, an error, Ctrl-C, a kill), the transcript can be loaded and sent to any model.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, structs

from openclaw.agent.loop import CROWDED, EmbeddedHarness
from openclaw.agent.tool_runner import ToolRunner
from openclaw.budget.meter import RunMeter
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import ContextTooLong
from openclaw.core.events import (
    AttemptFailed,
    CompactionEnded,
    CompactionReason,
    CompactionStarted,
    Event,
    MessageEnded,
    RunEnded,
    RunNotice,
    Steered,
    ToolEnded,
)
from openclaw.core.harness import Compacts, Harness, RunJob, Steering
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Assistant, Image, Message, Text, Usage, User
from openclaw.core.provider import System
from openclaw.core.settings import Live
from openclaw.core.text import Origin, merge_origins, replace_surrogates
from openclaw.process.tasks import run_shielded
from openclaw.runs.record import TurnRecorder
from openclaw.runs.reply import MESSAGING_TOOLS, is_quiet
from openclaw.runs.request import AlertRules, RecordedEvent, RunRequest, SessionRenewed, SessionRepaired
from openclaw.runs.route import FailoverRoute
from openclaw.runs.toolset import Toolset
from openclaw.security.audit import describe_entry
from openclaw.sessions import reset
from openclaw.sessions.compaction.manager import NOTHING, CompactionEvent, CompactionManager
from openclaw.sessions.files import TranscriptFile, WriteLocks, iso, load
from openclaw.sessions.history import Conversation, ConversationCache, build_conversation, extend_conversation
from openclaw.sessions.index import SessionIndex, SessionRow, with_totals
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.reply_text import ReplyOptions
from openclaw.sessions.settings import SessionSettings
from openclaw.sessions.system_events import SystemEvents
from openclaw.sessions.transcript import (
    Compaction,
    ConversationTotals,
    MessageEntry,
    TranscriptHeader,
    TranscriptProblem,
    interrupted_result,
)

if TYPE_CHECKING:
    from openclaw.plugins.hooks.points import ReplyMerged
    from openclaw.runs.hooks.runs import TurnHooks


class TurnPrepared(Struct, frozen=True):
    """The turn has its model, tools and prompt; `options` say how much of it people want to see."""

    options: ReplyOptions = ReplyOptions()
    session_id: str = ""
    model: str = ""
    """The model that was chosen, as a reference."""
    window: int = 0
    """Its context window."""


class OpenedSession(Struct, frozen=True, kw_only=True):
    """A session locked and loaded for one run."""

    row: SessionRow
    transcript: TranscriptFile | None = None
    known: Conversation = Conversation()
    """The conversation as it was loaded."""
    total: ConversationTotals = ConversationTotals()
    problems: tuple[TranscriptProblem, ...] = ()
    renewed: SessionRenewed | None = None


class PreparedTurn(Struct, frozen=True, kw_only=True):
    """All a run needs beside its session; made by `prepare`, which knows models, tools and the prompt."""

    system: System
    route: FailoverRoute
    harness: Harness
    """What carries it out."""
    tools: ToolRunner
    spending: RunMeter
    upkeep: CompactionManager
    options: ReplyOptions = ReplyOptions()
    hooks: "TurnHooks | None" = None
    """The plugins' hook points for this turn; None when no plugin registered any."""
    trace: bool = False
    notices: tuple[str, ...] = ()
    """What the person is told beside the answer."""

    def traces(self) -> tuple[str, ...]:
        """What plugins and hooks changed, for whoever asked to be told."""
        return tuple(f"Trace: {describe_entry(entry)}" for entry in self.hooks.entries) if self.hooks else ()


_FINAL = (MessageEnded, ToolEnded, Steered, CompactionEnded, RunEnded)
"""Events whose entries are kept before anybody hears of them. The question is kept with the first of them; until then
the inbox has it."""
TurnEvent = Event | SessionRepaired | SessionRenewed | TurnPrepared | RecordedEvent


class PreparesTurns(Protocol):
    """Chooses model, tools and prompt of a turn."""

    async def prepare(self, turn: RunRequest, session: OpenedSession, toolset: Toolset) -> PreparedTurn: ...


class TurnRunner:
    """Runs turns, one at a time for each session."""

    def __init__(
        self,
        index: SessionIndex,
        locks: WriteLocks,
        clock: Clock,
        workspace_of: Callable[[str], Path],
        preparer: PreparesTurns,
        system_events: SystemEvents | None = None,
        renewal: "AutoReset | None" = None,
    ) -> None:
        self._system_events = system_events
        self._renewal = renewal
        self._holding = ConversationCache()
        self._index = index
        self._locks = locks
        self._clock = clock
        self._workspace_of = workspace_of
        self._preparer = preparer

    async def run(
        self, turn: RunRequest, toolset: Toolset, steering: Steering | None = None, notice: str = ""
    ) -> AsyncGenerator[TurnEvent, None]:
        """Everything that happens, ending with `RunEnded`; `notice` is told beside the answer.

        A turn whose question is already in the transcript was begun by an earlier process: it continues from there, and
        an answer that was recorded is not requested again.
        """
        async with self._opened(turn) as session:
            if session.renewed is not None:
                yield session.renewed
            if session.problems:
                yield SessionRepaired(session.row.session_id, session.problems)
            prepared = await self._preparer.prepare(turn, session, toolset)
            prepared.upkeep.check()
            chosen = prepared.route.attempt.model
            yield TurnPrepared(prepared.options, session.row.session_id, chosen.ref, chosen.context_window)
            begun = session.known.since(turn.run_id)
            if begun is not None and (answered := _answer(begun)) is not None:
                yield MessageEnded(answered)
                yield RunEnded(answered.stop_reason, answered.usage, turns=1)
                return
            if turn.compact is not None and session.transcript is None:
                yield CompactionStarted(reason="manual", tokens=0)
                yield CompactionEnded(reason="manual", ok=False, error=NOTHING)
                yield RunEnded("stop", Usage())
                return
            transcript = session.transcript or self._create(session.row)
            if session.transcript is None and prepared.hooks is not None:
                prepared.hooks.session_started(session.row.session_id)
            record = TurnRecorder(transcript, session.total, self._clock, prepared.hooks)
            before, store = transcript.leaf, self._locks.store
            try:
                await self._index.started(session.row, turn.run_id, turn.text, by_person=turn.trigger == "user")
                work = (
                    self._answering(turn, session, prepared, record, steering or Steering())
                    if turn.compact is None
                    else self._compacting(turn.compact, prepared, record)
                )
                async with aclosing(work) as events:
                    async for event in events:
                        if isinstance(event, RunEnded):
                            beside = ((notice,) if notice else ()) + prepared.notices
                            noted = [RunNotice(text) for text in beside + (prepared.traces() if prepared.trace else ())]
                            for told in (*noted, *await prepared.spending.ended()):
                                record.take(told)
                                yield told
                        if store is not None and isinstance(event, _FINAL):
                            await store.save(transcript.path)
                        yield event
            finally:
                if turn.alert is not None and _left_no_trace(turn, turn.alert, record):
                    record.forget(before, session.total)
                record.close()
                closing = self._close_books(turn, session, record)
                # Nothing waits in it but the sync, so that without one no cancellation can come in between.
                await (closing if turn.reply_to is None else run_shielded(closing))
                await prepared.spending.settle()
                if prepared.hooks is not None:
                    prepared.hooks.ended(
                        (*session.known.context.messages, *record.said),
                        success=record.stop_reason not in ("error", "aborted"),
                        error=record.error,
                    )

    async def _compacting(
        self, focus: str, prepared: PreparedTurn, record: TurnRecorder
    ) -> AsyncGenerator[Event | RecordedEvent, None]:
        """Runs a compaction that was requested."""
        harness = prepared.harness
        passes: AsyncGenerator[CompactionEvent, None]
        if isinstance(harness, Compacts):
            seen = await prepared.upkeep.messages(record.transcript)
            passes = harness.compact(RunJob(system=prepared.system, messages=seen), prepared.tools)
        else:
            passes = prepared.upkeep.compact(record.transcript, "manual", focus=focus)
        async with aclosing(record.shrinking(passes)) as events:
            async for event in events:
                yield event
        end = RunEnded("stop", record.spent)
        record.take(end)
        yield end

    async def _answering(
        self,
        turn: RunRequest,
        session: OpenedSession,
        prepared: PreparedTurn,
        record: TurnRecorder,
        steering: Steering,
    ) -> AsyncGenerator[Event | RecordedEvent, None]:
        """Makes room if needed and asks until there is an answer; a prompt that turns out too long is compacted."""
        upkeep, hooks = prepared.upkeep, prepared.hooks
        known = session.known
        asked = [] if known.since(turn.run_id) is not None else await self._question(turn, known)
        for each in asked:
            prepared.tools.heard(each)
        # Our own loop is asked for first: a look at what a protocol wants takes as long as a small function.
        harness = prepared.harness
        compacts = not isinstance(harness, EmbeddedHarness) and isinstance(harness, Compacts)
        crowded = None if compacts else upkeep.crowded
        if asked and session.transcript is not None and not compacts and upkeep.is_due(known, asked[-1]):
            async with aclosing(record.shrinking(upkeep.before_turn(record.transcript, known, asked[-1]))) as work:
                async for shrunk in work:
                    yield shrunk
        messages = (
            await upkeep.messages(record.transcript)
            if record.shrunk
            else upkeep.shown(record.transcript, known.marks, known.context, pictured=known.size.pictured)
        )
        if hooks is None:
            for each in asked:
                record.say(each)
        elif (claim := await self._put(turn, asked, messages, prepared.system, hooks, record)) is not None:
            for recorded in record.claimed(claim):
                yield recorded
            return
        messages = (*messages, *asked)
        if hooks is not None:
            messages = hooks.around.put(messages, turn.run_id)
        job = RunJob(
            system=prepared.system,
            messages=messages,
            cache_key=session.row.session_id,
            crowded=crowded,
        )
        before, turns, retried, mark = record.spent, 0, False, len(record.said)
        while True:
            cut: RunEnded | None = None
            revised: tuple[Assistant, User] | None = None
            async with aclosing(prepared.harness.run(job, prepared.tools, steering)) as events:
                async for event in events:
                    if isinstance(event, RunEnded):
                        event = structs.replace(event, usage=before + event.usage, turns=turns + event.turns)
                        if event.error_code == CROWDED or (
                            event.error_code == ContextTooLong.reason and upkeep.settings.enabled and not retried
                        ):
                            cut = event
                            continue
                    retried = retried and not isinstance(event, MessageEnded)
                    if hooks is not None:
                        history = (*job.messages, *record.said[mark:])
                        hooks.models.take(event, turn.text, prepared.system.text, history)
                        if isinstance(event, MessageEnded) and not (event.message.calls or steering.waiting):
                            wish = await hooks.revision(event.message, history)
                            if wish is not None:
                                revised = event.message, wish
                                break
                    record.take(event)
                    yield event
                    while record.fresh:
                        yield record.fresh.pop(0)
            if revised is not None:
                draft, wish = revised
                record.spent = record.spent + draft.usage
                void = AttemptFailed(draft.provider, draft.model, "revised", "a plugin asked for another answer")
                record.take(void)
                yield void
                seen = (*job.messages, *record.said[mark:], draft, wish)
                before, turns, mark = record.spent, turns + 1, len(record.said)
                job = structs.replace(job, messages=seen)
                continue
            if cut is None:
                return
            async with aclosing(self._make_room(cut, prepared, record)) as work:
                async for shrunk in work:
                    yield shrunk
            if not record.shrunk and cut.error_code != CROWDED:
                record.take(cut)
                yield cut
                return
            # A compaction that does not help is not tried again before the model itself says that it is too much.
            retried = True
            before, turns = record.spent, cut.turns
            seen, mark = await upkeep.messages(record.transcript), len(record.said)
            shown = seen if hooks is None else hooks.around.put(seen, turn.run_id)
            job = structs.replace(job, messages=shown, crowded=crowded if record.shrunk else None)

    async def _put(
        self,
        turn: RunRequest,
        asked: Sequence[User],
        messages: tuple[Message, ...],
        system: System,
        hooks: "TurnHooks",
        record: TurnRecorder,
    ) -> "ReplyMerged | None":
        """Puts the question on record; gives the answer of a plugin that refuses it or answers itself."""
        refusal = await hooks.objection(turn.text, messages, system.text)
        if refusal is not None:
            # What was refused is kept nowhere, neither on disk nor for the next turn.
            asked = [structs.replace(each, content=f"[a message that {refusal.plugin} stopped]") for each in asked]
        for each in asked:
            record.say(each)
        if refusal is not None:
            return refusal
        claim = await hooks.reply(turn.text)
        return claim if claim.plugin else None

    async def _question(self, turn: RunRequest, known: Conversation) -> list[User]:
        """What is asked: the request with system events since the last one, after messages that it interrupted."""
        now = millis(self._clock)
        text: str = ""
        origins: tuple[Origin, ...] = ()
        if self._system_events is not None:
            text, origins = await self._system_events.take(turn.key, turn.run_id)
        earlier = [to_message(each, now) for each in turn.earlier if known.since(each.run_id) is None]
        return [*earlier, to_message(turn, now, text, origins)]

    async def _make_room(
        self, cut: RunEnded, prepared: PreparedTurn, record: TurnRecorder
    ) -> AsyncGenerator[Event, None]:
        """Compacts in the middle of a run that ended with `cut`."""
        if cut.error_code != CROWDED:
            model = prepared.route.attempt.model
            void = AttemptFailed(model.provider, model.id, ContextTooLong.reason, cut.error or "")
            record.take(void)
            yield void
        reason: CompactionReason = "threshold" if cut.error_code == CROWDED else "overflow"
        passes = prepared.upkeep.compact(record.transcript, reason, seen_error=cut.error or "")
        async with aclosing(record.shrinking(passes)) as events:
            async for event in events:
                yield event
        if record.shrunk:
            prepared.tools.compacted()

    async def inject(self, key: SessionKey, message: Message, writer: str) -> str:
        """Appends a message that no run produced; gives its entry's id."""
        row = await self._index.resolve(key)
        path = self._index.path(row.agent_id, row.session_id)
        async with self._locks.writing(path, writer):
            if path.exists():
                transcript, _ = TranscriptFile.reopen(path, self._header(row))
            else:
                transcript = self._create(row)
            try:
                return transcript.say(message, self._clock.now()).id
            finally:
                transcript.close()

    async def _close_books(self, turn: RunRequest, session: OpenedSession, record: TurnRecorder) -> None:
        """Puts the transcript on disk and the end of the run into the index, whatever ended it."""
        transcript = record.transcript
        try:
            if turn.reply_to is not None:
                # What a platform is sent stands on the disk; for the others it is enough to outlive this process.
                await asyncio.to_thread(transcript.sync)
            self._holding.keep(transcript.path, extend_conversation(session.known, transcript.added), transcript.ids)
            told = with_totals(session.row, record.total)
            if record.context_tokens is not None:
                told = structs.replace(told, context_tokens=record.context_tokens)
            await self._index.ended(
                told,
                turn.run_id,
                status={"error": "failed", "aborted": "killed"}.get(record.stop_reason, "done"),
                stop_reason=record.stop_reason,
                error=record.error,
                usage=record.spent,
                size=transcript.path.stat().st_size,
            )
        finally:
            transcript.close()

    @asynccontextmanager
    async def _opened(self, turn: RunRequest) -> AsyncIterator[OpenedSession]:
        """The session, locked and loaded. A new one gets its file with its first message, not before."""
        while True:
            row, renewed = await self._index.resolve(turn.key), None
            if self._renewal is not None and turn.compact is None:
                renewed = await self._renewal.renew(turn, row)
                row = renewed.after if renewed is not None else row
            path = self._index.path(row.agent_id, row.session_id)
            async with self._locks.writing(path, turn.run_id, again=True):
                # Another process may have worked in it, or begun it anew, while we waited for the lock.
                now = await self._index.resolve(turn.key)
                if now.session_id != row.session_id:
                    continue
                session = self._load(now, path, renewed)
                try:
                    yield self._mend(session) if session.known.context.unanswered else session
                finally:
                    if session.transcript is not None:
                        session.transcript.close()
                return

    def _load(self, row: SessionRow, path: Path, renewed: SessionRenewed | None) -> OpenedSession:
        held = self._holding.take(path)
        if held is not None:
            known = held.conversation
            transcript = TranscriptFile(path, known.leaf, held.ids)
            problems: tuple[TranscriptProblem, ...] = ()
        elif path.exists():
            transcript, loaded = TranscriptFile.reopen(path, self._header(row))
            known = build_conversation(loaded.entries)
            problems = (*loaded.problems, *known.context.problems)
        else:
            return OpenedSession(row=row, renewed=renewed)
        return OpenedSession(
            row=row, transcript=transcript, known=known, total=known.total, problems=problems, renewed=renewed
        )

    def _mend(self, session: OpenedSession) -> OpenedSession:
        """Answers the calls that were never answered."""
        transcript, total = session.transcript, session.total
        assert transcript is not None, "there are no calls without a transcript"
        for call in session.known.context.unanswered:
            result = interrupted_result(call, timestamp=millis(self._clock))
            transcript.say(result, self._clock.now())
            total = total.plus(result)
        return structs.replace(session, total=total)

    def _create(self, row: SessionRow) -> TranscriptFile:
        return TranscriptFile.create(self._index.path(row.agent_id, row.session_id), self._header(row))

    def _header(self, row: SessionRow) -> TranscriptHeader:
        return TranscriptHeader(
            id=row.session_id,
            timestamp=iso(row.created_at / 1000),
            cwd=str(self._workspace_of(row.agent_id)),
            session_key=row.session_key,
        )


def _left_no_trace(turn: RunRequest, rules: AlertRules, record: TurnRecorder) -> bool:
    """Whether a heartbeat had nothing to tell, and nobody spoke in it: later turns go on without it.

    What happened meanwhile stays (its question begins with system events), and so does what was sent to people.
    """
    said = record.said
    if record.stop_reason != "stop" or len(said) < 2 or not isinstance(said[-1], Assistant):
        return False
    alone = [each.text for each in said if isinstance(each, User)] == [replace_surrogates(turn.text)]
    called = {call.name for each in said if isinstance(each, Assistant) for call in each.calls}
    compacted = any(isinstance(entry, Compaction) for entry in record.transcript.added)
    return alone and not compacted and not called & MESSAGING_TOOLS and is_quiet(rules, said[-1].text)


def _answer(messages: Iterable[Message]) -> Assistant | None:
    """The final answer to the question before `messages`, when the transcript has it."""
    for said in messages:
        if isinstance(said, User):
            return None
        if isinstance(said, Assistant) and not said.calls and said.stop_reason in ("stop", "length"):
            return said
    return None


def to_message(turn: RunRequest, now: int, events: str = "", event_origins: Sequence[Origin] = ()) -> User:
    """The request as a message; system events come before its text."""
    text = replace_surrogates(f"{events}\n\n{turn.text}" if events else turn.text)
    content: str | tuple[Text | Image, ...] = (Text(text), *turn.images) if turn.images else text
    origins = merge_origins(turn.origins, event_origins) if event_origins else turn.origins
    return User(content=content, timestamp=now, idempotency_key=f"{turn.run_id}:user", origins=origins)


class AutoReset:
    """Starts a conversation over when the settings say that it is too old to go on."""

    def __init__(
        self,
        index: SessionIndex,
        lifecycle: SessionLifecycle,
        events: SystemEvents,
        clock: Clock,
        *,
        settings: Live[SessionSettings],
        zone: tzinfo,
    ) -> None:
        self._index = index
        self._lifecycle = lifecycle
        self._events = events
        self._clock = clock
        self._settings = settings
        self._zone = zone

    async def renew(self, turn: RunRequest, row: SessionRow) -> SessionRenewed | None:
        """A new conversation under the key of `turn`, when `row` is not to be gone on with."""
        settings = self._settings.current
        rules = settings.reset or settings.reset_by_channel or settings.reset_by_type != reset.NO_TYPES
        if not rules or turn.trigger != "user" or not row.messages:
            return None
        policy = reset.policy_of(settings, turn.key, turn.channel)
        if policy is None:
            return None
        why = reset.reset_reason(policy, await self._index.contact(row), millis(self._clock), self._zone)
        if why is None or await self._was_begun(turn, row):
            return None
        fresh = await self._lifecycle.reset(turn.key, row.session_id, why=why)
        await self._events.forget(turn.key)
        return SessionRenewed(row, fresh, why)

    async def _was_begun(self, turn: RunRequest, row: SessionRow) -> bool:
        """Whether an earlier process asked this already: it continues in the session it was begun in."""
        path = await self._index.fetch(row.agent_id, row.session_id)
        if not path.exists():
            return False
        loaded = await asyncio.to_thread(load, path)
        key = f"{turn.run_id}:user"
        said = (entry.message for entry in loaded.entries if isinstance(entry, MessageEntry))
        return any(isinstance(each, User) and each.idempotency_key == key for each in said)
