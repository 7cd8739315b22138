"""The files that a call names, in its arguments or in a command line."""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openclaw.core.sandbox import BOX_HOME, SandboxSpec, WorksInBox, outside, seen
from openclaw.core.tool import Effects, Tool, ToolContext

PATH_ARGUMENTS = ("path", "image", "images", "file", "files")
SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib", "/opt/", "/dev/", "/nix/")
"""Programs of the machine: naming one in a command reads nothing that strangers wrote."""
MOST = 200


def box_of(tool: Tool, args: Mapping[str, Any]) -> SandboxSpec | None:
    """The sandbox a call is carried out in: its paths mean something else there."""
    if not isinstance(tool, WorksInBox) or tool.boxed is None:
        return None
    leaves = Effects.RUNS_CODE in tool.effects(args) and Effects.CONTAINED not in tool.effects(args)
    return None if leaves else tool.boxed.box


def directory(args: Mapping[str, Any], context: ToolContext, box: SandboxSpec | None = None) -> str:
    """Where a command runs, as this machine knows it."""
    given = str(args.get("workdir") or "")
    if box is not None:
        return os.path.realpath(_outside(given or ".", box.workdir, box) or box.root)
    return os.path.realpath(context.workspace / _expanded(given))


def _outside(text: str, cwd: str, box: SandboxSpec) -> str | None:
    """The file of this machine behind a path inside; None for what only the box has, or the system lends it."""
    inside = BOX_HOME + text[1:] if text == "~" or text.startswith("~/") else text
    return outside(box, os.path.normpath(Path(cwd, inside)))


def paths_in(args: Mapping[str, Any], context: ToolContext, box: SandboxSpec | None = None) -> list[str]:
    """The files a call names, as absolute paths without links."""
    found: list[str] = []
    for name in PATH_ARGUMENTS:
        value = args.get(name)
        given = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
        found += [each for each in given if isinstance(each, str) and each.strip() and "\0" not in each]
    if box is not None:
        places = [_outside(each.strip(), box.workdir, box) for each in found]
        return [os.path.realpath(place) for place in places if place is not None]
    return [os.path.realpath(context.workspace / _expanded(each.strip())) for each in found]


def files_in(command: str, cwd: str, box: SandboxSpec | None = None) -> list[str]:
    """The files there are under the words of a command line; quoted lines are looked through too."""
    try:
        words = shlex.split(command.replace("\n", " ; "))
    except ValueError:
        words = command.split()
    pieces = [part for word in words for inner in word.split() for part in re.split(r"[=;&|<>()`\"']", inner) if part]
    pieces = [piece for piece in pieces if "\0" not in piece and len(piece) < 4096]
    if box is not None:
        places = [_outside(piece, seen(box, cwd) or box.workdir, box) for piece in pieces]
        found = [os.path.realpath(place) for place in places if place is not None]
    else:
        found = [os.path.realpath(cwd / _expanded(piece)) for piece in pieces]
    return [
        path for path in dict.fromkeys(found) if path != cwd and not path.startswith(SYSTEM) and os.path.lexists(path)
    ][:MOST]


def _expanded(text: str) -> Path:
    return Path.home() / text[2:] if text == "~" or text.startswith("~/") else Path(text)
