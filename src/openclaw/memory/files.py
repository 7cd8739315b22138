"""Finds and reads the files that are memory: never through a link, each once, each in a consistent state."""

import os
import stat
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from hashlib import sha256
from operator import attrgetter
from pathlib import Path

import msgspec
from msgspec import Struct

from openclaw.core.errors import StateError
from openclaw.core.text import sanitize_line
from openclaw.memory.settings import ExtraPath

LONG_TERM_FILES = ("MEMORY.md", "memory.md")
MOST_BYTES = 16 * 1024 * 1024
"""Most bytes read of one note."""
MAX_DEPTH = 32
TRIES = 3


class NoteScope(Struct, frozen=True, kw_only=True):
    """The files to search: the workspace's notes and the configured extra paths."""

    workspace: Path
    extra: tuple[str | ExtraPath, ...] = ()
    home: Path = Path("/")

    def places(self) -> Iterator[tuple[Path, str | None]]:
        """The extra paths as absolute ones, with their pattern."""
        for entry in self.extra:
            text, pattern = (entry, None) if isinstance(entry, str) else (entry.path, entry.pattern)
            path = self.home / text[2:] if text == "~" or text.startswith("~/") else self.workspace / text
            yield Path(os.path.normpath(path)), pattern

    @property
    def digest(self) -> str:
        """A hash of the scope; part of the index identity."""
        places = sorted({f"{path}\0{pattern or ''}" for path, pattern in self.places()})
        return sha256(msgspec.json.encode(places)).hexdigest()

    def name(self, path: str | Path) -> str:
        """The name of a file in results."""
        return str(path).removeprefix(f"{self.workspace}{os.sep}").replace(os.sep, "/")


class NoteFile(Struct, frozen=True, kw_only=True):
    """A file that is memory."""

    path: str
    name: str
    mtime: int
    size: int


class Discovered(Struct, frozen=True):
    files: tuple[NoteFile, ...]
    skipped: tuple[str, ...] = ()
    """Paths left out, with the reason."""


class NoteContent(Struct, frozen=True, kw_only=True):
    """The content of a note, read without changes in between."""

    text: str
    hash: str
    mtime: int
    size: int
    problem: str = ""


def discover(scope: NoteScope) -> Discovered:
    """Finds every note, each once. Raises when a directory cannot be listed, or its notes would count as deleted."""
    files: list[NoteFile] = []
    skipped: list[str] = []
    seen: set[tuple[int, int]] = set()

    def add(path: str, info: os.stat_result) -> None:
        key, name = (info.st_dev, info.st_ino), scope.name(path)
        if sanitize_line(name) != name:
            # A model reads names, too: a line break in one could pass for a line of ours.
            skipped.append(f"{sanitize_line(name)}: its name has control characters; rename it")
        elif key not in seen:
            seen.add(key)
            files.append(NoteFile(path=path, name=name, mtime=info.st_mtime_ns, size=info.st_size))

    listed = _names(scope.workspace)
    for name in LONG_TERM_FILES:
        path = scope.workspace / name
        if name in listed and (info := _look(path)) is not None and stat.S_ISREG(info.st_mode):
            add(str(path), info)
    for place, info in _walk(str(scope.workspace / "memory"), skipped):
        add(place, info)
    for root, pattern in scope.places():
        about = _look(root)
        if about is None:
            skipped.append(f"{root}: not there")
        elif stat.S_ISLNK(about.st_mode):
            skipped.append(f"{root}: a symbolic link is not followed")
        elif stat.S_ISREG(about.st_mode) and root.suffix.lower() == ".md":
            add(str(root), about)
        elif stat.S_ISDIR(about.st_mode):
            for place, info in _walk(str(root), skipped):
                below = os.path.relpath(place, root).replace(os.sep, "/")
                if pattern is None or fnmatch(below, pattern.replace("**/", "*")):
                    add(place, info)
    return Discovered(tuple(files), tuple(skipped))


