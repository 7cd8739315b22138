"""Gateways in processes of their own, and waiting for what they do."""

import json
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openclaw.gateway import process
from openclaw.gateway.logs import LogFiles, LogLine, last, read
from openclaw.gateway.running import RunningGateway
from openclaw.testing import TemporaryHome
from tests.commandline import PATIENCE, Child

DEADLINE = PATIENCE


class GatewayProcess:
    """One gateway, run by `child.py`."""

    def __init__(self, home: TemporaryHome, given: dict[str, Any], environ: dict[str, str]) -> None:
        self.home = home
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        reading, writing = os.pipe()
        self._output = os.fdopen(reading)
        with Path(os.devnull).open("r+b") as nothing, os.fdopen(writing) as output:
            self._process = Child(
                json.dumps(given),
                module="tests.gateway.daemon.child",
                env={**home.environ, **environ},
                cwd=home.root,
                stdin=nothing.fileno(),
                stdout=output.fileno(),
                stderr=nothing.fileno(),
            )
        self.pid = self._process.pid
        self.port = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with self._output as output:
            for line in output:
                self._events.put(json.loads(line))
        self._events.put(None)

    def until(self, event: str) -> dict[str, Any]:
        """The next event of that name."""
        deadline = time.monotonic() + DEADLINE
        while True:
            found = self._events.get(timeout=max(0.01, deadline - time.monotonic()))
            assert found is not None, f"the gateway ended before it was {event}"
            if found["event"] == event:
                return found

    def ready(self) -> dict[str, Any]:
        composed = self.until("composed")
        self.port = composed["port"]
        eventually(
            lambda: process.ask_health(RunningGateway(pid=0, created_at=0, port=self.port)).ready,
            "the gateway is ready",
        )
        return composed

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.ended()

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        code = self._process.wait()
        self._reader.join(DEADLINE)
        return code

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.ended()

    def log(self) -> list[LogLine]:
        place = LogFiles(directory=self.home.state / "logs")
        return [line for text in last(place, 1_000) if (line := read(text)) is not None]

    def logged(self, text: str) -> bool:
        return any(text in line.message for line in self.log())


Launcher = Callable[..., GatewayProcess]


@contextmanager
def launching(home: TemporaryHome) -> Iterator[Launcher]:
    """Starts gateways on free ports; none outlives the block."""
    started: list[GatewayProcess] = []

    def launch(*, environ: dict[str, str] | None = None, port: int = 0, **given: Any) -> GatewayProcess:
        options = {"wishes": {"port": port}, "console": False, "lock_seconds": 0.5, **given.pop("options", {})}
        one = GatewayProcess(home, {"options": options, **given}, environ or {})
        started.append(one)
        return one

    try:
        yield launch
    finally:
        for one in started:
            one.close()


def eventually(condition: Callable[[], object], what: str, seconds: float = DEADLINE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not true within {seconds} s: {what}"
        time.sleep(0.02)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777
