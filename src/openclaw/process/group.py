"""The family of a started process: who is still alive, and ending all of them."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

GRACE = 2.0
_PROC = Path("/proc")


def members(leader: int) -> set[int]:
    """Live processes of the group or the session that `leader` began. A zombie is not alive."""
    if not (_PROC / "self" / "stat").exists():
        return {leader} if _group_exists(leader) else set()
    return {int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit() and _belongs(entry.path, leader)}


def lingers(leader: int) -> bool:
    """Whether something of the group still runs; cheap when, as usual, nothing does."""
    return _group_exists(leader) and bool(members(leader))


def _group_exists(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _belongs(process: str, leader: int) -> bool:
    try:
        stat = Path(process, "stat").read_bytes()
    except OSError:
        return False  # it ended while we looked
    # The name stands in brackets and may hold anything; the fields we want come after the last one.
    state, _, group, session = stat[stat.rindex(b")") + 2 :].split()[:4]
    return state not in (b"Z", b"X") and leader in (int(group), int(session))


async def end(leader: int, grace: float = GRACE) -> bool:
    """Asks the whole family to stop, kills what remains after `grace` seconds; whether all are gone."""
    _signal(leader, signal.SIGTERM)
    if await _gone(leader, grace):
        return True
    for _ in range(20):
        _signal(leader, signal.SIGKILL)
        if await _gone(leader, 0.1):
            return True
    return False


def _signal(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
    # Job control moves children to groups of their own; they are still of the session.
    for pid in members(leader):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


async def _gone(leader: int, within: float) -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    pause = 0.01
    while members(leader):
        left = deadline - loop.time()
        if left <= 0:
            return False
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 2, 0.1)
    return True


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
        _signal_all(leader, signal.SIGSTOP)
        if (count := len(members(leader))) > most:
            return count
        _signal_all(leader, signal.SIGCONT)
        base = now  # somebody else has grown


def _signal_all(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _everything() -> int:
    """Threads of the whole machine; 0 where nobody tells."""
    try:
        return int(_LOAD.read_bytes().split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 0


async def end_all(leader: int) -> None:
    """Kills the family without asking first: every moment of patience is a thousand processes more."""
    for _ in range(200):
        _signal_all(leader, signal.SIGKILL)
        left = members(leader)
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.02)
