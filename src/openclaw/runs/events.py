"""What runs publish: accepted, every event on the way, settled; and the publisher that tells the subscribers."""

from collections.abc import Callable

from msgspec import Struct

from openclaw.core.keys import SessionKey
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.reply import ShapedEvent
from openclaw.runs.request import RecordedEvent, RunRequest, SessionRenewed, SessionRepaired


class RunAccepted(Struct, frozen=True):
    """An input is on record."""

    queued: bool
    request: RunRequest


class RunSettled(Struct, frozen=True):
    """An input has its outcome."""

    outcome: RunOutcome


class RunEvent(Struct, frozen=True, kw_only=True):
    """Something a run says; `seq` counts from 1 in each run."""

    run_id: str
    key: SessionKey
    seq: int
    at: int
    event: ShapedEvent | SessionRepaired | SessionRenewed | RecordedEvent | RunAccepted | RunSettled


class RunPublisher:
    """Publishes what runs say to everyone who subscribed: clients, hooks, metrics, waiting callers."""

    def __init__(self, *subscribers: Callable[[RunEvent], None]) -> None:
        self._subscribers = list(subscribers)

    def subscribe(self, subscriber: Callable[[RunEvent], None]) -> None:
        self._subscribers.append(subscriber)

    def __call__(self, event: RunEvent) -> None:
        for subscriber in self._subscribers:
            subscriber(event)
