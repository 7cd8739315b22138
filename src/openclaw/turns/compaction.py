"""The summarising run: a conversation's older part goes to a model in pieces, notes come back, poor ones are refused.

Nothing is written here; a summary that cannot be had leaves everything as it was.
"""

import logging
from collections.abc import Callable, Sequence

from msgspec import Struct

from openclaw.agent.loop import RunJob
from openclaw.agent.settings import CompactionSettings
from openclaw.agent.toolrun import ToolRunner
from openclaw.core.clock import Clock
from openclaw.core.errors import ContextTooLong, OpenClawError, Unavailable
from openclaw.core.messages import Usage, User
from openclaw.core.provider import System
from openclaw.core.text import whole
from openclaw.sessions.compact import CompactionPlan, estimate_all, estimate_text
from openclaw.sessions.essentials import EssentialDetails
from openclaw.turns import summary
from openclaw.turns.aside import ModelAsker, with_timeout

log = logging.getLogger(__name__)

SMALLER_TRIES = 3
"""How often the pieces are made smaller when the summarising model finds them too long."""


class CompactionFailed(Unavailable):
    """There is no acceptable summary; the conversation is as it was."""


class Summary(Struct, frozen=True, kw_only=True):
    """What takes the place of the removed messages."""

    text: str
    details: EssentialDetails
    usage: Usage = Usage()


class Summariser:
    """Makes summaries. `tools` gives an empty toolbox: a summarising model has nothing to do but write."""

    def __init__(
        self,
        settings: CompactionSettings,
        model: ModelAsker,
        tools: Callable[[], ToolRunner],
        clock: Clock,
        *,
        window: int,
    ) -> None:
        self.settings = settings
        self._model = model
        self._tools = tools
        self._clock = clock
        self._window = window
        """Of the summarising model."""

    async def summarise(self, plan: CompactionPlan, *, window: int, focus: str = "", must: bool = False) -> Summary:
        """A summary of what `plan` removes, smaller than that; `window` is the conversation's.

        With `must` the conversation cannot go on without: when no model can be had, notes are made from what is known
        for certain.
        """
        want = summary.requirements(plan, self.settings.mode, strict=self.settings.identifier_policy == "strict")
        spent = _Spent()
        try:
            work = self._notes(plan, want, focus, spent)
            notes, split = await with_timeout(work, self.settings.timeout_seconds, self._clock, "the summary")
        except OpenClawError as error:
            if not must:
                raise CompactionFailed(error.message) from error
            log.warning("no summary could be had (%s): going on with what is known for certain", error.message)
            notes, split = summary.digest(want, self.settings.mode), ""
        text, details = summary.finished(
            whole(notes), plan, want, window=window, turns=self._quoted_turns, split=whole(split)
        )
        before = estimate_all(plan.removed) + estimate_text(plan.previous.summary if plan.previous else "")
        if estimate_text(text) >= before:
            raise CompactionFailed("a summary would not be shorter than what it stands for")
        return Summary(text=text, details=details, usage=spent.usage)

    @property
    def _quoted_turns(self) -> int:
        return self.settings.recent_turns_preserve if self.settings.mode == "safeguard" else 0

    async def _notes(
        self, plan: CompactionPlan, want: summary.SummaryRequirements, focus: str, spent: "_Spent"
    ) -> tuple[str, str]:
        """The notes, and those on the beginning of a turn whose end is kept."""
        inside = 0 < plan.split < len(plan.removed) or (plan.split == 0 and plan.previous is not None)
        older = plan.removed[: plan.split] if inside else plan.removed
        begun = plan.removed[plan.split :] if inside else ()
        notes = summary.body(plan)
        if older or not notes:
            notes = await self._guarded(summary.render_messages(older), notes, want, focus, spent)
        if not begun:
            return notes, ""
        job_order = summary.split_order()
        return notes, await self._in_pieces(summary.render_messages(begun), "", job_order, "", spent)

    async def _guarded(
        self, texts: Sequence[str], previous: str, want: summary.SummaryRequirements, focus: str, spent: "_Spent"
    ) -> str:
        """Notes with their headings. Identifiers and the request that are still missing are put beside them later."""
        settings = self.settings
        wish = summary.order(settings.mode, strict=settings.identifier_policy == "strict", focus=focus)
        guarded = settings.quality_guard.enabled and settings.mode == "safeguard"
        correction = ""
        notes = ""
        for _ in range(1 + (settings.quality_guard.max_retries if guarded else 0)):
            notes = await self._in_pieces(texts, previous, wish, correction, spent)
            correction = summary.faults(notes, want) if guarded else ""
            if not correction:
                break
        if not notes.strip():
            raise CompactionFailed("the model gave an empty summary")
        if guarded and summary.missing_headings(notes, want.headings):
            raise CompactionFailed(f"the summary was not good enough: {correction}")
        return notes

    async def _in_pieces(self, texts: Sequence[str], previous: str, wish: str, correction: str, spent: "_Spent") -> str:
        """Notes on `texts`: in one request when they fit, else piece by piece and then put together."""
        limit = summary.chunk_limit(self._window, [estimate_text(text) for text in texts])
        for left in range(SMALLER_TRIES, -1, -1):
            try:
                return await self._once(texts, limit, previous, wish, correction, spent)
            except ContextTooLong:
                if not left or limit <= summary.SMALLEST_CHUNK:
                    raise
                limit = max(summary.SMALLEST_CHUNK, limit // 2)
        raise AssertionError("unreachable")

    async def _once(
        self, texts: Sequence[str], limit: int, previous: str, wish: str, correction: str, spent: "_Spent"
    ) -> str:
        # The notes so far belong to the first piece; the later ones follow from it.
        parts = [
            await self._say(wish, summary.request(piece, previous if place == 0 else "", correction), spent)
            for place, piece in enumerate(summary.chunks(texts, limit) or [""])
        ]
        while len(parts) > 1:
            parts = [
                await self._say(wish, summary.merge_request(group, correction), spent) if len(group) > 1 else group[0]
                for group in summary.groups(parts, limit)
            ]
        return parts[0]

    async def _say(self, wish: str, text: str, spent: "_Spent") -> str:
        job = RunJob(system=System(stable=wish), messages=(User(content=text),))
        said = await self._model.ask(job, self._tools())
        spent.usage = spent.usage + said.usage
        return said.text


class _Spent:
    """What a summary cost, also when it comes to nothing half way."""

    def __init__(self) -> None:
        self.usage = Usage()
