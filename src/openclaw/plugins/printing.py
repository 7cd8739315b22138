"""What a plugin prints: handed on a line at a time, as long as it keeps within reason."""

import asyncio
from collections.abc import Callable

WINDOW = 10.0
LINE = 1_000
LINES = 20
"""Of one gulp only the last lines are told."""


class Meter:
    """How much somebody said within a while."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._since = -WINDOW
        self._said = 0

    def add(self, count: int, now: float) -> bool:
        """Counts; True when it is too much."""
        if now - self._since > WINDOW:
            self._since, self._said = now, 0
        self._said += count
        return self._said > self.most


async def printed(stream: asyncio.StreamReader, meter: Meter, tell: Callable[[str], None]) -> str:
    """Tells what comes, for ever; returns only with a reason to end whoever prints so much."""
    rest = b""
    while data := await stream.read(65_536):
        if meter.add(len(data), asyncio.get_running_loop().time()):
            return f"it printed more than {meter.most >> 20} MiB within ten seconds"
        *lines, rest = (rest + data).split(b"\n")
        for line in lines[-LINES:]:
            if line.strip():
                tell(line[:LINE].decode("utf-8", "replace"))
        rest = rest[-LINE:]
    # It closed its output, which is no reason to end it.
    forever: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    return await forever
