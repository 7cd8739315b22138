"""Reading the log: its last lines, and what is added while one watches."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from openclaw.gateway.logs import LogFiles, LogLine

POLL_SECONDS = 0.25


class LogTail(Struct, frozen=True, kw_only=True):
    """A piece of the log; `cursor` is where the next piece starts."""

    file: Path
    cursor: int
    size: int
    lines: tuple[str, ...] = ()
    truncated: bool = False
    reset: bool = False
    skipped_bytes: int = 0


def newest(place: LogFiles) -> Path | None:
    found = place.files()
    return found[-1] if found else None


def tail(path: Path, *, cursor: int | None = None, limit: int = 500, max_bytes: int = 250_000) -> LogTail:
    """The last lines of `path`, or what came after `cursor`; never more than `limit` lines or `max_bytes`."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        reset = cursor is not None and cursor > size
        start = 0 if cursor is None or reset else cursor
        skipped = max(0, size - start - max_bytes)
        file.seek(start + skipped)
        data = file.read(size - start - skipped)
    # A line that is still being written belongs to the next piece; the first one may be cut.
    whole = data[: data.rfind(b"\n") + 1]
    end = start + skipped + len(whole)
    if skipped:
        at = whole.find(b"\n") + 1
        skipped, whole = skipped + at, whole[at:]
    lines = whole.decode("utf-8", "replace").splitlines()
    return LogTail(
        file=path,
        cursor=end,
        size=size,
        lines=tuple(lines[-limit:]),
        truncated=skipped > 0 or len(lines) > limit,
        reset=reset,
        skipped_bytes=skipped if cursor is not None else 0,
    )


def last(place: LogFiles, limit: int) -> list[str]:
    """The last `limit` lines over all files, oldest first."""
    found: list[str] = []
    for path in reversed(place.files()):
        if len(found) >= limit:
            break
        size = path.stat().st_size
        found = list(tail(path, limit=limit - len(found), max_bytes=max(size, 1)).lines) + found
    return found


def follow(place: LogFiles, *, wait: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Lines as they are added, from now on; goes over to the next file with the day."""
    path = newest(place)
    cursor = path.stat().st_size if path else 0
    while True:
        if path is not None:
            piece = tail(path, cursor=cursor, limit=1 << 30, max_bytes=1 << 30)
            cursor = piece.cursor
            yield from piece.lines
            if piece.lines:
                continue
        latest = newest(place)
        if latest != path:
            path, cursor = latest, 0
            continue
        wait(POLL_SECONDS)


def read(text: str) -> LogLine | None:
    """A line of the file; None when it is none of ours."""
    try:
        return msgspec.json.decode(text, type=LogLine)
    except ValueError:
        return None
