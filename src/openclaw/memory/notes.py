"""Writing memory: daily notes that only ever grow, in whole pieces."""

import os
import re
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path

from openclaw.core.errors import InvalidRequest, StateError
from openclaw.core.origin import UNTRUSTED
from openclaw.core.text import Label, block
from openclaw.memory import labels

LONGEST_SLUG = 48
LONGEST_ENTRY = 200_000


def daily(day: date, slug: str = "") -> str:
    """The name of the note of a day."""
    cleaned = re.sub(r"[^a-z0-9]+", "-", slug.lower()).strip("-")[:LONGEST_SLUG].strip("-")
    return f"memory/{day.isoformat()}{f'-{cleaned}' if cleaned else ''}.md"


def append(workspace: Path, name: str, text: str, label: Label = "agent") -> Path:
    """Adds `text` to a note, whole or not at all; what was there is never touched.

    Text that came from outside keeps its label, so that it comes back with it.
    """
    cleaned = block(text).strip("\n")
    if not cleaned.strip():
        raise InvalidRequest("there is nothing to write")
    if len(cleaned) > LONGEST_ENTRY:
        raise InvalidRequest(f"an entry has at most {LONGEST_ENTRY} characters: shorten it")
    if label in UNTRUSTED:
        cleaned = labels.wrapped(cleaned, label)
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
    """A conversation that ends, as a note: who said what, last things last; `about` are further lines about it."""
    lines = [f"# Session: {when.strftime('%Y-%m-%d %H:%M')}", "", f"- Session key: {session_key}", *about, ""]
    for role, text in said:
        shown = " ".join(block(text).split())
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
        # One write: with O_APPEND, two writers never mix.
        if os.write(fd, data) != len(data):
            raise OSError(28, "the disk is full")
        os.fsync(fd)
    except OSError as error:
        os.ftruncate(fd, size)
        raise StateError(f"cannot write {path}: {error.strerror}. Nothing was added; free some space.") from error
