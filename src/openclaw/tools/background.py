"""Background commands: keeps them by name, buffers their output, feeds and kills them.

Whoever opens a `Background` closes it, and with it everything still running.
"""

import asyncio
import os
import re
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Container
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest, NotFound, StateError, Unavailable
from openclaw.core.text import compile_lazily
from openclaw.process.child import ChildEnded, ChildProcess, TerminalProcess, wait_for_child
from openclaw.process.tasks import run_shielded

# Names.

_ADJECTIVES = (
    "amber brave brisk calm clear cool crisp dawn eager early faint fast fine fresh gentle glad golden grand green "
    "keen kind late light lucky mellow mild misty neat nimble oceanic plain proud quick quiet rapid ready sharp silver "
    "smooth soft solid steady still sunny swift tidal tidy vivid warm wide wild young"
).split()
_NOUNS = (
    "atlas basil bay beacon birch breeze brook cedar cliff cloud comet coral cove crane creek delta dune ember fern "
    "field finch fjord forest gale glade grove harbor heron hill island ivy lagoon lake lark maple meadow mesa nova "
    "oak orchid otter pine prairie quartz reef ridge river sage shell shore slope summit tide trail valley willow"
).split()


def fresh_name(taken: Container[str]) -> str:
    """A name that is not in `taken`: two words, then numbered, then with a third word, then random."""
    for _ in range(12):
        name = f"{secrets.choice(_ADJECTIVES)}-{secrets.choice(_NOUNS)}"
        if name not in taken:
            return name
        for number in range(2, 13):
            if f"{name}-{number}" not in taken:
                return f"{name}-{number}"
    longer = f"{secrets.choice(_ADJECTIVES)}-{secrets.choice(_NOUNS)}-{secrets.choice(_NOUNS)}"
    return longer if longer not in taken else f"{longer}-{secrets.token_hex(3)}"


# Output.

KEPT_CHARS = 200_000
DISCARDED = "[earlier output was discarded at the retention cap and cannot be recovered]"

_ESCAPES = compile_lazily(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]"
    r"|\x1b"
)
_OVERWRITTEN = compile_lazily(r"[^\n]*\r(?!\n|\Z)")
_CONTROLS = compile_lazily(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_DAMAGE = compile_lazily("\ufffd{2,}")


def decode_output(data: bytes) -> str:
    """`data` as text, as a person would have seen it scroll by."""
    text = _ESCAPES.sub("", data.decode("utf-8", "replace"))
    text = text.replace("\r\r\n", "\n").replace("\r\n", "\n")
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text).replace("\r", "")
    return _DAMAGE.sub("\ufffd", _CONTROLS.sub("", text))


class OutputTail:
    """The tail of an output of any length; adding is cheap, reading is not."""

    def __init__(self, chars: int = KEPT_CHARS) -> None:
        self._chars = chars
        self._chunks: deque[bytes] = deque()
        self.size = 0
        """Bytes buffered."""
        self.cut = False

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self.size += len(chunk)
        # A character has at most four bytes, so this many always hold enough characters.
        while self.size - len(self._chunks[0]) >= 4 * self._chars:
            self.size -= len(self._chunks.popleft())
            self.cut = True

    def last(self, chars: int) -> str:
        """Up to `chars` of the newest output, for progress reports."""
        found: list[bytes] = []
        held = 0
        for chunk in reversed(self._chunks):
            found.append(chunk)
            held += len(chunk)
            if held >= 8 * chars:
                break
        return decode_output(b"".join(reversed(found))[-8 * chars :]).rstrip()[-chars:]

    def text(self) -> str:
        """The whole buffer, with a note when older output was discarded."""
        text = decode_output(b"".join(self._chunks))
        if len(text) <= self._chars and not self.cut:
            return _trim(text)
        self.cut = True
        text = text[-self._chars :]
        # Start at a line break where one is near; the first line is probably incomplete.
        head, newline, rest = text.partition("\n")
        return f"{DISCARDED}\n{_trim(rest if newline and len(head) < 2000 else text)}"


