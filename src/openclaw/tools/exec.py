"""The `exec` tool: runs shell commands, in the foreground or background, on the host or in a sandbox."""

import asyncio
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct, field, structs

from openclaw.core.errors import InvalidRequest, StateError
from openclaw.core.sandbox import SANDBOX_HOME, BoundSandbox, RunsInSandbox, SandboxLaunch, SandboxSpec
from openclaw.core.text import compile_lazily
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec, param, properties_of, tool_spec
from openclaw.process import group
from openclaw.process.child import ChildEnded, ChildProcess, PipedProcess, TerminalProcess
from openclaw.process.environment import check_overrides, find_executable
from openclaw.process.tasks import SystemClock
from openclaw.security.tool_policy import Level
from openclaw.tools.background import Background, BackgroundCommand, OutputTail
from openclaw.tools.base import ArgsTool
from openclaw.tools.paths import missing_error, quote_path, resolve_path
from openclaw.tools.settings import ExecSettings

# Commands that are refused.

_ASSIGNMENT = compile_lazily(r"[A-Za-z_][A-Za-z0-9_]*=")
_WRAPPERS = frozenset({"sudo", "env", "exec", "nohup", "time", "command", "builtin", "setsid", "nice", "npx", "uvx"})
_PUNCTUATION = frozenset("();<>|&\n`{}!")
_TOKEN = compile_lazily(r"""[();<>|&\n`]+|(?:[^\s();<>|&`'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)
_QUOTED = compile_lazily(r"""\\(.)|'([^']*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
# The longest single argument a system accepts, the terminating NUL included.
MAX_COMMAND_BYTES = 128 * 1024 - 1


def find_forbidden(command: str) -> str | None:
    """Why `command` is refused; None when it is not."""
    if not command.strip():
        return "The command is empty."
    if "\0" in command:
        return "The command contains a NUL character: remove it."
    if len(command) > MAX_COMMAND_BYTES or len(command.encode("utf-8", "replace")) > MAX_COMMAND_BYTES:
        return "The command is longer than 128 KB: write it to a file and run that."
    for words in _simple_commands(command):
        program = words[0].rpartition("/")[2]
        if words[0] == "/approve":
            return "exec cannot run /approve: an approval is given by a person, as a chat message."
        plain = [word for word in words[1:] if not word.startswith("-")]
        if program in ("openclaw", "openclaw-py") and plain[:2] == ["channels", "login"]:
            return (
                "exec cannot run 'openclaw channels login': it is interactive. "
                "Ask the person to run it in a terminal on the gateway host."
            )
    return None


def _simple_commands(command: str) -> Iterator[list[str]]:
    """The words of each program call in `command`, without assignments and wrappers."""
    words: list[str] = []
    # Without their quotes; an unclosed quote is skipped, since the shell will complain.
    tokens = [_QUOTED.sub(r"\1\2\3", token[0]) for token in _TOKEN.finditer(command)]
    for token in [*tokens, ";"]:
        if not set(token) <= _PUNCTUATION:
            words.append(token)
            continue
        while words and (words[0] in _WRAPPERS or _ASSIGNMENT.match(words[0]) or words[0].startswith("-")):
            words.pop(0)
        if words:
            yield words
        words = []


# The answer about an ended command.

_TOO_MANY = (
    "Command was stopped with everything it had started: it had {} processes at once, more than "
    "tools.exec.maxProcesses allows. Start fewer at a time."
)
_TIMED_OUT = (
    "Command timed out after {:g} seconds. It was stopped with everything it had started; "
    "check what it already changed before you run it again, and give a larger timeoutSeconds if it needs longer."
)


