"""Labels of files: a list beside the state of which hold untrusted text, labels by location, and which a call names.

The list has two kinds of entry: a path that a tool wrote while untrusted text was in the conversation, and a time span
in which a command ran that may have fetched some; files changed in that span get its origins. Both outlive the process.

A label ends when the owner edits the file: its content is another one than was recorded, and no program that we started
may have changed it. Where one may have, the entry is sealed, and only the owner's word takes the label off.
"""

import fnmatch
import hashlib
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakSet

import msgspec
from msgspec import Struct, field, structs

from openclaw.core.deferred import shlex
from openclaw.core.messages import Assistant, Message, ToolResult, User
from openclaw.core.sandbox import SANDBOX_HOME, RunsInSandbox, SandboxSpec, to_host_path, to_sandbox_path
from openclaw.core.secret import is_secret_path
from openclaw.core.text import Origin, make_origin, merge_origins
from openclaw.core.tool import Effects, Tool, ToolContext
from openclaw.security.labels import is_verbatim, message_origins, strings
from openclaw.security.shell import parse_shell
from openclaw.storage.links import real_path
from openclaw.storage.locks import shared

# Linux stamps files by its coarse clock, up to 4 ms behind; Python has no name for it.
_STAMPS = 5 if sys.platform == "linux" else time.CLOCK_REALTIME


class LabelledFile(Struct, frozen=True, omit_defaults=True):
    """A line of the list. A path without origins revokes an earlier entry; `span` is in nanoseconds.

    A line without a path and without a span seals every entry before it.
    """

    path: str = ""
    span: tuple[int, int] | None = None
    origins: tuple[Origin, ...] = ()
    content: str = ""
    """The file's state when we last had to do with it: when it was changed, and its digest; empty when sealed."""


class CommandAtWork:
    """Stands for a command that runs; one that is broken off is forgotten with its call."""