def _trim(text: str) -> str:
    """Strips empty lines at both ends; the first line keeps its indentation."""
    return re.sub(r"\A(?:[ \t]*\n)+", "", text).rstrip()


# Commands.

PENDING_CHARS = 30_000
TYPING_TIMEOUT = 10.0
IDLE_AFTER = 15.0
"""Seconds without output after which a program that accepts input probably waits for it."""


class Retention(Struct, frozen=True, kw_only=True):
    """How many commands may run, and how much is kept of ended ones."""

    seconds: float = 1800.0
    finished: int = 50
    chars: int = 2_000_000
    running: int = 64


class BackgroundCommand:
    """One command: its output so far, and its exit after it ended."""

    def __init__(self, name: str, child: ChildProcess, *, command: str, cwd: Path, owner: str, started_at: int) -> None:
        self.name = name
        self.child = child
        self.pid = child.pid
        self.command = command
        self.cwd = cwd
        self.owner = owner
        self.started_at = started_at
        self.ended: ChildEnded | None = None
        self.ended_at = 0
        self.backgrounded = False
        self.contained = False
        """It runs in a sandbox, and so does what is typed to it."""
        self.killed = False
        """Somebody killed it and needs no notification."""
        self.stop = asyncio.Event()
        """Set to end it. Its task is never cancelled: a task cancelled before it starts would leave the command
        running."""
        self.watched = 0
        """Calls waiting for its end at this moment."""
        self.tail = OutputTail(KEPT_CHARS)
        self._fresh = OutputTail(PENDING_CHARS)
        self._loop = asyncio.get_running_loop()
        self._began = self._quiet_since = self._loop.time()
        self._changed = asyncio.Event()
        self.also: Callable[[bytes], None] | None = None
        """A further consumer of output as it arrives."""

    @property
    def seconds(self) -> float:
        return self.ended.seconds if self.ended else self._loop.time() - self._began

    @property
    def in_terminal(self) -> bool:
        return isinstance(self.child, TerminalProcess)

    @property
    def seems_to_wait(self) -> bool:
        can_wait = self.ended is None and self.child.input is not None
        return can_wait and self._loop.time() - self._quiet_since >= IDLE_AFTER

    def add(self, chunk: bytes) -> None:
        self.tail.add(chunk)
        self._fresh.add(chunk)
        self._quiet_since = self._loop.time()
        self._changed.set()
        if self.also is not None:
            self.also(chunk)

    def end(self, ended: ChildEnded) -> None:
        self.ended = ended
        self._changed.set()

    async def news(self, seconds: float) -> str:
        """The output since the last call, waiting up to `seconds` for some or for the end."""
        self.watched += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
        finally:
            self.watched -= 1
        if self.ended is None:
            self._changed.clear()
        fresh, self._fresh = self._fresh, OutputTail(PENDING_CHARS)
        return fresh.text()


