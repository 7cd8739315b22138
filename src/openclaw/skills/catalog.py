"""The list of skills in the prompt: names, descriptions, places, versions, within a budget. Pure."""

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from openclaw.core.text import head, literal, units
from openclaw.skills.manifest import MAX_DESCRIPTION

OPEN = "<available_skills>\n"
CLOSE = "</available_skills>"
SHORTEST, LONGEST = 4, 220
MIN_FOR_NOTE = 400
"""With less room than this, a skill says more than a note about skills."""
_SPACE = re.compile(r"\s+")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"})


class Line(Struct, frozen=True, kw_only=True):
    """One skill as the list shows it."""

    name: str
    description: str
    """Empty when the skill's own words are not to be trusted yet."""
    location: str
    version: str
    rank: int = 0
    """How close to the owner its place is; when not all fit, the closest stay."""


class Catalog(Struct, frozen=True):
    """The text, and what it had to leave out."""

    text: str
    included: tuple[str, ...] = ()
    total: int = 0
    description_chars: int | None = None
    """The longest description that is shown; None when none was shortened."""


def compose(lines: Sequence[Line], max_skills: int, max_chars: int) -> Catalog:
    """The list of `lines`: in full, or with shorter descriptions, or without, or only as many as fit."""
    total = len(lines)
    chosen = _closest(lines, max_skills)
    if not chosen:
        return Catalog("", (), total)
    full = render(chosen, MAX_DESCRIPTION)
    dropped_by_count = len(chosen) < total
    note = _note(len(chosen), total, "") if dropped_by_count else ""
    if units(note + full) <= max_chars:
        return Catalog(note + full, _names(chosen), total)
    if units(full) <= max_chars:
        return Catalog(full, _names(chosen), total)
    return _compact(lines, chosen, total, max_chars)


def _compact(lines: Sequence[Line], chosen: tuple[Line, ...], total: int, max_chars: int) -> Catalog:
    # The note is worth a little description, but never a skill.
    bare = units(render(chosen, 0))
    spare = units(_note(0, total, "shortened"))
    if max_chars < bare + spare:
        spare = 0 if bare <= max_chars or max_chars < MIN_FOR_NOTE else spare
    if bare > max_chars - spare:
        fits = _largest(0, len(chosen), lambda count: units(render(_closest(lines, count), 0)) <= max_chars - spare)
        chosen = _closest(lines, fits)
    if not chosen:
        return Catalog("", (), total, 0)
    length = _largest(SHORTEST - 1, LONGEST, lambda size: units(render(chosen, size)) <= max_chars - spare)
    length = length if length >= SHORTEST else 0
    text = render(chosen, length)
    note = _note(len(chosen), total, "shortened" if length else "omitted")
    if units(note + text) <= max_chars:
        text = note + text
    return Catalog(text, _names(chosen), total, length)


def render(lines: Sequence[Line], description_chars: int) -> str:
    """The block for `lines`, each description at most that long; 0 leaves descriptions out."""
    return OPEN + "".join(_entry(line, description_chars) for line in lines) + CLOSE


def _entry(line: Line, description_chars: int) -> str:
    description = shorten(line.description, description_chars)
    parts = [
        f"    <name>{escape(line.name)}</name>\n",
        f"    <description>{escape(description)}</description>\n" if description else "",
        f"    <location>{escape(line.location)}</location>\n",
        f"    <version>{escape(line.version)}</version>\n",
    ]
    return "  <skill>\n" + "".join(parts) + "  </skill>\n"


def shorten(text: str, limit: int) -> str:
    text = _SPACE.sub(" ", text).strip()
    if limit <= 0:
        return ""
    return text if units(text) <= limit else head(text, max(0, limit - 3)).rstrip() + "..."


def escape(text: str) -> str:
    return literal(text).translate(_ESCAPES)


def _closest(lines: Sequence[Line], count: int) -> tuple[Line, ...]:
    kept = sorted(lines, key=lambda line: (line.rank, line.name))[: max(0, count)]
    return tuple(sorted(kept, key=lambda line: line.name))


def _names(lines: Sequence[Line]) -> tuple[str, ...]:
    return tuple(line.name for line in lines)


def _note(included: int, total: int, descriptions: str) -> str:
    parts = []
    if included < total:
        parts.append(f"⚠️ Skills truncated: included {included} of {total}.")
    if descriptions:
        parts.append(f"⚠️ Skills catalog using compact format (descriptions {descriptions}).")
    return " ".join([*parts, "`openclaw skills check` shows all.\n"])


def _largest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The largest number in `low`..`high` that fits, where `low` is taken on trust."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
