"""Reads and atomically replaces configuration files, with a lock and a ring of backups."""

import errno
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from openclaw.core.errors import ConfigError, Conflict, StateError
from openclaw.storage.atomic import sync_directory
from openclaw.storage.locks import Holder, KernelLock, read_holder

BACKUPS = (".bak", ".bak.1", ".bak.2", ".bak.3", ".bak.4")
LOCK_WAIT = 10.0


def digest(data: bytes) -> str:
    """The hash for compare-and-swap."""
    return hashlib.sha256(data).hexdigest()


class NotRegular(Exception):
    """The path exists, but is not a regular file."""


@contextmanager
def open_regular(path: Path, *, follow: bool = True) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Opens a regular file for reading; gives its stat result too."""
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)
    # Without O_NONBLOCK, opening a pipe in the file's place would block for ever.
    flags |= getattr(os, "O_NONBLOCK", 0) | (0 if follow else getattr(os, "O_NOFOLLOW", 0))
    fd = os.open(path, flags)
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise NotRegular
        with open(fd, "rb", closefd=False) as file:
            yield file, facts
    finally:
        os.close(fd)


def read_regular(path: Path, limit: int) -> bytes | None:
    """The bytes of `path`, None when there is no such file; refuses anything but a regular file up to `limit` bytes."""
    try:
        with open_regular(path) as (file, _):
            data = file.read(limit + 1)
    except FileNotFoundError:
        return None
    except NotRegular:
        raise ConfigError(f"{path} is not a regular file: put the configuration there", file=str(path)) from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", file=str(path)) from error
    if len(data) > limit:
        raise ConfigError(f"{path} is larger than {limit >> 20} MiB: it cannot be a configuration", file=str(path))
    return data


def replace(path: Path, data: bytes, *, backup: bytes | None = None) -> None:
    """Replaces `path` by `data` atomically, and puts `backup` in front of the ring of backups.

    Everything that can fail for lack of space happens before an old file is touched.
    """
    made: list[Path] = []
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made.append(_write_beside(path, data))
        if backup is not None:
            made.append(_write_beside(path, backup))
            for older, newer in zip(reversed(BACKUPS), reversed(BACKUPS[:-1]), strict=False):
                with suppress(FileNotFoundError):
                    _named(path, newer).replace(_named(path, older))
            made.pop().replace(_named(path, BACKUPS[0]))
        made[0].replace(path)
        made.clear()
        sync_directory(path.parent)
    except OSError as error:
        why = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else error.strerror
        raise StateError(f"cannot write {path}: {why}; nothing was changed") from error
    finally:
        for leftover in made:
            leftover.unlink(missing_ok=True)


def remove_temporary(path: Path) -> None:
    """Removes temporary files of a killed writer; only the holder of the lock may call this."""
    for leftover in path.parent.glob(f".{path.name}.*.tmp"):
        leftover.unlink(missing_ok=True)


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Holds the lock that keeps other writers of `path` out, in this process and in others."""
    lock = KernelLock(_named(path, ".lock"))
    if not lock.wait(Holder(pid=os.getpid(), created_at=round(time.time() * 1000), owner="config"), LOCK_WAIT):
        raise Conflict(f"{read_holder(lock.path) or 'another program'} is writing {path}: try again when it is done")
    with lock:
        yield


def _named(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _write_beside(path: Path, data: bytes) -> Path:
    temp = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _keep_owner(path, temp)
    except OSError:
        temp.unlink(missing_ok=True)
        raise
    return temp


def _keep_owner(path: Path, temp: Path) -> None:
    """Keeps the owner of the file: root may edit a user's file without taking it over."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    with suppress(FileNotFoundError):
        owner = path.stat()
        if (owner.st_uid, owner.st_gid) != (0, 0):
            os.chown(temp, owner.st_uid, owner.st_gid)
