"""The gateway's process: its lock, start in the background, stop and health."""

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.core.errors import Conflict, StateError
from openclaw.storage.locks import Holder, KernelLock

# The lock.

WAIT_SECONDS = 5.0
"""Long enough for the last gateway to close its files after it was told to stop."""
OWNER = "gateway"
LOOKS = 30


class RunningGateway(Holder, frozen=True, rename="camel", omit_defaults=True):
    """The gateway that holds the lock; the port is 0 until it listens."""

    port: int = 0
    address: str = "127.0.0.1"
    version: str = ""
    fingerprint: str = ""
    """SHA-256 of its certificate in hexadecimal; empty without TLS."""


class AlreadyRunning(Conflict):
    """Another gateway holds this state directory."""


def lock_path(state: Path) -> Path:
    return state / "gateway.lock"


class GatewayLock:
    """The lock, held; `describe` writes where we can be reached."""

    def __init__(self, path: Path, holder: RunningGateway) -> None:
        self._path = path
        self.holder = holder

    def describe(self, *, port: int, address: str, fingerprint: str = "") -> None:
        self.holder = msgspec.structs.replace(self.holder, port=port, address=address, fingerprint=fingerprint)
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


# Start and stop.

STOP_SECONDS = 30.0
"""How long runs in progress may go on after the gateway was told to stop."""
RESTART_SECONDS = 315.0
"""The same for a restart, which nobody waits for."""
POLL_SECONDS = 0.05
START_SECONDS = 30.0
KILL_SECONDS = 5.0


class GatewayHealth(Struct, frozen=True, kw_only=True):
    """What a gateway says of itself over HTTP."""

    answers: bool
    ready: bool = False
    failing: tuple[str, ...] = ()
    uptime_ms: int = 0
    problem: str = ""


def ask_health(gateway: RunningGateway, timeout: float = 2.0) -> GatewayHealth:
    """Asks `/readyz`."""
    connection = _connection(gateway, timeout)
    try:
        connection.request("GET", "/readyz")
        told: Any = json.loads(connection.getresponse().read(65_536))
        return GatewayHealth(
            answers=True,
            ready=bool(told["ready"]),
            failing=tuple(map(str, told.get("failing", ()))),
            uptime_ms=int(told.get("uptimeMs", 0)),
        )
    except (OSError, http.client.HTTPException) as error:
        return GatewayHealth(answers=False, problem=str(error) or type(error).__name__)
    except (ValueError, KeyError, TypeError):
        return GatewayHealth(answers=False, problem="something else than a gateway answers there")
    finally:
        connection.close()


def _connection(gateway: RunningGateway, timeout: float) -> http.client.HTTPConnection:
    host = reachable(gateway.address)
    if not gateway.fingerprint:
        return http.client.HTTPConnection(host, gateway.port, timeout=timeout)
    # The certificate need not be verified: nothing secret is sent or received here.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, gateway.port, timeout=timeout, context=context)


def reachable(address: str) -> str:
    """The address to connect to for a gateway that listens on `address`."""
    return "127.0.0.1" if address in ("0.0.0.0", "::", "") else address  # noqa: S104


def boot_log(state: Path) -> Path:
    """The output of a background gateway before its log is open."""
    return state / "logs" / "gateway-boot.log"


Waiting = Callable[[float], None]
"""Told again and again how many seconds somebody has waited."""


def no_waiting(seconds: float) -> None:
    """For who waits without a word."""


def start(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    state: Path,
    seconds: float = START_SECONDS,
    waiting: Waiting = no_waiting,
) -> RunningGateway:
    """Starts `gateway run` in the background and waits until it is ready."""
    path = boot_log(state)
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        child = subprocess.Popen(
            [sys.executable, "-m", "openclaw", "gateway", "run", "--no-console", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=fd,
            stderr=fd,
            env=dict(environ),
            cwd=state,
            start_new_session=True,
        )
    finally:
        os.close(fd)
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        waiting(time.monotonic() - began)
        found = running_gateway(state)
        if found is not None and found.pid == child.pid and found.port and ask_health(found).ready:
            # It outlives us, so nobody waits for it.
            child.returncode = 0
            return found
        if child.poll() is not None:
            raise StateError(f"the gateway did not start: {_said(path) or 'see openclaw logs'}")
        time.sleep(POLL_SECONDS)
    raise StateError(f"the gateway is not ready after {seconds:.0f} s; see {path} and openclaw logs")


def _said(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace").strip().removeprefix("error: ")[-2_000:]
    return ""


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


def send(to: RunningGateway, number: signal.Signals) -> None:
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


def restart_gateway(state: Path, before: RunningGateway, seconds: float) -> RunningGateway:
    """Asks a gateway to restart in its process, and waits until it is ready again."""
    assert sys.platform != "win32"
    since = ask_health(before).uptime_ms
    asked = time.monotonic()
    send(before, signal.SIGUSR1)
    while time.monotonic() < asked + seconds:
        time.sleep(POLL_SECONDS)
        now = running_gateway(state)
        if now is None:
            raise StateError("the gateway ended instead of starting again; see openclaw logs")
        told = ask_health(now)
        if told.ready and told.uptime_ms < since + (time.monotonic() - asked) * 1000 - 1:
            return now
    raise StateError(f"the gateway has not started again after {seconds:.0f} s; see openclaw logs")
