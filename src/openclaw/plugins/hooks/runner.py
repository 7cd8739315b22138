"""Runs a hook's handler in a child process: the event on standard input, the answer on standard output, with limits."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openclaw.core.errors import OpenClawError
from openclaw.core.text import sanitize_line
from openclaw.plugins.hooks.events import BadAnswer, HookEvent, HookFileAnswer, decode_answer, encode_event
from openclaw.plugins.hooks.manifest import HookDirectory
from openclaw.process.child import PipedProcess, wait_for_child

ANSWER_BYTES = 4 << 20
REMARK_BYTES = 65_536
REMARK_CHARS = 300
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
    told = encode_event(event, options)
    answer = await run_program(handler_command(hook), told, cwd=Path(hook.directory), env=env, limit=limit)
    try:
        return decode_answer(answer, event)
    except BadAnswer as error:
        raise HandlerFailed(f"its handler's answer cannot be read: {error}") from None


async def run_program(command: Sequence[str], told: bytes, *, cwd: Path, env: Mapping[str, str], limit: float) -> bytes:
    """What a program that is told something answers within its limits; raises `HandlerFailed`."""
    with tempfile.TemporaryFile() as file:  # a file and not a pipe: a handler that does not read blocks nobody
        file.write(told)
        file.seek(0)
        code, answer, remark = await _run_handler(command, cwd, file.fileno(), env, limit)
    if code:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        raise HandlerFailed(f"its handler {how}{': ' if remark else ''}{remark}")
    return answer


async def _run_handler(
    command: Sequence[str], cwd: Path, stdin: int, env: Mapping[str, str], limit: float
) -> tuple[int, bytes, str]:
    """The handler's exit code, its answer and the last line it printed to standard error."""
    answer, remarks, flooded = bytearray(), bytearray(), asyncio.Event()

    def keep_answer(data: bytes) -> None:
        if len(answer) + len(data) > ANSWER_BYTES:
            flooded.set()
        if not flooded.is_set():
            answer.extend(data)

    def keep_tail(data: bytes) -> None:
        remarks.extend(data)
        del remarks[:-REMARK_BYTES]

    try:
        child = PipedProcess(command, cwd=cwd, env=env, merged=False, stdin=stdin)
    except OSError as error:
        raise HandlerFailed(f"its handler cannot be started: {error.strerror}") from error
    try:
        ended = await wait_for_child(child, (keep_answer, keep_tail), timeout=limit, enough=flooded)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)  # whatever it left running
    if flooded.is_set():
        raise HandlerFailed(f"its handler wrote more than {ANSWER_BYTES >> 20} MiB and was stopped")
    if ended.code is None:
        raise HandlerFailed(f"its handler took longer than {limit:g} s and was stopped")
    lines = [sanitize_line(line).strip() for line in remarks.decode(errors="replace").splitlines()]
    return ended.code, bytes(answer), next((line for line in reversed(lines) if line), "")[:REMARK_CHARS]
