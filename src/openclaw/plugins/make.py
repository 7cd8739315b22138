"""A new plugin to start from: a tool and a command, with tests that pass."""

import re
from importlib.resources import files
from pathlib import Path

from openclaw.core.errors import Conflict, InvalidRequest

_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
PLACES = {
    "openclaw.plugin.json": "openclaw.plugin.json",
    "plugin.py.txt": "plugin.py",
    "tests/test_plugin.py.txt": "tests/test_plugin.py",
    "README.md": "README.md",
}
"""The template's files, and what they become. The code is kept as text so that nobody mistakes it for ours."""


def new(name: str, parent: Path) -> Path:
    """Writes a plugin called `name` below `parent`; gives its directory."""
    if not _ID.match(name):
        raise InvalidRequest(f"{name!r} cannot be the id of a plugin: use letters in lower case, digits, - and _")
    directory = parent / name
    if directory.exists():
        raise Conflict(f"{directory} is already there: choose another name")
    word = name.replace("-", "_")
    for source, target in PLACES.items():
        text = files("openclaw.plugins").joinpath("template", *source.split("/")).read_text(encoding="utf-8")
        path = directory / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("@ID@", name).replace("@WORD@", word), encoding="utf-8")
    return directory
