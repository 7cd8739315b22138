"""Observes which of a few files and directories are opened while a command runs (inotify, on Linux)."""

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from openclaw.security.file_labels import INBOXES, VENDORED

_OPEN, _MOVED_FROM, _MOVE_SELF, _ATTRIB, _OVERFLOW, _IS_DIR = 0x20, 0x40, 0x800, 0x04, 0x4000, 0x40000000
_MASK = _OPEN | _MOVED_FROM | _MOVE_SELF | _ATTRIB
_EVENT = struct.Struct("iIII")
DEEPEST, MOST_LOOKED_AT, MOST_WATCHED = 4, 600, 400


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
    """Which of the watched files were opened, moved or linked so far. `works` is False where that cannot be seen."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._names: dict[int, str] = {}
        self._seen: set[str] = set()
        self._fd = -1
        self.lost = False
        """Events were lost: everything may have been opened."""
        libc = _libc()
        if libc is not None:
            self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for path in paths if self.works else ():
            watch = libc.inotify_add_watch(self._fd, os.fsencode(path), _MASK)
            if watch >= 0:
                self._names[watch] = path

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


def names_in(directory: str, most: int = 500) -> list[str]:
    """The names in a directory, longer than two characters, so that they can be told in an output."""
    with suppress(OSError):
        return [entry.name for entry in islice(Path(directory).iterdir(), most) if len(entry.name) > 2]
    return []
