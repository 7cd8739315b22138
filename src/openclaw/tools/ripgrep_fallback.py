"""Search without ripgrep, as a separate program: `python -m openclaw.tools.ripgrep_fallback files|grep ...`.

It writes what ripgrep would (path, NUL, line number, `:` or `-`, text) and runs separately, so that a pattern that
takes forever can be killed like any other process.
"""

import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from openclaw.core.deferred import Deferred

if TYPE_CHECKING:
    import pathspec
else:
    pathspec = Deferred("pathspec")

NO_FILES = ("dev", "proc", "sys")
"""Directories at the root whose files are the kernel's answers: some never end."""
IGNORE_FILES = (".gitignore", ".ignore")
MAX_LINE = 1024 * 1024
MAX_WRITTEN = 2000


class IgnoreRules:
    """The ignore files from the top directory down to one directory."""

    def __init__(self, base: Path, specs: "tuple[tuple[Path, pathspec.GitIgnoreSpec], ...]" = ()) -> None:
        lines: list[str] = []
        for name in IGNORE_FILES:
            try:
                lines += (base / name).read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError:
                continue
        self._specs = (*specs, (base, pathspec.GitIgnoreSpec.from_lines(lines))) if lines else specs

    def under(self, directory: Path) -> "IgnoreRules":
        return IgnoreRules(directory, self._specs)

    def ignores(self, path: Path, directory: bool) -> bool:
        """Whether the deepest ignore file with a matching rule ignores `path`."""
        for base, spec in reversed(self._specs):
            verdict = spec.check_file(path.relative_to(base).as_posix() + ("/" if directory else "")).include
            if verdict is not None:
                return verdict
        return False


def walk(top: Path) -> Iterator[Path]:
    """Files under `top` in order, without hidden and ignored ones; symlinks are not followed."""
    stack = [(top, IgnoreRules(top))]
    while stack:
        directory, rules = stack.pop()
        left_out = NO_FILES if str(directory.resolve()) == "/" else ()
        try:
            with os.scandir(directory) as found:
                entries = sorted(found, key=attrgetter("name"))
        except OSError:
            continue
        deeper = []
        for entry in entries:
            path = directory / entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.name.startswith(".") or entry.name in left_out or rules.ignores(path, is_directory):
                continue
            if is_directory:
                deeper.append(path)
            elif entry.is_file(follow_symlinks=False):
                yield path
        stack += [(path, rules.under(path)) for path in reversed(deeper)]


def search(path: Path, matches: Callable[[bytes], object], context: int, out: BinaryIO) -> None:
    """Writes the matching lines of one text file, with `context` lines around each."""
    name = os.fsencode(path) + b"\0"
    before: deque[tuple[int, bytes]] = deque(maxlen=context)
    after = 0
    with path.open("rb") as stream:
        if b"\0" in stream.read(8192):
            return
        stream.seek(0)
        for number, line in enumerate(iter(partial(stream.readline, MAX_LINE), b""), 1):
            line = line.rstrip(b"\r\n")
            if matches(line):
                for earlier, text in before:
                    out.write(b"%s%d-%s\n" % (name, earlier, text[:MAX_WRITTEN]))
                before.clear()
                out.write(b"%s%d:%s\n" % (name, number, line[:MAX_WRITTEN]))
                after = context
            elif after:
                out.write(b"%s%d-%s\n" % (name, number, line[:MAX_WRITTEN]))
                after -= 1
            else:
                before.append((number, line))
    out.flush()


def main(arguments: list[str]) -> int:
    out = sys.stdout.buffer
    if arguments[0] == "files":
        for path in walk(Path(arguments[1])):
            out.write(os.fsencode(path) + b"\0")
        out.flush()
        return 0
    _, pattern, flags, context, where = arguments
    try:
        expression = re.compile(
            re.escape(os.fsencode(pattern)) if "F" in flags else os.fsencode(pattern),
            re.IGNORECASE if "i" in flags else 0,
        )
    except re.error as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    top = Path(where)
    for path in walk(top) if top.is_dir() else [top]:
        try:
            search(path, expression.search, int(context), out)
        except (PermissionError, FileNotFoundError):
            continue
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
