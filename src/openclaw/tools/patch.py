"""The `apply_patch` tool: parses a patch, applies its hunks, and changes the files."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from os.path import lexists
from pathlib import Path
from stat import S_IMODE
from threading import Event
from typing import Annotated, Any

from msgspec import Struct, structs

from openclaw.core.errors import InvalidRequest, OpenClawError, StateError
from openclaw.core.tool import Effects, Output, ToolContext, param, tool_spec
from openclaw.process.tasks import run_in_thread
from openclaw.tools.base import ChangingFileTool
from openclaw.tools.edit import fold_lookalikes
from openclaw.tools.paths import (
    confine,
    encode_text,
    missing_error,
    open_regular,
    quote_path,
    read_text,
    replace,
    resolve_links,
    resolve_path,
    translate_os_error,
)

# The patch language, pure.

BEGIN = "*** Begin Patch"
END = "*** End Patch"
_ADD = "*** Add File:"
_DELETE = "*** Delete File:"
_UPDATE = "*** Update File:"
_MOVE = "*** Move to:"
_EOF = "*** End of File"
_SECTIONS = (_ADD, _DELETE, _UPDATE, END)
_HERE_DOCUMENT = re.compile(r"""(?:apply_patch\s+)?<<-?\s*(['"]?)(\w+)\1""")
_NUMBERS = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)?(?: @@|\Z)")


class PatchLine(Struct, frozen=True):
    """One line of a hunk; `mark` is a space, `-` or `+`."""

    mark: str
    text: str


class Hunk(Struct, frozen=True):
    """A change to one passage; `headers` are lines to find above it, in order."""

    lines: tuple[PatchLine, ...]
    headers: tuple[str, ...] = ()
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        return [line.text for line in self.lines if line.mark != "+"]


class AddFile(Struct, frozen=True):
    path: str
    content: str


class DeleteFile(Struct, frozen=True):
    path: str


class UpdateFile(Struct, frozen=True):
    path: str
    hunks: tuple[Hunk, ...]
    move_to: str | None = None


Section = AddFile | DeleteFile | UpdateFile


def parse_patch(text: str) -> tuple[Section, ...]:
    """Parses a patch; errors name the line."""
    lines = text.strip().replace("\r\n", "\n").split("\n")
    if len(lines) >= 4 and _HERE_DOCUMENT.fullmatch(lines[0].strip()):  # which some models put around a patch
        lines = lines[1:-1]
    if lines[0].strip() != BEGIN:
        raise InvalidRequest(f"The first line of the patch must be '{BEGIN}'")
    if lines[-1].strip() != END:
        raise InvalidRequest(f"The last line of the patch must be '{END}'")
    reader = _Reader(lines)
    sections = []
    while not reader.peek().startswith(END):
        sections.append(_section(reader))
    if len(reader.left) > 1:
        raise reader.error(f"text after '{END}'")
    if not sections:
        raise InvalidRequest("The patch changes no file: add a section such as '*** Update File: path'.")
    return tuple(sections)


def paths_of(sections: tuple[Section, ...]) -> list[str]:
    """Every path the patch touches."""
    moved = [section.move_to for section in sections if isinstance(section, UpdateFile) and section.move_to]
    return [*(section.path for section in sections), *moved]


class _Reader:
    """The lines after the first; `number` is the number of the last line taken."""

    def __init__(self, lines: list[str]) -> None:
        self.number = 1
        self.left: list[tuple[int, str]] = []
        """The next line is the last one. Empty lines that only separate sections are left out."""
        for number, line in reversed([*enumerate(lines, 1)][1:]):
            if line or not self.left or not self.at_section():
                self.left.append((number, line))

    def peek(self) -> str:
        return self.left[-1][1]

    def take(self) -> str:
        self.number, line = self.left.pop()
        return line

    def at_section(self) -> bool:
        return self.peek().startswith(_SECTIONS)

    def error(self, what: str) -> InvalidRequest:
        return InvalidRequest(f"Invalid patch, line {self.number}: {what}")


def _section(reader: _Reader) -> Section:
    line = reader.take()
    for keyword in (_ADD, _DELETE, _UPDATE):
        if line.startswith(keyword):
            path = _path_after(keyword, line, reader)
            if keyword == _ADD:
                return _added(reader, path)
            return DeleteFile(path) if keyword == _DELETE else _updated(reader, path)
    raise reader.error(f"expected '{_ADD}', '{_DELETE}' or '{_UPDATE}', got {line[:80]!r}.")


def _path_after(keyword: str, line: str, reader: _Reader) -> str:
    path = line.removeprefix(keyword).strip()
    if not path:
        raise reader.error(f"'{keyword}' needs a path.")
    return path


def _added(reader: _Reader, path: str) -> AddFile:
    lines = []
    while not reader.at_section():
        line = reader.take()
        if not line.startswith("+"):
            raise reader.error(f"every line of a new file begins with '+', got {line[:80]!r}.")
        lines.append(line[1:] + "\n")
    return AddFile(path, "".join(lines))


def _updated(reader: _Reader, path: str) -> UpdateFile:
    move_to = None
    if reader.peek().startswith(_MOVE):
        move_to = _path_after(_MOVE, reader.take(), reader)
    hunks = []
    while not reader.at_section():
        hunks.append(_hunk(reader))
    if not hunks and move_to is None:
        raise reader.error(f"the update of {path} has no changes: add a hunk that starts with '@@'.")
    return UpdateFile(path, tuple(hunks), move_to)


def _hunk(reader: _Reader) -> Hunk:
    headers, lines, at_end = [], [], False
    while reader.peek().startswith("@@"):
        header = reader.take()[2:].strip()
        # Line numbers, as in other diffs, are not text to search for.
        if header and not _NUMBERS.match(header):
            headers.append(header)
    while not reader.at_section() and not reader.peek().startswith("@@"):
        line = reader.take()
        if line.startswith(_EOF):
            at_end = True
            break
        if line and line[0] not in " -+":
            raise reader.error(f"a hunk line begins with a space, '-' or '+', got {line[:80]!r}.")
        lines.append(PatchLine(line[:1] or " ", line[1:]))
    if not lines:
        raise reader.error("the hunk has no lines.")
    return Hunk(tuple(lines), tuple(headers), at_end)


# Applying hunks, pure.


# Normalisations from strictest to loosest; the first that finds the lines wins.
_READINGS: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip, lambda line: fold_lookalikes(line).strip())


