"""Replacing a small file so that a reader sees the old one or the new one, and a full disk leaves the old one."""

import contextlib
import os
import secrets
from pathlib import Path

from openclaw.core.errors import StateError


def private_directory(path: Path) -> None:
    """Makes `path`, and what is missing above it, for its owner alone."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(mode=0o700, exist_ok=True)


def replace(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Writes `data` to `path` in one step; on any failure the old file is untouched and nothing is left behind."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        private_directory(path.parent)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise StateError(
            f"cannot write {path}: {error.strerror}. The old file is untouched; free some space or check permissions."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Makes new names in `directory` survive a power cut, where the system can do that."""
    if os.name == "nt":
        return
    with contextlib.suppress(OSError):
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
