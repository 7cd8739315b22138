"""The clock seam: time is passed in, so that tests control it."""

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None: ...


def millis(clock: Clock) -> int:
    return round(clock.now() * 1000)
