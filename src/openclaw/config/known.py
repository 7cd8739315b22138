"""Names of settings that OpenClaw has and we do not have yet: kept as data, read only when a key is unknown."""

import gzip
from functools import cache
from importlib.resources import files

from openclaw.config.keypath import Path

Names = dict[str, "Names"]

ANY = "<id>"
OPEN = "**"


@cache
def names() -> Names:
    """The tree of names; `<id>` stands for any name a person may choose, `**` for anything at all."""
    packed = files("openclaw.config").joinpath("known-keys.txt.gz").read_bytes()
    top: Names = {}
    chain = [top]
    for line in gzip.decompress(packed).decode().splitlines():
        name = line.lstrip(" ")
        depth = len(line) - len(name)
        inner: Names = {}
        chain[depth][name] = inner
        chain[depth + 1 :] = [inner]
    return top


def siblings(path: Path) -> Names:
    """What OpenClaw has beside `path`; nothing where it has no such place."""
    here = names()
    for part in _theirs(path)[:-1]:
        if OPEN in here:
            return here
        here = here.get(part) or here.get(ANY) or {}
    return here


def knows(path: Path) -> bool:
    """Whether `path` is a setting of OpenClaw."""
    return not {_theirs(path)[-1], ANY, OPEN}.isdisjoint(siblings(path))


def _theirs(path: Path) -> tuple[str, ...]:
    """`path` in their spelling: lists have no index of their own, and agents are a map."""
    if path[:2] == ("agents", "list"):
        path = ("agents", "entries", ANY, *path[3:])
    return tuple(part for part in path if isinstance(part, str))
