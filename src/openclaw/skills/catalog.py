"""Renders the skill list of the prompt within a budget. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from msgspec import Struct

from openclaw.core.text import PromptText, head, sanitize_line, utf16_length
from openclaw.skills.gate import ListedSkill
from openclaw.skills.manifest import MAX_DESCRIPTION

# The list.

OPEN = "<available_skills>\n"
CLOSE = "</available_skills>"
SHORTEST, LONGEST = 4, 220
MIN_FOR_NOTE = 400
"""With a smaller budget the note is omitted in favour of a skill."""
_SPACE = re.compile(r"\s+")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"})


class CatalogLine(Struct, frozen=True, kw_only=True):
    """One skill in the list."""

    name: str
    description: str
    """Empty when the skill's description is not trusted yet."""
    location: str
    version: str
    rank: int = 0
    """The precedence of its source; when not all fit, the highest are kept."""


class _Piece:
    """A line cleaned and escaped once, because fitting computes its size many times."""

    __slots__ = ("after", "before", "description", "fixed", "line")

    def __init__(self, line: CatalogLine) -> None:
        self.line = line
        self.before = f"  <skill>\n    <name>{escape(line.name)}</name>\n"
        where = f"    <location>{escape(line.location)}</location>\n"
        self.after = f"{where}    <version>{escape(line.version)}</version>\n  </skill>\n"
        self.description = _SPACE.sub(" ", sanitize_line(line.description)).strip()
        self.fixed = utf16_length(self.before) + utf16_length(self.after)

    def middle(self, limit: int) -> str:
        said = shorten(self.description, limit)
        return f"    <description>{said.translate(_ESCAPES)}</description>\n" if said else ""

    def size(self, limit: int) -> int:
        return self.fixed + (utf16_length(self.middle(limit)) if limit else 0)


def compose(lines: Sequence[CatalogLine], max_skills: int, max_chars: int) -> str:
    """Renders `lines`: in full, else with shorter descriptions, else without, else only as many as fit."""
    total = len(lines)
    ranked = [_Piece(line) for line in sorted(lines, key=attrgetter("rank", "name"))[: max(0, max_skills)]]
    if ranked and _size(ranked, MAX_DESCRIPTION) > max_chars:
        return _compact(ranked, total, max_chars)
    return _made(ranked, MAX_DESCRIPTION, _note(len(ranked), total, "") if len(ranked) < total else "", max_chars)


def _compact(ranked: list[_Piece], total: int, max_chars: int) -> str:
    # The note may shorten descriptions, but never displaces a skill.
    bare = _size(ranked, 0)
    spare = utf16_length(_note(0, total, "shortened"))
    if max_chars < bare + spare:
        spare = 0 if bare <= max_chars or max_chars < MIN_FOR_NOTE else spare
    if bare > max_chars - spare:
        ranked = ranked[: _largest(0, len(ranked), lambda count: _size(ranked[:count], 0) <= max_chars - spare)]
    length = _largest(SHORTEST - 1, LONGEST, lambda size: _size(ranked, size) <= max_chars - spare)
    length = length if length >= SHORTEST else 0
    return _made(ranked, length, _note(len(ranked), total, "shortened" if length else "omitted"), max_chars)


def _made(ranked: list[_Piece], limit: int, note: str, max_chars: int) -> str:
    fits = utf16_length(note) + _size(ranked, limit) <= max_chars
    return (note if fits else "") + _block(sorted(ranked, key=attrgetter("line.name")), limit) if ranked else ""


def _size(pieces: Sequence[_Piece], limit: int) -> int:
    return len(OPEN) + len(CLOSE) + sum(piece.size(limit) for piece in pieces)


def _block(pieces: Sequence[_Piece], limit: int) -> str:
    return OPEN + "".join(piece.before + piece.middle(limit) + piece.after for piece in pieces) + CLOSE


def shorten(text: str, limit: int) -> str:
    """`text` within `limit`, with dots where it was cut."""
    if limit <= 0:
        return ""
    return text if utf16_length(text) <= limit else head(text, max(0, limit - 3)).rstrip() + "..."


def escape(text: str) -> str:
    return sanitize_line(text).translate(_ESCAPES)


def _note(included: int, total: int, descriptions: str) -> str:
    parts = []
    if included < total:
        parts.append(f"⚠️ Skills truncated: included {included} of {total}.")
    if descriptions:
        parts.append(f"⚠️ Skills catalog using compact format (descriptions {descriptions}).")
    return " ".join([*parts, "`openclaw skills check` shows all.\n"])


def _largest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Binary search for the largest number in `low`..`high` that fits; `low` is assumed to."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


# The list of an agent.


def catalog_text(items: Iterable[ListedSkill], home: str, max_skills: int, max_chars: int) -> PromptText | None:
    """The list for the prompt; None when it is empty."""
    lines = [line_of(item, home) for item in items if item.model_visible]
    text = compose(lines, max_skills, max_chars)
    return PromptText(text, "skills catalog", "skill") if text else None


def line_of(item: ListedSkill, home: str) -> CatalogLine:
    skill = item.skill
    return CatalogLine(
        name=skill.name,
        description="" if item.quiet else skill.manifest.description,
        location=shorten_path(skill.file_path, home),
        version=skill.version,
        rank=skill.rank,
    )


def shorten_path(path: str, home: str) -> str:
    """`path` with the home directory as `~`."""
    top = home.rstrip("/\\")
    return f"~{path[len(top) :]}" if top and path.startswith((f"{top}/", f"{top}\\")) else path
