"""Notes written from what strangers said carry a mark, and keep it when they are found again. Pure.

A mark is a comment that Markdown does not show: `<!-- label: external -->` before the lines, `<!-- /label -->` behind.
"""

import re
from typing import get_args

from openclaw.core.text import Label

UNTRUSTED: tuple[Label, ...] = ("stranger", "external", "tool", "skill")
"""Least trusted first."""
END = "<!-- /label -->"

_MARK = re.compile(r"^<!--\s*label:\s*([a-z]+)\s*-->\s*$|^<!--\s*(/)label\s*-->\s*$")
_NAMES = frozenset(get_args(Label))


def start(label: Label) -> str:
    return f"<!-- label: {label} -->"


def wrapped(text: str, label: Label) -> str:
    """`text` between the marks of `label`; imitations of a mark inside it lose their effect."""
    inner = "\n".join("\\" + line if _MARK.match(line.strip()) else line for line in text.split("\n"))
    return f"{start(label)}\n{inner}\n{END}"


def by_line(text: str) -> list[str]:
    """The label of each line; nothing where none was given."""
    if "<!--" not in text:
        return []
    current = ""
    found = []
    for line in text.split("\n"):
        mark = _MARK.match(line.strip())
        if mark and mark[1] in _NAMES:
            current = mark[1]
        found.append(current)
        if mark and mark[2]:
            current = ""
    return found


def least_trusted(labels: list[str], first: int, last: int) -> str:
    """The label of lines `first` to `last`: that of the line trusted least."""
    if not labels:
        return ""
    here = set(labels[first - 1 : last])
    return next((label for label in UNTRUSTED if label in here), "")
