"""Our side of a helper process: starts it on demand, sends requests with a timeout, kills it with all descendants.

`stdio_rpc` is the other side.
"""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.core.errors import InvalidRequest, Unavailable
from openclaw.core.secret import Secret, redact
from openclaw.process.child import end_orderly, start_subprocess
from openclaw.process.stdio_rpc import LONGEST_LINE, WorkerMessage, WorkerRequest, encode_line, ignore
from openclaw.process.tasks import run_shielded

STOP_SECONDS = 9.0
"""The time for an orderly exit; after it the worker is killed with all its children."""
LAST_WORDS_SECONDS = 5.0
PIPES: Mapping[str, Any] = {"stdin": PIPE, "stdout": PIPE, "limit": LONGEST_LINE, "start_new_session": True}
_INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TZ", "PYTHONPATH")


class WorkerSpec(Struct, frozen=True, kw_only=True):
    """The static description of a worker."""

    name: str
    """Its name in messages to people."""
    module: str = ""
    start_seconds: float = 60.0
    secrets: tuple[Secret, ...] = ()
    """Redacted from errors."""
    variables: tuple[str, ...] = ()
    """Environment variables it needs besides the usual few."""


class WorkerTimedOut(Unavailable):
    """It did not answer in time, and was stopped."""


class _Waiting(Struct):
    answer: "asyncio.Future[WorkerMessage]"
    report: Callable[[str], None]


class Worker:
    """One helper process: started by the first request, restarted after a crash, stopped when idle."""

    def __init__(
        self,
        role: WorkerSpec,
        start: Callable[[], Any],
        *,
        idle: float,
        environ: Mapping[str, str],
        heard: Callable[[Any], None] = ignore,
    ) -> None:
        self._role = role
        self.name = role.name
        self._body = start
        self._idle = idle
        self._environ = {name: environ[name] for name in (*_INHERITED, *role.variables) if name in environ}
        self.heard = heard
        self._child: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[int, _Waiting] = {}
        self._last = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False
        self._over = False
        self.starts = 0
        """How often it was started."""

    @property
    def alive(self) -> bool:
        return self.pid is not None and not self._over

    @property
    def pid(self) -> int | None:
        """The process id, while it runs."""
        return self._child.pid if self._child is not None and self._child.returncode is None else None

    async def ask(self, body: Any, seconds: float | None, report: Callable[[str], None] = ignore) -> Any:
        """Sends a request and returns the answer; raises when there is none."""
        await self._running()
        self._last += 1
        number = self._last
        waiting = _Waiting(asyncio.get_running_loop().create_future(), report)
        self._waiting[number] = waiting
        self._rest(False)
        try:
            async with asyncio.timeout(seconds):
                await self._send(WorkerRequest(id=number, body=body))
                tell = await waiting.answer
        except TimeoutError as error:
            await self.stop(patient=False)  # it may be stuck, so the next request gets a new process
            raise WorkerTimedOut(f"{self.name} gave no answer within {seconds:g} s and was stopped") from error
        except asyncio.CancelledError:
            # Cancellation also cancels the awaited future; an answer that arrived in time needs no withdrawal.
            if (waiting.answer.cancelled() or not waiting.answer.done()) and self._child and self._child.stdin:
                with suppress(ConnectionError, RuntimeError):  # not awaited: the write may never complete
                    self._child.stdin.write(encode_line(WorkerRequest(id=number, stop=True)))
            raise
        finally:
            self._waiting.pop(number, None)
            self._rest(not self._waiting)
        if tell.error:
            raise InvalidRequest(self._named(tell.error))
        return tell.body

    async def tell(self, body: Any) -> None:
        """Sends a notification to a running worker."""
        await self._send(WorkerRequest(id=0, body=body))

    async def close(self) -> None:
        self._closed = True
        await self.stop()
        while self._ending:
            await asyncio.gather(*self._ending, return_exceptions=True)

    async def stop(self, *, patient: bool = True) -> None:
        """Stops the process: by closing its input, or by killing it and its descendants."""
        self._rest(False)
        child, reader, self._child, self._reader = self._child, self._reader, None, None
        if child is None:
            return
        # One that nobody listens to any more, because of what it said, may be stuck saying it.
        orderly = patient and reader is not None and not reader.done()
        await end_orderly(child, reader, STOP_SECONDS if orderly else 0)

    async def _running(self) -> None:
        async with self._starting:
            if self._closed:
                raise Unavailable(f"{self.name} is not in use any more")
            if self.alive and self._reader is not None and not self._reader.done():
                return
            await self.stop(patient=False)
            await self._start()

    async def _launch(self) -> Process:
        """Starts the process; with a pipe for its standard error, what it wrote there last explains its end."""
        argv = (sys.executable, "-P", "-m", self._role.module)
        return await start_subprocess(*argv, **PIPES, stderr=DEVNULL, env=self._environ)

    async def _start(self) -> None:
        body = self._body()
        self._child = await self._launch()
        self._over = False
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read(self._child, ready), name=f"helper:{self.name}")
        try:
            async with asyncio.timeout(self._role.start_seconds):
                await self._send(WorkerRequest(id=0, body=body))
                await ready
        except TimeoutError as error:
            await self.stop(patient=False)
            raise Unavailable(f"{self.name} did not start in time") from error
        except BaseException:
            await run_shielded(self.stop(patient=False))
            raise
        self.starts += 1

    async def _send(self, ask: WorkerRequest) -> None:
        child = self._child
        if child is None or child.stdin is None:
            raise Unavailable(f"{self.name} has just ended: try again")
        try:
            child.stdin.write(encode_line(ask))
            await child.stdin.drain()
        except (ConnectionError, RuntimeError) as error:
            raise Unavailable(f"{self.name} has just ended: try again") from error

    async def _read(self, child: Process, ready: "asyncio.Future[None]") -> None:
        """Dispatches answers until the process ends, then fails all pending requests."""
        assert child.stdout is not None
        reason = "it ended unexpectedly"
        try:
            async for text in child.stdout:
                tell = msgspec.json.decode(text, type=WorkerMessage)
                self._over = self._over or tell.over
                waiting = self._waiting.get(tell.id)
                if tell.id:
                    if waiting is None or waiting.answer.done():
                        continue
                    if tell.progress:
                        waiting.report(tell.progress)
                    else:
                        waiting.answer.set_result(tell)
                elif tell.error:
                    reason = tell.error
                elif tell.ready and not ready.done():
                    ready.set_result(None)
                elif not tell.ready:
                    self.heard(tell.body)
            if child.stderr is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LAST_WORDS_SECONDS):
                        said = (await child.stderr.read()).decode("utf-8", "replace").strip().splitlines()
                        reason = said[-1] if said else reason
        except (ValueError, msgspec.DecodeError):
            reason = "it sent something that cannot be read"
        finally:
            failure = Unavailable(self._named(reason))
            left: list[asyncio.Future[Any]] = [ready, *(each.answer for each in self._waiting.values())]
            for future in left:
                if not future.done():
                    future.set_exception(failure)
                    future.exception()  # marks the exception as retrieved, since the caller may have stopped waiting

    def _named(self, reason: str) -> str:
        return redact(f"{self.name}: {reason}", *self._role.secrets)

    def _rest(self, idle: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if idle and self._idle > 0 and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(self._idle, self._leave)

    def _leave(self) -> None:
        task = asyncio.create_task(self.stop(), name=f"idle:{self.name}")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
