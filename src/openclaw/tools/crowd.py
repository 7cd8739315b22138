"""A command that multiplies: noticed before the machine is full, and ended at once."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from openclaw.tools import group

LOOK_EVERY = 0.05
_LOAD = Path("/proc/loadavg")


async def outgrown(leader: int, most: int) -> int:
    """Returns when the family of `leader` has more than `most` processes, with how many they are.

    Counting a family means reading about every process, so that is done only when the whole machine has grown enough,
    and while the family holds still: a bomb would leave us no time to count.
    """
    base = _everything()
    while True:
        await asyncio.sleep(LOOK_EVERY)
        now = _everything()
        base = min(base, now)
        if now - base <= most:
            continue
        _signal(leader, signal.SIGSTOP)
        if (count := len(group.members(leader))) > most:
            return count
        _signal(leader, signal.SIGCONT)
        base = now  # somebody else has grown


def _signal(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _everything() -> int:
    """Threads of the whole machine; 0 where nobody tells."""
    try:
        return int(_LOAD.read_bytes().split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 0


async def end(leader: int) -> None:
    """Kills the family without asking first: every moment of patience is a thousand processes more."""
    for _ in range(200):
        _signal(leader, signal.SIGKILL)
        left = group.members(leader)
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.02)
