"""The gateway's process: start in the background, restart and health."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from openclaw.core.deferred import http_client, ssl
from openclaw.core.errors import StateError
from openclaw.gateway.running import POLL_SECONDS, RunningGateway, reachable, running_gateway, send

START_SECONDS = 30.0


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
    except (OSError, http_client.HTTPException) as error:
        return GatewayHealth(answers=False, problem=str(error) or type(error).__name__)
    except (ValueError, KeyError, TypeError):
        return GatewayHealth(answers=False, problem="something else than a gateway answers there")
    finally:
        connection.close()


def _connection(gateway: RunningGateway, timeout: float) -> "http_client.HTTPConnection":
    host = reachable(gateway.address)
    if not gateway.fingerprint:
        return http_client.HTTPConnection(host, gateway.port, timeout=timeout)
    # The certificate need not be verified: nothing secret is sent or received here.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http_client.HTTPSConnection(host, gateway.port, timeout=timeout, context=context)


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
