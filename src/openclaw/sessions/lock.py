"""One writer a session, across processes: a kernel-held lock beside each transcript.

Within a process a writer is named by its run. The same writer asking twice is a bug unless it says it means it, and
fails at once instead of waiting for itself.
"""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import SessionBusy
from openclaw.store.lock import Holder, KernelLock, read_holder

FIRST_WAIT = 0.01
LONGEST_WAIT = 0.25


class _Held:
    __slots__ = ("depth", "lock", "writer")

    def __init__(self, writer: str, lock: KernelLock) -> None:
        self.writer = writer
        self.lock = lock
        self.depth = 1


def lock_path(transcript: Path) -> Path:
    return transcript.with_name(transcript.name + ".lock")


class WriteLocks:
    """The session locks of this process."""

    def __init__(self, clock: Clock, acquire_timeout: float = 60.0) -> None:
        self._clock = clock
        self._timeout = acquire_timeout
        self._held: dict[Path, _Held] = {}

    @asynccontextmanager
    async def writing(self, transcript: Path, writer: str, *, reentrant: bool = False) -> AsyncIterator[None]:
        """Holds the lock of `transcript` for `writer`; raises `SessionBusy` when it cannot be had in time."""
        path = lock_path(transcript)
        held = self._held.get(path)
        if held is not None and held.writer == writer:
            if not reentrant:
                raise SessionBusy(
                    f"{writer} already holds the write lock of {transcript.name} and asked for it again", holder=writer
                )
            held.depth += 1
        else:
            held = await self._take(path, transcript, writer)
        try:
            yield
        finally:
            held.depth -= 1
            if held.depth == 0:
                del self._held[path]
                held.lock.release()

    async def _take(self, path: Path, transcript: Path, writer: str) -> _Held:
        deadline = self._clock.now() + self._timeout
        wait = FIRST_WAIT
        lock = KernelLock(path)
        while True:
            holder = Holder(pid=os.getpid(), created_at=millis(self._clock), host=socket.gethostname(), owner=writer)
            if path not in self._held and lock.take(holder):
                held = self._held[path] = _Held(writer, lock)
                return held
            if self._clock.now() >= deadline:
                who = read_holder(path)
                raise SessionBusy(
                    f"session busy: {transcript.stem} is being written by {who or 'another process'}. "
                    "Wait for that run to end, or stop it, and try again.",
                    holder=str(who or ""),
                )
            await self._clock.sleep(min(wait, max(0.0, deadline - self._clock.now())))
            wait = min(wait * 2, LONGEST_WAIT)
