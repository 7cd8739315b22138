"""The search program: which one there is, how it is called, and what its records say."""

import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from openclaw.tools.globs import Glob

_BINARY = re.compile(rb"[^\n]*: (?:binary file matches|WARNING: stopped searching binary file)[^\n]*\(found [^\n]*\)\n")
_COMMON = ("--no-config", "--color=never", "--no-require-git", "--sort=path", "--null", "--no-messages")
# Long lines are cut by the program, so that no line, however long, has to be held here.
_MAX_COLUMNS = 2000


class RipgrepQuery(Struct, frozen=True, kw_only=True):
    """What to look for in the files under a path."""

    pattern: str
    glob: Glob | None = None
    ignore_case: bool = False
    literal: bool = False
    context: int = 0


class RipgrepMatch(Struct, frozen=True):
    """One line of output: `matched` or only near a match."""

    path: str
    number: int
    matched: bool
    text: str


def find_program(env: Mapping[str, str]) -> str | None:
    """`rg` from the PATH of `env`, else the one installed beside this Python."""
    beside = Path(sys.executable).parent / "rg"
    return shutil.which("rg", path=env.get("PATH")) or (str(beside) if beside.is_file() else None)


def grep_command(program: str | None, query: RipgrepQuery, where: str) -> list[str]:
    """The command that writes records for `query`; without a program our own slower one."""
    if program is None:
        flags = ("i" if query.ignore_case else "") + ("F" if query.literal else "") or "-"
        return [*_fallback(), "grep", query.pattern, flags, str(query.context), where]
    options = ["--no-heading", "--with-filename", "--line-number", "--no-context-separator"]
    options += [f"--max-columns={_MAX_COLUMNS}", "--max-columns-preview", f"--context={query.context}"]
    if query.ignore_case:
        options.append("--ignore-case")
    if query.literal:
        options.append("--fixed-strings")
    if query.glob is not None and query.glob.name not in ("", "**"):
        options += _name_filter(query.glob)
    return [program, *_COMMON, *options, f"--regexp={query.pattern}", "--", where]


def _name_filter(glob: Glob) -> list[str]:
    """Narrows by file name. A file type, unlike a glob option, never brings ignored files back."""
    if glob.negated and glob.anchored:
        return []
    return [f"--type-add=wanted:{glob.name}", "--type-not=wanted" if glob.negated else "--type=wanted"]


def files_command(program: str | None, where: str) -> list[str]:
    """The command that writes the path of every file, each ended by NUL."""
    return [program, *_COMMON, "--files", "--", where] if program else [*_fallback(), "files", where]


def _fallback() -> list[str]:
    # -P keeps the directory that is searched from being imported from.
    return [sys.executable, "-P", "-m", "openclaw.tools.fallback"]


class RecordReader:
    """Bytes in, records out; what is not yet complete waits for the next bytes."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> Iterator[RipgrepMatch]:
        held, at = self._held + data, 0
        while True:
            if notice := _BINARY.match(held, at):
                at = notice.end()
            name_end = held.find(b"\0", at)
            line_end = held.find(b"\n", name_end) if name_end >= 0 else -1
            if line_end < 0:
                break
            name, rest = held[at:name_end], held[name_end + 1 : line_end]
            at = line_end + 1
            number = re.match(rb"(\d+)([:-])", rest)
            if number is not None:
                text = rest[number.end() :].decode("utf-8", "replace")
                yield RipgrepMatch(_path(name), int(number[1]), number[2] == b":", text)
        self._held = held[at:]


def _path(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape").removeprefix("./")


class NameReader:
    """Bytes in, NUL-ended names out."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> Iterator[str]:
        *names, self._held = (self._held + data).split(b"\0")
        for name in names:
            yield _path(name)


def trimmed_error(stderr: bytes) -> str:
    """The part of a complaint that helps whoever wrote the pattern."""
    lines = [line.removeprefix("rg: ") for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    kept = [line for line in lines if "--multiline" not in line and "multiline mode is enabled" not in line]
    return "\n".join(kept[:12])[:1000]
