"""Everyone who is in, and what happens brought to those of them who want to hear it.

One task reads the bus for all connections. An event is encoded once; what came together leaves a socket in one write.
Nobody waits for a client that does not read: what it has not taken is bounded, and past the bound it is shown out.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from openclaw.core.clock import Clock, millis
from openclaw.gateway.bus import BusEvent, EventBus
from openclaw.gateway.presence import Presence
from openclaw.gateway.transport import Disconnected, Transport, framed
from openclaw.wire.actions import Close, Send
from openclaw.wire.connection import Broadcast, Connection, Withdrawal, broadcast
from openclaw.wire.frames import TICK_INTERVAL_MS, StateVersion

MOST_AT_ONCE = 32
"""Events brought to everyone before others have their turn: a thousand clients make a long round."""

log = logging.getLogger("openclaw.gateway")


class ConnectedClient(Struct, frozen=True, eq=False):
    """One connection and its socket."""

    connection: Connection
    transport: Transport

    async def do(self, action: Send | Close | None) -> None:
        """Does what the connection decided, and waits for a client that is slower than we are."""
        match action:
            case Send(data):
                await self.transport.send(data)
            case Close(code, reason):
                self.transport.close(code, reason)
                raise Disconnected(code, reason)


class Connections:
    """The clients that have shaken hands."""

    def __init__(self, bus: EventBus, presence: Presence, clock: Clock) -> None:
        self._bus = bus
        self._presence = presence
        self._clock = clock
        self._members: dict[str, ConnectedClient] = {}
        self._hearing: set[ConnectedClient] = set()
        self.delivered = 0
        self.cut = 0
        """Clients shown out because they did not read."""
        self._dropped_before = 0

    def __len__(self) -> int:
        return len(self._members)

    @property
    def dropped(self) -> int:
        """Events that clients did without because they did not read."""
        return self._dropped_before + sum(member.connection.dropped for member in self._members.values())

    def connection(self, conn_id: str) -> Connection | None:
        member = self._members.get(conn_id)
        return member.connection if member else None

    def is_connected(self, device_id: str) -> bool:
        return any(member.connection.caller.device_id == device_id for member in self._members.values())

    @contextmanager
    def joined(self, member: ConnectedClient) -> Iterator[None]:
        """Counts a client in for as long as the block lasts: from here on a change of authority reaches it."""
        caller = member.connection.caller
        self._members[caller.conn_id] = member
        try:
            yield
        finally:
            del self._members[caller.conn_id]
            self._hearing.discard(member)
            self._dropped_before += member.connection.dropped
            self._announce(self._presence.left(caller))

    def greeted(self, member: ConnectedClient) -> None:
        """A client that has its hello hears what happens."""
        self._hearing.add(member)
        self._announce(self._presence.joined(member.connection.caller))

    def withdraw(self, change: Withdrawal) -> int:
        """Ends the connections that a change of authority concerns; gives how many."""
        ended = 0
        for member in self._members.values():
            close = member.connection.withdrawn(change)
            if close is not None:
                ended += 1
                member.transport.close(close.code, close.reason)
        return ended

    async def keep(self) -> None:
        """Brings what happens to those who want it, and a tick now and then, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick(), name="ticks")
            with self._bus.listening() as listener:
                while True:
                    notices = await listener.some(MOST_AT_ONCE)
                    for member in self._hearing:
                        member.connection.seq += listener.missed  # a gap tells them to load anew
                    listener.missed = 0
                    self._tell([_news(notice, self._presence.version) for notice in notices])
                    await asyncio.sleep(0)

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(TICK_INTERVAL_MS / 1000)
            self._tell([broadcast("tick", {"ts": millis(self._clock)})])

    def _tell(self, news: Sequence[Broadcast]) -> None:
        for member in self._hearing:
            if not member.transport.closed:
                self._tell_one(member, news)

    def _tell_one(self, member: ConnectedClient, news: Sequence[Broadcast]) -> None:
        waiting = member.transport.buffered
        frames: list[bytes] = []
        for item in news:
            match member.connection.hear(item, waiting):
                case Send(data):
                    frames.append(framed(data))
                    waiting += len(data)
                case Close(code, reason):
                    self.cut += 1
                    caller = member.connection.caller
                    log.warning("a client (%s) does not read and is cut: %d bytes wait", caller.client_id, waiting)
                    member.transport.close(code, reason)
                    return
        if frames:
            self.delivered += len(frames)
            try:
                member.transport.post(b"".join(frames))
            except Disconnected:
                return  # whoever reads from this socket hears of it, and counts the client out

    def _announce(self, changed: bool) -> None:
        if changed:
            self._bus.publish("presence", {"presence": self._presence.list()})


def _news(notice: BusEvent, presence_version: int) -> Broadcast:
    payload = notice.payload
    state = StateVersion(presence=presence_version, health=1) if notice.event in ("presence", "health") else None
    # The next piece of an answer carries all that was said before it.
    passing = True if notice.event == "chat" and payload.get("state") == "delta" else None
    return broadcast(
        notice.event,
        payload,
        droppable=passing,
        session_key=notice.session_key or None,
        stream=payload.get("stream") if notice.event == "agent" else None,
        state_version=state,
    )