class _Lines:
    """The lines of a text under every normalisation, computed on demand."""

    def __init__(self, lines: list[str]) -> None:
        self._readings = {0: lines}

    def find(self, wanted: list[str], start: int, *, at_end: bool = False) -> int | None:
        """The first position at or after `start` where `wanted` occurs."""
        for level, read in enumerate(_READINGS):
            if level not in self._readings:
                self._readings[level] = [read(line) for line in self._readings[0]]
            lines = self._readings[level]
            found = _find(lines, [read(line) for line in wanted], start, at_end)
            if found is not None:
                return found
        return None


def _find(lines: list[str], wanted: list[str], start: int, at_end: bool) -> int | None:
    last = len(lines) - len(wanted)
    if at_end:
        return last if last >= start and lines[last:] == wanted else None
    at = start
    while at <= last:
        try:
            at = lines.index(wanted[0], at, last + 1)
        except ValueError:
            return None
        if lines[at : at + len(wanted)] == wanted:
            return at
        at += 1
    return None


def apply_hunks(text: str, hunks: tuple[Hunk, ...], path: str) -> str:
    """Applies the hunks in order; lines they do not replace keep their bytes.

    New lines get the ending most lines have, and a text without a final newline stays without one.
    """
    old = _split(text)
    newline = "\r\n" if 2 * sum(end == "\r\n" for _, end in old) > sum(end != "" for _, end in old) else "\n"
    lines = _Lines([body for body, _ in old])
    new: list[tuple[str, str]] = []
    done = 0
    for number, hunk in enumerate(hunks, 1):
        at = _locate(lines, hunk, done, len(old), f"hunk {number} of {path}")
        new += old[done:at]
        done = at
        for line in hunk.lines:
            if line.mark == "+":
                new.append((line.text, newline))
                continue
            if line.mark == " ":
                new.append(old[done])
            done += 1
    new += old[done:]
    # Only the last line may lack its ending, and a hunk must not change whether it does.
    parts = [body + (ending or newline) for body, ending in new]
    if new and old and not old[-1][1]:
        parts[-1] = new[-1][0]
    return "".join(parts)


def _split(text: str) -> list[tuple[str, str]]:
    """Each line and its ending; the last ending is empty when the text has no final newline."""
    *lines, last = text.split("\n")
    found = [(line[:-1], "\r\n") if line.endswith("\r") else (line, "\n") for line in lines]
    return [*found, (last, "")] if last else found


def _locate(lines: _Lines, hunk: Hunk, start: int, total: int, name: str) -> int:
    for header in hunk.headers:
        found = lines.find([header], start)
        if found is None and lines.find([header], 0) is not None:
            continue  # the previous hunk is under the same header
        if found is None:
            raise InvalidRequest(f"Could not find the line {header!r} named by {name}. Read the file and try again.")
        start = found + 1
    if not hunk.old:
        return start if hunk.headers and not hunk.at_end else total
    at = lines.find(hunk.old, start, at_end=True) if hunk.at_end else None
    if at is None:
        at = lines.find(hunk.old, start)
    if at is None:
        expected = "\n".join(hunk.old[:20])
        raise InvalidRequest(
            f"Could not find the lines of {name}. Read the file and copy them as they are; "
            f"hunks go from top to bottom. Expected:\n{expected}"
        )
    return at


