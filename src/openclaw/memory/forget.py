"""Forgetting: text leaves its file and the index, and a tombstone keeps it from coming back."""

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from openclaw.core.errors import InvalidRequest, StateError
from openclaw.memory.chunk import digest
from openclaw.memory.index import MemoryIndex
from openclaw.memory.reading import resolve
from openclaw.store.atomic import replace


class Tombstone(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is left of a forgotten text: where it stood, and digests that recognise it but cannot be read back."""

    at: str
    path: str
    start: int
    end: int
    digests: tuple[str, ...]


def tombstones(index: Path) -> Path:
    """The file of tombstones beside an index; it outlives the index."""
    return index.with_name(f"{index.stem}.forgotten.jsonl")


def forgotten(path: Path) -> frozenset[str]:
    """The digests of everything that was forgotten."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}") from error
    found: set[str] = set()
    for line in lines:
        try:
            found.update(msgspec.json.decode(line, type=Tombstone).digests)
        except msgspec.DecodeError:
            continue
    return frozenset(found)


def lines_of(citation: str) -> tuple[str, int, int]:
    """The note and the lines a citation names."""
    found = re.fullmatch(r"(.+?)#L?(\d+)(?:-L?(\d+))?", citation.strip())
    if not found:
        raise InvalidRequest(f"{citation!r} names no lines: write a citation such as memory/2026-01-31.md#L3-L5")
    return found[1], int(found[2]), int(found[3] or found[2])


async def forget_lines(memory: MemoryIndex, path: str, start: int, end: int, now: float) -> str:
    """Takes lines out of a note, the index and the cache; gives the text that was there."""
    scope = memory.plan.scope
    file = resolve(path, scope)
    name = scope.name(file)
    await memory.sync()
    hashes = await memory.hashes(name, start, end)
    text = _cut(file, name, start, end, tombstones(memory.path), hashes, now)
    await memory.purge(name, hashes)
    return text


def _cut(path: Path, name: str, start: int, end: int, stones: Path, pieces: frozenset[str], now: float) -> str:
    """Takes lines `start` to `end` out of the note `path` and sets their tombstone.

    `pieces` are the digests under which the index knows the text. The tombstone is set first: if we die in between, the
    text is hidden from search and can be forgotten again.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
        mode = path.stat().st_mode & 0o777
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}") from error
    if not 1 <= start <= end <= len(lines):
        raise InvalidRequest(f"{name} has {len(lines)} lines: lines {start} to {end} are not all there")
    text = "\n".join(lines[start - 1 : end])
    stone = Tombstone(
        at=datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
        path=name,
        start=start,
        end=end,
        digests=tuple(sorted({digest(text), *pieces})),
    )
    old = stones.read_bytes() if stones.exists() else b""
    replace(stones, old + msgspec.json.encode(stone) + b"\n")
    left = "\n".join([*lines[: start - 1], *lines[end:]])
    replace(path, left.encode("utf-8", "surrogateescape"), mode)
    return text
