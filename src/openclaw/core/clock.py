"""The clock seam: time is passed in, so that tests control it."""

from datetime import UTC, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None: ...


def millis(clock: Clock) -> int:
    return round(clock.now() * 1000)


def zone_of(name: str) -> tzinfo:
    """The time zone called `name`; UTC when it is unknown."""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC
