"""What happens on one node is heard on all: the events of runs, and what is published to clients.

The link carries it, not the database: deltas of an answer would be too much for notifications. What is missed while a
link is down is missed as by a client that was away; what counts is in the database.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any, get_args

import msgspec
from msgspec import Struct, structs

from openclaw.core.keys import SessionKey
from openclaw.protocol.client import GatewayClient
from openclaw.protocol.events import EventBus
from openclaw.runs.events import PublishedEvent, RunEvent
from openclaw.runs.reply import TextShaped, ThoughtShaped

MOST_WAITING = 20_000
MOST_TOGETHER = 200
EVENTS = "cluster.events"
PRESENCE = "presence"
UNHEARD = frozenset(("tick", "health", "shutdown", "config.changed", "plugins.changed"))
"""What is about one node only."""


def _kinds(union: Any) -> Iterator[type]:
    for each in get_args(union):
        if isinstance(each, type):
            yield each
        else:
            yield from _kinds(each)


_KINDS: dict[str, type] = {kind.__name__: kind for kind in _kinds(PublishedEvent)}


class RelayedRun(Struct, frozen=True, kw_only=True, tag="run", tag_field="is", array_like=True):
    """An event of a run."""

    run_id: str
    key: SessionKey
    seq: int
    at: int
    kind: str
    event: Any

    def decode(self, node: str) -> RunEvent:
        """The event as `node` tells it."""
        made: Any = msgspec.convert(self.event, _KINDS[self.kind])
        return RunEvent(run_id=self.run_id, key=self.key, seq=self.seq, at=self.at, event=made, node=node)


class RelayedNotice(Struct, frozen=True, kw_only=True, tag="notice", tag_field="is", array_like=True):
    """An event for clients."""

    event: str
    payload: Any
    session_key: str = ""


class RelayedBatch(Struct, frozen=True):
    """What a node tells at once."""

    events: tuple[RelayedRun | RelayedNotice, ...] = ()
    ended: bool = False
    """The listener was too slow, and has to begin anew."""


def relayed_run(told: RunEvent) -> RelayedRun:
    return RelayedRun(
        run_id=told.run_id,
        key=told.key,
        seq=told.seq,
        at=told.at,
        kind=type(told.event).__name__,
        event=told.event,
    )


_Waiting = asyncio.Queue[RunEvent | RelayedNotice | None]
"""What a node has not been told yet; None: it was too much."""


class EventRelay:
    """Tells other nodes what happens here, and publishes here what happens there."""

    def __init__(self, bus: EventBus, heard: Callable[[RunEvent], None]) -> None:
        """`heard` gets the events of runs on other nodes."""
        self._bus = bus
        self._heard = heard
        self._listeners: set[_Waiting] = set()
        self.sent = self.received = self.missed = 0
        self.on_notice: Callable[[str, RelayedNotice], None] = lambda node, notice: None
        self.presence: Callable[[], Sequence[dict[str, Any]]] = list
        """This gateway and its clients."""
        self.on_link: Callable[[], None] = lambda: None
        self.on_loss: Callable[[str], None] = lambda node: None
        """Called when a node is not heard any more: what it says from now on is missed."""

    def tell(self, told: RunEvent) -> None:
        """Hears what a run of this node says."""
        for queue in self._listeners:
            self._put(queue, told)

    def _put(self, queue: "_Waiting", item: RunEvent | RelayedNotice) -> None:
        try:
            queue.put_nowait(item)
        except asyncio.QueueFull:
            # Left to itself it would show sentences with a hole in them, and would wait for ends it has missed.
            self.missed += queue.qsize() + 1
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(None)

    async def keep(self) -> None:
        """Hands on what is published to the clients of this node, until it is cancelled."""
        with self._bus.listening() as listener:
            while True:
                for event in await listener.some(MOST_TOGETHER):
                    if event.relay and event.event not in UNHEARD:
                        notice = RelayedNotice(event=event.event, payload=event.payload, session_key=event.session_key)
                        if event.event == PRESENCE:  # clients are told of all nodes, nodes of our own clients
                            notice = self._present()
                        for queue in self._listeners:
                            self._put(queue, notice)

    def _present(self) -> RelayedNotice:
        return RelayedNotice(event=PRESENCE, payload=self.presence())

    async def stream(self) -> AsyncGenerator[Any, None]:
        """The answer to `cluster.events`: everything from now on, what came together in one answer."""
        queue: _Waiting = asyncio.Queue(MOST_WAITING)
        self._listeners.add(queue)
        try:
            yield RelayedBatch((self._present(),))
            while True:
                items = [await queue.get()]
                while len(items) < MOST_TOGETHER and not queue.empty():
                    items.append(queue.get_nowait())
                there = [item for item in items if item is not None]
                if len(there) < len(items):
                    yield RelayedBatch(ended=True)
                    return
                self.sent += len(there)
                yield RelayedBatch(
                    tuple(relayed_run(item) if isinstance(item, RunEvent) else item for item in _merged(there))
                )
        finally:
            self._listeners.discard(queue)

    async def hear(self, client: GatewayClient, node: str) -> None:
        """Publishes here what another node tells, until the link breaks."""
        async with contextlib.aclosing(client.answers(EVENTS)) as answers:
            linked = False
            try:
                async for answer in answers:
                    batch = msgspec.convert(answer, RelayedBatch)
                    if batch.ended:
                        return
                    if not linked:
                        linked = True
                        self.on_link()
                    for each in batch.events:
                        self.received += 1
                        if isinstance(each, RelayedRun):
                            self._heard(each.decode(node))
                        else:
                            self.on_notice(node, each)
            finally:
                self.on_loss(node)


def _merged(items: list[RunEvent | RelayedNotice]) -> list[RunEvent | RelayedNotice]:
    """Pieces of one text that wait behind each other are one piece."""
    made: list[RunEvent | RelayedNotice] = []
    for item in items:
        last = made[-1] if made else None
        if isinstance(item, RunEvent) and isinstance(last, RunEvent) and last.run_id == item.run_id:
            match last.event, item.event:
                case (TextShaped(text=before), TextShaped(text=after)) | (
                    ThoughtShaped(text=before),
                    ThoughtShaped(text=after),
                ):
                    made[-1] = structs.replace(item, event=structs.replace(item.event, text=before + after))
                    continue
        made.append(item)
    return made