class Background:
    """The commands of one process, each belonging to the session that started it."""

    def __init__(self, clock: Clock, retention: Retention | None = None) -> None:
        self._clock = clock
        self.retention = retention or Retention()
        self._jobs: dict[str, BackgroundCommand] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._endings: asyncio.Queue[BackgroundCommand] = asyncio.Queue()
        self._closed = False

    def check_room(self) -> None:
        """Refuses another command when too many are running."""
        if self._closed:
            raise Unavailable("The gateway is stopping: no command is started any more.")
        if len(self._tasks) >= self.retention.running:
            raise Unavailable(
                f"{len(self._tasks)} commands are running already, which is the limit. "
                "End some with process kill, then try again."
            )

    def start(
        self, child: ChildProcess, *, command: str, cwd: Path, owner: str, timeout: float | None, most: int = 0
    ) -> BackgroundCommand:
        """Takes `child` over: reads its output, enforces its timeout and ends it, at the latest on close."""
        name = fresh_name(self._jobs)
        job = BackgroundCommand(name, child, command=command, cwd=cwd, owner=owner, started_at=millis(self._clock))
        self._jobs[name] = job
        self._tasks[name] = asyncio.create_task(self._see_through(job, timeout, most), name=f"command:{name}")
        return job

    async def wait(self, job: BackgroundCommand, seconds: float | None) -> None:
        """Waits up to `seconds` for the end of `job`; cancelling the wait kills it and everything it started."""
        task = self._tasks.get(job.name)
        if task is None:
            return
        try:
            await asyncio.wait({task}, timeout=seconds)
        except asyncio.CancelledError:
            await run_shielded(self.kill(job))
            self.forget(job)
            raise

    def find(self, name: str, owner: str) -> BackgroundCommand:
        """The command called `name`, if it belongs to the session."""
        self._prune()
        job = self._jobs.get(name)
        if job is None or job.owner != owner or not job.backgrounded:
            raise NotFound(f"No session found for {name}")
        return job

    def is_contained(self, name: str) -> bool:
        job = self._jobs.get(name)
        return job is not None and job.contained

    def boxed(self) -> set[str]:
        """The sessions with a command running in a sandbox."""
        return {job.owner for job in self._jobs.values() if job.contained and job.ended is None}

    def of(self, owner: str) -> list[BackgroundCommand]:
        """The background commands of a session, the oldest first."""
        self._prune()
        return [job for job in self._jobs.values() if job.owner == owner and job.backgrounded]

    async def type(self, job: BackgroundCommand, data: bytes) -> None:
        """Writes all of `data` to the input of `job`, or raises."""
        if job.ended is not None:
            raise InvalidRequest(f"Session {job.name} has ended: nothing can be typed to it.")
        if job.child.input is None:
            raise InvalidRequest(
                f"Session {job.name} has no input. Start the command with background: true or pty: true to type to it."
            )
        try:
            async with asyncio.timeout(TYPING_TIMEOUT):
                await _write(job.child.input, data)
        except TimeoutError as error:
            raise StateError(f"Session {job.name} does not read its input; part of it may have arrived.") from error
        except OSError as error:
            raise StateError(f"Session {job.name} has closed its input.") from error

    async def kill(self, job: BackgroundCommand) -> None:
        """Kills `job` and everything it started, without a notification."""
        job.killed = True
        task = self._tasks.get(job.name)
        if task is not None:
            job.stop.set()
            await asyncio.wait({task})

    def forget(self, job: BackgroundCommand) -> None:
        if job.ended is not None:
            self._jobs.pop(job.name, None)

    async def endings(self) -> AsyncGenerator[BackgroundCommand]:
        """Yields background commands as they end by themselves, while it is consumed."""
        while True:
            yield await self._endings.get()

    async def close(self) -> None:
        """Ends all running commands."""
        self._closed = True
        for job in self._jobs.values():
            job.stop.set()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))
        self._jobs.clear()

    async def _see_through(self, job: BackgroundCommand, timeout: float | None, most: int) -> None:
        ended = ChildEnded(code=None)
        try:
            ended = await wait_for_child(job.child, [job.add], timeout=timeout, enough=job.stop, most=most)
        finally:
            job.end(ended if ended.seconds else ChildEnded(code=None, seconds=job.seconds))
            job.ended_at = millis(self._clock)
            # Ordered by the time they ended.
            self._jobs[job.name] = self._jobs.pop(job.name, job)
            del self._tasks[job.name]
            self._prune()
            if job.backgrounded and not job.killed and not job.watched and not self._closed:
                self._endings.put_nowait(job)

    def _prune(self) -> None:
        """Forgets commands that ended long ago, and the oldest above the limit."""
        now = millis(self._clock)
        kept = self.retention
        done = [job for job in self._jobs.values() if job.ended is not None and job.backgrounded]
        sizes = {job.name: job.tail.size for job in done}
        for place, job in enumerate(done):
            old = now - job.ended_at > kept.seconds * 1000
            if old or len(done) - place > kept.finished or sum(sizes.values()) > kept.chars:
                del self._jobs[job.name]
                del sizes[job.name]


async def _write(descriptor: int, data: bytes) -> None:
    """Writes all of `data` without blocking the loop."""
    loop = asyncio.get_running_loop()
    os.set_blocking(descriptor, False)
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            ready = asyncio.Event()
            loop.add_writer(descriptor, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_writer(descriptor)
