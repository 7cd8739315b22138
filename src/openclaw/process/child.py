"""Child processes: each in its own session, with non-blocking output, killed with its group when the call ends.

Three ways to use one: `ask_program` puts a question to a program and reads its answer, `wait_for_child` attends a
command whose output goes somewhere, and `start_subprocess` with `end_process` are for one that stays.
"""

import asyncio
import os
import signal
import subprocess
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from openclaw.core.deferred import tempfile
from openclaw.process import group
from openclaw.process.tasks import run_shielded

CHUNK = 64 * 1024
STRAGGLERS = 0.1
"""Seconds to keep reading after the main process ended, for a child that shares its output."""
MAX_DRAINED = 64
CLEARING = 30.0
REAP_SECONDS = 5.0
ANSWER_BYTES = 4 << 20
REMARK_BYTES = 65_536

Sink = Callable[[bytes], None]


class ChildEnded(Struct, frozen=True, kw_only=True):
    code: int | None
    """None when it was stopped by us."""
    timed_out: bool = False
    limit: float = 0.0
    """The timeout in seconds, 0 for none."""
    seconds: float = 0.0
    crowd: int = 0
    """How many processes it had when it was stopped for exceeding the limit."""


async def start_subprocess(*argv: str, **options: Any) -> Process:
    """`create_subprocess_exec`, which may be cancelled at any time: a start under way is completed, then undone.

    Asyncio alone loses the process and its pipes when it is cancelled a second time before the process has started.
    """
    leads_group = bool(options.get("start_new_session"))
    if leads_group:
        group.start_watchdog()
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(*argv, **options))
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        await run_shielded(_undo_start(starting, leads_group=leads_group))
        raise
    if leads_group:
        group.tie(process.pid)
    return process


async def _undo_start(starting: "asyncio.Future[Process]", *, leads_group: bool) -> None:
    try:
        process = await starting
    except OSError:
        return
    with suppress(ProcessLookupError):
        if leads_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    if process.stdin is not None:
        process.stdin.close()
    await process.communicate()


async def end_process(process: Process) -> None:
    """Kills a process of `start_subprocess` with everything it started, and closes our end of its pipes."""
    running = process.returncode is None  # after it, its number may be another's
    group.kill(group.descendants(process.pid) | {process.pid} if running else group.members(process.pid))
    if process.stdin is not None:
        process.stdin.close()
    await run_shielded(_reap(process))


async def end_orderly(process: Process, reader: "asyncio.Task[Any] | None", seconds: float) -> None:
    """Closes the child's input, gives it `seconds` to end, then ends it with everything it started and its `reader`."""
    family = group.Family(process.pid)
    try:
        if process.stdin is not None:
            process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await process.wait()
    finally:
        if reader is not None:
            reader.cancel()
            await run_shielded(asyncio.gather(reader, return_exceptions=True))
        await end_process(process)
        family.kill()


async def _reap(process: Process) -> None:
    # The pipes are read to the end first: asyncio reports the exit only after that.
    with suppress(TimeoutError):
        async with asyncio.timeout(REAP_SECONDS):
            await asyncio.gather(*(_drain(pipe) for pipe in (process.stdout, process.stderr) if pipe is not None))
            await process.wait()
    # A descendant may have got away and still hold a pipe.
    process._transport.close()  # type: ignore[attr-defined]
    group.untie(process.pid)
    await asyncio.sleep(0)  # the transports close in the next round of the loop


async def _drain(pipe: asyncio.StreamReader) -> None:
    with suppress(RuntimeError):  # somebody else is reading it to the end
        while await pipe.read(1 << 20):
            pass


