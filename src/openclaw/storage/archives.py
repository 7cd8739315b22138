"""Reads the files of an install source (directory, tarball or zip): bounded, regular files only."""

import gzip
import io
import operator
import os
import re
import shutil
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from openclaw.core.errors import InvalidRequest
from openclaw.core.progress import Report, no_report, reported
from openclaw.storage.atomic import write_new
from openclaw.storage.digests import Unverifiable, read_regular

MAX_FILES = 256
MAX_FILE_BYTES = 1 << 20
MAX_TOTAL_BYTES = 8 << 20
MAX_ARCHIVE_BYTES = 16 << 20
MAX_STREAM_BYTES = MAX_TOTAL_BYTES + MAX_FILES * 8_192
"""The limit for a decompressed tarball, headers included; anything larger is treated as a bomb."""
MAX_PATH = 200
MAX_PARTS = 12

LEFT_OUT = frozenset(
    {".git", ".openclaw", "__pycache__", ".DS_Store", "Thumbs.db", "__MACOSX", "node_modules", ".venv"}
)
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?\Z", re.IGNORECASE)

ArchiveMember = tuple[str, bytes, bool]
"""A path, its bytes, and whether it is executable."""


class ArchiveRefused(InvalidRequest):
    """The archive is refused; nothing was written."""


def read_package(source: Path, marker: str) -> dict[str, tuple[bytes, bool]]:
    """The files of the package in `source`, by path relative to its `marker` file."""
    try:
        if source.is_dir():
            found = _from_directory(source)
        elif zipfile.is_zipfile(_regular(source)):
            found = _from_zip(source)
        else:
            found = _from_tar(source)
        return _below_marker(marker, _collect(found), source)
    except Unverifiable as error:
        raise ArchiveRefused(str(error)) from error
    except OSError as error:
        raise ArchiveRefused(f"cannot read {source}: {error.strerror or error}") from error


def _regular(source: Path) -> Path:
    about = source.stat()
    if not stat.S_ISREG(about.st_mode):
        raise ArchiveRefused(f"{source} is neither a directory nor an archive file")
    if about.st_size > MAX_ARCHIVE_BYTES:
        raise ArchiveRefused(f"{source} has {about.st_size:,} bytes; {MAX_ARCHIVE_BYTES:,} is the most")
    return source


def _collect(found: Iterator[ArchiveMember]) -> dict[str, tuple[bytes, bool]]:
    """All files within the limits; refuses two names that are the same file on some system."""
    kept: dict[str, tuple[bytes, bool]] = {}
    seen: set[str] = set()
    total = 0
    for path, data, runs in found:
        total += len(data)
        if len(kept) >= MAX_FILES:
            raise ArchiveRefused(f"it has more than {MAX_FILES} files")
        if len(data) > MAX_FILE_BYTES:
            raise ArchiveRefused(f"{path} has more than {MAX_FILE_BYTES:,} bytes")
        if total > MAX_TOTAL_BYTES:
            raise ArchiveRefused(f"it has more than {MAX_TOTAL_BYTES:,} bytes in all")
        folded = unicodedata.normalize("NFC", path).casefold()
        if folded in seen:
            raise ArchiveRefused(f"{path} is in it twice")
        seen.add(folded)
        kept[path] = (data, runs)
    return kept


def _below_marker(marker: str, kept: dict[str, tuple[bytes, bool]], source: Path) -> dict[str, tuple[bytes, bool]]:
    """The files beside and below the single marker."""
    tops = sorted({path.rpartition("/")[0] for path in kept if path.rpartition("/")[2] == marker}, key=len)
    outer = [
        top for top in tops if not any(top != other and top.startswith(f"{other}/" if other else "") for other in tops)
    ]
    if not outer:
        raise ArchiveRefused(f"{source} has no {marker}")
    if len(outer) > 1:
        raise ArchiveRefused(f"{source} has several {marker} ({', '.join(outer[:5])}): install them one by one")
    prefix = f"{outer[0]}/" if outer[0] else ""
    return {path.removeprefix(prefix): piece for path, piece in kept.items() if path.startswith(prefix)}


