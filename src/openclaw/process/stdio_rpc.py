"""The worker side of a helper process: JSON lines over standard input and output, isolating a heavy or foreign library.

The process ends with its input, and kills everything it started: also when the library hangs or memory runs over its
limit. `worker` is the other side.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TextIO

import msgspec
from msgspec import Struct

from openclaw.process import group

LONGEST_LINE = 64 * 1024 * 1024


class WorkerRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line to the worker. The first has id 0 and configures it; credentials travel here and nowhere else."""

    id: int
    body: Any = None
    stop: bool = False
    """Cancels an earlier request."""


class WorkerMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line from the worker. Without an id it is about the worker itself: ready, a notification, or failed with
    `error`."""

    id: int = 0
    body: Any = None
    ready: bool = False
    error: str = ""
    over: bool = False
    """The worker cannot continue: the next request starts a new process."""
    progress: str = ""


def encode_line(document: WorkerRequest | WorkerMessage) -> bytes:
    return msgspec.json.encode(document) + b"\n"


MOST_MEMORY = 600 * 1024 * 1024
LAST_WORDS = 1_500
FAREWELL = 7.0
"""Seconds for an orderly shutdown after the input has ended."""


def ignore(news: Any) -> None:
    """For whoever wants to hear nothing."""


class WorkerOutput:
    """Standard output, one whole line at a time. What libraries print is redirected to standard error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def say(self, tell: WorkerMessage) -> None:
        data = encode_line(tell)
        if len(data) > LONGEST_LINE:
            data = encode_line(WorkerMessage(id=tell.id, error="the answer is too large"))
        with self._lock, suppress(BrokenPipeError):
            self._out.write(data)
            self._out.flush()


_MARK = b"\0end of what was written\0"
DRAIN_SECONDS = 2.0


class StderrTail:
    """The tail of what a program wrote to its standard error."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.file: TextIO = os.fdopen(writing, "w", encoding="utf-8")
        self._kept = b""
        self._read_all = threading.Event()
        threading.Thread(target=self._listen, args=(reading,), daemon=True).start()

    def _listen(self, reading: int) -> None:
        while chunk := os.read(reading, 65_536):
            kept = self._kept + chunk
            if kept.endswith(_MARK):
                kept = kept.removesuffix(_MARK)
                self._read_all.set()
            self._kept = kept[-LAST_WORDS:]

    def after(self, reason: str) -> str:
        """`reason`, followed by that tail; what the program wrote before it ended is read first."""
        # A pipe keeps its order: when our own mark has arrived, everything before it has too.
        self._read_all.clear()
        os.write(self.file.fileno(), _MARK)
        self._read_all.wait(DRAIN_SECONDS)
        said = self._kept.decode("utf-8", "replace").strip()
        return f"{reason}. It wrote: {said}" if said else reason


class RequestLoop:
    """Runs requests concurrently and cancels those that are withdrawn."""

    def __init__(
        self,
        voice: WorkerOutput,
        answer: Callable[[WorkerRequest], Awaitable[WorkerMessage]],
        heard: Callable[[Any], None] = ignore,
    ) -> None:
        self._voice = voice
        self._answer = answer
        self._heard = heard
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self, questions: "asyncio.Queue[WorkerRequest | None]") -> None:
        try:
            while (ask := await questions.get()) is not None:
                if not ask.id:  # a notification, not answered
                    self._heard(ask.body)
                    continue
                if ask.stop:
                    if ask.id in self._tasks:
                        self._tasks[ask.id].cancel()
                    continue
                task = asyncio.create_task(self._run(ask))
                self._tasks[ask.id] = task
                task.add_done_callback(partial(self._tasks.pop, ask.id))
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, ask: WorkerRequest) -> None:
        self._voice.say(await self._answer(ask))


def describe_error(error: BaseException) -> str:
    """The innermost error of nested exception groups, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:1000] if str(error) else type(error).__name__


def run_worker(
    hold: Callable[[Any, "asyncio.Queue[WorkerRequest | None]", WorkerOutput], Awaitable[None]], *, bounded: bool = True
) -> None:
    """The main function of a worker: reads its configuration and runs `hold` until the input ends.

    `bounded` limits its memory.
    """
    start = msgspec.json.decode(sys.stdin.buffer.readline(), type=WorkerRequest)
    voice = WorkerOutput()

    async def main() -> None:
        questions: asyncio.Queue[WorkerRequest | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        threading.Thread(target=_listen, args=(loop, questions), daemon=True).start()
        if bounded:
            threading.Thread(target=_watch_memory, args=(voice,), daemon=True).start()
        await hold(start.body, questions, voice)

    asyncio.run(main())


def _listen(loop: asyncio.AbstractEventLoop, questions: "asyncio.Queue[WorkerRequest | None]") -> None:
    """Reads standard input to its end; if shutdown then takes too long, kills this process and all descendants."""
    for text in sys.stdin.buffer:
        with suppress(msgspec.DecodeError, RuntimeError):
            loop.call_soon_threadsafe(questions.put_nowait, msgspec.json.decode(text, type=WorkerRequest))
    with suppress(RuntimeError):  # the loop has ended already
        loop.call_soon_threadsafe(questions.put_nowait, None)
    time.sleep(FAREWELL)
    _end_all()


def _watch_memory(voice: WorkerOutput) -> None:
    """Ends the process at its memory limit: a program can send one endless line, which nothing else would stop."""
    page = os.sysconf("SC_PAGE_SIZE")
    while True:
        time.sleep(0.25)
        try:
            with open("/proc/self/statm") as file:  # noqa: PTH123 (read four times a second)
                resident = int(file.read().split()[1]) * page
        except OSError:
            return
        if resident > MOST_MEMORY:
            voice.say(WorkerMessage(error="it sent more than fits into memory, and was stopped"))
            _end_all()


def _end_all() -> None:
    """Kills this process and all its descendants at once."""
    with suppress(ImportError):  # without psutil: inside a sandbox, which ends with all that is in it
        group.kill(group.descendants())
    os._exit(3)
