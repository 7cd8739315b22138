"""What runs publish: accepted, every event on the way, settled; and the publisher that tells the subscribers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
        self._some: dict[type, list[Callable[[RunEvent], None]]] = {}
        self._of_run: dict[str, list[Callable[[RunEvent], None]]] = {}

    def subscribe(self, subscriber: Callable[[RunEvent], None], *kinds: type) -> None:
        """From now on `subscriber` hears every event, or those of the given kinds."""
        for kind in kinds:
            self._some.setdefault(kind, []).append(subscriber)
        if not kinds:
            self._subscribers.append(subscriber)

    @contextmanager
    def following(self, run_id: str, subscriber: Callable[[RunEvent], None]) -> Iterator[None]:
        """Tells `subscriber` what one run says, for as long as the block lasts."""
        self.follow(run_id, subscriber)
        try:
            yield
        finally:
            followers = self._of_run.get(run_id, [])
            if subscriber in followers:
                followers.remove(subscriber)
            if not followers:
                self._of_run.pop(run_id, None)

    def follow(self, run_id: str, subscriber: Callable[[RunEvent], None]) -> None:
        """Tells `subscriber` what one run says, until that has its outcome."""
        self._of_run.setdefault(run_id, []).append(subscriber)

    def __call__(self, event: RunEvent) -> None:
        some, followers = self._some.get(type(event.event), ()), self._of_run.get(event.run_id, ())
        for subscriber in (*followers, *self._subscribers, *some):
            subscriber(event)
        if followers and isinstance(event.event, RunSettled):
            del self._of_run[event.run_id]
