"""The paths a skill's text leads to, and which of them leave its directory. Pure."""

import re
from collections.abc import Iterator
from posixpath import normpath

from msgspec import Struct

MAX_REFERENCES = 50

# A path in a link, in backquotes, or standing alone; URLs and options are not paths.
_PATH = re.compile(
    r"(?<![\w/:.~$}-])(?P<path>(?:\{baseDir\}/|\$\{?HOME\}?/|~[\w-]*/|\.{1,2}/|[A-Za-z]:[\\/]|/(?!/))[^\s`\"'()\[\]<>|;,*?]{1,300})"
)
_SYSTEM = re.compile(
    r"/(?:usr|bin|sbin|opt|tmp|dev|var/tmp|private/tmp|Applications|etc/(?:os-release|hosts\b))(?:/|\Z)"
)


class Reference(Struct, frozen=True):
    """One path that leaves the skill's directory."""

    line: int
    path: str
    why: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.path} {self.why}"


def leaving(text: str, first_line: int = 1) -> tuple[Reference, ...]:
    """Every reference in `text` that does not stay inside the skill's own directory."""
    return tuple(_found(text, first_line))[:MAX_REFERENCES]


def _found(text: str, first_line: int) -> Iterator[Reference]:
    seen: set[str] = set()
    for number, line in enumerate(text.split("\n"), first_line):
        for found in _PATH.finditer(line):
            path = found["path"].rstrip(".:")
            why = _leaves(path)
            if why and path not in seen:
                seen.add(path)
                yield Reference(number, path, why)


def _leaves(path: str) -> str:
    inside = path.removeprefix("{baseDir}/")
    if inside != path or path.startswith("."):
        clean = normpath(inside)
        return "climbs out of the skill's directory" if clean == ".." or clean.startswith(("../", "/")) else ""
    if path.startswith("/"):
        # Programs and scratch space are everybody's; a skill that names them leaves nothing behind.
        return "" if _SYSTEM.match(path) or path.count("/") < 2 else "is an absolute path"
    return "is in a home directory" if path.startswith(("~", "$")) else "is an absolute path"
