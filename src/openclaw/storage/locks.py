"""File locks held by the kernel, which releases them however their owner dies.

The file's content only names the holder, for people who wait.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from openclaw.core.errors import StateError
from openclaw.storage.atomic import private_directory

POLL_SECONDS = 0.01
HOLD_SECONDS = 10.0


class Holder(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The holder of a lock, as written into its file."""

    pid: int
    created_at: int
    host: str = ""
    owner: str = ""

    def __str__(self) -> str:
        who = f"process {self.pid}"
        return f"{who} ({self.owner})" if self.owner else who


class KernelLock:
    """One lock file. Not reentrant: a second `KernelLock` on the same path waits like another process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        self._held = False

    def take(self, holder: Holder) -> bool:
        """Tries once; True when the lock was acquired."""
        if self._held:
            raise RuntimeError(f"{self.path} is already held by this object")
        try:
            while not self._held:
                fd = self._fd = self._open() if self._fd is None else self._fd
                try:
                    locked = _lock(fd)
                    about = os.fstat(fd)
                    # The last owner may have removed the file between our open and our lock: then try its successor.
                    self._held = locked and _is_at(self.path, about)
                finally:
                    if not self._held:
                        self._close()
                if not locked:
                    return False
        except OSError as error:
            raise StateError(f"cannot lock {self.path}: {error.strerror}. Check its owner and permissions.") from error
        # Naming the holder is optional: on a full disk the lock holds without it.
        with contextlib.suppress(OSError):
            os.lseek(fd, 0, os.SEEK_SET)
            size = os.write(fd, msgspec.json.encode(holder))
            if size < about.st_size:  # an earlier holder's longer name
                os.ftruncate(fd, size)
        return True

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            private_directory(self.path.parent)
            return os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)

    def wait(self, holder: Holder, seconds: float) -> bool:
        """Tries for `seconds`, blocking this thread: for short critical sections."""
        deadline = time.monotonic() + seconds
        while not self.take(holder):
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def pause(self) -> None:
        """Lets others have the lock, but leaves the file open, so that the next `take` needs no new one.

        The file then names nobody: programs that look only at what it says find it free, too.
        """
        if self._held and self._fd is not None:
            self._held = False
            with contextlib.suppress(OSError):
                os.lseek(self._fd, 0, os.SEEK_SET)
                os.write(self._fd, b" " * os.fstat(self._fd).st_size)
            _unlock(self._fd)

    def release(self) -> None:
        """Releases the lock, and removes its file unless somebody else has it; calling it twice is harmless."""
        if self._fd is None:
            return
        try:
            # A file that cannot be removed is harmless: closing it releases the lock.
            with contextlib.suppress(OSError):
                # Unlinked while still locked: after the close another process may hold this file.
                ours = self._held or _lock(self._fd)
                if ours and sys.platform != "win32" and _is_at(self.path, os.fstat(self._fd)):
                    self.path.unlink()
        finally:
            self._close()

    def _close(self) -> None:
        fd, self._fd, self._held = self._fd, None, False
        if fd is not None:
            os.close(fd)

    def __enter__(self) -> "KernelLock":
        return self

    def __exit__(self, *ended: object) -> None:
        self.release()


class SharedLock:
    """A lock file that every process which uses something holds together; whoever came alone may change it first.

    Where the system has no such locks, everyone counts as alone.
    """

    def __init__(self, path: Path) -> None:
        try:
            private_directory(path.parent)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StateError(f"cannot lock {path}: {error.strerror}. Check its owner and permissions.") from error
        self.alone = False
        """Whether nobody else has it, nor can get it before `share`."""

    def take(self) -> None:
        """Takes it, alone if possible; waits for one that is alone, which never is for long."""
        self.alone = _lock(self._fd)
        if not self.alone:
            self.share()

    def share(self) -> None:
        """Lets others in beside us."""
        _share(self._fd)
        self.alone = False

    def release(self) -> None:
        os.close(self._fd)


def read_holder(path: Path) -> Holder | None:
    """The holder named in the lock file; None when it names none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, ValueError):
        return None


def _is_at(path: Path, about: os.stat_result) -> bool:
    """Whether the file that `about` tells of is the one at `path`."""
    try:
        return os.path.samestat(about, os.stat(path))  # noqa: PTH116 (twice in every turn)
    except OSError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> bool:
        # Lock a byte far behind the content, so that a waiting process can still read the holder.
        os.lseek(fd, 1 << 20, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        os.lseek(fd, 0, os.SEEK_SET)
        return True

    def _unlock(fd: int) -> None:
        with contextlib.suppress(OSError):
            os.lseek(fd, 1 << 20, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

    _share = _unlock

else:
    import fcntl

    def _lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)

    def _share(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_SH)


@contextlib.contextmanager
def hold_lock(path: Path, what: str) -> Iterator[None]:
    """Holds the lock file `path` during a change of `what`; on timeout raises an error that names the holder."""
    with KernelLock(path) as lock:
        if not lock.wait(Holder(pid=os.getpid(), created_at=0, owner=what), HOLD_SECONDS):
            raise StateError(f"{what} is being changed by {read_holder(path) or 'another process'}: try again")
        yield


# Documents that several gateways share.


class SharesDocuments(Protocol):
    """Keeps the documents of a home the same for all gateways; see `documents`."""

    def changing(self, paths: Sequence[Path]) -> contextlib.AbstractContextManager[None]: ...


shared_homes: dict[Path, SharesDocuments] = {}
"""The homes of this process whose documents are shared, by their state directories."""


@contextlib.contextmanager
def shared(*paths: Path) -> Iterator[None]:
    """Inside, the documents at `paths` are what all gateways have, and what changes is theirs too.

    A directory stands for the documents in it. Without a server this does nothing. A change that the server did not get
    is undone, and raises.
    """
    home = (
        next((shared_homes[parent] for parent in paths[0].parents if parent in shared_homes), None)
        if shared_homes
        else None
    )
    if home is None:
        yield
        return
    with home.changing(paths):
        yield