def ended_output(job: BackgroundCommand, ended: ChildEnded, text: str, **details: Any) -> Output:
    """The output of an ended command, with `text` as what it printed."""
    name = _signal_name(-ended.code) if ended.code is not None and ended.code < 0 else None
    if ended.crowd:
        reason, note = "signal", _TOO_MANY.format(ended.crowd)
    elif ended.timed_out:
        reason, note = "overall-timeout", _TIMED_OUT.format(ended.limit)
    elif ended.code is None:
        reason, note = "signal", "(Command was stopped)"
    elif name:
        reason, note = "signal", f"(Command ended by signal {name})"
    else:
        reason, note = "exit", f"(Command exited with code {ended.code})" if ended.code else ""
    notes = [note] if note else []
    # What ran in a sandbox leaves nothing behind.
    if reason != "overall-timeout" and not job.contained and group.has_members(job.pid):
        notes.append(f"[Processes it started are still running; to stop them: kill -- -{job.pid}]")
    # A shell says 126 and 127 when there was nothing it could run.
    failed = reason != "exit" or ended.code in (126, 127)
    about: dict[str, Any] = {
        "status": "failed" if failed else "completed",
        "exitCode": ended.code if reason == "exit" else None,
        "exitSignal": name,
        "exitReason": reason,
        "durationMs": round(ended.seconds * 1000),
        "timedOut": ended.timed_out,
        "cwd": str(job.cwd),
        **details,
    }
    said = "\n\n".join([text or "(no output)", *notes])
    output = Output.failed(said, **about) if failed else Output.of(said, **about)
    return structs.replace(output, end_matters=True, own=not text)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


# The tool.

REPORT_EVERY = 0.2
REPORTED_CHARS = 2000
SHORTEST_YIELD_MS, LONGEST_YIELD_MS = 10, 120_000

# Commands are written for these shells; others read them differently.
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash", "ksh", "mksh"})


class ExecArgs(Struct, frozen=True, rename="camel"):
    """All parameters; people and policy read `title`, `security` and `ask` from the call itself."""

    command: Annotated[str, param()]
    workdir: Annotated[str | None, param()] = None
    env: Annotated[dict[str, str], param()] = field(default_factory=dict)
    timeout_seconds: Annotated[float | None, param("0: never")] = None
    pty: Annotated[bool, param("run in a terminal")] = False
    title: Annotated[str | None, param("what it does, in a few words for people", maxLength=120)] = None
    elevated: Annotated[bool | None, param("outside the sandbox; there is none here")] = None
    host: Annotated[str, param("where it runs; auto: here", enum=["auto", "sandbox", "gateway", "node"])] = "auto"
    node: Annotated[str | None, param("host node: which one")] = None
    security: Annotated[str | None, param("be stricter than the policy", enum=["deny", "allowlist", "full"])] = None
    ask: Annotated[str | None, param("ask the owner more often than the policy", enum=["off", "on-miss", "always"])] = (
        None
    )
    yield_ms: Annotated[float | None, param("wait so long before it goes to the background (default 10000)")] = None
    background: Annotated[bool, param("at once")] = False


_AWAITED = (
    "Run a shell command; gives its output (stdout and stderr together) and exit code. Input is closed. "
    "Set pty for programs that need a terminal."
)
_LASTING = (
    "Run a shell command; gives its output (stdout and stderr together) and exit code. What takes longer than yieldMs "
    "goes on in the background: manage it with process. Only background and pty commands have input."
)
_ALIASES = {"timeout": "timeoutSeconds", "timeout_seconds": "timeoutSeconds", "cwd": "workdir", "cmd": "command"}


@cache
def _spec(*, lasting: bool, boxed: bool) -> ToolSpec:
    """The spec; `lasting` where `process` can manage background commands, `boxed` in a sandbox."""
    properties = properties_of(ExecArgs)
    aliases = _ALIASES
    if lasting:
        aliases = {**_ALIASES, "yield_ms": "yieldMs"}
    else:
        del properties["yieldMs"], properties["background"]
    if boxed:
        properties["elevated"]["description"] = "run outside the sandbox, if the owner allows it"
        where = "auto: in the sandbox; gateway: on the host, if allowed"
        properties["host"]["description"] = where
    about = _LASTING if lasting else _AWAITED
    rare = ("env", "title", "node", "security", "ask", *(() if boxed else ("elevated", "host")))
    summary = "run shell commands (pty for programs that need a terminal)"
    return tool_spec("exec", "Exec", summary, about, properties, "command", aliases=aliases, rare=rare)


