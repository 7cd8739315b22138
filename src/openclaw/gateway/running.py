"""The gateway that runs on a home: its lock, where it listens, and calls to it."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from openclaw.core.deferred import signal
from openclaw.core.errors import Conflict, StateError
from openclaw.core.secret import Secret
from openclaw.protocol.address import check_pinnable, parse_url
from openclaw.protocol.connect_request import ConnectOptions, Signer
from openclaw.protocol.scopes import SCOPES
from openclaw.protocol.sync_client import SyncClient
from openclaw.storage.locks import Holder, KernelLock
from openclaw.version import __version__

# The lock.

WAIT_SECONDS = 5.0
"""Long enough for the last gateway to close its files after it was told to stop."""
OWNER = "gateway"
LOOKS = 30


Credential = Literal["none", "own-token", ""]
"""What our own commands present: nothing, the token this installation generated, or what the configuration says."""


class RunningGateway(Holder, frozen=True, rename="camel", omit_defaults=True):
    """The gateway that holds the lock; the port is 0 until it listens."""

    port: int = 0
    address: str = "127.0.0.1"
    version: str = ""
    fingerprint: str = ""
    """SHA-256 of its certificate in hexadecimal; empty without TLS."""
    credential: Credential = ""


class AlreadyRunning(Conflict):
    """Another gateway holds this state directory."""


def lock_path(state: Path) -> Path:
    return state / "gateway.lock"


class GatewayLock:
    """The lock, held; `describe` writes where we can be reached."""

    def __init__(self, path: Path, holder: RunningGateway) -> None:
        self._path = path
        self.holder = holder

    def describe(self, *, port: int, address: str, fingerprint: str = "", credential: Credential = "") -> None:
        self.holder = msgspec.structs.replace(
            self.holder, port=port, address=address, fingerprint=fingerprint, credential=credential
        )
        self._write()

    def expect(self, credential: Credential) -> None:
        """Writes what our own commands present from now on."""
        if credential != self.holder.credential:
            self.holder = msgspec.structs.replace(self.holder, credential=credential)
            self._write()

    def _write(self) -> None:
        # In place: a renamed file would be another lock. The new text is never shorter than what counts.
        with suppress(OSError), self._path.open("r+b") as file:
            file.write(msgspec.json.encode(self.holder))
            file.truncate()


@contextmanager
def hold_gateway_lock(state: Path, version: str, seconds: float = WAIT_SECONDS) -> Iterator[GatewayLock]:
    """Holds the lock of `state`; raises `AlreadyRunning` when another gateway does."""
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


def running_gateway(state: Path) -> RunningGateway | None:
    """The gateway that holds `state` now; the file of a dead one does not count."""
    path = lock_path(state)
    if not path.exists():
        return None
    found: RunningGateway | None = None
    # Other readers may hold the lock briefly, and the text may be half rewritten for an instant.
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


def reachable(address: str) -> str:
    """The address to connect to for a gateway that listens on `address`."""
    return "127.0.0.1" if address in ("0.0.0.0", "::", "") else address  # noqa: S104


# Stopping it.

STOP_SECONDS = 30.0
"""How long runs in progress may go on after the gateway was told to stop."""
RESTART_SECONDS = 315.0
"""The same for a restart, which nobody waits for."""
POLL_SECONDS = 0.05
KILL_SECONDS = 5.0


def stop(state: Path, seconds: float) -> RunningGateway | None:
    """Stops the gateway of `state`; kills it after `seconds`. None when there was none."""
    found = running_gateway(state)
    if found is None:
        return None
    if found.pid <= 0:
        raise StateError("a gateway is running, but its lock does not say which process it is")
    send(found, signal.SIGTERM)
    if not gone(state, found, seconds + KILL_SECONDS):
        send(found, getattr(signal, "SIGKILL", signal.SIGTERM))
        if not gone(state, found, KILL_SECONDS):
            raise StateError(f"process {found.pid} does not end: stop it yourself")
    return found


def send(to: RunningGateway, number: int) -> None:
    """Sends a signal to a gateway; harmless when it has just ended."""
    try:
        os.kill(to.pid, number)
    except ProcessLookupError:
        pass
    except PermissionError as error:
        raise StateError(f"process {to.pid} belongs to somebody else: it cannot be stopped from here") from error


def gone(state: Path, before: RunningGateway, seconds: float) -> bool:
    """Waits until the gateway that was there has released its lock."""
    deadline = time.monotonic() + seconds
    while True:
        now = running_gateway(state)
        if now is None or now.pid != before.pid:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)


# The token.


def token_path(state: Path) -> Path:
    return state / "credentials" / "gateway.token"


def own_token(state: Path) -> Secret | None:
    """The token, when it has been generated."""
    path = token_path(state)
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StateError(f"cannot read {path}: {error}") from error
    if len(text) < 32:
        raise StateError(f"{path} is damaged: delete it, a new one is made")
    return Secret(text)


# Talking to it.


class ClientTarget(Struct, frozen=True, kw_only=True):
    """A gateway to talk to."""

    url: str
    token: Secret | None = None
    password: Secret | None = None
    fingerprint: str = ""
    """Of the certificate it must show; empty when any that the system trusts will do."""
    signer: Callable[[int], Signer] | None = None
    """Our device key at a time in milliseconds, for a gateway on another machine, which wants to know the device."""

    def introduction(self, caps: tuple[str, ...] = ()) -> ConnectOptions:
        """Who we are, with what this gateway asks for."""
        return ConnectOptions(
            version=__version__,
            platform=sys.platform,
            scopes=SCOPES,
            caps=caps,
            token=self.token,
            password=self.password,
        )

    def sign(self) -> Signer | None:
        return self.signer(time.time_ns() // 1_000_000) if self.signer is not None else None


def known_target(found: RunningGateway, state: Path) -> ClientTarget | None:
    """How to reach `found`, from what it says of itself; None when the configuration has to be read for it."""
    if not found.port or not found.credential or found.fingerprint:
        return None
    token = own_token(state) if found.credential == "own-token" else None
    return ClientTarget(url=f"ws://{reachable(found.address)}:{found.port}", token=token)


def call_gateway(
    target: ClientTarget, method: str, params: Any, *, timeout: float | None, expect_final: bool = False
) -> Any:
    """Calls one method and gives its answer, from a program without an event loop."""
    where = parse_url(target.url)
    check_pinnable(where, target.fingerprint)
    encryption = None
    if where.encrypted:
        from openclaw.protocol.tls import (
            PinnedTls,  # the library is slow to load, and most gateways are on this machine
        )

        encryption = PinnedTls(target.fingerprint)
    with SyncClient.connect(
        where, target.introduction(), timeout=timeout, encryption=encryption, signer=target.sign()
    ) as client:
        return client.call(method, params, final=expect_final)
