"""The inside of a helper process: a heavy or foreign library runs here, so that whatever it does, it does it here.

Questions come on standard input and answers go to standard output. The process ends with its input, and everything it
started ends with it: also when the library is stuck, and when more arrives than memory is meant to hold.
"""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TextIO

import msgspec
from msgspec import Struct

from openclaw.process import group

LONGEST_LINE = 24 * 1024 * 1024


class WorkerRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line down. The first has id 0 and says what the helper is to hold; credentials travel here and nowhere else."""

    id: int
    body: Any = None
    stop: bool = False
    """Takes an earlier question back."""


class RpcEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line up. Without an id it is about the helper itself: ready, news, or failed with an `error`."""

    id: int = 0
    body: Any = None
    ready: bool = False
    error: str = ""
    over: bool = False
    """It cannot go on: whoever asks next starts another process."""
    progress: str = ""


def line(document: WorkerRequest | RpcEvent) -> bytes:
    return msgspec.json.encode(document) + b"\n"


MOST_MEMORY = 600 * 1024 * 1024
LAST_WORDS = 1_500
FAREWELL = 7.0
"""Seconds for an orderly end after the input has ended."""

Questions = "asyncio.Queue[Ask | None]"


class WorkerOutput:
    """Standard output, one whole line at a time. What libraries print goes to standard error instead."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def say(self, tell: RpcEvent) -> None:
        data = line(tell)
        if len(data) > LONGEST_LINE:
            data = line(RpcEvent(id=tell.id, error="the answer is too large"))
        with self._lock, suppress(BrokenPipeError):
            self._out.write(data)
            self._out.flush()


class LastWords:
    """The end of what a program wrote to its standard error."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.file: TextIO = os.fdopen(writing, "w", encoding="utf-8")
        self._kept = b""
        threading.Thread(target=self._listen, args=(reading,), daemon=True).start()

    def _listen(self, reading: int) -> None:
        while chunk := os.read(reading, 65_536):
            self._kept = (self._kept + chunk)[-LAST_WORDS:]

    def after(self, reason: str) -> str:
        """`reason`, with what was written."""
        said = self._kept.decode("utf-8", "replace").strip()
        return f"{reason}. It wrote: {said}" if said else reason


class RequestLoop:
    """Answers questions side by side; one that is taken back is cancelled."""

    def __init__(
        self,
        voice: WorkerOutput,
        answer: Callable[[WorkerRequest], Awaitable[RpcEvent]],
        heard: Callable[[Any], None] = lambda news: None,
    ) -> None:
        self._voice = voice
        self._answer = answer
        self._heard = heard
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self, questions: "asyncio.Queue[WorkerRequest | None]") -> None:
        try:
            while (ask := await questions.get()) is not None:
                if not ask.id:  # it wants no answer
                    self._heard(ask.body)
                    continue
                if ask.stop:
                    if ask.id in self._tasks:
                        self._tasks[ask.id].cancel()
                    continue
                task = asyncio.create_task(self._run(ask))
                self._tasks[ask.id] = task
                task.add_done_callback(lambda done, number=ask.id: self._tasks.pop(number, None))  # type: ignore[misc]
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, ask: WorkerRequest) -> None:
        self._voice.say(await self._answer(ask))


def describe_error(error: BaseException) -> str:
    """The reason inside groups of groups, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:1000] if str(error) else type(error).__name__


def descendants() -> set[int]:
    """Everything this process started, directly or not."""
    import psutil  # type: ignore[import-untyped]

    try:
        return {child.pid for child in psutil.Process().children(recursive=True)}
    except psutil.Error:
        return set()


def kill(leaders: set[int]) -> None:
    """Ends processes and what is left of the sessions they led, children left behind included."""
    for pid in leaders.union(*(group.members(leader) for leader in leaders)):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def run(
    library: str, hold: Callable[[Any, "asyncio.Queue[WorkerRequest | None]", WorkerOutput], Awaitable[None]]
) -> int:
    """The main function of a helper: reads what to hold, and holds it until the input ends."""
    start = msgspec.json.decode(sys.stdin.buffer.readline(), type=WorkerRequest)
    voice = WorkerOutput()
    try:
        __import__(library)
    except ImportError:
        voice.say(RpcEvent(error="missing"))
        return 1

    async def main() -> None:
        questions: asyncio.Queue[WorkerRequest | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        threading.Thread(target=_listen, args=(loop, questions), daemon=True).start()
        threading.Thread(target=_watch_memory, args=(voice,), daemon=True).start()
        await hold(start.body, questions, voice)

    asyncio.run(main())
    return 0


def _listen(loop: asyncio.AbstractEventLoop, questions: "asyncio.Queue[WorkerRequest | None]") -> None:
    """Reads standard input to its end; whoever is gone by then takes everything here along."""
    for text in sys.stdin.buffer:
        with suppress(msgspec.DecodeError, RuntimeError):
            loop.call_soon_threadsafe(questions.put_nowait, msgspec.json.decode(text, type=WorkerRequest))
    with suppress(RuntimeError):  # the loop ended first
        loop.call_soon_threadsafe(questions.put_nowait, None)
    time.sleep(FAREWELL)
    _end_all()


def _watch_memory(voice: WorkerOutput) -> None:
    """A program can send one endless line, which nothing in between would stop."""
    page = os.sysconf("SC_PAGE_SIZE")
    while True:
        time.sleep(0.25)
        try:
            with open("/proc/self/statm") as file:  # noqa: PTH123 (read four times a second)
                resident = int(file.read().split()[1]) * page
        except OSError:
            return
        if resident > MOST_MEMORY:
            voice.say(RpcEvent(error="it sent more than fits into memory, and was stopped"))
            _end_all()


def _end_all() -> None:
    """Ends this process and everything it started, at once."""
    kill(descendants())
    os._exit(3)
