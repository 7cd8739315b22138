"""What a run says, for a reader who cannot take anything back. Pure but for its memory of the run."""

from collections.abc import Collection

from openclaw.core.events import AttemptFailed, ModelCalled, ToolEnded
from openclaw.core.messages import ToolCall
from openclaw.turns.ledger import RunOutcome
from openclaw.turns.runs import RunEvent, RunSettled
from openclaw.turns.shaping import NoteShaped, ReplyShaped, TextShaped

GAP = "\n\n"
"""Between two messages of one run."""


class StreamedText:
    """Turns the events of a run into text to append, and collects the calls that were handed to the caller."""

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
        """What the caller is to carry out, in the order it was asked for."""
        return tuple(call for call in self._order if call.id in self._handed)

    @property
    def began(self) -> bool:
        """Whether a model was asked, or the run is over without."""
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
                    return spoken(outcome)  # answered together with another message, whose run said it
            case _:
                pass
        return ""

    def _fresh(self, *, complete: bool = False) -> str:
        void = self._void
        if void is not None and not self._message.startswith(void):
            if void.startswith(self._message) and not complete:
                return ""  # the second attempt has so far said the same as the first
            self._shown = ""
        self._void = None
        fresh = self._message[len(self._shown) :]
        if fresh and not self._shown and self._spoken:
            fresh = GAP + fresh
        self._shown = self._message
        self._spoken = self._spoken or bool(fresh)
        return fresh


def spoken(outcome: RunOutcome) -> str:
    """All a run said."""
    return GAP.join(outcome.texts)