class PipedProcess:
    """A process with piped output; its standard input is `stdin`, a pipe when `fed`, or else closed.

    `outputs` are the descriptors its output comes from; `input` is that of its standard input, None without one or
    after it was closed. `after` is a command to run after its end that kills what it left where signals do not reach
    (a container). `poll` gives the exit code after it ended (negative: the signal), and reaps it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None,
        env: Mapping[str, str],
        merged: bool = True,
        fed: bool = False,
        stdin: int = subprocess.DEVNULL,
        after: Sequence[str] = (),
    ) -> None:
        self.after = after
        pairs = [os.pipe() for _ in range(1 if merged else 2)]
        try:
            with group.starting(pairs[0][1]):
                self._process = subprocess.Popen(
                    argv,
                    cwd=cwd,
                    env=env,
                    stdin=subprocess.PIPE if fed else stdin,
                    bufsize=0,
                    stdout=pairs[0][1],
                    stderr=pairs[-1][1],
                    start_new_session=True,
                )
                group.tie(self._process.pid)
        except BaseException:
            for reading, _ in pairs:
                os.close(reading)
            raise
        finally:
            for _, writing in pairs:
                os.close(writing)
        self.pid = self._process.pid
        self.outputs: Sequence[int] = [reading for reading, _ in pairs]
        self.input = self._process.stdin.fileno() if self._process.stdin else None

    def end_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self.input = None

    def poll(self) -> int | None:
        return self._process.poll()

    def close(self) -> None:
        group.untie(self.pid)
        self.end_input()
        for descriptor in self.outputs:
            os.close(descriptor)


class TerminalProcess:
    """A process in a pseudo-terminal."""

    def __init__(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], after: Sequence[str] = ()) -> None:
        from ptyprocess import PtyProcess

        self.after = after

        # ptyprocess changes directory after the fork, outside of any handler: an error there would leave a second copy
        # of us running. So a small shell changes directory, and unencodable arguments fail here, before the fork.
        words = ["/bin/sh", "-c", 'cd -- "$0" && exec "$@"', str(cwd), *argv]
        for word in (*words, *env, *env.values()):
            os.fsencode(word)
        group.start_watchdog()
        self._terminal: Any = PtyProcess.spawn(words, env=dict(env), dimensions=(40, 120))
        self.pid: int = self._terminal.pid
        group.tie(self.pid)
        self.outputs: Sequence[int] = [self._terminal.fd]
        self.input: int | None = self._terminal.fd
        self._code: int | None = None

    def end_input(self) -> None:
        # A terminal has no end of file; Control-D is its equivalent.
        if self.input is not None:
            os.write(self.input, b"\x04")

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def close(self) -> None:
        group.untie(self.pid)
        self.input = None
        self._terminal.fileobj.close()
        # PtyProcess.close would sleep and signal; the process has ended already.
        self._terminal.closed = True


ChildProcess = PipedProcess | TerminalProcess


async def wait_for_child(
    child: ChildProcess,
    sinks: Sequence[Sink],
    *,
    timeout: float | None,
    enough: asyncio.Event | None = None,
    most: int = 0,
) -> ChildEnded:
    """Feeds output to `sinks` until `child` ends, `timeout` passes, `enough` is set or the call is cancelled.

    With `most` it is also stopped when it has more processes than that. Whenever it is stopped, its whole process group
    is gone before this returns or raises. Processes that a command left in the background on purpose survive when it
    ends by itself.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    taps = [_Tap(loop, descriptor, sink) for descriptor, sink in zip(child.outputs, sinks, strict=True)]
    code, timed_out = None, False
    crowded = (
        asyncio.create_task(group.wait_until_outgrown(child.pid, most), name=f"crowd:{child.pid}") if most else None
    )
    try:
        try:
            async with asyncio.timeout(timeout):
                code = await _outcome(child, enough, crowded)
        except TimeoutError:
            timed_out = True
        finally:
            if code is None:
                await run_shielded(_stop(child, at_once=crowded is not None and crowded.done()))
        for tap in taps:
            tap.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(STRAGGLERS):
                for tap in taps:
                    await tap.ended.wait()
    finally:
        # First the steps that cannot be interrupted.
        for tap in taps:
            tap.close()
        child.close()
        if crowded is not None:
            crowded.cancel()
        # Shielded as one piece: repeated cancellation must not leave anything running out of our reach.
        await run_shielded(_leave(crowded, child.after))
    many = crowded.result() if crowded is not None and not crowded.cancelled() and code is None else 0
    return ChildEnded(code=code, timed_out=timed_out, limit=timeout or 0.0, seconds=loop.time() - started, crowd=many)


class ProgramAnswer(Struct, frozen=True, kw_only=True):
    """What a program answered, or why there is no answer: `late`, `silent` or `flooded`, and then its code is None."""

    code: int | None
    out: bytes = b""
    err: bytes = b""
    """The end of it."""
    why: str = ""


