"""Paths and files for the file tools: resolves a model's path, confines it, reads text, replaces files atomically."""

import json
import os
import secrets
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from itertools import islice
from os.path import lexists
from pathlib import Path

from msgspec import Struct

from openclaw.core.deferred import difflib
from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError, StateError
from openclaw.core.text import compile_lazily
from openclaw.storage.atomic import sync_directory
from openclaw.storage.links import real_path

MAX_LISTED = 5000

_SPACES = compile_lazily("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})
_UNPRINTABLE = compile_lazily("[\x00-\x1f\x7f\u0085\u2028\u2029\ud800-\udfff]")


# Paths.


def resolve_links(path: Path) -> Path:
    """`path` with every symlink resolved, as far as it exists."""
    return Path(real_path(path))


def resolve_path(raw: str, workspace: Path, *, workspace_only: bool = False, creating: bool = False) -> Path:
    """The absolute path of `raw`; raises when it leaves a workspace it must stay in.

    An existing file with the literal name always wins.
    """
    if not raw.strip():
        raise InvalidRequest("The path is empty: name a file or directory.")
    if "\0" in raw:
        raise InvalidRequest("The path contains a NUL character: remove it.")
    trimmed = raw.strip()
    plain = _SPACES.sub(" ", trimmed)
    spellings = dict.fromkeys((raw, trimmed, plain, trimmed.removeprefix("@"), plain.removeprefix("@")))
    candidates = [_absolute(spelling, workspace) for spelling in spellings if spelling]
    path = next(filter(lexists, candidates), None)
    if path is None and not creating:
        path = next(filter(None, map(_twin, candidates)), None)
    if path is None:
        path = _fresh(plain, workspace)
    if workspace_only:
        confine(path, workspace)
    return path


def confine(path: Path, workspace: Path, *, follow: bool = True) -> None:
    """Raises when `path` is outside `workspace` after resolving symlinks.

    Without `follow` the last part is not resolved, for operations on a link itself.
    """
    target = resolve_links(path) if follow else resolve_links(path.parent) / path.name
    if not target.is_relative_to(resolve_links(workspace)):
        raise InvalidRequest(f"{quote_path(path)} is outside the workspace {workspace}: use a path inside it.")


def lock_name(path: Path) -> str:
    """One name for one file, however it is spelled."""
    return str(resolve_links(path))


def missing_error(path: Path, kind: str = "File") -> NotFound:
    """The error for a missing path, suggesting the closest name beside it."""
    closest = _closest(path)
    return NotFound(
        f"{kind} not found: {quote_path(path)}." + (f" Did you mean: {quote_path(closest)}?" if closest else "")
    )


def relative(path: Path, workspace: Path) -> str:
    """`path` as a model can use it in the next call: relative inside the workspace, else absolute."""
    return (path.relative_to(workspace) if path.is_relative_to(workspace) else path).as_posix()


def quote_path(path: Path | str) -> str:
    """`path` on one line: quoted when it contains characters that would break it."""
    text = str(path)
    return json.dumps(text) if _UNPRINTABLE.search(text) else text


def format_size(count: int) -> str:
    """A byte count as people write it."""
    if count < 1024:
        return f"{count} bytes"
    value, unit = count / 1024, "KB"
    for larger in ("MB", "GB", "TB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"


def _absolute(text: str, workspace: Path) -> Path:
    path = workspace / (Path.home() / text[2:] if text == "~" or text.startswith("~/") else text)
    if ".." not in path.parts:
        return path
    # Links are resolved before "..", as the system does; the last part stays a link if it is one.
    return resolve_links(path) if path.name == ".." else resolve_links(path.parent) / path.name


def _fresh(text: str, workspace: Path) -> Path:
    """The path of a new file; a leading `@` is a mention unless it starts an existing directory's name."""
    path = _absolute(text, workspace)
    if not text.startswith("@") or text == "@":
        return path
    mentioned = _absolute(text[1:], workspace)
    if path.parent != workspace and lexists(path.parent):
        return path
    return mentioned if lexists(mentioned.parent) else path


def _names(directory: Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in islice(entries, MAX_LISTED)]
    except OSError:
        return []


def _fold(name: str) -> str:
    return _SPACES.sub(" ", unicodedata.normalize("NFC", name)).translate(_QUOTES)


def _twin(path: Path) -> Path | None:
    """The one sibling whose name differs only in kinds of spaces, quotes or accents."""
    wanted = _fold(path.name)
    found = [name for name in _names(path.parent) if _fold(name) == wanted]
    return path.parent / found[0] if len(found) == 1 else None


def _closest(path: Path) -> Path | None:
    folded = {name.casefold(): name for name in sorted(_names(path.parent))}
    matches = difflib.get_close_matches(path.name.casefold(), folded, n=1, cutoff=0.6)
    return path.parent / folded[matches[0]] if matches else None


# Files.

SNIFFED = 8192
MAX_EDITED = 32 * 1024 * 1024

BOM = "\ufeff"
_CONTROLS = bytes(code for code in range(0x20) if code not in b"\t\n\v\f\r\b\x1b") + b"\x7f"
_SIGNATURES = (b"%PDF-", b"PK\x03\x04", b"\x1f\x8b", b"\x7fELF", b"SQLite format 3", b"7z\xbc\xaf", b"\xfd7zXZ")


class TextFile(Struct, frozen=True):
    """A text file that can be written back byte for byte: bytes that are not UTF-8 become surrogates."""

    text: str
    bom: bool = False

    @property
    def newline(self) -> str:
        """The most frequent line ending; empty when there is none."""
        crlf = self.text.count("\r\n")
        lf = self.text.count("\n") - crlf
        if not crlf and not lf:
            return ""
        return "\r\n" if crlf > lf else "\n"

    def encode(self) -> bytes:
        return ((BOM if self.bom else "") + self.text).encode("utf-8", "surrogateescape")


def translate_os_error(path: Path, doing: str, error: OSError) -> OpenClawError:
    """The error for an operating system error on `path`."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return missing_error(path)
    if isinstance(error, PermissionError):
        return StateError(f"Permission denied: cannot {doing} {quote_path(path)}.")
    return StateError(f"Could not {doing} {quote_path(path)}: {error.strerror or error}.")


def irregular(mode: int) -> str:
    """The kind of a file that is not regular."""
    if stat.S_ISREG(mode):
        return ""
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


@contextmanager
def open_regular(path: Path) -> Iterator[FileIO]:
    """`path` opened for reading, without ever blocking on a pipe."""
    try:
        _refuse_irregular(path, path.stat().st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise translate_os_error(path, "read", error) from error
    with FileIO(descriptor) as stream:
        # Checked again on the opened file: the name may refer to another one by now.
        _refuse_irregular(path, os.fstat(descriptor).st_mode)
        try:
            yield stream
        except OSError as error:
            raise translate_os_error(path, "read", error) from error


def _refuse_irregular(path: Path, mode: int) -> None:
    kind = irregular(mode)
    if kind == "a directory":
        raise InvalidRequest(f"{quote_path(path)} is a directory: use ls to list it.")
    if kind:
        raise InvalidRequest(f"{quote_path(path)} is {kind}, not a file: use exec to work with it.")


def is_binary(sample: bytes) -> bool:
    """Whether the first bytes of a file look binary."""
    if b"\0" in sample or sample.startswith(_SIGNATURES):
        return True
    return len(sample.translate(None, _CONTROLS)) < 0.9 * len(sample)


def refuse_binary(path: Path, sample: bytes, total: int, doing: str) -> None:
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidRequest(
            f"Cannot {doing} {quote_path(path)}: it is UTF-16 text. Convert it first, for example with "
            "exec: iconv -f UTF-16 -t UTF-8."
        )
    if is_binary(sample):
        raise InvalidRequest(
            f"Cannot {doing} {quote_path(path)}: it is a binary file ({format_size(total)}). "
            "Use exec with a program that understands it (file, strings, xxd, ...)."
        )


def read_text(path: Path, doing: str) -> TextFile:
    """The whole of a text file, for changing it."""
    with open_regular(path) as stream:
        total = os.fstat(stream.fileno()).st_size
        if total > MAX_EDITED:
            raise InvalidRequest(
                f"Cannot {doing} {quote_path(path)}: it has {format_size(total)}, "
                f"the limit is {format_size(MAX_EDITED)}. "
                "Use exec with sed or a script."
            )
        data = stream.read(MAX_EDITED + 1) or b""
    refuse_binary(path, data[:SNIFFED], total, doing)
    if b"\0" in data:
        refuse_binary(path, b"\0", total, doing)
    text = data.decode("utf-8", "surrogateescape")
    return TextFile(text.removeprefix(BOM), text.startswith(BOM))


def encode_text(text: str, what: str) -> bytes:
    """`text` as UTF-8; errors name the argument."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"{what} has half a surrogate pair at character {error.start}, which no file can hold: send it again."
        ) from error


def replace(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replaces the file at `path` atomically; creates parents and keeps the mode.

    A symlink stays a link and its target gets the data. `mode` is for a new file.
    """
    target = resolve_links(path)
    made: list[Path] = []
    try:
        old = _writable(path, target)
        for parent in reversed([each for each in target.parents if not lexists(each)]):
            with suppress(FileExistsError):
                parent.mkdir()
                made.append(parent)
        _swap_in(target, data, old, mode)
    except OSError as error:
        for directory in reversed(made):
            with suppress(OSError):
                directory.rmdir()
        why = "Permission denied" if isinstance(error, PermissionError) else (error.strerror or str(error))
        kept = "The file was left as it was" if lexists(target) else "No file was created"
        raise StateError(f"Could not write {quote_path(path)}: {why}. {kept}.") from error


def _writable(path: Path, target: Path) -> os.stat_result | None:
    try:
        old = target.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    kind = irregular(old.st_mode)
    if kind:
        raise InvalidRequest(f"{quote_path(path)} is {kind}, not a file: choose another path.")
    if not os.access(target, os.W_OK):
        raise PermissionError
    return old


def _swap_in(target: Path, data: bytes, old: os.stat_result | None, mode: int | None) -> None:
    temporary = target.parent / f".openclaw-{secrets.token_hex(8)}.tmp"
    # The kernel applies the umask, so a new file gets the mode any program would give it.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with FileIO(descriptor, "w") as stream:
            if old is not None:
                with suppress(PermissionError):
                    os.fchown(descriptor, old.st_uid, old.st_gid)
            wanted = stat.S_IMODE(old.st_mode) if old is not None else mode
            if wanted is not None:
                os.fchmod(descriptor, wanted)
            rest = memoryview(data)
            while rest:
                rest = rest[stream.write(rest) :]
            os.fsync(descriptor)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(target.parent)
