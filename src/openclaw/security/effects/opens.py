"""Observes which of a few files and directories are opened while a command runs (inotify, on Linux)."""

import os
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from openclaw.security.file_labels import INBOXES, VENDORED

_OPEN, _MOVED_FROM, _MOVE_SELF, _ATTRIB, _OVERFLOW, _IS_DIR = 0x20, 0x40, 0x800, 0x04, 0x4000, 0x40000000
_DELETE = 0x200  # what was linked elsewhere before lives on there
_MASK = _OPEN | _MOVED_FROM | _MOVE_SELF | _ATTRIB | _DELETE
_EVENT = struct.Struct("iIII")
DEEPEST, MOST_LOOKED_AT, MOST_WATCHED = 4, 600, 400
MOST_WALKED, MOST_CHANGED = 4_000, 500


@cache
def _libc() -> Any:
    """The C library where it has inotify; None elsewhere."""
    import ctypes  # only where a command runs

    try:
        found = ctypes.CDLL(None, use_errno=True)
        return found if hasattr(found, "inotify_init1") else None
    except OSError:
        return None


class OpenWatch:
    """Which of the watched files were opened, moved or removed so far. `works` is False where that cannot be seen."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._names: dict[int, str] = {}
        self._seen: set[str] = set()
        self._fd = -1
        self.lost = False
        """Events were lost: everything may have been opened."""
        libc = _libc()
        if libc is not None:
            self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.blind = not self.works
        for path in paths if self.works else ():
            watch = libc.inotify_add_watch(self._fd, os.fsencode(path), _MASK)
            if watch >= 0:
                self._names[watch] = path
            elif os.path.lexists(path):  # the system has no watches left
                self.lost = True

    @property
    def works(self) -> bool:
        return self._fd >= 0

    def opened(self) -> set[str]:
        """The paths that were opened so far: files, and directories that were listed."""
        while self.works:
            try:
                data = os.read(self._fd, 65_536)
            except (BlockingIOError, OSError):
                break
            at = 0
            while at < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, at)
                name = os.fsdecode(data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0"))
                at += _EVENT.size + length
                self.lost = self.lost or bool(mask & _OVERFLOW)
                # A change of a directory's own attributes shows nothing of it.
                if watch in self._names and not (mask & _ATTRIB and mask & _IS_DIR):
                    self._seen.add(f"{self._names[watch]}/{name}" if name else self._names[watch])
        return set(self._seen)

    def all(self) -> set[str]:
        return set(self._names.values())

    def close(self) -> None:
        self.opened()
        if self.works:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if self.works:
            os.close(self._fd)


def others_directories(root: str) -> list[str]:
    """The directories below `root` in which others put files: inboxes and checkouts with what is in them, and the top
    of vendored trees, which nothing lists that does not read all of it."""
    found: list[str] = []
    todo = [(root, 0)]
    looked = 0
    while todo and looked < MOST_LOOKED_AT:
        place, depth = todo.pop(0)
        looked += 1
        for name, path in _below(place):
            if name.lower() in VENDORED:
                found.append(path)
            elif name.lower() in INBOXES or os.path.lexists(f"{path}/.git"):
                found += _tree(path)
            elif depth < DEEPEST and not name.startswith("."):
                todo.append((path, depth + 1))
    return found[:MOST_WATCHED]


def changed_files(roots: Iterable[str], start: int, end: int) -> list[str]:
    """The files below `roots` that were changed between two moments, outside the directories of others."""
    found: list[str] = []
    todo, looked = list(roots), 0
    while todo and looked < MOST_WALKED and len(found) < MOST_CHANGED:
        place = todo.pop(0)
        looked += 1
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                with suppress(OSError):
                    if not entry.is_dir(follow_symlinks=False):
                        about = entry.stat(follow_symlinks=False)
                        if start <= about.st_ctime_ns <= end and stat.S_ISREG(about.st_mode):
                            found.append(entry.path)
                    elif not _is_others(entry.name, entry.path):
                        todo.append(entry.path)
    return found[:MOST_CHANGED]


def _is_others(name: str, path: str) -> bool:
    """Whether a directory holds files of others, which carry their label by their place."""
    return name == ".git" or name.lower() in VENDORED | INBOXES or os.path.lexists(f"{path}/.git")


def _tree(root: str) -> list[str]:
    found, at = [root], 0
    while at < len(found) < MOST_WATCHED:
        found += [path for name, path in _below(found[at]) if name != ".git" and name.lower() not in VENDORED]
        at += 1
    return found


def _below(place: str) -> Iterator[tuple[str, str]]:
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    yield entry.name, entry.path


def other_names(path: str, roots: Iterable[str], listed: Iterable[str]) -> list[str]:
    """The other names of a file with several: in the directories of others below `roots`, or among `listed` files.

    No watch on a directory sees that a file in it was linked.
    """
    about = _linked_twice(path)
    if about is None:
        return []
    near = [f"{place}/{name}" for root in roots for place in others_directories(root) for name in _twins(place, about)]
    found = []
    for each in (*near, *listed):
        with suppress(OSError, ValueError):
            if each != path and os.path.samestat(os.stat(each), about):  # noqa: PTH116
                found.append(each)
    return found


def has_other_names(path: str) -> bool:
    """Whether a file has several names, wherever they are."""
    return _linked_twice(path) is not None


def _linked_twice(path: str) -> os.stat_result | None:
    try:
        about = os.stat(path)  # noqa: PTH116 (links are resolved)
    except (OSError, ValueError):
        return None
    return about if about.st_nlink > 1 and stat.S_ISREG(about.st_mode) else None


def _twins(place: str, about: os.stat_result) -> list[str]:
    with suppress(OSError), os.scandir(place) as entries:
        return [entry.name for entry in entries if entry.inode() == about.st_ino]
    return []


def names_in(directory: str, most: int = 500) -> list[str]:
    """The names in a directory, longer than two characters, so that they can be told in an output."""
    with suppress(OSError):
        return [entry.name for entry in islice(Path(directory).iterdir(), most) if len(entry.name) > 2]
    return []
