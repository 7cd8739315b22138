"""Where extensions are: directories of the settings, the directories in them, and installed packages."""

import os
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from operator import attrgetter
from pathlib import Path


def expand_path(text: str, home: Path, cwd: Path) -> Path:
    """Expands a path from the settings: `~` is `home`, relative paths start at `cwd`."""
    return home / text[2:] if text.startswith(("~/", "~\\")) else home if text == "~" else cwd / text


def subdirectories(root: Path) -> list[Path]:
    """The directories in `root` that are not hidden, by name; raises `OSError`."""
    return sorted(child for child in root.iterdir() if child.is_dir() and not child.name.startswith("."))


def stays_inside(real: str, places: Iterable[str]) -> bool:
    """Whether a path is one of `places` or below one; links must be resolved in all of them."""
    return any(real == place or real.startswith(place.rstrip(os.sep) + os.sep) for place in places)


def _is_offered(group: str) -> bool:
    """Whether an installed package may have entry points of this group. It asks less than `importlib.metadata`, which
    loads 1 MiB of parsers for mail, tables and archives."""
    for place in dict.fromkeys(map(Path, sys.path)):
        try:
            if any(group in file.read_text("utf-8", "replace") for file in place.glob("*-info/entry_points.txt")):
                return True
        except OSError:
            continue
        if place.is_file():  # an archive
            return True
    return False


def package_places(group: str) -> Iterator[tuple[str, list[Path], Path]]:
    """Entry points of installed packages, none of which is imported: the entry, the directories of its package (none
    when it is not there), and the path of its module below them."""
    if not _is_offered(group):
        return
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=group), key=attrgetter("name", "value")):
        top, *rest = point.value.partition(":")[0].strip().split(".")
        try:
            spec = PathFinder.find_spec(top)
        except (ImportError, ValueError):
            spec = None
        places = (spec.submodule_search_locations if spec else None) or ()
        yield point.value.strip(), [Path(place) for place in places], Path(*rest)
