"""A plugin's process from the gateway's side: start it, call it, watch memory and liveness, end it."""

import asyncio
import contextlib
import itertools
import logging
import math
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from msgspec import Raw, Struct

from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError, Unavailable
from openclaw.core.plugin import PluginFailed
from openclaw.core.secret import Secret, redact
from openclaw.plugins import wire
from openclaw.plugins.settings import PluginLimits
from openclaw.process.child import end_process, start_subprocess
from openclaw.process.group import Family, resident_bytes
from openclaw.process.tasks import run_shielded

GOODBYE_SECONDS = 5.0
SLACK = 768 << 20
"""Address space beyond the memory a plugin may use: libraries, stacks and what the allocator only reserves."""


class PluginLaunch(Struct, frozen=True, kw_only=True):
    """How a plugin's process is started."""

    start: wire.HostStart
    limits: PluginLimits
    env: Mapping[str, Secret]
    """All of its environment."""
    cwd: str

    @property
    def memory(self) -> int:
        """Bytes the plugin may use."""
        return self.start.memory_bytes - SLACK

    @property
    def too_much(self) -> str:
        return f"it used more than its {self.memory >> 20} MiB of memory"


# Its standard error, limited.

WINDOW = 10.0
LINE = 1_000
LINES = 20
"""Of one read only the last lines are logged."""


