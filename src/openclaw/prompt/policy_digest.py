"""Extracts the rules from a text: what a sub-agent inherits from files it is not shown."""

import re
from collections.abc import Iterator

from openclaw.core.text import head, utf16_length

MAX_LINE = 240
MAX_CHARS = 2_000

_HEADING = re.compile(r"#{1,6}\s")
_ITEM = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s")
_POLICY = re.compile(
    r"\b(?:required|must|never|do not|don't|owner|security|secrets?|credentials?|tests?|validation|commands?)\b"
    r"|\b(?:commit|push)\b"
    r"|禁止|嚴禁|不得|絕不|切勿|必須|務必|一律|紅線|🔴",
    re.I,
)
_FIRST = re.compile(r"\b(?:must|never|security)\b|禁止|嚴禁|不得|絕不|切勿|必須|紅線|🔴", re.I)


def policy_digest(text: str, max_chars: int = MAX_CHARS) -> str:
    """Extracts the policy lines of `text` within `max_chars`; the strictest are kept, in the text's order."""
    lines = list(_policy_lines(text))
    by_weight = sorted(range(len(lines)), key=lambda at: (not _FIRST.search(lines[at]), at))
    kept: set[int] = set()
    left = max_chars
    for at in by_weight:
        cost = utf16_length(lines[at]) + 1
        if cost <= left:
            kept.add(at)
            left -= cost
    return "\n".join(_with_content([line for at, line in enumerate(lines) if at in kept]))


def _with_content(lines: list[str]) -> list[str]:
    """`lines` without headings that have nothing left below them."""
    shown: list[str] = []
    above = 0
    for line in reversed(lines):
        level = _level(line)
        # Walks upwards: `above` is the level of the nearest heading kept below, or 7 after a plain line.
        if level and not above > level:
            continue
        above = level or 7
        shown.append(line)
    return shown[::-1]


def _level(line: str) -> int:
    found = _HEADING.match(line)
    return len(found.group().strip()) if found else 0


def _policy_lines(text: str) -> Iterator[str]:
    """Yields headings, list items and lines with a policy word; a list's introducing line is kept with it."""
    in_code = False
    before = ""
    for raw in text.splitlines():
        line = " ".join(raw.split())
        if line.startswith(("```", "~~~")):
            in_code = not in_code
            before = ""
            continue
        if in_code or not line:
            continue
        is_item = bool(_ITEM.match(line))
        if is_item or _HEADING.match(line) or _POLICY.search(line):
            if before and is_item:
                yield _bounded(before)
            yield _bounded(line)
            before = ""
        else:
            before = line


def _bounded(line: str) -> str:
    return line if utf16_length(line) <= MAX_LINE else head(line, MAX_LINE - 1) + "…"
