"""The breaker: a run that deletes or sends in bulk is paused, whoever asked for it. Pure; the clock is handed in."""

from collections import deque
from typing import Literal

Kind = Literal["deletes", "sends"]
MINUTE = 60.0
WORDS: dict[Kind, str] = {"deletes": "deletes", "sends": "messages and requests with words of its own"}


class CircuitBreaker:
    """Counts over one minute; a person's yes begins a new count."""

    def __init__(self, limits: dict[Kind, int]) -> None:
        self._limits = limits
        self._times: dict[Kind, deque[float]] = {"deletes": deque(), "sends": deque()}

    def tripped(self, kind: Kind, count: int, now: float) -> str | None:
        """Why a person must look before `count` more; None when there is room. 0 as a limit means none."""
        limit, times = self._limits[kind], self._times[kind]
        if not limit or not count:
            return None
        while times and times[0] <= now - MINUTE:
            times.popleft()
        if len(times) + count <= limit:
            return None
        return f"{len(times) + count} {WORDS[kind]} within a minute are more than {limit}"

    def count(self, kind: Kind, count: int, now: float) -> None:
        self._times[kind].extend([now] * min(count, 10_000))

    def excused(self, kind: Kind) -> None:
        """A person looked and said yes."""
        self._times[kind].clear()
