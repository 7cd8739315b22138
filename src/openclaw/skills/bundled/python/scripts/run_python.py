"""Runs a small Python program apart: its own directory, no inherited variables, limits on time, memory and output."""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MAX_OUTPUT = 200_000
KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT")


def limits(seconds: int, megabytes: int) -> Any:
    """What the child does to itself before it starts; nothing where the system has no such limits."""
    try:
        import resource
    except ImportError:
        return None

    def apply() -> None:
        wanted = (
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_AS, megabytes << 20),
            (resource.RLIMIT_FSIZE, 256 << 20),
            (resource.RLIMIT_CORE, 0),
        )
        for kind, value in wanted:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(kind, (value, value))

    return apply


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a small Python program within limits.")
    parser.add_argument("program", type=Path)
    parser.add_argument("--time", type=int, default=20, metavar="SECONDS")
    parser.add_argument("--memory", type=int, default=512, metavar="MB")
    parser.add_argument("arguments", nargs="*", help="passed on; files by their full path")
    wanted = parser.parse_args()
    program = wanted.program.resolve()
    if not program.is_file():
        sys.stderr.write(f"there is no file {wanted.program}\n")
        return 2
    arguments = [str(Path(text).resolve()) if Path(text).exists() else text for text in wanted.arguments]
    variables = {name: os.environ[name] for name in KEPT if name in os.environ}
    variables.update(PYTHONDONTWRITEBYTECODE="1", PYTHONUTF8="1")
    with tempfile.TemporaryDirectory(prefix="openclaw-python-") as scratch, tempfile.TemporaryFile() as output:
        variables.update(HOME=scratch, TMPDIR=scratch)
        child = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", str(program), *arguments],
            cwd=scratch,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=limits(wanted.time, wanted.memory),  # noqa: PLW1509
            start_new_session=True,
        )
        late = False
        try:
            child.wait(timeout=wanted.time)
        except subprocess.TimeoutExpired:
            late = True
            if hasattr(os, "killpg"):
                os.killpg(child.pid, signal.SIGKILL)
            else:
                child.kill()
            child.wait()
        output.seek(0)
        said = output.read(MAX_OUTPUT + 1)
    sys.stdout.write(said[:MAX_OUTPUT].decode("utf-8", "replace"))
    if len(said) > MAX_OUTPUT:
        sys.stderr.write(f"\n(only the first {MAX_OUTPUT:,} bytes of the output are shown)\n")
    if late:
        sys.stderr.write(f"\nstopped after {wanted.time} s: give it --time, or less to do\n")
        return 124
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(main())