def safe_member_path(name: str) -> str:
    """A member's path as a safe relative one; raises `ArchiveRefused` for anything that could land elsewhere."""
    path = name.replace("\\", "/") if os.name == "nt" else name
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or re.match(r"[A-Za-z]:", path) or "\\" in path:
        raise ArchiveRefused(f"{name[:MAX_PATH]!r} is an absolute or foreign path")
    if ".." in parts:
        raise ArchiveRefused(f"{name[:MAX_PATH]!r} climbs out of its directory")
    if len(path) > MAX_PATH or len(parts) > MAX_PARTS:
        raise ArchiveRefused(f"{name[:60]!r}… is a path that is too long or too deep")
    for part in parts:
        if (
            not part.isprintable()
            or _RESERVED.match(part)
            or part[-1] in ". "
            or part[0] == " "
            or set(part) & set('<>:"|?*')
        ):
            raise ArchiveRefused(f"{part[:60]!r} is not a file name every system can have")
    return "/".join(parts)


def _wanted(path: str) -> bool:
    return bool(path) and LEFT_OUT.isdisjoint(path.split("/"))


def _from_directory(top: Path) -> Iterator[ArchiveMember]:
    pending = [("", top)]
    while pending:
        prefix, directory = pending.pop()
        with os.scandir(directory) as listing:
            entries = sorted(listing, key=operator.attrgetter("name"))
        for entry in entries:
            if entry.name in LEFT_OUT:
                continue
            path = safe_member_path(prefix + entry.name)
            about = entry.stat(follow_symlinks=False)
            if stat.S_ISLNK(about.st_mode):
                raise ArchiveRefused(f"{path} is a link: put a copy in its place")
            if stat.S_ISDIR(about.st_mode):
                pending.append((f"{path}/", Path(entry.path)))
            else:
                yield path, read_regular(entry.path, MAX_FILE_BYTES)[0], bool(about.st_mode & 0o100)


def _from_zip(source: Path) -> Iterator[ArchiveMember]:
    try:
        with zipfile.ZipFile(source) as archive:
            for member in archive.infolist():
                path = safe_member_path(member.filename)
                mode = member.external_attr >> 16
                if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise ArchiveRefused(f"{path} is a link or a special file")
                if member.is_dir() or not _wanted(path):
                    continue
                if member.flag_bits & 0x1:
                    raise ArchiveRefused(f"{path} is encrypted: nobody can look through it")
                with archive.open(member) as stream:
                    yield path, stream.read(MAX_FILE_BYTES + 1), bool(mode & 0o100)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, EOFError) as error:
        raise ArchiveRefused(f"{source} is a damaged or unusual zip file: {error}") from error


class _Bounded(io.RawIOBase):
    """A stream that raises after so many bytes, whatever its header claims."""

    def __init__(self, inner: "io.BufferedIOBase | gzip.GzipFile") -> None:
        self._inner = inner
        self._left = MAX_STREAM_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        data = self._inner.read(min(len(buffer), 65_536))
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveRefused(f"it unpacks to more than {MAX_TOTAL_BYTES:,} bytes")
        buffer[: len(data)] = data
        return len(data)


def _from_tar(source: Path) -> Iterator[ArchiveMember]:
    with source.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        inner = gzip.GzipFile(fileobj=raw) if packed else raw
        try:
            with tarfile.open(fileobj=io.BufferedReader(_Bounded(inner)), mode="r|") as archive:
                for member in archive:
                    path = safe_member_path(member.name)
                    if member.isdir() or (member.isreg() and not _wanted(path)):
                        continue
                    if not member.isreg():
                        raise ArchiveRefused(f"{path} is a link or a special file")
                    stream = archive.extractfile(member)
                    assert stream is not None
                    yield path, stream.read(MAX_FILE_BYTES + 1), bool(member.mode & 0o100)
        except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile, ValueError) as error:
            raise ArchiveRefused(f"{source} is not an archive we can read (.tgz, .tar or .zip): {error}") from error


def write_package(directory: Path, found: Mapping[str, tuple[bytes, bool]], report: Report = no_report) -> None:
    """Writes what `read_package` gave to a new directory, and to disk."""
    directory.mkdir(parents=True, mode=0o700)
    for path, (data, runs) in reported(found.items(), "unpacking", report):
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_new(target, data, 0o755 if runs else 0o644)


# Swapping a directory into place, and recovering when that was interrupted.


def swap(new: Path, target: Path, old: Path) -> None:
    """Moves `new` to `target`; what was there is kept as `old` until that succeeded."""
    moved = target.exists()
    if moved:
        target.rename(old)
    try:
        new.rename(target)
    except OSError:
        if moved:
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def recover_swaps(root: Path, prefix: str) -> None:
    """Completes or rolls back interrupted swaps; `prefix` marks old directories. The caller holds the root's lock."""
    for old in root.glob(f"{prefix}*"):
        target = root / old.name.removeprefix(prefix)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(target)
