"""One gateway per state directory: a lock the kernel holds, whose file says where the gateway can be reached."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from openclaw.core.errors import Conflict
from openclaw.store.lock import Holder, KernelLock

WAIT_SECONDS = 5.0
"""Long enough for the last gateway to close its files after it has said goodbye."""
OWNER = "gateway"
LOOKS = 30


class RunningGateway(Holder, frozen=True, rename="camel", omit_defaults=True):
    """The gateway that holds the lock; the port is 0 until it listens."""

    port: int = 0
    address: str = "127.0.0.1"
    version: str = ""
    fingerprint: str = ""
    """SHA-256 of its certificate in hexadecimal; empty when it speaks plainly."""


class AlreadyRunning(Conflict):
    """Another gateway has this state directory."""


def lock_path(state: Path) -> Path:
    return state / "gateway.lock"


class GatewayLock:
    """The lock, held; `describe` tells others where to find us."""

    def __init__(self, path: Path, holder: RunningGateway) -> None:
        self._path = path
        self.holder = holder

    def describe(self, *, port: int, address: str, fingerprint: str = "") -> None:
        self.holder = msgspec.structs.replace(self.holder, port=port, address=address, fingerprint=fingerprint)
        # In place: another file of that name would be another lock. The new text is never shorter than what counts.
        with suppress(OSError), self._path.open("r+b") as file:
            file.write(msgspec.json.encode(self.holder))
            file.truncate()


@contextmanager
def held(state: Path, version: str, seconds: float = WAIT_SECONDS) -> Iterator[GatewayLock]:
    """The lock of `state`; raises `AlreadyRunning` when another gateway keeps it."""
    lock = KernelLock(lock_path(state))
    holder = RunningGateway(pid=os.getpid(), created_at=round(time.time() * 1000), owner=OWNER, version=version)
    if not lock.wait(holder, seconds):
        found = _read(lock.path)
        who = f" (pid {found.pid})" if found else ""
        raise AlreadyRunning(
            f"gateway already running{who}; lock timeout after {round(seconds * 1000)} ms. Stop it with"
            " openclaw gateway stop, or replace it with openclaw gateway run --force"
        )
    with lock:
        yield GatewayLock(lock.path, holder)


def running(state: Path) -> RunningGateway | None:
    """The gateway that has `state` now; what a dead one left behind does not count."""
    path = lock_path(state)
    if not path.exists():
        return None
    found: RunningGateway | None = None
    # Others may be looking at the same moment, and the body may be half rewritten for an instant.
    for _ in range(LOOKS):
        probe = KernelLock(path)
        if probe.take(Holder(pid=os.getpid(), created_at=round(time.time() * 1000), owner="probe")):
            probe.release()
            return None
        found = _read(path)
        if found is not None and found.owner == OWNER:
            return found
        time.sleep(0.01)
    return found


def _read(path: Path) -> RunningGateway | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunningGateway)
    except (OSError, ValueError):
        return None
