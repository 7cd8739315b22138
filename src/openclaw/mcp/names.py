"""What the tools of a server are called here: `<server>__<tool>`, in letters every model provider takes. Pure."""

import hashlib
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

LONGEST = 64
BETWEEN = "__"
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")


def name_all(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Our name for each tool of `server`; two tools never share one."""
    named: dict[str, str] = {}
    for tool in sorted(tools):
        name = _name(server, tool)
        if name.lower() in {taken.lower() for taken in named.values()}:
            name = _with_mark(name, f"{server}\0{tool}")
        named[tool] = name
    return named


def passes(tool: str, include: Iterable[str], exclude: Iterable[str]) -> bool:
    """Whether a tool's own name gets through a filter."""
    wanted = list(include)
    return not any(fnmatchcase(tool, pattern) for pattern in exclude) and (
        not wanted or any(fnmatchcase(tool, pattern) for pattern in wanted)
    )


def _name(server: str, tool: str) -> str:
    whole = f"{_plain(server)}{BETWEEN}{_plain(tool)}"
    return whole if len(whole) <= LONGEST else _with_mark(whole, f"{server}\0{tool}")


def _with_mark(name: str, of: str) -> str:
    mark = hashlib.sha256(of.encode()).hexdigest()[:6]
    return f"{name[: LONGEST - 7]}-{mark}"


def _plain(text: str) -> str:
    return _OTHER.sub("-", text).strip("-_") or "x"
