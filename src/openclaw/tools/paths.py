"""Where a path given by a model points, whether it may, and what was meant when nothing is there."""

import difflib
import json
import os
import re
import unicodedata
from itertools import islice
from pathlib import Path

from openclaw.core.errors import InvalidRequest, NotFound

MAX_LISTED = 5000

_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f\u0085\u2028\u2029\ud800-\udfff]")


def real(path: Path) -> Path:
    """`path` with every symlink followed, as far as it exists."""
    return Path(os.path.realpath(path))


def place(raw: str, workspace: Path, *, workspace_only: bool = False, creating: bool = False) -> Path:
    """The absolute path meant by `raw`, refused when it leaves a workspace it must stay in."""
    path = locate(raw, workspace, creating=creating)
    if workspace_only:
        confine(path, workspace)
    return path


def locate(raw: str, workspace: Path, *, creating: bool = False) -> Path:
    """The absolute path meant by `raw`. What exists under the literal name always wins."""
    if not raw.strip():
        raise InvalidRequest("The path is empty: name a file or directory.")
    if "\0" in raw:
        raise InvalidRequest("The path contains a NUL character: remove it.")
    trimmed = raw.strip()
    plain = _SPACES.sub(" ", trimmed)
    spellings = dict.fromkeys((raw, trimmed, plain, trimmed.removeprefix("@"), plain.removeprefix("@")))
    candidates = [_absolute(spelling, workspace) for spelling in spellings if spelling]
    for candidate in candidates:
        if exists(candidate):
            return candidate
    if not creating:
        for candidate in candidates:
            if twin := _twin(candidate):
                return twin
    return _fresh(plain, workspace)


def confine(path: Path, workspace: Path, *, follow: bool = True) -> None:
    """Refuses `path` when it is outside `workspace` once symlinks are followed.

    Without `follow` the last part is taken as the link it may be, for work on the link itself.
    """
    target = real(path) if follow else real(path.parent) / path.name
    if not target.is_relative_to(real(workspace)):
        raise InvalidRequest(f"{shown(path)} is outside the workspace {workspace}: use a path inside it.")


def lock_name(path: Path) -> str:
    """One name for one file, however it was spelled."""
    return str(real(path))


def exists(path: Path) -> bool:
    try:
        path.lstat()
    except (OSError, ValueError):
        return False
    return True


def missing(path: Path, kind: str = "File") -> NotFound:
    """The error for a path where nothing is, with the closest name beside it."""
    closest = _closest(path)
    return NotFound(f"{kind} not found: {shown(path)}." + (f" Did you mean: {shown(closest)}?" if closest else ""))


def relative(path: Path, workspace: Path) -> str:
    """`path` as a model can use it in the next call: from the workspace when inside, absolute otherwise."""
    return (path.relative_to(workspace) if path.is_relative_to(workspace) else path).as_posix()


def shown(path: Path | str) -> str:
    """`path` on one line: quoted when it holds characters that would break out of it."""
    text = str(path)
    return json.dumps(text) if _UNPRINTABLE.search(text) else text


def size(count: int) -> str:
    """A byte count as people write it."""
    if count < 1024:
        return f"{count} bytes"
    value, unit = count / 1024, "KB"
    for larger in ("MB", "GB", "TB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"


def _absolute(text: str, workspace: Path) -> Path:
    path = workspace / (Path.home() / text[2:] if text == "~" or text.startswith("~/") else text)
    if ".." not in path.parts:
        return path
    # Links are followed before "..", as the system does; the last part stays a link if it is one.
    return real(path) if path.name == ".." else real(path.parent) / path.name


def _fresh(text: str, workspace: Path) -> Path:
    """The path for something that is not there yet; `@` is a mention unless it begins a directory's name."""
    path = _absolute(text, workspace)
    if not text.startswith("@") or text == "@":
        return path
    mentioned = _absolute(text[1:], workspace)
    if path.parent != workspace and exists(path.parent):
        return path
    return mentioned if exists(mentioned.parent) else path


def _names(directory: Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in islice(entries, MAX_LISTED)]
    except OSError:
        return []


def _fold(name: str) -> str:
    return _SPACES.sub(" ", unicodedata.normalize("NFC", name)).translate(_QUOTES)


def _twin(path: Path) -> Path | None:
    """The one neighbour whose name differs only in kinds of spaces, quotes or accents."""
    wanted = _fold(path.name)
    found = [name for name in _names(path.parent) if _fold(name) == wanted]
    return path.parent / found[0] if len(found) == 1 else None


def _closest(path: Path) -> Path | None:
    folded = {name.casefold(): name for name in sorted(_names(path.parent))}
    matches = difflib.get_close_matches(path.name.casefold(), folded, n=1, cutoff=0.6)
    return path.parent / folded[matches[0]] if matches else None
