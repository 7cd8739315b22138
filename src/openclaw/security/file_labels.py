"""Labels of files: a list beside the state of which files hold untrusted text, and labels by a file's location.

The list has two kinds of entry: a path that a tool wrote while untrusted text was in the conversation, and a time span
in which a command ran that may have fetched some; files changed in that span get its origins. Both outlive the process.
"""

import fnmatch
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field

from openclaw.core.text import Origin, make_origin, merge_origins

RUN_BY_NAME = frozenset(
    "makefile gnumakefile justfile dockerfile package.json tox.ini .envrc rakefile gemfile conftest.py setup.py "
    "setup.cfg "
    "pyproject.toml noxfile.py sitecustomize.py usercustomize.py build.rs build.gradle pom.xml cmakelists.txt "
    "compose.yaml docker-compose.yml .pre-commit-config.yaml vite.config.js webpack.config.js jest.config.js".split()
)


class LabelledFile(Struct, frozen=True, omit_defaults=True):
    """A line of the list. A path without origins revokes an earlier entry; `span` is in nanoseconds."""

    path: str = ""
    span: tuple[int, int] | None = None
    origins: tuple[Origin, ...] = ()


class LabelledFiles:
    """The list. Several processes may append to it; each reads on when it has grown."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._paths: dict[str, tuple[Origin, ...]] = {}
        self._spans: list[tuple[int, int, tuple[Origin, ...]]] = []
        self._read = 0

    def mark(self, paths: Iterable[str], origins: Sequence[Origin]) -> None:
        """Records that these files now contain text of `origins`."""
        here = self._current()
        new = [(path, merge_origins(here.get(path, ()), origins)) for path in paths]
        self._append(LabelledFile(path=path, origins=after) for path, after in new if after and after != here.get(path))

    def clear(self, paths: Iterable[str]) -> None:
        """Records that their text is the owner's again: it was replaced entirely, or he reviewed it."""
        here = self._current()
        self._append(LabelledFile(path=path) for path in paths if path in here)

    def now(self) -> int:
        """The current time by the clock that stamps files: never later than the stamp of a change after it."""
        return time.clock_gettime_ns(getattr(time, "CLOCK_REALTIME_COARSE", time.CLOCK_REALTIME))

    def end(self) -> int:
        """The current time, never earlier than the stamp of a change before it."""
        return time.time_ns()

    def ran(self, start: int, end: int, origins: Sequence[Origin]) -> None:
        """Records a command that ran between two moments and may have written untrusted text."""
        self._append((LabelledFile(span=(start, end), origins=tuple(origins)),))

    def of(self, *paths: str) -> tuple[Origin, ...]:
        """The listed origins of files."""
        here = self._current()
        found = [here[path] for path in paths if path in here]
        for path in paths if self._spans else ():
            try:
                changed = Path(path).stat().st_ctime_ns
            except (OSError, ValueError):
                continue
            found += [origins for start, end, origins in self._spans if start <= changed <= end]
        return merge_origins(*found)

    def loaded_below(self, directory: str) -> list[str]:
        """The listed files below `directory` that a builder or interpreter loads by their name alone."""
        root = directory.rstrip("/") + "/"
        return [
            path
            for path in self._current()
            if path.startswith(root) and path.rpartition("/")[2].lower() in RUN_BY_NAME and os.path.lexists(path)
        ]

    def all(self) -> dict[str, tuple[Origin, ...]]:
        return dict(self._current())

    def _current(self) -> dict[str, tuple[Origin, ...]]:
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            self._paths, self._spans, self._read = {}, [], 0
            return self._paths
        if size < self._read:
            self._paths, self._spans, self._read = {}, [], 0
        if size > self._read:
            for entry in self._fresh():
                if entry.span is not None:
                    self._spans.append((*entry.span, entry.origins))
                elif entry.origins:
                    self._paths[entry.path] = entry.origins
                else:
                    self._paths.pop(entry.path, None)
        return self._paths

    def _fresh(self) -> Iterator[LabelledFile]:
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            try:
                yield msgspec.json.decode(line, type=LabelledFile)
            except msgspec.DecodeError:
                continue  # a truncated line from a killed process, merged with the next one

    def _append(self, entries: Iterable[LabelledFile]) -> None:
        lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
        if not lines:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            # Terminate a truncated line first, so that it does not corrupt the next one.
            os.write(fd, (b"\n" if self._torn() else b"") + lines)
        finally:
            os.close(fd)

    def _torn(self) -> bool:
        with self._path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"


# Labels by location.

VENDORED = frozenset(
    "node_modules bower_components site-packages dist-packages vendor third_party .venv venv .tox".split()
)
INBOXES = frozenset("downloads download inbox incoming attachments mail maildir".split())
SHARED = ("/tmp/", "/var/tmp/", "/dev/shm/", "/var/mail/", "/var/spool/")  # noqa: S108 (read, never written)


class TrustedPaths(Struct, frozen=True, kw_only=True):
    """What a run knows about directories; all paths are absolute and without links."""

    own: Sequence[str] = ()
    """The owner's directories: the workspace, the current directory, configured trusted paths."""
    package: str = ""
    """The one of them that is ours, where others put nothing."""
    untrusted: Sequence[str] = ()
    """Glob patterns below them of files that others wrote."""
    directories: Mapping[str, tuple[Origin, ...]] = field(default_factory=dict)
    """Directories with known origins: skills."""


def label_of(path: str, places: TrustedPaths, *, name_only: bool = False) -> tuple[Origin, ...]:
    """The origins of a file by its location; empty when it is the owner's own.

    With `name_only` its name is shown but not its content: outside the owner's directories too, a name is a person's
    choice, unless it is in a directory where others put files.
    """
    for known, origins in places.directories.items():
        if _inside(path, known):
            return origins
    roots = [root for root in places.own if _inside(path, root)]
    if not roots:
        open_to_all = path.startswith(SHARED) or any(part.lower() in VENDORED | INBOXES for part in path.split("/"))
        return () if name_only and not open_to_all else (make_origin("external", f"file {path}"),)
    # The innermost of the owner's directories decides: a path he trusted inside a vendored tree is his choice.
    root = max(roots, key=len)
    parts = Path(path).relative_to(root).parts
    open_parts = [part.lower() in VENDORED | INBOXES for part in parts]
    # In such a directory others chose the names: of it itself too, where it is one.
    if any(open_parts[:-1]) or (any(open_parts[-1:]) and Path(path).is_dir()):
        return (make_origin("external", f"file {path}"),)
    inside = "/".join(parts)
    if any(fnmatch.fnmatch(inside, pattern) or fnmatch.fnmatch(path, pattern) for pattern in places.untrusted):
        return (make_origin("external", f"file {path}"),)
    for depth in range(1, len(parts)):
        if os.path.lexists(Path(root, *parts[:depth], ".git")):
            return (make_origin("external", f"file {path} in a checkout"),)
    return ()


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
