"""Replaces small files atomically: a reader sees the old or the new one, and a full disk leaves the old one."""

import contextlib
import os
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from openclaw.core.errors import StateError


def private_directory(path: Path) -> None:
    """Creates `path` and its missing parents, accessible to the owner only."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(mode=0o700, exist_ok=True)


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Writes `data` to `path` in one step; on failure the old file is untouched and no temporary file remains."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        private_directory(path.parent)
        # To disk before the rename: otherwise a power cut could leave an empty file under the final name.
        write_new(temporary, data, mode)
        temporary.replace(path)
    except OSError as error:
        raise StateError(
            f"cannot write {path}: {error.strerror}. The old file is untouched; free some space or check permissions."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def write_new(path: Path, data: bytes, mode: int) -> None:
    """Writes a file that does not exist yet, to disk."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Syncs `directory`, where the system can, so that new names survive a power cut."""
    if os.name == "nt":
        return
    with contextlib.suppress(OSError):
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


# Whether a file is still the one that was read.

Identity = tuple[int, int, int, int, int]
identity_of: Callable[[os.stat_result], Identity] = attrgetter(
    "st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"
)


def identity_at(path: "str | Path", *, follow: bool = True) -> Identity | None:
    """What identifies an unchanged file at `path`; None when it cannot be seen."""
    try:
        return identity_of(os.stat(path, follow_symlinks=follow))  # noqa: PTH116 (asked often in every turn)
    except OSError:
        return None


T = TypeVar("T")


class JsonFile(Generic[T]):
    """A typed JSON document at `path`; `otherwise` is the advice for people when it cannot be read."""

    def __init__(self, path: Path, kind: type[T], otherwise: str) -> None:
        self.path = path
        self._kind = kind
        self._otherwise = otherwise
        self._known: tuple[object, T] | None = None

    def read(self) -> T | None:
        """The document; None when the file does not exist. Raises `StateError` when it is unusable."""
        try:
            identity = identity_of(self.path.stat())
            if self._known is None or self._known[0] != identity:
                self._known = (identity, msgspec.json.decode(self.path.read_bytes(), type=self._kind))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(f"cannot read {self.path}: {error.strerror}") from error
        except msgspec.DecodeError as error:
            raise StateError(f"{self.path} cannot be read ({error}): {self._otherwise}") from error
        return self._known[1]

    def write(self, document: T) -> None:
        replace_file(self.path, msgspec.json.format(msgspec.json.encode(document), indent=2))


def create_file(path: Path, data: bytes) -> None:
    """Writes a private file unless it exists; of several processes that create it together, one wins."""
    private_directory(path.parent)
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        write_new(draft, data, 0o600)
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)  # unlike a rename, it never replaces a file
    finally:
        draft.unlink(missing_ok=True)
    sync_directory(path.parent)
