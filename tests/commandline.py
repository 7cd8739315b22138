"""The command `openclaw` in a process of its own, with a home for the test."""

import atexit
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from openclaw.testing import TemporaryHome

PATIENCE = 300.0
"""How long anything may take before a test gives up: far more than it needs, for machines with too much to do."""
ROOT = Path(__file__).parent.parent
PYTHON = sys.executable


class Done(NamedTuple):
    code: int
    out: str
    err: str


Typed = Callable[..., Done]


def typed(home: TemporaryHome) -> Typed:
    """Runs a command line as a person would type it."""

    def run(*words: str, stdin: str = "") -> Done:
        done = openclaw(*words, env=home.environ, cwd=home.workspace, input=stdin)
        return Done(done.returncode, done.stdout, done.stderr)

    return run


def openclaw(
    *words: str,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None = None,
    input: str = "",  # noqa: A002
    module: str = "openclaw",
) -> "subprocess.CompletedProcess[str]":
    """Runs `openclaw WORDS…` to its end, as `subprocess.run` does with captured output."""
    out, err = _Reader(), _Reader()
    reading, writing = os.pipe()
    child = Child(*words, module=module, env=env, cwd=cwd, stdin=reading, stdout=out.end, stderr=err.end)
    for end in (reading, out.end, err.end):
        os.close(end)
    with suppress(BrokenPipeError), os.fdopen(writing, "wb") as stdin:
        stdin.write(input.encode())
    try:
        code = child.wait()
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        raise
    return subprocess.CompletedProcess(["openclaw", *words], code, out.text(), err.text())


class Child:
    """A process from the fork server, with what tests use of `subprocess.Popen`."""

    def __init__(
        self,
        *words: str,
        module: str = "openclaw",
        env: Mapping[str, str],
        cwd: str | os.PathLike[str] | None = None,
        stdin: int,
        stdout: int,
        stderr: int,
    ) -> None:
        self.returncode: int | None = None
        self._told = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._told.connect(_server())
        wanted = {"module": module, "words": words, "env": dict(env), "cwd": str(cwd or Path.cwd())}
        socket.send_fds(self._told, [json.dumps(wanted).encode()], [stdin, stdout, stderr])
        self.pid = int(self._told.recv(64))

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float = PATIENCE) -> int:
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                self.returncode = int(self._told.recv(64))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout) from None
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def forked(module: str, *words: str) -> list[str]:
    """A command line that does what `python -m MODULE WORDS…` does, for programs that are told what to start."""
    return [PYTHON, "-I", "-S", str(ROOT / "tests" / "forked.py"), _server(), module, *words]


def quick_python(folder: Path) -> str:
    """A program that stands for Python and takes modules (`-P -m MODULE`, as workers start) from the fork server.

    Where it is `sys.executable`, what is killed is one process further away: not for tests of who outlives whom.
    """
    program = folder / "python"
    python = shlex.quote(PYTHON)
    quick = shlex.join(forked("")[:-1])
    program.write_text(
        f'#!/bin/sh\nif [ "$1 $2" = "-P -m" ]; then shift 2; exec {quick} "$@"; fi\nexec {python} "$@"\n'
    )
    program.chmod(0o700)
    return str(program)


@cache
def _server() -> str:
    """The socket of this test process's fork server, which ends with it; it is nobody's child."""
    folder = tempfile.mkdtemp(prefix="openclaw-fork-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = f"{folder}/door"
    asked, asker = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(path)
        door.listen(64)
        files = [door.fileno(), asked]
        command = [PYTHON, "-m", "tests.forkserver", *map(str, files)]
        environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        subprocess.run(command, cwd=ROOT, pass_fds=files, env=environ, stdin=subprocess.DEVNULL, check=True)
    os.close(asked)
    atexit.register(os.close, asker)
    return path


class _Reader:
    """The far end of a pipe that somebody writes to; a thread reads, so that nobody writes against a full pipe."""

    def __init__(self) -> None:
        reading, self.end = os.pipe()
        self._file = os.fdopen(reading, encoding="utf-8", errors="replace")
        self._text = ""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._file:
            self._text = self._file.read()

    def text(self) -> str:
        self._thread.join()
        return self._text