# The tool.


class PatchArgs(Struct, frozen=True):
    input: Annotated[str, param("The whole patch")]


class ApplyPatch(ChangingFileTool[PatchArgs]):
    """The `apply_patch` tool."""

    args_type = PatchArgs
    spec = tool_spec(
        "apply_patch",
        "Apply patch",
        "multi-file patches",
        "Change several files with one patch: '*** Begin Patch', then sections '*** Add File: p' (lines with +), "
        "'*** Delete File: p', '*** Update File: p' (optional '*** Move to: q', hunks '@@ context' with lines "
        "prefixed by space, - or +), then '*** End Patch'.",
        PatchArgs,
        aliases={"patch": "input"},
    )

    def __init__(self, *, workspace_only: bool = True) -> None:
        super().__init__(workspace_only=workspace_only)

    def effects(self, args: Mapping[str, Any]) -> Effects:
        deletes = _DELETE in str(args.get("input", ""))
        return Effects.READS_FILES | Effects.WRITES_FILES | (Effects.DELETES if deletes else Effects.NONE)

    def changed(self, wanted: PatchArgs) -> list[str]:
        return paths_of(parse_patch(wanted.input))

    async def run(self, wanted: PatchArgs, context: ToolContext) -> Output:
        encode_text(wanted.input, "input")
        applier = _PatchApplier(context.workspace, self.workspace_only)
        done, error = await run_in_thread(partial(applier.apply_all, parse_patch(wanted.input)))
        if error is None:
            return Output.of("Success. Updated the following files:\n" + "\n".join(done), files=done)
        applied = "These were already changed:\n" + "\n".join(done) if done else "No file was changed."
        return Output.failed(f"{error.message}\n{applied}", files=done)


class _PatchApplier:
    """Resolves the paths of a patch and changes the files."""

    def __init__(self, workspace: Path, workspace_only: bool) -> None:
        self._workspace = workspace
        self._workspace_only = workspace_only

    def apply_all(self, sections: tuple[Section, ...], stop: Event) -> tuple[list[str], OpenClawError | None]:
        """Applies file by file up to the first failure; returns what was done and why it stopped."""
        done: list[str] = []
        for section in sections:
            if stop.is_set():
                break
            try:
                done.append(self._apply(section))
            except OpenClawError as error:
                return done, error
        return done, None

    def _apply(self, section: Section) -> str:
        """Applies one section; returns the line that reports it."""
        match section:
            case AddFile(path, content):
                replace(self._free(path), content.encode())
                return f"A {quote_path(path)}"
            case DeleteFile(path):
                self._delete(self._path(path, follow=False))
                return f"D {quote_path(path)}"
            case UpdateFile(path):
                self._update(section)
                return f"M {quote_path(section.move_to or path)}"

    def _update(self, section: UpdateFile) -> None:
        source = self._path(section.path)
        if section.move_to is not None and resolve_links(self._path(section.move_to)) != resolve_links(source):
            self._move(source, self._free(section.move_to), section)
        elif section.hunks:
            replace(source, _patched(source, section))
        elif not lexists(source):
            raise missing_error(source)

    def _path(self, raw: str, *, follow: bool = True) -> Path:
        path = resolve_path(raw, self._workspace, creating=True)
        if self._workspace_only:
            confine(path, self._workspace, follow=follow)
        return path

    def _free(self, raw: str) -> Path:
        path = self._path(raw)
        if lexists(path):
            raise InvalidRequest(f"{quote_path(raw)} already exists: use '*** Update File:', or delete it first.")
        return path

    def _move(self, source: Path, target: Path, section: UpdateFile) -> None:
        data = _patched(source, section) if section.hunks else _bytes(source)
        replace(target, data, mode=S_IMODE(source.stat().st_mode))
        try:
            source.unlink()
        except OSError as error:
            target.unlink(missing_ok=True)
            raise translate_os_error(source, "move", error) from error

    def _delete(self, path: Path) -> None:
        if not lexists(path):
            raise missing_error(path)
        if path.is_dir() and not path.is_symlink():
            raise InvalidRequest(f"{quote_path(path)} is a directory: a patch deletes files only.")
        try:
            path.unlink()
        except OSError as error:
            raise translate_os_error(path, "delete", error) from error


def _patched(path: Path, section: UpdateFile) -> bytes:
    file = read_text(path, "patch")
    return structs.replace(file, text=apply_hunks(file.text, section.hunks, section.path)).encode()


def _bytes(path: Path) -> bytes:
    with open_regular(path) as stream:
        data = stream.readall()
    if data is None:
        raise StateError(f"Could not read {quote_path(path)}.")
    return data
