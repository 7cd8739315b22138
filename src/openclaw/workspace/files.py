"""Reads the workspace files: bounded, never outside the workspace, cached until they change. Parses IDENTITY.md."""

import errno
import os
import re
import stat
from pathlib import Path

from msgspec import Struct

from openclaw.core.text import Label, sanitize_line
from openclaw.storage.atomic import Identity, identity_of

ALWAYS = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md")
WHEN_PRESENT = ("BOOTSTRAP.md", "MEMORY.md", "memory.md")
BOOTSTRAP_FILES = ALWAYS + WHEN_PRESENT


class WorkspaceFile(Struct, frozen=True, kw_only=True):
    """One file as read. An unusable file has a `problem` instead of failing the run."""

    name: str
    path: str
    content: str = ""
    missing: bool = False
    problem: str = ""
    """Why it could not be read."""
    note: str = ""
    """A warning about a file that was read: invalid bytes, or read in part."""
    raw_chars: int | None = None
    """The whole file's size when `content` is only its beginning and end."""
    inode: str = ""
    """`device:inode`: two names of one file share it."""
    label: Label = "workspace"


MAX_BYTES = 2_097_152
MAX_REASON = 300
CACHED_BYTES = 262_144
CACHED_FILES = 256

_READ = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


FileCache = dict[str, tuple[tuple[str, Identity], WorkspaceFile]]
"""By path: where the file is and its identity, and its content, which is valid while both stay the same."""


def load(
    workspace: Path, *, cache: FileCache | None = None, names: tuple[str, ...] = BOOTSTRAP_FILES
) -> tuple[WorkspaceFile, ...]:
    """Loads the bootstrap files of `workspace` in prompt order; reads only those that changed."""
    found: list[WorkspaceFile] = []
    root = str(workspace)
    for name in names:
        file = _load(root, name, cache)
        if file.missing and name in WHEN_PRESENT:
            continue
        if name == "memory.md" and file.inode:  # two names of one file, where case does not count
            twins = [other.inode for other in found if other.name == "MEMORY.md"]
            if file.inode in twins:
                continue
        found.append(file)
    return tuple(found)


def read(workspace: Path, path: Path, *, cache: FileCache | None = None) -> WorkspaceFile:
    """Reads one file of `workspace`, with the same checks."""
    return _load(str(workspace), os.path.relpath(path, workspace), cache)


def _load(workspace: str, name: str, cache: FileCache | None) -> WorkspaceFile:
    """Reads `name` inside `workspace`; every failure becomes a `problem`."""
    shown = real = f"{workspace}{os.sep}{name}"
    linked = leaves = False
    try:
        about = os.lstat(real)
        linked = stat.S_ISLNK(about.st_mode)
        if linked or os.sep in name:  # a parent directory may be a link too
            root = os.path.realpath(workspace)
            real = os.path.realpath(real, strict=True)
            about = Path(real).stat()
            leaves = not (real == root or real.startswith(root.rstrip(os.sep) + os.sep))
        identity = real, identity_of(about)
        held = cache.get(shown) if cache else None
        if held is not None and held[0] == identity and not leaves:
            return held[1]
        problem = ""
        if leaves:
            problem = "it is a link that leaves the workspace; copy the file into the workspace instead"
        elif stat.S_ISDIR(about.st_mode):
            problem = f"{name} is a directory; put a text file in its place"
        elif not stat.S_ISREG(about.st_mode):
            problem = f"{name} is not a regular file"
        if problem:
            return WorkspaceFile(name=name, path=shown, problem=problem)
        file = _read(name, shown, real, about)
    except FileNotFoundError:
        if linked:
            return WorkspaceFile(name=name, path=shown, problem="it is a link to a file that does not exist")
        return WorkspaceFile(name=name, path=shown, missing=True)
    except OSError as error:
        return WorkspaceFile(name=name, path=shown, problem=_reason(error))
    if cache is not None and about.st_size <= CACHED_BYTES and not file.problem:
        if len(cache) >= CACHED_FILES:
            cache.clear()
        cache[shown] = (identity, file)
    return file


def _read(name: str, shown: str, real: str, about: os.stat_result) -> WorkspaceFile:
    """The text of a regular file, at most `MAX_BYTES` of it."""
    # The path was checked before opening: O_NOFOLLOW and comparing inodes close that race.
    handle = os.open(real, _READ)
    with os.fdopen(handle, "rb") as stream:
        opened = os.fstat(handle)
        if (opened.st_dev, opened.st_ino) != (about.st_dev, about.st_ino):
            problem = "it was replaced while being read; the next turn sees it"
            return WorkspaceFile(name=name, path=shown, problem=problem)
        if opened.st_size <= MAX_BYTES:
            # Bounded also when the file grows while it is read.
            data, rest = stream.read(MAX_BYTES), b""
        else:
            data = stream.read(MAX_BYTES // 2)
            stream.seek(-(MAX_BYTES // 2), os.SEEK_END)
            rest = stream.read(MAX_BYTES // 2)
    if b"\0" in data or b"\0" in rest:
        return WorkspaceFile(name=name, path=shown, problem=f"{name} is not text; put a text file in its place")
    content, notes = _decode(data)
    raw_chars = None
    if rest:
        ending, _ = _decode(rest)
        content = f"{content}\n\n[...truncated, read {name} for full content...]\n\n{ending}"
        raw_chars = opened.st_size
        notes = [f"{opened.st_size:,} bytes: only the beginning and the end were read", *notes]
    return WorkspaceFile(
        name=name,
        path=shown,
        content=content,
        note="; ".join(notes),
        raw_chars=raw_chars,
        inode=f"{opened.st_dev}:{opened.st_ino}",
    )


def _decode(data: bytes) -> tuple[str, list[str]]:
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        text = data.decode("utf-8-sig", "replace")
        return text, [f"not valid UTF-8 from byte {error.start:,}; the bad bytes are shown as \ufffd"]


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "its links go round in a circle"
    if error.errno == errno.EACCES:
        return "no permission to read it; check its mode and owner"
    return sanitize_line(error.strerror or type(error).__name__)[:MAX_REASON]


# IDENTITY.md.

_LINE = re.compile(r"^\s*[-*]\s*(?:\*\*)?\s*(name|creature|vibe|emoji|avatar)\s*:?\s*(?:\*\*)?\s*:?\s*(.*?)\s*$", re.I)
_PLACEHOLDER = re.compile(r"^[_*]*\(.*\)[_*]*$")


class AgentIdentity(Struct, frozen=True, kw_only=True):
    name: str = ""
    creature: str = ""
    vibe: str = ""
    emoji: str = ""
    avatar: str = ""


def parse(text: str) -> AgentIdentity:
    """Parses the `- Label: value` lines; the first wins, and a placeholder in parentheses counts as empty."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if found and ":" in line and found[2] and not _PLACEHOLDER.match(found[2]):
            values.setdefault(found[1].lower(), found[2])
    return AgentIdentity(**values)
