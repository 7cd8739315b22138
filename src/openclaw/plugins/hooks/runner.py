"""Runs a hook's handler in a child process: the event on standard input, the answer on standard output, with limits."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openclaw.core.errors import OpenClawError
from openclaw.core.text import sanitize_line
from openclaw.plugins.hooks.events import BadAnswer, HookEvent, HookFileAnswer, decode_answer, encode_event
from openclaw.plugins.hooks.manifest import HookDirectory
from openclaw.process.child import ANSWER_BYTES, ask_program

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
    try:
        said = await ask_program(command, told, env=env, seconds=limit, cwd=cwd)
    except OSError as error:
        raise HandlerFailed(f"its handler cannot be started: {error.strerror}") from error
    if said.why == "flooded":
        raise HandlerFailed(f"its handler wrote more than {ANSWER_BYTES >> 20} MiB and was stopped")
    if said.code is None:
        raise HandlerFailed(f"its handler took longer than {limit:g} s and was stopped")
    if said.code:
        how = f"was ended by signal {-said.code}" if said.code < 0 else f"ended with code {said.code}"
        remark = _last_line(said.err)
        raise HandlerFailed(f"its handler {how}{': ' if remark else ''}{remark}")
    return said.out


def _last_line(remarks: bytes) -> str:
    lines = [sanitize_line(line).strip() for line in remarks.decode(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")[:REMARK_CHARS]
