"""Starts modules in processes of their own without starting Python anew: one process has everything loaded and forks.

What a test gets is a process like any other, with its own environment, pipes, signals and exit code; what it saves is
the third of a second that loading takes each time. `tests.commandline` talks to it. Tests of how the program itself
loads start Python.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import Any, NoReturn

REQUEST = 1 << 20
LATER = (
    "acp",
    "anyio._backends._asyncio",
    "cryptography.x509",
    "mcp.client.stdio",
    "mcp.server",
    "websockets.asyncio.client",
    "yaml",
)
"""What the program loads only when it needs it."""


def load() -> None:
    """Loads all of the program, but nothing that is there for tests."""
    import openclaw

    ours = [found.name for found in pkgutil.walk_packages(openclaw.__path__, "openclaw.")]
    for name in (*ours, *LATER):
        if not name.endswith("__main__") and "test" not in name:
            with suppress(ImportError):  # an extra that is not installed
                importlib.import_module(name)
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    gc.collect()
    gc.freeze()


def serve(door: socket.socket, asker: int) -> "dict[str, Any]":
    """Forks for everyone who connects; returns in each child, with what it is to do. Ends when `asker` closes.

    A request comes with the child's three standard files. The connection then tells the child's pid and how it ended;
    when it breaks, the child is killed.
    """
    waking, woken = socket.socketpair()
    waking.setblocking(False)
    woken.setblocking(False)
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    running: dict[int, socket.socket] = {}
    broken: set[socket.socket] = set()
    while True:
        watched: list[Any] = [door, waking, asker, *(set(running.values()) - broken)]
        ready, _, _ = select.select(watched, [], [])
        if asker in ready:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        if waking in ready:
            with suppress(BlockingIOError):
                waking.recv(1 << 16)
            _bury(running)
        for pid, connection in list(running.items()):
            if connection in ready and connection not in broken:
                broken.add(connection)
                os.kill(pid, signal.SIGKILL)
        broken &= set(running.values())
        if door not in ready:
            continue
        connection, _ = door.accept()
        message, files, _, _ = socket.recv_fds(connection, REQUEST, 3)
        if not message:
            connection.close()
            continue
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            os.close(asker)
            for own in (waking, woken, door, connection, *running.values()):
                own.close()
            _take_over(files)
            request: dict[str, Any] = json.loads(message)
            return request
        for file in files:
            os.close(file)
        running[pid] = connection
        _tell(connection, pid)


def _bury(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        connection = running.pop(pid)
        _tell(connection, os.waitstatus_to_exitcode(status))
        connection.close()


def _tell(connection: socket.socket, number: int) -> None:
    with suppress(OSError):
        connection.send(str(number).encode())


def _take_over(files: list[int]) -> None:
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # As Python opens them in the bare environment that tests give.
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def become(request: dict[str, Any]) -> NoReturn:
    """Runs a module as `python -m` does."""
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["cwd"])
    sys.argv = ["", *request["words"]]
    code: object = 0
    try:
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        traceback.print_exc()
        code = 1
    # What an interpreter does at its end, but for taking a thousand modules apart.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if isinstance(code, str):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    load()
    listening = socket.socket(fileno=int(sys.argv[1]))
    if os.fork():  # tests that count the children of their process do not find this one
        os._exit(0)
    become(serve(listening, int(sys.argv[2])))
