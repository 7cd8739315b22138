"""Which files hold text from elsewhere: a list beside the state, because a file itself cannot carry a label.

Two kinds of entry: a path that a tool wrote while such text was in the conversation, and a span of time in which a
command ran that may have brought some; files changed in such a span are of that origin. Both outlive the process.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from openclaw.core.origin import Origin, merge_origins

CODE = frozenset(
    ".py .sh .bash .zsh .js .mjs .cjs .ts .rb .pl .php .lua .mk .ps1 .bat .go .rs .java .c .h .cpp .toml .cfg .yml "
    ".yaml".split()
)
RUN_BY_NAME = frozenset("makefile gnumakefile justfile dockerfile package.json tox.ini .envrc rakefile gemfile".split())


class LabelledFile(Struct, frozen=True, omit_defaults=True):
    """A line of the list. A path without origins takes an earlier entry back; `span` is in nanoseconds."""

    path: str = ""
    span: tuple[int, int] | None = None
    origins: tuple[Origin, ...] = ()


class LabelledFiles:
    """The list. Several processes may add to it; each reads on when it has grown."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._paths: dict[str, tuple[Origin, ...]] = {}
        self._spans: list[tuple[int, int, tuple[Origin, ...]]] = []
        self._read = 0

    def mark(self, paths: Iterable[str], origins: Sequence[Origin]) -> None:
        """From now on these files hold text of `origins` too."""
        here = self._current()
        new = [(path, merge_origins(here.get(path, ()), origins)) for path in paths]
        self._append(LabelledFile(path=path, origins=after) for path, after in new if after and after != here.get(path))

    def clear(self, paths: Iterable[str]) -> None:
        """Their text is the owner's again: it was replaced as a whole, or he looked at it."""
        here = self._current()
        self._append(LabelledFile(path=path) for path in paths if path in here)

    def now(self) -> int:
        """This moment by the clock that also stamps files."""
        self._append((LabelledFile(),))
        return self._path.stat().st_mtime_ns

    def ran(self, start: int, end: int, origins: Sequence[Origin]) -> None:
        """A command ran between two moments and may have written what it brought."""
        self._append((LabelledFile(span=(start, end), origins=tuple(origins)),))

    def of(self, *paths: str) -> tuple[Origin, ...]:
        """Where the text of files came from, as far as it is listed."""
        here = self._current()
        found = [here[path] for path in paths if path in here]
        for path in paths if self._spans else ():
            try:
                changed = Path(path).stat().st_ctime_ns
            except (OSError, ValueError):
                continue
            found += [origins for start, end, origins in self._spans if start <= changed <= end]
        return merge_origins(*found)

    def code_below(self, directory: str) -> tuple[Origin, ...]:
        """The origins of listed files below `directory` that a program may run or obey without being told to."""
        root = directory.rstrip("/") + "/"
        return merge_origins(
            *(
                origins
                for path, origins in self._current().items()
                if path.startswith(root) and _is_code(path) and os.path.lexists(path)
            )
        )

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
                continue  # half a line that a killed process left, glued to the next one

    def _append(self, entries: Iterable[LabelledFile]) -> None:
        lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
        if not lines:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            # A line that was cut short is closed first, so that it takes no other with it.
            os.write(fd, (b"\n" if self._torn() else b"") + lines)
        finally:
            os.close(fd)

    def _torn(self) -> bool:
        with self._path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"


def _is_code(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    return name in RUN_BY_NAME or Path(name).suffix in CODE