def discover_changed(scope: NoteScope, paths: Iterable[str]) -> Discovered | None:
    """Finds only these notes; None when telling what they are needs a full `discover`."""
    folder = f"{scope.workspace}{os.sep}memory{os.sep}"
    files: list[NoteFile] = []
    for path in paths:
        if not path.startswith(folder) or not path.lower().endswith(".md") or sanitize_line(path) != path:
            return None
        parents = Path(path.removeprefix(folder)).parts[:-1]
        steps = [os.path.join(folder, *parents[: depth + 1]) for depth in range(len(parents))]  # noqa: PTH118
        looks = [_look(step) for step in (folder.rstrip(os.sep), *steps)]
        info = _look(path)
        hidden = any(part.startswith(".") for part in parents)
        if hidden or not all(look is not None and stat.S_ISDIR(look.st_mode) for look in looks):
            continue
        if info is not None and stat.S_ISREG(info.st_mode):
            if info.st_nlink > 1:
                return None
            files.append(NoteFile(path=path, name=scope.name(path), mtime=info.st_mtime_ns, size=info.st_size))
    return Discovered(tuple(files))


def read(path: str | Path) -> NoteContent:
    """Reads a note; one that keeps changing while it is read is left for the next sync."""
    for _ in range(TRIES):
        try:
            fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            raise StateError(f"cannot read {path}: {error.strerror}") from error
        with os.fdopen(fd, "rb") as file:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                raise StateError(f"cannot read {path}: it is not a regular file")
            try:
                data = file.read(MOST_BYTES + 1)
            except OSError as error:
                raise StateError(f"cannot read {path}: {error.strerror}") from error
            after = os.fstat(fd)
        if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
            return _content(data, after)
    raise StateError(f"{path} keeps changing while it is read")


def _content(data: bytes, info: os.stat_result) -> NoteContent:
    problem = ""
    whole = data
    if len(data) > MOST_BYTES:
        problem = f"only its first {MOST_BYTES >> 20} MB are searched"
        data = data[:MOST_BYTES]
    if b"\0" in data:
        text, problem = "", "not text"
    else:
        text = data.decode("utf-8-sig", "replace")
        if "\ufffd" in text and not problem:
            try:
                data.decode("utf-8")
            except UnicodeDecodeError:
                problem = "some of it is not valid UTF-8"
    return NoteContent(
        text=text.replace("\r\n", "\n").replace("\r", "\n"),
        hash=sha256(whole).hexdigest(),
        mtime=info.st_mtime_ns,
        size=info.st_size,
        problem=problem,
    )


def _look(path: str | Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StateError(f"cannot look at {path}: {error.strerror}. Check its permissions.") from error


def _names(folder: Path) -> frozenset[str]:
    """The names as spelled on disk: on case-insensitive file systems MEMORY.md and memory.md are one file."""
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError as error:
        raise StateError(f"cannot list {folder}: {error.strerror}. Check its permissions.") from error


def _walk(folder: str, skipped: list[str], depth: int = 0) -> Iterator[tuple[str, os.stat_result]]:
    """The Markdown files below `folder`, in the order of their names; links are never followed."""
    try:
        if depth == 0 and (info := _look(folder)) is not None and stat.S_ISLNK(info.st_mode):
            skipped.append(f"{folder}: a symbolic link is not followed")
            return
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=attrgetter("name"))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise StateError(
            f"cannot list {folder}: {error.strerror}. Check its permissions; the index is unchanged."
        ) from error
    for entry in entries:
        try:
            if entry.is_symlink():
                skipped.append(f"{entry.path}: a symbolic link is not followed")
            elif entry.is_dir(follow_symlinks=False):
                if entry.name.startswith("."):
                    continue
                if depth >= MAX_DEPTH:
                    skipped.append(f"{entry.path}: too deep")
                else:
                    yield from _walk(entry.path, skipped, depth + 1)
            elif entry.name.lower().endswith(".md") and entry.is_file(follow_symlinks=False):
                yield entry.path, entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
