"""The clock seam: time is handed in, so that a test can make it Tuesday."""

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None: ...


def millis(clock: Clock) -> int:
    return round(clock.now() * 1000)
