"""Running shell commands."""

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field, structs

from openclaw.core.errors import InvalidRequest, StateError
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.tools import group
from openclaw.tools.answer import answers, parse
from openclaw.tools.child import Child, Ended, InTerminal, Piped, attend
from openclaw.tools.commandline import forbidden
from openclaw.tools.environment import check_overrides
from openclaw.tools.paths import locate, missing, shown
from openclaw.tools.terminal import Tail

REPORT_EVERY = 0.2
REPORTED_CHARS = 2000

# Commands are written for these; other shells read them differently.
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash", "ksh", "mksh"})


class Wanted(Struct, frozen=True, rename="camel"):
    command: str
    workdir: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    timeout_seconds: float | None = None
    pty: bool = False


class Exec:
    """The `exec` tool. `env` is inherited as it is, so it must hold no credentials (see `safe_env`)."""

    spec = ToolSpec(
        name="exec",
        label="Exec",
        summary="run shell commands",
        description=(
            "Run a shell command in the workspace and return its output (stdout and stderr together) and exit code. "
            "Input is closed; the command is stopped at the timeout. Set pty for programs that need a terminal."
        ),
        parameters={
            "type": "object",
            "required": ["command"],
            "properties": {
                "command": {"type": "string", "description": "Shell command"},
                "workdir": {"type": "string", "description": "Directory to run in (default: the workspace)"},
                "env": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "Extra environment variables",
                },
                "timeoutSeconds": {"type": "number", "description": "Stop after this long; 0 means never"},
                "pty": {"type": "boolean", "description": "Run in a terminal"},
            },
        },
        aliases={"timeout": "timeoutSeconds", "timeout_seconds": "timeoutSeconds", "cwd": "workdir", "cmd": "command"},
    )

    def __init__(
        self,
        *,
        shell: str,
        env: Mapping[str, str],
        timeout: float = 1800.0,
        path_prepend: Sequence[str] = (),
    ) -> None:
        self.shell = shell
        self.env = dict(env)
        self.timeout = timeout
        self.path_prepend = tuple(path_prepend)

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.RUNS_CODE | Effects.READS_FILES | Effects.WRITES_FILES

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset({"pty"} if args.get("pty") is True else ())

    @answers
    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        wanted = parse(args, Wanted)
        if why := forbidden(wanted.command):
            raise InvalidRequest(why)
        check_overrides(wanted.env)
        timeout = self.timeout if wanted.timeout_seconds is None else wanted.timeout_seconds
        if timeout < 0:
            raise InvalidRequest("timeoutSeconds must be 0 (never) or more.")
        cwd = _directory(wanted.workdir, context.workspace)
        child = self._start(wanted, cwd, context)
        progress = _Progress(context.report)
        try:
            ended = await attend(child, [progress.add], timeout=timeout or None)
        finally:
            progress.close()
        return _answer(ended, progress.tail, cwd, timeout, child.pid)

    def _start(self, wanted: Wanted, cwd: Path, context: ToolContext) -> Child:
        env = self._env(wanted, context)
        argv = [pick_shell(self.shell, env.get("PATH")), "-c", wanted.command]
        try:
            if wanted.pty:
                return InTerminal(argv, cwd=cwd, env={"TERM": "xterm-256color", **env})
            return Piped(argv, cwd=cwd, env=env)
        except (OSError, UnicodeEncodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it holds half a surrogate pair"
            raise StateError(f"Could not start the command: {reason}.") from error

    def _env(self, wanted: Wanted, context: ToolContext) -> dict[str, str]:
        env = {**self.env, **context.env}
        env["PATH"] = os.pathsep.join([*self.path_prepend, env.get("PATH") or os.defpath])
        return {**env, **wanted.env, "OPENCLAW_SHELL": "exec"}


def pick_shell(preferred: str, path: str | None) -> str:
    """The shell commands are written for: the user's when it reads them as they are meant, else bash or sh."""
    if Path(preferred).name in _SHELLS and (found := shutil.which(preferred, path=path)):
        return found
    return shutil.which("bash", path=path) or "/bin/sh"


def _directory(workdir: str | None, workspace: Path) -> Path:
    path = locate(workdir, workspace) if workdir else workspace
    if path.is_dir():
        if not os.access(path, os.X_OK):
            raise StateError(f"Permission denied: cannot run in {shown(path)}.")
        return path
    if path.exists():
        raise InvalidRequest(f"workdir {shown(path)} is not a directory.")
    raise missing(path, "Directory")


class _Progress:
    """Keeps the output and shows its end a few times a second."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.tail = Tail()
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, chunk: bytes) -> None:
        self.tail.add(chunk)
        if self._timer is None:
            self._timer = self._loop.call_at(self._last + REPORT_EVERY, self._show)

    def _show(self) -> None:
        self._timer = None
        self._last = self._loop.time()
        self._report(self.tail.last(REPORTED_CHARS))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _answer(ended: Ended, tail: Tail, cwd: Path, timeout: float, leader: int) -> Output:
    number = -ended.code if ended.code is not None and ended.code < 0 else None
    name = _signal_name(number) if number else None
    if ended.timed_out:
        reason, note = "overall-timeout", _timeout_note(timeout)
    elif name:
        reason, note = "signal", f"(Command ended by signal {name})"
    else:
        reason, note = "exit", f"(Command exited with code {ended.code})" if ended.code else ""
    notes = [note] if note else []
    if reason != "overall-timeout" and group.lingers(leader):
        notes.append(f"[Processes it started are still running; to stop them: kill -- -{leader}]")
    # A shell says 126 and 127 when there was nothing it could run.
    failed = reason != "exit" or ended.code in (126, 127)
    details: dict[str, Any] = {
        "status": "failed" if failed else "completed",
        "exitCode": ended.code if reason == "exit" else None,
        "exitSignal": name,
        "exitReason": reason,
        "durationMs": round(ended.seconds * 1000),
        "timedOut": ended.timed_out,
        "cwd": str(cwd),
    }
    text = "\n\n".join([tail.text() or "(no output)", *notes])
    output = Output.failed(text, **details) if failed else Output.of(text, **details)
    return structs.replace(output, end_matters=True)


def _timeout_note(timeout: float) -> str:
    return (
        f"Command timed out after {timeout:g} seconds. It was stopped with everything it had started; "
        "check what it already changed before you run it again, and give a larger timeoutSeconds if it needs longer."
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
