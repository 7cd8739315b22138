"""Decides which connections are kept when there are too many: caps over all and per address, and who goes first. Pure.

A connection is *silent* until its first request is whole, *greeting* while a WebSocket has not authenticated, then
*open*. When there is no room the oldest silent one makes it, then the oldest greeting one; an open one never does, so
a flood of half-open connections costs those who send it their own connections.
"""

from collections import OrderedDict
from itertools import chain
from typing import Generic, Literal, TypeVar

from msgspec import Struct

Stage = Literal["silent", "greeting", "open"]

LEAST_CONNECTIONS = 32
LEAST_RESERVE = 128
"""Descriptors kept for databases, files, commands and models, however few there are."""


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """How many connections, and how long they may take."""

    connections: int = 2_048
    per_address: int = 64
    """Of one address that is not this machine and not a trusted proxy."""
    pending: int = 256
    """Silent ones, and as many greeting ones."""
    header_seconds: float = 10.0
    """From the connection, or the end of the last request, to a whole header."""
    body_seconds: float = 30.0
    """For a body, besides a second for every `BODY_RATE` bytes."""
    write_seconds: float = 60.0
    """How long a client may not read at all."""


BODY_RATE = 4_096


def fit_descriptors(limits: ConnectionLimits, descriptors: int) -> int:
    """How many connections fit into a process with so many descriptors."""
    room = descriptors - max(LEAST_RESERVE, descriptors // 4)
    return max(LEAST_CONNECTIONS, min(limits.connections, room))


class Slot:
    """One connection as the decision sees it."""

    def __init__(self, address: str, *, counted: bool) -> None:
        self.address = address
        self.counted = counted
        """Whether its address has a cap."""
        self.stage: Stage = "silent"


S = TypeVar("S", bound=Slot)


class Admission(Generic[S]):
    """The connections there are, by stage."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.turned_away = 0
        """Refused, or closed to make room."""
        self._all: set[S] = set()
        self._addresses: dict[str, int] = {}
        self._silent: OrderedDict[S, None] = OrderedDict()
        self._greeting: OrderedDict[S, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, slot: S) -> tuple[bool, S | None]:
        """Whether there is room for a new connection, and whom to close for it."""
        limits = self.limits
        full = slot.counted and self._addresses.get(slot.address, 0) >= limits.per_address
        victim: S | None = None
        if full or len(self._all) >= limits.connections:
            victim = self._oldest(slot.address if full else None)
            if victim is None:
                self.turned_away += 1
                return False, None
        elif len(self._silent) >= limits.pending:
            victim = next(iter(self._silent))
        self._evict(victim)
        self._all.add(slot)
        self._silent[slot] = None
        if slot.counted:
            self._addresses[slot.address] = self._addresses.get(slot.address, 0) + 1
        return True, victim

    def move(self, slot: S, stage: Stage) -> S | None:
        """Puts `slot` into another stage; whom to close for it, if anybody."""
        if slot not in self._all or slot.stage == stage:
            return None
        self._silent.pop(slot, None)
        self._greeting.pop(slot, None)
        slot.stage = stage
        if stage == "open":
            return None
        waiting = self._silent if stage == "silent" else self._greeting
        victim = next(iter(waiting)) if len(waiting) >= self.limits.pending else None
        self._evict(victim)
        waiting[slot] = None
        return victim

    def leave(self, slot: S) -> None:
        """Gives the place back; harmless when it is given back already."""
        if slot not in self._all:
            return
        self._all.remove(slot)
        self._silent.pop(slot, None)
        self._greeting.pop(slot, None)
        if slot.counted:
            self._addresses[slot.address] -= 1
            if not self._addresses[slot.address]:
                del self._addresses[slot.address]

    def make_room(self) -> list[S]:
        """The older half of the silent ones, which have to be closed: there are no descriptors left."""
        victims = list(self._silent)[: (len(self._silent) + 1) // 2]
        for victim in victims:
            self._evict(victim)
        return victims

    def _oldest(self, address: str | None) -> S | None:
        """The oldest connection that has not got anywhere yet, of one address or of all."""
        waiting = chain(self._silent, self._greeting)
        return next((slot for slot in waiting if address is None or slot.address == address), None)

    def _evict(self, victim: S | None) -> None:
        if victim is not None:
            self.leave(victim)
            self.turned_away += 1
