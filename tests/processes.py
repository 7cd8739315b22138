"""Processes that tests start, seen from outside; one may end at any moment, also while it is looked at."""

import os
from pathlib import Path

import psutil  # type: ignore[import-untyped]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def children(program: str = "", saying: str = "", of: int | None = None) -> set[int]:
    """The processes below this one, or below `of`, whose program's name begins so, with something in their words."""
    found = set()
    for each in psutil.Process(of or os.getpid()).children(recursive=True):
        try:
            words = each.cmdline()
        except psutil.Error:  # ended meanwhile
            continue
        if Path("".join(words[:1])).name.startswith(program) and saying in " ".join(words):
            found.add(each.pid)
    return found