class OutputMeter:
    """Counts bytes within a time window."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._since = -WINDOW
        self._count = 0

    def add(self, count: int, now: float) -> bool:
        """Counts; True when the limit is exceeded."""
        if now - self._since > WINDOW:
            self._since, self._count = now, 0
        self._count += count
        return self._count > self._most


T = TypeVar("T")

# Calls.

BUSY_BEAT, IDLE_BEAT = 1.0, 15.0


class _Waiting(NamedTuple):
    """A call without an answer yet."""

    answer: asyncio.Future[Raw]
    report: Callable[[Raw], None] | None


class PluginProcess:
    """One process. `run` lasts as long as it does; meanwhile `call` and `stream` send it requests."""

    def __init__(self, launch: PluginLaunch, log: logging.Logger) -> None:
        self._launch = launch
        self._limits = launch.limits
        self._log = log
        self._ids = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._child: Process | None = None
        self._ready: asyncio.Future[wire.Ready] | None = None
        self._busy = asyncio.Event()
        self._pinged = 0.0
        self._stopping = False
        self._verdict: asyncio.Future[str] | None = None
        self._failures = 0
        self._meter = OutputMeter(launch.limits.output_mb << 20)

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self._child.returncode is None else None

    async def run(self, ready: asyncio.Future[wire.Ready]) -> str:
        """Starts the process, passes what it brings to `ready`, and waits for its end; gives the reason.

        The reason is empty when the process was asked to stop.
        """
        self._ready = ready
        self._verdict = asyncio.get_running_loop().create_future()
        child = self._child = await start_subprocess(
            *(sys.executable, "-I", "-B", "-m", "openclaw.plugins.host"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={name: value.reveal() for name, value in self._launch.env.items()},
            cwd=self._launch.cwd,
            start_new_session=True,
        )
        jobs = [
            asyncio.create_task(self._hear(child), name=f"{self._launch.start.id}: hear"),
            asyncio.create_task(self._log_output(child), name=f"{self._launch.start.id}: printed"),
            asyncio.create_task(self._watch(child), name=f"{self._launch.start.id}: watch"),
        ]
        why = "the gateway let go of it"
        try:
            await self._write(self._launch.start)
            why = await self._first(jobs, child)
        except ConnectionError:
            why = await self._exit_reason(child)
        finally:
            # Also when it is cancelled once more meanwhile: else the pipes of the process stay open.
            await run_shielded(self._end(child, jobs, why))
        return "" if self._stopping else why

    async def stop(self) -> None:
        """Asks the process to end; kills it when it does not."""
        if self._verdict is None or self._verdict.done():
            return
        self._stopping = True
        family = Family(self._child.pid) if self._child is not None else None
        self._post(wire.HostStop())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                await asyncio.shield(self._verdict)
        self._condemn("it did not stop when asked")
        if family is not None:
            family.kill()

    async def call(
        self,
        op: wire.Op,
        name: str,
        payload: Raw,
        kind: type[T],
        *,
        seconds: float | None = None,
        report: Callable[[Raw], None] | None = None,
    ) -> T:
        """Sends one request; gives the answer as `kind`."""
        limit = seconds or self._limits.call_seconds
        with self._exchange(name, limit, report) as (number, answer):
            async with asyncio.timeout(limit):
                await self._write(wire.HostCall(number, op, name, payload))
                found = await answer
            return wire.decode_payload(found, kind)

    async def stream(self, op: wire.Op, name: str, payload: Raw, kind: type[T]) -> AsyncIterator[T]:
        """Sends one request; yields the answers as they come."""
        queue: asyncio.Queue[Raw] = asyncio.Queue()

        def put(item: Raw) -> None:
            if queue.qsize() > 2 * wire.WINDOW:
                self._condemn("it sent more than it was asked for")
            else:
                queue.put_nowait(item)

        with self._exchange(name, math.inf, put) as (number, end):
            await self._write(wire.HostCall(number, op, name, payload))
            while (item := await _either(queue, end)) is not None:
                yield wire.decode_payload(item, kind)
                await self._write(wire.Taken(number, 1))

    @property
    def _name(self) -> str:
        return f"the plugin {self._launch.start.id}"

    @contextlib.contextmanager
    def _exchange(
        self, name: str, limit: float, report: Callable[[Raw], None] | None
    ) -> Iterator[tuple[int, asyncio.Future[Raw]]]:
        """One request: its number and the answer to come. Translates failures, and cancels what was not answered."""
        if self._child is None or self._verdict is None or self._verdict.done():
            raise PluginFailed(f"{self._name} is not running")
        number, answer = next(self._ids), asyncio.get_running_loop().create_future()
        self._waiting[number] = _Waiting(answer, report)
        self._busy.set()
        answered = False
        try:
            yield number, answer
            answered = True
            self._failures = 0
        except TimeoutError:
            self._failed(f"{name} took longer than {limit:g} s")
            raise PluginFailed(f"{self._name} took longer than {limit:g} s", kind="Timeout") from None
        except ConnectionError:
            raise PluginFailed(f"{self._name} is not running") from None
        except wire.MalformedMessage as error:
            self._condemn(f"it answered something else than was asked ({error})")
            raise PluginFailed(f"{self._name} answered something else than was asked") from None
        except PluginFailed as error:
            answered = True
            self._failed(error.message, meant=error.meant)
            raise
        finally:
            del self._waiting[number]
            if answer.done() and not answer.cancelled():
                answer.exception()  # mark the exception as retrieved: nobody waits for it any more
            if not self._waiting:
                self._busy.clear()
            if not answered:
                self._post(wire.Cancel(number))

    def _post(self, value: wire.Cancel | wire.HostStop) -> None:
        """Writes a small message without waiting until it is read, so that a cancelled caller is not held up."""
        child = self._child
        if child is not None and child.stdin is not None and not child.stdin.is_closing():
            child.stdin.write(wire.frame(value))

    async def _write(self, value: wire.ToPlugin) -> None:
        child = self._child
        if child is None or child.stdin is None or child.stdin.is_closing():
            raise ConnectionResetError
        try:
            data = wire.frame(value)
        except wire.MalformedMessage as error:  # our message was too large: not the plugin's fault
            raise InvalidRequest(f"{self._name} was not asked: {error}") from None
        child.stdin.write(data)
        await child.stdin.drain()

    def _failed(self, why: str, *, meant: bool = False) -> None:
        self._failures = 0 if meant else self._failures + 1
        if self._failures >= self._limits.failures:
            self._condemn(f"it failed {self._failures} times in a row, the last time: {why}")

    def _condemn(self, why: str) -> None:
        if self._verdict is not None and not self._verdict.done():
            self._verdict.set_result(why)

    async def _first(self, jobs: list[asyncio.Task[str]], child: Process) -> str:
        """The first reason to end the process."""
        assert self._verdict is not None
        await asyncio.wait({self._verdict, *jobs}, return_when=asyncio.FIRST_COMPLETED)
        if self._verdict.done():
            return self._verdict.result()
        # Several tasks see a dead process at once; a reason we found says more than its exit code.
        reasons = [job.result() for job in jobs if job.done()]
        return next((reason for reason in reasons if reason), "") or await self._exit_reason(child)

    async def _exit_reason(self, child: Process) -> str:
        """Why a process that closed its pipe ended."""
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                code = await child.wait()
        except TimeoutError:
            return "it closed its pipe"
        if code == wire.OUT_OF_MEMORY:
            return self._launch.too_much
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"its process crashed ({signal.Signals(-code).name})"
        return f"its process ended by itself (exit code {code})"

    async def _end(self, child: Process, jobs: list[asyncio.Task[str]], why: str) -> None:
        """Kills the process group and fails every call that still waits."""
        self._condemn(why)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await end_process(child)
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(PluginFailed(f"{self._name} is not running: {why}", kind="Gone"))
        assert self._ready is not None
        if not self._ready.done():
            self._ready.cancel()

    async def _hear(self, child: Process) -> str:
        assert child.stdout is not None
        try:
            while True:
                size = wire.length(await child.stdout.readexactly(4))
                why = self._heard(wire.decode(await child.stdout.readexactly(size), wire.FROM_PLUGIN))
                if why:
                    return why
        except asyncio.IncompleteReadError:
            return ""
        except wire.MalformedMessage as error:
            return f"it wrote something to its pipe that is no message ({error})"

    def _heard(self, said: wire.FromPlugin) -> str:
        """Handles one message of the plugin; gives a reason to end it when there is one."""
        match said:
            case wire.Ready():
                assert self._ready is not None
                if self._ready.done():
                    return "it said twice that it is ready"
                self._ready.set_result(said)
            case wire.HostRefused(why=why):
                return why
            case wire.HostItem(id=number, payload=payload):
                waiting = self._waiting.get(number)
                if waiting is not None and waiting.report is not None:
                    waiting.report(payload)
            case wire.HostDone() | wire.HostFailed():
                waiting = self._waiting.get(said.id)
                if waiting is not None and not waiting.answer.done():
                    if isinstance(said, wire.HostDone):
                        waiting.answer.set_result(said.payload)
                    else:
                        waiting.answer.set_exception(_error(said, self._name))
            case wire.Pong():
                self._pinged = 0.0
            case wire.HostNote(level=level, text=text):
                if self._meter.add(len(text) + 100, asyncio.get_running_loop().time()):
                    return f"it wrote more than {self._limits.output_mb} MiB to the log within ten seconds"
                self._log_line(text, max(10, min(level, 40)))
        return ""

    def _log_line(self, text: str, level: int = logging.INFO) -> None:
        self._log.log(level, "%s", redact(text, *self._launch.env.values()))

    async def _log_output(self, child: Process) -> str:
        """Logs each printed line; returns only when too much was printed, with the reason."""
        assert child.stderr is not None
        rest = b""
        while data := await child.stderr.read(65_536):
            if self._meter.add(len(data), asyncio.get_running_loop().time()):
                return f"it printed more than {self._limits.output_mb} MiB within ten seconds"
            *lines, rest = (rest + data).split(b"\n")
            for line in lines[-LINES:]:
                if line.strip():
                    self._log_line(line[:LINE].decode("utf-8", "replace"))
            rest = rest[-LINE:]
        # It closed its output, which is no reason to end it.
        forever: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await forever

    async def _watch(self, child: Process) -> str:
        """Checks memory and liveness: every second while a call is open, rarely otherwise."""
        loop, numbers = asyncio.get_running_loop(), itertools.count(1)
        assert self._ready is not None
        born = loop.time()
        while True:
            if resident_bytes(child.pid) > self._launch.memory:
                return self._launch.too_much
            now = loop.time()
            if not self._ready.done():
                if now - born > self._limits.start_seconds:
                    return f"it did not register within {self._limits.start_seconds} s"
            elif self._pinged and now - self._pinged > self._limits.silent_seconds:
                return f"it hangs: no sign of life for {self._limits.silent_seconds} s"
            elif not self._pinged:
                self._pinged = now
                with contextlib.suppress(ConnectionError):
                    await self._write(wire.Ping(next(numbers)))
            if self._busy.is_set() or self._pinged or not self._ready.done():
                await asyncio.sleep(BUSY_BEAT)
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_BEAT):
                        await self._busy.wait()


def _error(failed: wire.HostFailed, name: str) -> OpenClawError:
    """A plugin's failure as one of our errors: those it raised on purpose keep their type."""
    match failed.code:
        case "INVALID_REQUEST":
            return InvalidRequest(failed.message)
        case "NOT_FOUND":
            return NotFound(failed.message)
        case "UNAVAILABLE" if failed.kind == "Unavailable":
            return Unavailable(failed.message)
        case _:
            meant = failed.code not in ("", OpenClawError.code)
            return PluginFailed(f"{name} failed: {failed.message}", kind=failed.kind, meant=meant)


async def _either(queue: "asyncio.Queue[Raw]", end: "asyncio.Future[Raw]") -> Raw | None:
    """The next item; None after the last one. Raises what ended the stream."""
    if queue.empty() and not end.done():
        getting = asyncio.ensure_future(queue.get())
        try:
            waited: set[asyncio.Future[Any]] = {getting, end}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                return getting.result()
        finally:
            getting.cancel()
    if not queue.empty():
        return queue.get_nowait()
    end.result()
    return None
