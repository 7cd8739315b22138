"""Whose words a file holds, as far as the place where it lies tells."""

import fnmatch
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from openclaw.core.origin import Origin, origin

VENDORED = frozenset(
    "node_modules bower_components site-packages dist-packages vendor third_party .venv venv .tox".split()
)
INBOXES = frozenset("downloads download inbox incoming attachments mail maildir".split())
SHARED = ("/tmp/", "/var/tmp/", "/dev/shm/", "/var/mail/", "/var/spool/")  # noqa: S108 (read, never written)


class TrustedPlaces(Struct, frozen=True, kw_only=True):
    """What a run knows about directories; all of them absolute and without links."""

    own: Sequence[str] = ()
    """Where the owner's files are: the workspace, the directory he is in, what he named as trusted."""
    untrusted: Sequence[str] = ()
    """Patterns of paths below them that hold what others wrote."""
    directories: Mapping[str, tuple[Origin, ...]] = field(default_factory=dict)
    """Directories whose standing is known by other means: skills."""


def label_of(path: str, places: TrustedPlaces, *, name_only: bool = False) -> tuple[Origin, ...]:
    """The origin of a file by its place; empty when it is the owner's own.

    With `name_only` its name is shown and not its content: outside the owner's directories too, a name is a person's
    choice, unless it lies where others put things.
    """
    for known, origins in places.directories.items():
        if _inside(path, known):
            return origins
    roots = [root for root in places.own if _inside(path, root)]
    if not roots:
        open_to_all = path.startswith(SHARED) or any(part.lower() in VENDORED | INBOXES for part in path.split("/"))
        return () if name_only and not open_to_all else (origin("external", f"file {path}"),)
    # The innermost directory of the owner's decides: a path he named inside a vendored tree is his choice.
    root = max(roots, key=len)
    parts = Path(path).relative_to(root).parts
    if any(part.lower() in VENDORED | INBOXES for part in parts[:-1]) or _is_inbox(path, parts):
        return (origin("external", f"file {path}"),)
    inside = "/".join(parts)
    if any(fnmatch.fnmatch(inside, pattern) or fnmatch.fnmatch(path, pattern) for pattern in places.untrusted):
        return (origin("external", f"file {path}"),)
    for depth in range(1, len(parts)):
        if os.path.lexists(Path(root, *parts[:depth], ".git")):
            return (origin("external", f"file {path} in a checkout"),)
    return ()


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _is_inbox(path: str, parts: Sequence[str]) -> bool:
    """Whether it is such a directory itself: the names in it are others' too."""
    return bool(parts) and parts[-1].lower() in VENDORED | INBOXES and Path(path).is_dir()
