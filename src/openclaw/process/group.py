"""Process groups, sessions and trees: lists their live members and kills them, also when we are killed ourselves;
detects fork bombs.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from openclaw.core.clock import Backoff

GRACE = 2.0
LOOKS = Backoff(0.01, 0.1)


def _psutil() -> Any:
    """Imported at its first use: the helper in a sandbox does without."""
    import psutil  # type: ignore[import-untyped]

    return psutil


def resident_bytes(pid: int) -> int:
    """The memory of a process; 0 when it is gone."""
    psutil = _psutil()
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def members(leader: int) -> set[int]:
    """Live processes of the group or session that `leader` started. A zombie is not alive."""
    psutil = _psutil()
    return {pid for pid in psutil.pids() if _belongs(pid, leader) and _lives(pid)}


def descendants(pid: int | None = None) -> set[int]:
    """All descendants of a process, or of this one."""
    psutil = _psutil()
    try:
        return {child.pid for child in psutil.Process(pid).children(recursive=True)}
    except psutil.Error:
        return set()


class Family:
    """The descendants that a process has now, to be killed after its end: then nobody can tell whose they are."""

    def __init__(self, pid: int) -> None:
        psutil = _psutil()
        try:
            self._members = psutil.Process(pid).children(recursive=True)
        except psutil.Error:
            self._members = []

    def kill(self) -> None:
        psutil = _psutil()
        for member in self._members:
            with suppress(psutil.Error):
                member.kill()  # never another process that has got its number meanwhile


def kill(leaders: set[int]) -> None:
    """Kills processes and the remains of the sessions they led, orphans included."""
    for pid in leaders.union(*(members(leader) for leader in leaders)):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


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


def _belongs(pid: int, leader: int) -> bool:
    try:
        return leader in (os.getpgid(pid), os.getsid(pid))
    except OSError:
        return False  # it ended meanwhile


def _lives(pid: int) -> bool:
    psutil = _psutil()
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


async def terminate_group(leader: int) -> None:
    """Terminates the group, and kills what remains after a grace period, also what left the session."""
    family = Family(leader)
    _signal(leader, signal.SIGTERM)
    if not await _gone(leader, GRACE):
        await kill_group(leader)
    family.kill()


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


def kill_leftovers(leader: int) -> None:
    """Kills what a leader that has ended left in its group."""
    _signal_group(leader, signal.SIGKILL)


async def _gone(leader: int, within: float) -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    looks = 0
    while members(leader):
        left = deadline - loop.time()
        if left <= 0:
            return False
        looks += 1
        await asyncio.sleep(min(LOOKS.after(looks), left))
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


# Our own end.

# Reads which groups are ours until its input ends, which it does however we end, and kills those that are left. Of one
# that was just being started only the pipe of its output is known: who has that is found where there is a /proc.
_WATCHDOG = """
trap '' HUP INT TERM; ours=' '
while read -r sign pid; do
  case $sign$ours in
    +*) ours="$ours$pid " ;;
    -*" $pid "*) ours="${ours%% "$pid" *} ${ours#* "$pid" }" ;;
  esac
done
for pid in $ours; do
  case $pid in
    pipe:*) ls -l /proc/[0-9]*/fd | while read -r line; do
      case $line in
        /proc/*) at="${line#/proc/}"; at="${at%%/*}" ;;
        *" $pid") kill -9 "-$at" || kill -9 "$at" ;;
      esac
    done ;;
    *) kill -9 "-$pid" ;;
  esac
done
"""


def start_watchdog() -> None:
    """Starts the watchdog if there is none yet: before a child starts, or the child outlives us if we die meanwhile."""
    _watchdog(os.getpid())


def tie(leader: int) -> None:
    """Sees to it that the group of `leader` is killed when this process dies before `untie`, even by SIGKILL."""
    _tell_watchdog(f"+ {leader}\n")


def untie(leader: int) -> None:
    _tell_watchdog(f"- {leader}\n")


@contextmanager
def starting(output: int) -> Iterator[None]:
    """Surrounds the start of a child that writes to the pipe `output`, and `tie`: we may die in between."""
    name = f"pipe:[{os.fstat(output).st_ino}]"
    _tell_watchdog(f"+ {name}\n")
    try:
        yield
    finally:
        _tell_watchdog(f"- {name}\n")


def _tell_watchdog(line: str) -> None:
    for _ in range(2):
        try:
            os.write(_watchdog(os.getpid()), line.encode())
            return
        except OSError:  # somebody killed it
            _watchdog.cache_clear()


@lru_cache(maxsize=1)
def _watchdog(_us: int) -> int:
    """Starts the watchdog of this process; a fork of it gets its own. Gives the pipe to it."""
    reading, writing = os.pipe()
    try:
        # The shell returns at once and leaves the loop to the system, so that it is nobody's child to wait for.
        subprocess.run(
            ["/bin/sh", "-c", f"exec 3<&0; ({_WATCHDOG}) <&3 3<&- &"],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            check=False,
        )
    finally:
        os.close(reading)
    return writing
