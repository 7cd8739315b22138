"""Follows one run for an HTTP client, without ever making the run wait."""

import asyncio
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from msgspec import structs

from openclaw.core.errors import Unavailable
from openclaw.core.events import AttemptFailed, CallDelta, ModelCalled, ToolEnded, ToolUpdated
from openclaw.core.messages import ToolCall
from openclaw.runs.events import RunEvent, RunPublisher, RunSettled
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.reply import NoteShaped, ReplyShaped, TextShaped, ThoughtShaped
from openclaw.runs.request import RecordedEvent

MOST_WAITING = 2_000
_UNHEARD = (CallDelta, ThoughtShaped, ToolUpdated, RecordedEvent)
"""Events that do not contribute to an answer."""


class RunListener:
    """The events of one run for one reader. Unread text is merged into one event."""

    def __init__(self) -> None:
        self._waiting: deque[RunEvent] = deque()
        self._more = asyncio.Event()
        self._over: Unavailable | None = None
        self.settled = False
        """Whether the run has its outcome, read or not."""

    def put(self, told: RunEvent) -> None:
        if isinstance(told.event, _UNHEARD) or self._over is not None:
            return
        self.settled = self.settled or isinstance(told.event, RunSettled)
        last = self._waiting[-1].event if self._waiting else None
        if isinstance(last, TextShaped) and isinstance(told.event, TextShaped):
            self._waiting[-1] = structs.replace(told, event=TextShaped(last.text + told.event.text))
        elif len(self._waiting) < MOST_WAITING:
            self._waiting.append(told)
        else:
            self.close(Unavailable("the client reads too slowly: its run was given up"))
        self._more.set()

    def close(self, why: Unavailable) -> None:
        """Ends the stream; the reader gets `why` after what is buffered."""
        self._over = self._over or why
        self._more.set()

    async def next(self, patience: float) -> RunEvent | None:
        """The next event, or None when there was none for `patience` seconds."""
        while not self._waiting:
            if self._over is not None:
                raise self._over
            self._more.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._more.wait()
            if not self._more.is_set():
                return None
        return self._waiting.popleft()


class RunFanout:
    """Passes each event of a run to those who listen to that run."""

    def __init__(self, publisher: RunPublisher) -> None:
        self._publisher = publisher
        self._listeners: set[RunListener] = set()
        self._closed = False

    @contextmanager
    def listening(self, run_id: str) -> Iterator[RunListener]:
        """A listener for as long as the block lasts; open it before the run is submitted, so that nothing is missed."""
        listener = RunListener()
        if self._closed:
            listener.close(_stopping())
        self._listeners.add(listener)
        try:
            with self._publisher.following(run_id, listener.put):
                yield listener
        finally:
            self._listeners.remove(listener)

    def close(self) -> None:
        """Releases every reader: runs that are parked for the next start have no outcome to wait for."""
        self._closed = True
        for listener in self._listeners:
            listener.close(_stopping())

    def __len__(self) -> int:
        return len(self._listeners)


def _stopping() -> Unavailable:
    return Unavailable("the gateway is shutting down: try again in a moment", retry_after=2.0)


# Text.

GAP = "\n\n"
"""Between two messages of one run."""


class StreamedText:
    """Turns the events of a run into text to append, and collects the calls that are for the caller."""

    def __init__(self, handed_over: Collection[str] = ()) -> None:
        self._names = frozenset(handed_over)
        self._message = ""
        """The message being written."""
        self._shown = ""
        """How much of it the reader has."""
        self._void: str | None = None
        """What the reader has of an attempt that failed: the next one continues it, or starts anew."""
        self._spoken = False
        self._asked = False
        self._order: tuple[ToolCall, ...] = ()
        self._handed: dict[str, ToolCall] = {}
        self.outcome: RunOutcome | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls for the caller, in order."""
        return tuple(call for call in self._order if call.id in self._handed)

    @property
    def began(self) -> bool:
        """Whether a model was asked, or the run ended without."""
        return self._asked or self.outcome is not None

    def take(self, told: RunEvent) -> str:
        """The text this event adds, often none."""
        match told.event:
            case ModelCalled():
                self._asked = True
                self._message = ""
            case TextShaped(text=text):
                self._message += text
                return self._fresh()
            case AttemptFailed():
                self._void, self._message = self._shown or None, ""
            case ReplyShaped(text=whole, calls=calls):
                self._message = whole if whole.startswith(self._message) else self._message
                fresh = self._fresh(complete=True)
                self._message, self._shown, self._void = "", "", None
                self._order, self._handed = calls, {}
                return fresh
            case NoteShaped(payload=payload) if payload.kind == "error":
                self._message = payload.text
                return self._fresh(complete=True)
            case ToolEnded(call=call, result=result):
                if call.name in self._names and not result.is_error:
                    self._handed[call.id] = call
            case RunSettled(outcome=outcome):
                self.outcome = outcome
                if not self._spoken and outcome.status == "ok":
                    return outcome_text(outcome)  # merged into another message, whose run has the text
            case _:
                pass
        return ""

    def _fresh(self, *, complete: bool = False) -> str:
        void = self._void
        if void is not None and not self._message.startswith(void):
            if void.startswith(self._message) and not complete:
                return ""  # the second attempt has so far produced the same text as the first
            self._shown = ""
        self._void = None
        fresh = self._message[len(self._shown) :]
        if fresh and not self._shown and self._spoken:
            fresh = GAP + fresh
        self._shown = self._message
        self._spoken = self._spoken or bool(fresh)
        return fresh


def outcome_text(outcome: RunOutcome) -> str:
    """All text of a run."""
    return GAP.join(outcome.texts)