class LabelledFiles:
    """The list. Several processes may append to it; each reads on when it has grown.

    Only where all work of a process is known (`sees_work`) can an edit of the owner be told from a program's.
    """

    def __init__(self, path: Path, *, sees_work: bool = False) -> None:
        self._path = path
        self._paths: dict[str, LabelledFile] = {}
        self._spans: list[tuple[int, int, tuple[Origin, ...]]] = []
        self._read = 0
        self._programs = not sees_work
        """Whether programs of ours may be changing files without our knowledge."""
        self._working: WeakSet[CommandAtWork] = WeakSet()

    def mark(self, paths: Iterable[str], origins: Sequence[Origin]) -> None:
        """Records that these files now contain text of `origins`, or will in a moment."""
        here = self._current()
        new = [(path, merge_origins(here[path].origins if path in here else (), origins)) for path in paths]
        self._append(
            LabelledFile(path=path, origins=after)
            for path, after in new
            if after and (path not in here or after != here[path].origins or here[path].content)
        )

    def wrote(self, paths: Iterable[str]) -> None:
        """Records the content of labelled files after a call of ours: what differs from it later is an edit."""
        here = self._current()
        if self._programs:
            return
        new = [structs.replace(here[path], content=_state_of(path)) for path in paths if path in here]
        self._append(entry for entry in new if entry != here[entry.path])

    def seal(self) -> None:
        """Records that a program of ours works on by itself from now on and may change any file.

        For as long as this process lives an edit takes no label off.
        """
        self._programs = True
        if any(entry.content for entry in self._current().values()):
            self._append((LabelledFile(),))

    def begin(self) -> "CommandAtWork":
        """A command of ours begins, for as long as what is returned is kept; an edit of the owner was before that."""
        for path in list(self._current()):
            self._ended_by_edit(path)
        work = CommandAtWork()
        self._working.add(work)
        return work

    def finish(self, work: "CommandAtWork", opened: Iterable[str]) -> None:
        """The command has ended; what it `opened` it may have changed."""
        self._working.discard(work)
        self.wrote(opened)

    def _ended_by_edit(self, path: str) -> bool:
        """Takes the label off a file that the owner edited."""
        entry = self._paths.get(path)
        if entry is None or not entry.content or self._working or self._programs:
            return False
        now = _state_of(path, entry.content)
        if not now or now.partition(" ")[2] == entry.content.partition(" ")[2]:
            return False
        self._append((LabelledFile(path=path),))
        self._current()
        return True

    def clear(self, paths: Iterable[str]) -> None:
        """Records that their text is the owner's again: it was replaced entirely, or he reviewed it."""
        here = self._current()
        self._append(LabelledFile(path=path) for path in paths if path in here)

    def now(self) -> int:
        """The current time by the clock that stamps files: never later than the stamp of a change after it."""
        return time.clock_gettime_ns(_STAMPS)

    def end(self) -> int:
        """The current time, never earlier than the stamp of a change before it."""
        return time.time_ns()

    def ran(self, start: int, end: int, origins: Sequence[Origin]) -> None:
        """Records a command that ran between two moments and may have written untrusted text."""
        self._append((LabelledFile(span=(start, end), origins=tuple(origins)),))

    def of(self, *paths: str) -> tuple[Origin, ...]:
        """The listed origins of files."""
        here = self._current()
        found = [here[path].origins for path in paths if path in here and not self._ended_by_edit(path)]
        for path in paths if self._spans else ():
            try:
                changed = Path(path).stat().st_ctime_ns
            except (OSError, ValueError):
                continue
            found += [origins for start, end, origins in self._spans if start <= changed <= end]
        return merge_origins(*found)

    def has(self, path: str) -> bool:
        """Whether a file is in the list, so that its content may have to be looked at."""
        return path in self._current()

    def all(self) -> dict[str, tuple[Origin, ...]]:
        return {path: entry.origins for path, entry in self._current().items()}

    def _current(self) -> dict[str, LabelledFile]:
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
                    self._paths[entry.path] = entry
                elif not entry.path:
                    sealed = ((path, structs.replace(each, content="")) for path, each in self._paths.items())
                    self._paths = dict(sealed)
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
        with shared(self._path):
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


LARGEST = 64 * 1024 * 1024


def _state_of(path: str, known: str = "") -> str:
    """When a file was last changed, and the digest of its content; empty when it cannot be told."""
    try:
        about = os.stat(path, follow_symlinks=False)  # noqa: PTH116 (links are resolved)
        if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
            return ""
        if known.startswith(f"{about.st_ctime_ns} "):
            return known
        with Path(path).open("rb") as file:
            return f"{about.st_ctime_ns} {hashlib.file_digest(file, 'sha256').hexdigest()}"
    except (OSError, ValueError):
        return ""


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


# The files a call names.

PATH_ARGUMENTS = ("path", "image", "images", "file", "files")
SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib", "/opt/", "/dev/", "/nix/")
"""System programs: naming one in a command reads no untrusted text."""
MOST = 200


def sandbox_of(tool: Tool, args: Mapping[str, Any]) -> SandboxSpec | None:
    """The sandbox a call runs in, which determines what its paths mean; None on the host."""
    boxed = tool.boxed if isinstance(tool, RunsInSandbox) else None
    if boxed is None:
        return None
    effects = tool.effects(args)
    leaves = Effects.RUNS_CODE in effects and Effects.CONTAINED not in effects
    return None if leaves else boxed.box


def command_directory(args: Mapping[str, Any], context: ToolContext, box: SandboxSpec | None = None) -> str:
    """The directory of a command, as a host path."""
    given = str(args.get("workdir") or "")
    if box is not None:
        return real_path(_outside(given or ".", box.workdir, box) or box.root)
    return real_path(context.workspace / _expanded(given))


def _outside(text: str, cwd: str, box: SandboxSpec) -> str | None:
    """The host path of a path inside a sandbox; None for files that exist only inside or belong to the system."""
    inside = SANDBOX_HOME + text[1:] if text == "~" or text.startswith("~/") else text
    return to_host_path(box, os.path.normpath(Path(cwd, inside)))


