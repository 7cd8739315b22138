"""Digests of directories; a file is hashed again only when it changed."""

import hashlib
import os
import stat
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import msgspec
from msgspec import Struct

from openclaw.storage.atomic import Identity, identity_of

MAX_FILES = 5_000
MAX_BYTES = 128 << 20
MAX_DEPTH = 12
RACY = 0.1
"""A file that changed this recently may change again within the same timestamp, so its digest is not cached."""

UNCOUNTED = frozenset({".openclaw", ".git", ".DS_Store", "Thumbs.db"})
"""Our own records and leftovers of other tools. They are not covered by a digest, so they must not be used either."""
UNCOUNTED_HERE = UNCOUNTED | {"__pycache__"}
"""For directories inside this package: installers may compile it, and whoever can write there controls us anyway."""

_READ = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


class DigestedFile(Struct, frozen=True, array_like=True):
    """A file and the digest of its bytes."""

    path: str
    sha256: str


class TreeDigest(Struct, frozen=True):
    """The digest of a directory, and of each file in it."""

    sha256: str
    files: tuple[DigestedFile, ...] = ()


class Unverifiable(ValueError):
    """A directory that cannot be verified; the text says why."""


class _Entry(Struct, frozen=True, omit_defaults=True):
    path: str
    type: str
    sha256: str = ""


class Hasher:
    """Digests of files and directories, cached by their `stat` results."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._files: dict[str, tuple[Identity, str]] = {}
        self._trees: dict[str, tuple[tuple[tuple[str, Identity | None], ...], TreeDigest]] = {}
        self.files_read = 0

    def tree(self, base: str, uncounted: frozenset[str] = UNCOUNTED) -> TreeDigest:
        """The digest of `base`; raises `Unverifiable` for links, special files and oversized directories."""
        try:
            entries = walk(base, uncounted)
            signature = tuple((path, identity_of(about) if about else None) for path, about in entries)
            known = self._trees.get(base)
            if known is not None and known[0] == signature:
                return known[1]
            listed: list[_Entry] = []
            for path, about in entries:
                sha256 = self.file(f"{base}{os.sep}{path}", about) if about else ""
                listed.append(_Entry(path, "file" if about else "directory", sha256))
        except OSError as error:
            raise Unverifiable(f"{error.filename or base} cannot be read: {error.strerror}") from error
        digest = hashlib.sha256(msgspec.json.encode(listed)).hexdigest()
        files = tuple(DigestedFile(entry.path, entry.sha256) for entry in listed if entry.sha256)
        found = TreeDigest(f"sha256:{digest}", files)
        self._trees.pop(base, None)
        if all(f"{base}{os.sep}{file.path}" in self._files for file in files):  # none may change unnoticed
            self._trees[base] = (signature, found)
        return found

    def file(self, path: str, about: os.stat_result) -> str:
        """The digest of a regular file in its current state."""
        known = self._files.get(path)
        if known is not None and known[0] == identity_of(about):
            return known[1]
        data, opened = read_regular(path, MAX_BYTES)
        self.files_read += 1
        sha256 = hashlib.sha256(data).hexdigest()
        self.remember(path, opened, sha256)
        return sha256

    def remember(self, path: str, about: os.stat_result, sha256: str) -> None:
        """Caches a digest that was computed from the same open file."""
        if self.steady(about):
            self._files[path] = (identity_of(about), sha256)
        else:
            self._files.pop(path, None)

    def steady(self, about: os.stat_result) -> bool:
        """Whether a later change to this file is sure to change its timestamps."""
        return self._now() - max(about.st_mtime, about.st_ctime) > RACY


def read_regular(path: str, limit: int) -> tuple[bytes, os.stat_result]:
    """The bytes of a regular file, opened without following a link or waiting for a pipe."""
    handle = os.open(path, _READ)
    with os.fdopen(handle, "rb") as stream:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise Unverifiable(f"{path} is not a regular file")
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise Unverifiable(f"{path} has more than {limit:,} bytes")
    return data, about


def walk(
    base: str,
    uncounted: frozenset[str],
    *,
    most_files: int = MAX_FILES,
    most_bytes: int = MAX_BYTES,
    private: bool = False,
) -> list[tuple[str, os.stat_result | None]]:
    """All counted entries below `base`, sorted by name in each directory; a directory is without a `stat` result.

    Refuses links, special files, and with `private` what everyone on the machine can write to."""
    found: list[tuple[str, os.stat_result | None]] = []
    total = 0

    def check(path: str, mode: int) -> None:
        if private and mode & 0o002:
            raise Unverifiable(f"everyone on this machine can write to {path}: chmod o-w {path}")

    def visit(directory: str, prefix: str, depth: int) -> None:
        nonlocal total
        check(directory, os.stat(directory).st_mode if private else 0)  # noqa: PTH116
        with os.scandir(directory) as listing:
            entries = sorted((entry for entry in listing if entry.name not in uncounted), key=attrgetter("name"))
        for entry in entries:
            path = prefix + entry.name
            about = entry.stat(follow_symlinks=False)
            total += about.st_size
            if len(found) >= most_files or total > most_bytes or depth > MAX_DEPTH:
                raise Unverifiable(
                    f"it holds more than {most_files:,} files, {most_bytes >> 20} MiB or {MAX_DEPTH} levels: "
                    "keep data and installed packages outside it"
                )
            if stat.S_ISLNK(about.st_mode):
                raise Unverifiable(f"{path} is a link: replace it with a copy")
            if stat.S_ISDIR(about.st_mode):
                found.append((path, None))
                visit(entry.path, f"{path}/", depth + 1)
            elif stat.S_ISREG(about.st_mode):
                check(entry.path, about.st_mode)
                found.append((path, about))
            else:
                raise Unverifiable(f"{path} is not a regular file")

    visit(base, "", 1)
    return found


def contents(base: Path, tree: TreeDigest, limit: int = 1 << 20) -> dict[str, bytes]:
    """The contents of those files of `tree` that are no larger than `limit`."""
    found: dict[str, bytes] = {}
    for file in tree.files:
        try:
            found[file.path], _ = read_regular(str(base / file.path), limit)
        except (OSError, Unverifiable):
            continue
    return found
