"""The files that a call names, in its arguments or in a command line."""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openclaw.core.tool import ToolContext

PATH_ARGUMENTS = ("path", "image", "images", "file", "files")
SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib", "/opt/", "/dev/", "/nix/")
"""Programs of the machine: naming one in a command reads nothing that strangers wrote."""
MOST = 200


def directory(args: Mapping[str, Any], context: ToolContext) -> str:
    """Where a command runs."""
    return os.path.realpath(context.workspace / _expanded(str(args.get("workdir") or "")))


def paths_in(args: Mapping[str, Any], context: ToolContext) -> list[str]:
    """The files a call names, as absolute paths without links."""
    found: list[str] = []
    for name in PATH_ARGUMENTS:
        value = args.get(name)
        given = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
        found += [each for each in given if isinstance(each, str) and each.strip() and "\0" not in each]
    return [os.path.realpath(context.workspace / _expanded(each.strip())) for each in found]


def files_in(command: str, cwd: str) -> list[str]:
    """The files there are under the words of a command line; quoted lines are looked through too."""
    try:
        words = shlex.split(command.replace("\n", " ; "))
    except ValueError:
        words = command.split()
    pieces = [part for word in words for inner in word.split() for part in re.split(r"[=;&|<>()`\"']", inner) if part]
    found = [os.path.realpath(cwd / _expanded(piece)) for piece in pieces if "\0" not in piece and len(piece) < 4096]
    return [
        path for path in dict.fromkeys(found) if path != cwd and not path.startswith(SYSTEM) and os.path.lexists(path)
    ][:MOST]


def _expanded(text: str) -> Path:
    return Path.home() / text[2:] if text == "~" or text.startswith("~/") else Path(text)
