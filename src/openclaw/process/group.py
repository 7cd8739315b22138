"""Process groups and sessions: lists their live members and kills them; detects fork bombs."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

GRACE = 2.0
_PROC = Path("/proc")


def members(leader: int) -> set[int]:
    """Live processes of the group or session that `leader` started. A zombie is not alive."""
    if not (_PROC / "self" / "stat").exists():
        return {leader} if _group_exists(leader) else set()
    return {int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit() and _belongs(entry.path, leader)}


def has_members(leader: int) -> bool:
    """Whether any process of the group is left; cheap in the usual case that none is."""
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
        return False  # it ended meanwhile
    # The name is in brackets and may contain anything; the fields we want follow the last bracket.
    state, _, group, session = stat[stat.rindex(b")") + 2 :].split()[:4]
    return state not in (b"Z", b"X") and leader in (int(group), int(session))


async def terminate_group(leader: int) -> None:
    """Terminates the group, and kills what remains after a grace period."""
    _signal(leader, signal.SIGTERM)
    if not await _gone(leader, GRACE):
        await kill_group(leader)


def _signal(leader: int, number: signal.Signals) -> set[int]:
    """Signals the group and what is left of its session; returns the members that were left."""
    _signal_group(leader, number)
    # Job control moves children to their own groups; they are still in the session.
    left = members(leader)
    for pid in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return left


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


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


# Fork bombs.

LOOK_EVERY = 0.05
_LOAD = Path("/proc/loadavg")


async def wait_until_outgrown(leader: int, most: int) -> int:
    """Returns the number of processes in the group of `leader` as soon as it exceeds `most`.

    Counting means reading about every process, so it happens only after the whole machine has grown by that many, and
    with the group stopped: a fork bomb would outrun the count.
    """
    base = _everything()
    while True:
        await asyncio.sleep(LOOK_EVERY)
        now = _everything()
        base = min(base, now)
        if now - base <= most:
            continue
        _signal_group(leader, signal.SIGSTOP)
        if (count := len(members(leader))) > most:
            return count
        _signal_group(leader, signal.SIGCONT)
        base = now  # other processes account for the growth


def _everything() -> int:
    """The number of threads on the machine; 0 where it is not known."""
    try:
        return int(_LOAD.read_bytes().split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 0


async def kill_group(leader: int) -> None:
    """Kills the group with SIGKILL, at once: a fork bomb would use any grace period to multiply."""
    for _ in range(200):
        if not _signal(leader, signal.SIGKILL):
            return
        await asyncio.sleep(0.02)