def argument_paths(args: Mapping[str, Any], context: ToolContext, box: SandboxSpec | None = None) -> list[str]:
    """The files in a call's path arguments, as absolute paths without links."""
    found: list[str] = []
    for name in PATH_ARGUMENTS:
        value = args.get(name)
        given = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
        found += [each for each in given if isinstance(each, str) and each.strip() and "\0" not in each]
    if box is not None:
        places = [_outside(each.strip(), box.workdir, box) for each in found]
        return [real_path(place) for place in places if place is not None]
    plain = [each.strip() for each in found]
    return [real_path(context.workspace / (_expanded(each) if each.startswith("~") else each)) for each in plain]


def command_files(command: str, cwd: str, box: SandboxSpec | None = None) -> list[str]:
    """The existing files among the words of a command line, including words inside quotes."""
    return [
        path
        for path in command_paths(command, cwd, box)
        if path != cwd and not path.startswith(SYSTEM) and os.path.lexists(path)
    ][:MOST]


def command_paths(command: str, cwd: str, box: SandboxSpec | None = None) -> list[str]:
    """The host paths that the words of a command line may name, inside quotes too."""
    try:
        words = shlex.split(command.replace("\n", " ; "))
    except ValueError:
        words = command.split()
    pieces = [part for word in words for inner in word.split() for part in re.split(r"[=;&|<>()`\"']", inner) if part]
    pieces = [piece for piece in pieces if "\0" not in piece and len(piece) < 4096]
    if box is not None:
        places = [_outside(piece, to_sandbox_path(box, cwd) or box.workdir, box) for piece in pieces]
        found = [real_path(place) for place in places if place is not None]
    else:
        found = [real_path(cwd / _expanded(piece)) for piece in pieces]
    return list(dict.fromkeys(found))


def _expanded(text: str) -> Path:
    return Path.home() / text[2:] if text == "~" or text.startswith("~/") else Path(text)


_PIECES = re.compile(r"[\s=;&|<>()`\"',]+")


def names_secret(args: Mapping[str, Any]) -> bool:
    """Whether a call names a file that usually holds credentials."""
    shown = [args[name] for name in (*PATH_ARGUMENTS, "command") if name in args]
    return any(piece and is_secret_path(f"/{piece}") for text in strings({"": shown}) for piece in _PIECES.split(text))


_READERS = frozenset(
    "basename cat cmp cp cut diff dirname du echo file grep head ln ls md5sum mkdir mv od pwd readlink realpath "
    "sha256sum stat tail touch uniq wc".split()
)


def only_reads(command: str) -> bool:
    """Whether every program of a command line only looks at files or copies them, so that none it names is run.

    On some file systems every file may be executed: that alone does not make it a program.
    """
    parsed = parse_shell(command)
    return isinstance(parsed, tuple) and all(segment.argv[0] in _READERS for segment in parsed)


# What messages say.


class HeardTexts(Struct):
    """What messages say, by who is behind it."""

    calls: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    given: list[str] = field(default_factory=list)
    public: list[str] = field(default_factory=list)
    untrusted: list[tuple[Origin, str]] = field(default_factory=list)
    owner: list[str] = field(default_factory=list)

    def add(self, message: Message) -> None:
        if isinstance(message, Assistant):
            self.calls.update((call.id, call.arguments) for call in message.calls)
            if not message.origins:
                return
        found = message_origins(message)
        if message.origins and not found:  # trusted by the owner, who did not write it
            return
        self.untrusted += [(each, message.text) for each in found]
        own = isinstance(message, User) and not found
        call = self.calls.get(message.tool_call_id) if isinstance(message, ToolResult) else None
        if is_verbatim(message, found) and not (call and names_secret(call)):
            self.given.append(message.text)
            self.public += [message.text] if found or own else []
        if own:
            self.owner.append(message.text)
