"""A real gateway in its own process, for tests that stop, kill and restart it."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from openclaw.core.secret import Secret
from openclaw.gateway.process import ask_health
from openclaw.gateway.running import own_token, running_gateway
from openclaw.protocol.client import GatewayClient
from openclaw.protocol.connect_request import ConnectOptions
from openclaw.protocol.scopes import SCOPES
from openclaw.protocol.websocket import connect
from openclaw.testing import TemporaryHome
from tests.commandline import PATIENCE, Child


class GatewayProcess:
    """`openclaw gateway run` on a free port; a `fresh` one loads everything itself, for whoever measures that."""

    def __init__(self, home: TemporaryHome, *options: str, fresh: bool = False) -> None:
        self.home = home
        self.options = options
        self.fresh = fresh
        self.process: Child | subprocess.Popen[bytes] | None = None
        self.port = 0
        self.fingerprint = ""

    def start(self, port: int = 0) -> None:
        with (self.home.root / "gateway.out").open("ab") as log, Path(os.devnull).open("rb") as nothing:
            words = ("gateway", "run", "--port", str(port), *self.options)
            about: Any = {"env": self.home.environ, "cwd": self.home.root, "stdin": nothing.fileno()}
            about |= {"stdout": log.fileno(), "stderr": log.fileno()}
            if self.fresh:
                self.process = subprocess.Popen([sys.executable, "-m", "openclaw", *words], **about)
            else:
                self.process = Child(*words, **about)
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self.process.poll() is None, self.output()
            assert time.monotonic() < deadline, self.output()
            found = running_gateway(self.home.state)
            if found is not None and found.pid == self.process.pid and found.port and ask_health(found).ready:
                self.port, self.fingerprint = found.port, found.fingerprint
                return
            time.sleep(0.02)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self, *, at_once: bool = False) -> int:
        """Asks it to stop; `at_once` asks again until it no longer waits for its runs."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        while at_once and self.process.poll() is None:
            time.sleep(0.2)
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait()

    def output(self) -> str:
        return (self.home.root / "gateway.out").read_text(errors="replace")

    @property
    def token(self) -> Secret:
        token = own_token(self.home.state)
        assert token is not None
        return token

    @asynccontextmanager
    async def client(
        self, *, scopes: tuple[str, ...] = SCOPES, caps: tuple[str, ...] = (), **more: Any
    ) -> AsyncIterator[GatewayClient]:
        card = ConnectOptions(version="0", platform="test", scopes=scopes, caps=caps, token=self.token, **more)
        scheme = "wss" if self.fingerprint else "ws"
        async with connect(f"{scheme}://127.0.0.1:{self.port}", card, pinned=self.fingerprint) as client:
            yield client

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()


def pss(pid: int) -> float:
    """Resident memory of a process in MiB, shared pages counted by their share."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"no Pss line for {pid}")


def cpu(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """The processes below `pid`."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


async def collect(client: GatewayClient, until: Any, deadline: float = PATIENCE) -> list[tuple[str, Any]]:
    """Events up to the first that `until` says yes to."""
    seen: list[tuple[str, Any]] = []
    async with asyncio.timeout(deadline):
        async for event in client.events():
            name, payload = getattr(event, "event", "gap"), getattr(event, "payload", None)
            seen.append((name, payload))
            if until(name, payload):
                return seen
    return seen
