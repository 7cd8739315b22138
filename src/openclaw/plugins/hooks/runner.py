"""Runs a hook's handler in a child process: the event on standard input, the answer on standard output, with limits."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openclaw.core.errors import OpenClawError
from openclaw.core.text import sanitize_line
from openclaw.plugins.hooks.events import BadAnswer, HookEvent, HookFileAnswer, decode_answer, encode_event
from openclaw.plugins.hooks.manifest import HookDirectory

ANSWER_BYTES = 4 << 20
REMARK_BYTES = 65_536
REMARK_CHARS = 300
STRAGGLERS = 0.2
"""Seconds to keep reading after a handler ended, for a child of it that shares its output."""
WORKER = Path(__file__).parent / "worker.py"
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL")
"""The variables a handler inherits, beside those its HOOK.md requires by name."""


class HandlerFailed(OpenClawError):
    """A handler failed; the message is the one line that is shown."""

    code = "UNAVAILABLE"


def handler_environment(hook: HookDirectory, environ: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The variables of a handler: a few inherited ones, those it requires by name, and those its entry sets."""
    wanted = (*INHERITED, *hook.manifest.requires.env)
    found = {name: environ[name] for name in wanted if name in environ}
    return {**found, **own, "OPENCLAW_HOOK": hook.name, "PYTHONDONTWRITEBYTECODE": "1"}


def handler_command(hook: HookDirectory) -> list[str]:
    if hook.kind == "python":
        return [sys.executable, "-I", "-B", str(WORKER), hook.handler, hook.manifest.export]
    return [hook.handler]


async def run(
    hook: HookDirectory, event: HookEvent, options: Mapping[str, Any], *, env: Mapping[str, str], limit: float
) -> HookFileAnswer:
    """Runs the handler; raises `HandlerFailed` for everything that can go wrong with it."""
    with tempfile.TemporaryFile() as told:  # a file and not a pipe: a handler that does not read blocks nobody
        told.write(encode_event(event, options))
        told.seek(0)
        code, said, remark = await _attended(hook, told.fileno(), env, limit)
    if code:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        raise HandlerFailed(f"its handler {how}{': ' if remark else ''}{remark}")
    try:
        return decode_answer(said, event)
    except BadAnswer as error:
        raise HandlerFailed(f"its handler's answer cannot be read: {error}") from None


async def _attended(hook: HookDirectory, told: int, env: Mapping[str, str], limit: float) -> tuple[int, bytes, str]:
    """The handler's exit code, its answer and the last line it printed to standard error."""
    with _Tap(ANSWER_BYTES) as answers, _Tap(0) as remarks:
        try:
            child = subprocess.Popen(  # noqa: ASYNC220 (asyncio's own waits for its pipes, which a grandchild may hold)
                handler_command(hook),
                stdin=told,
                stdout=answers.writing,
                stderr=remarks.writing,
                cwd=hook.directory,
                env=dict(env),
                start_new_session=True,
            )
        except OSError as error:
            raise HandlerFailed(f"its handler cannot be started: {error.strerror}") from error
        answers.listen()
        remarks.listen()
        try:
            async with asyncio.timeout(limit):
                code = await _ended(child, answers.flooded)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STRAGGLERS):
                        await answers.closed.wait()
                        await remarks.closed.wait()
        except TimeoutError:
            raise HandlerFailed(f"its handler took longer than {limit:g} s and was stopped") from None
        finally:
            await _finish(child)
        if answers.flooded.is_set():
            raise HandlerFailed(f"its handler wrote more than {ANSWER_BYTES >> 20} MiB and was stopped")
        return code, bytes(answers.kept), _last_line(bytes(remarks.kept))


class _Tap:
    """Reads a pipe as it fills: up to `most` bytes, or only its tail when there is no `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self.kept = bytearray()
        self.flooded = asyncio.Event()
        self.closed = asyncio.Event()

    def __enter__(self) -> "_Tap":
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._reading)
        os.close(self._reading)
        if self.writing >= 0:
            os.close(self.writing)

    def listen(self) -> None:
        """Closes our copy of the writing end, so that the child's exit ends the stream, and starts reading."""
        os.close(self.writing)
        self.writing = -1
        asyncio.get_running_loop().add_reader(self._reading, self._pull)

    def _pull(self) -> None:
        try:
            piece = os.read(self._reading, 65_536)
        except BlockingIOError:
            return
        if not piece:
            asyncio.get_running_loop().remove_reader(self._reading)
            self.closed.set()
            return
        self.kept += piece
        if self._most and len(self.kept) > self._most:
            asyncio.get_running_loop().remove_reader(self._reading)
            self.flooded.set()
        elif not self._most:
            del self.kept[:-REMARK_BYTES]


async def _ended(child: "subprocess.Popen[bytes]", enough: asyncio.Event) -> int:
    """Waits for the exit code; kills a handler that writes too much."""
    while (code := child.poll()) is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.02):  # polled: not every system has a descriptor that reports the exit
                await enough.wait()
                os.killpg(child.pid, signal.SIGKILL)
                return await asyncio.to_thread(child.wait)
    return code


async def _finish(child: "subprocess.Popen[bytes]") -> None:
    """Kills whatever the handler started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()  # it is dead or dying, so this returns soon


def _last_line(remarks: bytes) -> str:
    lines = [sanitize_line(line).strip() for line in remarks.decode(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")[:REMARK_CHARS]