class ExecTool(ArgsTool[ExecArgs], RunsInSandbox):
    """The `exec` tool. `env` is inherited unchanged, so it must contain no credentials (see `safe_env`).

    Without a `background` every command is awaited: nothing could manage it later.
    """

    args_type = ExecArgs

    def __init__(
        self,
        settings: ExecSettings = ExecSettings(),  # noqa: B008 (immutable)
        *,
        shell: str,
        env: Mapping[str, str],
        background: Background | None = None,
        boxed: BoundSandbox | None = None,
        elevated: Level = "off",
    ) -> None:
        self.spec = _spec(lasting=background is not None, boxed=boxed is not None)
        self.settings = settings
        self.shell = shell
        self.env = dict(env)
        self.background = background
        self.boxed = boxed
        self.elevated: Level = elevated

    def effects(self, args: Mapping[str, Any]) -> Effects:
        usual = Effects.RUNS_CODE | Effects.READS_FILES | Effects.WRITES_FILES
        if self.boxed is None:
            return usual
        # With elevation off nothing runs outside: a call that requests it is refused.
        if self.elevated == "off" or not self._outside(args.get("elevated"), args.get("host")):
            return usual | Effects.CONTAINED
        return usual if self.elevated == "full" else usual | Effects.LEAVES_SANDBOX

    def _outside(self, elevated: Any, host: Any) -> bool:
        """Whether a call of a sandboxed run runs on the host."""
        if self.boxed is None or host == "sandbox":
            return False
        return bool(elevated) if isinstance(elevated, bool) else host == "gateway" or self.elevated != "off"

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset({"pty"} if args.get("pty") is True else ())

    async def run(self, wanted: ExecArgs, context: ToolContext) -> Output:
        if why := find_forbidden(wanted.command):
            raise InvalidRequest(why)
        check_overrides(wanted.env)
        timeout = self.settings.timeout_seconds if wanted.timeout_seconds is None else wanted.timeout_seconds
        if timeout < 0:
            raise InvalidRequest("timeoutSeconds must be 0 (never) or more.")
        outside = self._outside(wanted.elevated, wanted.host)
        self._check_host(wanted, outside)
        box = None if outside else self.boxed
        cwd = _directory(wanted.workdir, context.workspace) if box is None else _in_box(wanted.workdir, box.box)
        # Without a background of the run nothing could manage the command later, so it is awaited.
        background = self.background or Background(SystemClock())
        background.check_room()
        job = background.start(
            await self._start(wanted, cwd, context, box),
            command=wanted.command,
            cwd=cwd,
            owner=context.session_key,
            timeout=timeout or None,
            most=self.settings.max_processes,
        )
        job.contained = box is not None
        progress = _Progress(context.report, job.tail)
        job.also = progress.add
        try:
            # Once around the loop even without a wait, so that the output so far is shown.
            await background.wait(job, self._patience(wanted))
        finally:
            progress.close()
            job.also = None
        if job.ended is None:
            job.backgrounded = True
            return _running(job)
        background.forget(job)
        return ended_output(job, job.ended, job.tail.text())

    def _patience(self, wanted: ExecArgs) -> float | None:
        """Seconds before the command goes on in the background; None where it cannot."""
        if self.background is None:
            return None
        yield_ms = self.settings.background_ms if wanted.yield_ms is None else wanted.yield_ms
        return 0.0 if wanted.background else min(max(yield_ms, SHORTEST_YIELD_MS), LONGEST_YIELD_MS) / 1000

    def _check_host(self, wanted: ExecArgs, outside: bool) -> None:
        if outside and self.elevated == "off":
            raise InvalidRequest(
                "This session is in a sandbox and may not leave it: elevated is off. Run it inside, or ask the owner "
                "to write /elevated on."
            )
        if wanted.host == "sandbox" and self.boxed is None:
            raise InvalidRequest(
                "host sandbox: this session is in no sandbox (agents.defaults.sandbox.mode), so it is not run."
            )
        if wanted.host not in ("auto", "gateway", "sandbox"):
            raise InvalidRequest(
                f"host {wanted.host} is not available: no {wanted.host} is connected. Leave host out to run here."
            )

    async def _start(
        self, wanted: ExecArgs, cwd: Path, context: ToolContext, boxed: BoundSandbox | None
    ) -> ChildProcess:
        """Starts the command itself, or the sandbox with the command in it."""
        if boxed is None:
            env = {**self.env, **context.env}
            env["PATH"] = os.pathsep.join([*self.settings.path_prepend, env.get("PATH") or os.defpath])
            env |= {**wanted.env, "OPENCLAW_SHELL": "exec"}
            argv = (pick_shell(self.shell, env.get("PATH")), "-c", wanted.command)
            launch = SandboxLaunch(argv=argv, cwd=str(cwd), env=env)
        else:
            env = {**wanted.env, "OPENCLAW_SHELL": "exec", **({"TERM": "xterm-256color"} if wanted.pty else {})}
            launch = await boxed.sandbox.launch(
                boxed.box, ("/bin/sh", "-lc", wanted.command), cwd=str(cwd), env=env, terminal=wanted.pty
            )
        place = Path(launch.cwd)
        try:
            if wanted.pty:
                env = {"TERM": "xterm-256color", **launch.env}
                return TerminalProcess(launch.argv, cwd=place, env=env, after=launch.after)
            fed = self.background is not None and wanted.background
            return PipedProcess(launch.argv, cwd=place, env=launch.env, fed=fed, after=launch.after)
        except (OSError, UnicodeEncodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it holds half a surrogate pair"
            raise StateError(f"Could not start the command: {reason}.") from error


def pick_shell(preferred: str, path: str | None) -> str:
    """The user's shell if commands are written for it, else bash or sh."""
    if Path(preferred).name in _SHELLS and (found := find_executable(preferred, path)):
        return found
    return find_executable("bash", path) or "/bin/sh"


def _in_box(workdir: str | None, box: SandboxSpec) -> Path:
    """The directory of `workdir` in a sandbox; whether it exists is known inside only."""
    given = workdir or "."
    if "\0" in given:
        raise InvalidRequest("workdir contains a NUL character: remove it.")
    if given == "~" or given.startswith("~/"):
        given = SANDBOX_HOME + given[1:]
    return Path(os.path.normpath(Path(box.workdir, given)))


def _directory(workdir: str | None, workspace: Path) -> Path:
    path = resolve_path(workdir, workspace) if workdir else workspace
    if path.is_dir():
        if not os.access(path, os.X_OK):
            raise StateError(f"Permission denied: cannot run in {quote_path(path)}.")
        return path
    if path.exists():
        raise InvalidRequest(f"workdir {quote_path(path)} is not a directory.")
    raise missing_error(path, "Directory")


class _Progress:
    """Reports the tail of the output a few times a second."""

    def __init__(self, report: Callable[[str], None], tail: OutputTail) -> None:
        self._tail = tail
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, chunk: bytes) -> None:
        if self._timer is None:
            self._timer = self._loop.call_at(self._last + REPORT_EVERY, self._show)

    def _show(self) -> None:
        self._timer = None
        self._last = self._loop.time()
        self._report(self._tail.last(REPORTED_CHARS))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _running(job: BackgroundCommand) -> Output:
    output = Output.of(
        f"Command still running (session {job.name}, pid {job.pid}). "
        "Use process (list/poll/log/write/send-keys/submit/paste/kill/clear/remove) for follow-up.",
        status="running",
        sessionId=job.name,
        pid=job.pid,
        startedAt=job.started_at,
        cwd=str(job.cwd),
        tail=job.tail.last(REPORTED_CHARS),
    )
    return structs.replace(output, own=True)