async def ask_program(
    argv: Sequence[str],
    question: bytes = b"",
    *,
    env: Mapping[str, str],
    seconds: float | None,
    cwd: Path | None = None,
    most: int = ANSWER_BYTES,
    silence: float | None = None,
    merged: bool = False,
    leave: bool = False,
) -> ProgramAnswer:
    """Runs a program with `question` on its standard input; stopped after `seconds`, `silence` or `most` bytes.

    Whatever it started ends with it, unless `leave`. Raises `OSError` when it cannot be started.
    """
    out, err, why, stop = bytearray(), bytearray(), "", asyncio.Event()
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def give_up(reason: str) -> None:
        nonlocal why
        why = why or reason
        stop.set()

    def keep_out(data: bytes) -> None:
        nonlocal timer
        if timer is not None:
            timer.cancel()
        if silence is not None:
            timer = loop.call_later(silence, give_up, "silent")
        if len(out) + len(data) > most:
            give_up("flooded")
        if not why:
            out.extend(data)

    def keep_err(data: bytes) -> None:
        err.extend(data)
        del err[:-REMARK_BYTES]

    with tempfile.TemporaryFile() as asked:  # a file and not a pipe: a program that does not read blocks nobody
        asked.write(question)
        asked.seek(0)
        child = PipedProcess(argv, cwd=cwd, env=env, merged=merged, stdin=asked.fileno())
    try:
        keep_out(b"")  # the silence begins now
        sinks = (keep_out,) if merged else (keep_out, keep_err)
        ended = await wait_for_child(child, sinks, timeout=seconds, enough=stop)
    finally:
        if timer is not None:
            timer.cancel()
        if not leave:
            group.kill_leftovers(child.pid)
    why = "late" if ended.timed_out else why
    return ProgramAnswer(code=None if why else ended.code, out=bytes(out), err=bytes(err), why=why)


def ask_program_blocking(argv: Sequence[str], question: bytes = b"", **options: Any) -> ProgramAnswer:
    """`ask_program` for callers without an event loop; also usable where one runs, which then waits."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, ask_program(argv, question, **options)).result()


async def _outcome(
    child: ChildProcess, enough: asyncio.Event | None, crowded: "asyncio.Task[int] | None" = None
) -> int | None:
    """The exit code, or None as soon as `enough` is set or it has too many processes."""
    exit_code = asyncio.ensure_future(_exited(child))
    waiting: set[asyncio.Future[Any]] = {exit_code}
    if enough is not None:
        waiting.add(asyncio.ensure_future(enough.wait()))
    watched: set[asyncio.Future[Any]] = {*waiting, *([crowded] if crowded is not None else [])}
    try:
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        return exit_code.result() if exit_code.done() else None
    finally:
        for future in waiting:
            future.cancel()
        await asyncio.wait(waiting)


async def _exited(child: ChildProcess) -> int:
    with suppress(AttributeError, OSError):  # pidfds are not supported everywhere
        watch = os.pidfd_open(child.pid)
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(watch, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(watch)
            os.close(watch)
    while (code := child.poll()) is None:  # noqa: ASYNC110 (where the system cannot tell us, we have to ask)
        await asyncio.sleep(0.02)
    return code


async def _leave(crowded: "asyncio.Task[int] | None", after: Sequence[str]) -> None:
    if crowded is not None and not crowded.done():
        await asyncio.wait({crowded})
    if not after:
        return
    process = await asyncio.create_subprocess_exec(
        *after, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    with suppress(TimeoutError):
        async with asyncio.timeout(CLEARING):
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()


async def _stop(child: ChildProcess, *, at_once: bool = False) -> None:
    await (group.kill_group(child.pid) if at_once else group.terminate_group(child.pid))
    for _ in range(100):
        if child.poll() is not None:
            return
        await asyncio.sleep(0.01)


class _Tap:
    """Forwards the bytes of a descriptor to a sink."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, sink: Sink) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._sink = sink
        self.ended = asyncio.Event()
        os.set_blocking(descriptor, False)
        loop.add_reader(descriptor, self._pull)

    def _pull(self) -> bool:
        """Reads once; whether there was data."""
        try:
            chunk = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""  # a terminal reports a closed other side as an error
        if not chunk:
            self.close()
            self.ended.set()
            return False
        self._sink(chunk)
        return True

    def drain(self) -> None:
        """Reads what is available now; bounded, because another process may still be writing."""
        for _ in range(MAX_DRAINED):
            if self.ended.is_set() or not self._pull():
                return

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
