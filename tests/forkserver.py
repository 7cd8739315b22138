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
    "mcp",
    "uvicorn.protocols.http.h11_impl",
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


def serve(control: socket.socket) -> "dict[str, Any]":
    """Forks for every request; returns in each child, with what it is to do. Ends with whoever asks.

    A request comes with four files: the child's three, and one to tell the child's pid on and how it ended.
    """
    waking, woken = socket.socketpair()
    waking.setblocking(False)
    woken.setblocking(False)
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control, waking], [], [])
        if waking in ready:
            with suppress(BlockingIOError):
                waking.recv(1 << 16)
            _bury(running)
        if control not in ready:
            continue
        message, files, _, _ = socket.recv_fds(control, REQUEST, 4)
        if not message:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for own in (waking, woken, control):
                own.close()
            for status in running.values():
                os.close(status)
            _take_over(files)
            request: dict[str, Any] = json.loads(message)
            return request
        running[pid] = files.pop()
        os.write(running[pid], f"{pid}\n".encode())
        for file in files:
            os.close(file)


def _bury(running: dict[int, int]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        told = running.pop(pid)
        with suppress(BrokenPipeError):
            os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(told)


def _take_over(files: list[int]) -> None:
    *standard, status = files
    for number, file in enumerate(standard):
        os.dup2(file, number)
        os.close(file)
    os.close(status)
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
    if os.fork():  # tests that count the children of their process do not find this one
        os._exit(0)
    become(serve(socket.socket(fileno=int(sys.argv[1]))))
