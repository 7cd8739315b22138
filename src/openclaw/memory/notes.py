"""Appends to notes, and reads excerpts of them; paths are checked to be notes and free of links."""

import os
import stat
import sys
from collections.abc import Sequence
from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from msgspec import Struct

from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError, StateError
from openclaw.core.text import UNTRUSTED, Label, head, sanitize_block, utf16_length
from openclaw.memory.files import LONG_TERM_FILES, NoteScope, read
from openclaw.security import note_marks

# Writing.

LONGEST_ENTRY = 200_000


def append(workspace: Path, name: str, text: str, label: Label = "agent") -> Path:
    """Appends `text` to a note, whole or not at all.

    Untrusted text is stored with its label, so that reading it restores the label.
    """
    cleaned = sanitize_block(text).strip("\n")
    if not cleaned.strip():
        raise InvalidRequest("there is nothing to write")
    if len(cleaned) > LONGEST_ENTRY:
        raise InvalidRequest(f"an entry has at most {LONGEST_ENTRY} characters: shorten it")
    if label in UNTRUSTED:
        cleaned = note_marks.wrap_lines(cleaned, label)
    path = workspace / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        fd = os.open(path, flags, 0o600)
    except OSError as error:
        raise StateError(f"cannot write {path}: {error.strerror}") from error
    try:
        _add(fd, path, cleaned)
    finally:
        os.close(fd)
    return path


def session_note(when: datetime, session_key: str, said: Sequence[tuple[str, str]], about: Sequence[str] = ()) -> str:
    """Renders an ended conversation as a note, messages in order; `about` are further header lines."""
    lines = [f"# Session: {when.strftime('%Y-%m-%d %H:%M')}", "", f"- Session key: {session_key}", *about, ""]
    for role, text in said:
        shown = " ".join(sanitize_block(text).split())
        if shown and not shown.startswith("/"):
            lines.append(f"{role}: {shown}")
    return "\n".join(lines)


def _add(fd: int, path: Path, text: str) -> None:
    size = os.lseek(fd, 0, os.SEEK_END)
    gap = ""
    if size:
        os.lseek(fd, -1, os.SEEK_END)
        gap = "\n" if os.read(fd, 1) == b"\n" else "\n\n"
    data = f"{gap}{text}\n".encode("utf-8", "replace")
    try:
        # One write call: with O_APPEND two writers never interleave.
        if os.write(fd, data) != len(data):
            raise OSError(28, "the disk is full")
        os.fsync(fd)
    except OSError as error:
        os.ftruncate(fd, size)
        raise StateError(f"cannot write {path}: {error.strerror}. Nothing was added; free some space.") from error


# Reading.

DEFAULT_LINES = 120
ALLOWED = (*LONG_TERM_FILES, "USER.md")


class NotAllowed(InvalidRequest):
    """The path is not memory."""

    code = "MEMORY_PATH_NOT_ALLOWED"


class NoteExcerpt(Struct, frozen=True, kw_only=True):
    """Some lines of a note."""

    path: str
    text: str
    start: int
    lines: int
    total: int
    next: int | None = None
    """The line to continue with."""


def resolve(raw: str, scope: NoteScope) -> Path:
    """Resolves `raw` to a note's file; raises `NotAllowed` when it is not a note."""
    refused = NotAllowed(f"{raw!r} is not a note: name MEMORY.md, a file memory/….md, or an extra path")
    given = raw.strip().split("#")[0]
    pure = PurePosixPath(given)
    if not given or "\0" in given or ".." in pure.parts or pure.suffix.lower() != ".md":
        raise refused
    path = scope.workspace / given
    inside = path.is_relative_to(scope.workspace)
    name = path.relative_to(scope.workspace).as_posix() if inside else ""
    if name in ALLOWED or name.startswith("memory/"):
        _no_links(path, scope.workspace, raw)
        return path
    for root, pattern in scope.places():
        if path == root or path.is_relative_to(root):
            below = path.relative_to(root).as_posix()
            if pattern is None or path == root or fnmatch(below, pattern.replace("**/", "*")):
                _no_links(path, root, raw)
                return path
    raise refused


def count_lines(scope: NoteScope, name: str) -> int | None:
    """How many lines a note has; None when it does not exist, a huge number when the file is not a note."""
    if not name.startswith("memory/") and name not in ALLOWED:
        return sys.maxsize
    try:
        text = read(resolve(name, scope)).text
    except (OpenClawError, OSError):
        return None
    return text.count("\n") + (not text.endswith("\n"))


def excerpt(path: Path, name: str, start: int | None, count: int | None, most: int) -> NoteExcerpt:
    """Reads `count` lines of a note from line `start`, at most `most` characters."""
    if not path.exists():
        raise NotFound(f"there is no note {name}")
    lines = read(path).text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    first = max(1, start or 1)
    wanted = lines[first - 1 : first - 1 + max(1, count or DEFAULT_LINES)]
    kept: list[str] = []
    used = 0
    for line in wanted:
        if kept and used + utf16_length(line) + 1 > most:
            break
        kept.append(head(line, most))
        used += utf16_length(kept[-1]) + 1
    after = first + len(kept)
    return NoteExcerpt(
        path=name,
        text="\n".join(kept),
        start=first,
        lines=len(kept),
        total=len(lines),
        next=after if kept and after <= len(lines) else None,
    )


def _no_links(path: Path, root: Path, raw: str) -> None:
    """Raises for a path with a link anywhere below `root`, or spelled differently on disk."""
    here = root
    for part in path.relative_to(root).parts:
        try:
            if part not in os.listdir(here):  # noqa: PTH208
                return
            here /= part
            if stat.S_ISLNK(os.lstat(here).st_mode):
                raise NotAllowed(f"{raw!r} leads through a symbolic link, which is not followed")
        except (FileNotFoundError, NotADirectoryError):
            return
        except PermissionError as error:
            raise NotAllowed(f"{raw!r} cannot be looked at: check its permissions") from error
