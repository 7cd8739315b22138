"""The clock seam: time is passed in, so that tests control it."""

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Protocol

from msgspec import Struct

from openclaw.core.deferred import zoneinfo


class Timer(Protocol):
    """Work that is done later, unless it is cancelled before."""

    def cancel(self) -> object: ...


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def call_later(self, seconds: float, work: Callable[[], object]) -> Timer:
        """Calls `work` from the event loop: much less than a task that sleeps, for a limit that is seldom reached."""
        ...


def millis(clock: Clock) -> int:
    return round(clock.now() * 1000)


_UTC = ("", "UTC", "Etc/UTC")


def zone_of(name: str) -> tzinfo:
    """The time zone called `name`; UTC when it is unknown."""
    try:
        return UTC if name in _UTC else zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def tell_time(now: float, zone: str, time_format: str = "auto") -> str:
    """Weekday, date and time of `now` in the zone called `zone`, with its name and offset."""
    there = datetime.fromtimestamp(now, zone_of(zone))
    of_day = f"{there:%I:%M:%S %p}".removeprefix("0") if time_format == "12" else f"{there:%H:%M:%S}"
    offset = f"{there:%z}"
    return f"{there:%A %Y-%m-%d} {of_day} UTC{offset[:3]}:{offset[3:5]} ({zone or 'UTC'})"


class Backoff(Struct, frozen=True):
    """Each pause is twice the one before, from `first` up to `longest`."""

    first: float
    longest: float

    def after(self, failures: int, jitter: float | None = None) -> float:
        """How long to wait after so many failures in a row.

        With `jitter`, a number between 0 and 1, a quarter less to a quarter more: lest all come back at once.
        """
        pause = min(self.longest, self.first * 2.0 ** min(max(0, failures - 1), 40))
        return pause if jitter is None else pause * (0.75 + jitter / 2)


def format_duration(seconds: float) -> str:
    """Formats a duration: `45 s`, `12 min`, `3 h`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{round(seconds / 3600)} h"
