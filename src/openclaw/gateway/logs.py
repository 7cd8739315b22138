"""Writes the log: one JSON object per line in a file per day, and readable lines on the console. Also reads it.

Every line carries its run and session, and passes the redactor. Logging never stops the work: a line that cannot be
written is counted and dropped.
"""

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from openclaw.core.text import sanitize_line
from openclaw.security.redaction import Redactor

if TYPE_CHECKING:  # whoever only reads the log need not load what runs are
    from openclaw.runs.request import RunRequest

FILE_BYTES = 10 << 20
"""A file that would grow beyond this is followed by another of the same day."""
TOTAL_BYTES = 100 << 20
"""All files together; the oldest go first."""
LINE_CHARS = 16_000
LEVELS = {
    "silent": logging.CRITICAL + 10,
    "fatal": logging.CRITICAL,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": 5,
}
_NAMES = {logging.CRITICAL: "fatal", logging.WARNING: "warn", 5: "trace"}
_COLOURS = {"fatal": "31", "error": "31", "warn": "33", "debug": "2", "trace": "2"}
_QUIET = ("websockets", "httpcore2", "httpx2", "asyncio")

Style = Literal["pretty", "compact", "json"]

_ids: ContextVar[tuple[str, str]] = ContextVar("log_ids", default=("", ""))
"""Run and session."""


# Lines and files.


class LogLine(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One line of the log file."""

    time: str
    level: str
    subsystem: str
    message: str
    run_id: str = ""
    session_key: str = ""
    error: str = ""
    """The traceback, when there is one."""


@contextmanager
def log_context(request: "RunRequest") -> Iterator[None]:
    """Adds the ids of a run to lines logged inside the block, also by tasks started there."""
    before = _ids.set((request.run_id, str(request.key)))
    try:
        yield
    finally:
        _ids.reset(before)


class LogFiles(Struct, frozen=True, kw_only=True):
    """Where the log is kept: a file per day, or one name that a person chose."""

    directory: Path
    stem: str = "openclaw"
    suffix: str = ".log"
    dated: bool = True

    @classmethod
    def of(cls, state: Path, chosen: str | None = None) -> "LogFiles":
        if not chosen:
            return cls(directory=state / "logs")
        path = state / Path(chosen).expanduser()
        return cls(directory=path.parent, stem=path.stem, suffix=path.suffix, dated=False)

    def path(self, day: str, number: int = 0) -> Path:
        """The file of a day; numbered when there are several."""
        name = f"{self.stem}-{day}" if self.dated else self.stem
        return self.directory / (f"{name}.{number}{self.suffix}" if number else f"{name}{self.suffix}")

    def files(self) -> list[Path]:
        """The existing files, oldest first."""
        named = re.compile(
            re.escape(self.stem)
            + (r"-(\d{4}-\d\d-\d\d)" if self.dated else "()")
            + r"(?:\.(\d+))?"
            + re.escape(self.suffix)
        )
        matches = [(named.fullmatch(path.name), path) for path in self.directory.glob("*")]
        return [path for _, _, path in sorted((found[1], int(found[2] or 0), path) for found, path in matches if found)]


class DailyFile:
    """The current day's file, rotated within its limits; readable by its owner only."""

    def __init__(
        self,
        place: LogFiles,
        *,
        now: Callable[[], float] = time.time,
        file_bytes: int = FILE_BYTES,
        total_bytes: int = TOTAL_BYTES,
    ) -> None:
        self.place = place
        self._now = now
        self._file_bytes = file_bytes
        self._total_bytes = total_bytes
        self._day = ""
        self._number = 0
        self._size = 0
        self._fd: int | None = None

    @property
    def path(self) -> Path:
        """The current file."""
        return self.place.path(self._day or _day(self._now()), self._number)

    def write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        day = _day(self._now())
        if self._fd is None or day != self._day:
            number = 0
            while self.place.path(day, number + 1).exists():
                number += 1
            self._open(day, number)
        if self._size and self._size + len(data) > self._file_bytes:
            self._open(day, self._number + 1)
        assert self._fd is not None
        # One write per line, so that a killed process leaves whole lines.
        self._size += os.write(self._fd, data)

    def move(self, place: LogFiles) -> None:
        """Continues in another place."""
        if place != self.place:
            self.close()
            self.place = place

    def flush(self) -> None:
        """Does nothing: writes are unbuffered."""

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self, day: str, number: int) -> None:
        self.close()
        self.place.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.place.path(day, number)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o600)
        self._day, self._number, self._size = day, number, os.fstat(self._fd).st_size
        self._prune(path)

    def _prune(self, current: Path) -> None:
        room = self._total_bytes - self._file_bytes
        for path in reversed(self.place.files()):
            if path == current:
                continue
            room -= path.stat().st_size
            if room < 0:
                path.unlink()


def _day(now: float) -> str:
    return datetime.fromtimestamp(now).astimezone().strftime("%Y-%m-%d")


# Formatting.


def as_line(record: logging.LogRecord, redact: Redactor) -> LogLine:
    """A record as a line: redacted and truncated."""
    error = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
    run_id, session_key = _ids.get()
    left_out = getattr(record, "left_out", 0)
    repeated = f" ({left_out} more like this were left out)" if left_out else ""
    return LogLine(
        time=datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        level=_NAMES.get(record.levelno, record.levelname.lower()),
        subsystem=record.name.removeprefix("openclaw."),
        message=redact(record.getMessage()[:LINE_CHARS]) + repeated,
        run_id=run_id,
        session_key=session_key,
        error=redact(error[-LINE_CHARS:]),
    )


class LogFormatter(logging.Formatter):
    """`pretty` has the time of day and colours, `compact` only level and message, `json` is the line of the file."""

    def __init__(self, redact: Redactor, style: Style, *, colours: bool = False) -> None:
        super().__init__()
        self._redact = redact
        self._look: Style = style
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        return format_log_line(as_line(record, self._redact), self._look, colours=self._colours)


def format_log_line(line: LogLine, style: Style = "pretty", *, colours: bool = False) -> str:
    """A line for people; contains no control sequences."""
    if style == "json":
        return msgspec.json.encode(line).decode()
    message = " ".join(sanitize_line(part) for part in line.message.splitlines())
    if style == "compact":
        text = f"{line.level} {message}"
    else:
        clock = _clock(line.time)
        session = f" [{sanitize_line(line.session_key)}]" if line.session_key else ""
        text = f"{clock} {line.level:<5} {sanitize_line(line.subsystem)}{session}: {message}"
    colour = _COLOURS.get(line.level) if colours else None
    if colour:
        text = f"\x1b[{colour}m{text}\x1b[0m"
    trace = "\n".join(f"    {sanitize_line(row)}" for row in line.error.splitlines())
    return f"{text}\n{trace}" if trace else text


def _clock(stamp: str) -> str:
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return "--:--:--"


# The handlers.


LIKE_LINES = 60
"""Lines from one place in the code that are written within `LIKE_SECONDS`; the rest is counted."""
LIKE_SECONDS = 60.0
MOST_KINDS = 1_000


class LogThrottle:
    """Limits lines that repeat: what fails a thousand times a second must not fill the disk as well."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kinds: dict[tuple[str, int, str], tuple[float, int]] = {}
        """By logger, level and unfilled message: when its window began, and how many lines came."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written; the first of a new window says how many were left out."""
        if record.levelno < logging.WARNING:
            return True  # what goes well is not said in a loop, and a person who asks for debug lines wants them
        kind, now = (record.name, record.levelno, str(record.msg)[:200]), self._now()
        began, count = self._kinds.get(kind, (now, 0))
        record.left_out = 0
        if now - began >= LIKE_SECONDS:
            record.left_out = max(0, count - LIKE_LINES)
            began, count = now, 0
        if len(self._kinds) >= MOST_KINDS and kind not in self._kinds:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[kind] = (began, count + 1)
        return count < LIKE_LINES


class _Handler(logging.StreamHandler[Any]):
    """The standard handler, but what it cannot write is only counted."""

    def __init__(self, stream: Any, drop: Callable[[logging.LogRecord], None]) -> None:
        super().__init__(stream)
        self.addFilter(LogThrottle())
        self._drop = drop

    def handleError(self, record: logging.LogRecord) -> None:
        self._drop(record)


class Logs:
    """The log of this process, for as long as the block lasts."""

    def __init__(self, file: DailyFile, redactor: Redactor) -> None:
        self.file = file
        self.redactor = redactor
        self.dropped = 0
        """Lines that could not be written."""
        self._lock = threading.Lock()
        self._to_file = _Handler(file, self._drop)
        self._to_file.setFormatter(LogFormatter(redactor, "json"))
        self._to_console: _Handler | None = None

    def _drop(self, record: logging.LogRecord) -> None:
        with self._lock:
            self.dropped += 1
            first = self.dropped == 1
        if first and sys.stderr is not None:
            # Not the line itself: what broke it may be a credential.
            sys.stderr.write(f"openclaw: a log line of {record.name} could not be written; further ones go unsaid\n")

    def configure(
        self, *, level: str, console_level: str | None = None, style: Style = "pretty", console: IO[str] | None = None
    ) -> None:
        """Applies the settings; may be called again when they change."""
        root = logging.getLogger()
        self._to_file.setLevel(LEVELS[level])
        lowest = LEVELS[level]
        if self._to_console is not None:
            root.removeHandler(self._to_console)
            self._to_console = None
        if console is not None:
            colours = style == "pretty" and console.isatty() and "NO_COLOR" not in os.environ
            handler = _Handler(console, self._drop)
            handler.setFormatter(LogFormatter(self.redactor, style, colours=colours))
            handler.setLevel(LEVELS[console_level or level])
            root.addHandler(handler)
            self._to_console = handler
            lowest = min(lowest, handler.level)
        root.setLevel(lowest)
        for name in _QUIET:
            # Other libraries: warnings only, and through our redactor.
            logger = logging.getLogger(name)
            logger.handlers.clear()
            logger.propagate = True
            logger.setLevel(max(lowest, logging.WARNING))

    @contextmanager
    def writing(self) -> Iterator["Logs"]:
        root = logging.getLogger()
        before = list(root.handlers), root.level
        root.handlers[:] = [self._to_file]
        try:
            yield self
        finally:
            root.handlers[:] = before[0]
            root.setLevel(before[1])
            self.file.close()


# Reading.

POLL_SECONDS = 0.25


class LogTail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of the log; `cursor` is where the next piece starts."""

    file: str
    cursor: int
    size: int
    lines: tuple[str, ...]
    truncated: bool = False
    """Whether lines after the cursor, or beyond the limit, are left out."""
    reset: bool = False


def newest(place: LogFiles) -> Path | None:
    found = place.files()
    return found[-1] if found else None


def tail(path: Path, *, cursor: int | None = None, limit: int = 500, max_bytes: int = 250_000) -> LogTail:
    """The last lines of `path`, or those after `cursor`; at most `limit` lines and `max_bytes`."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        reset = cursor is not None and cursor > size
        start = 0 if cursor is None or reset else cursor
        skipped = max(0, size - start - max_bytes)
        file.seek(start + skipped)
        data = file.read(size - start - skipped)
    # A line that is still being written belongs to the next piece; the first one may be cut.
    whole = data[: data.rfind(b"\n") + 1]
    end = start + skipped + len(whole)
    if skipped:
        whole = whole[whole.find(b"\n") + 1 :]
    lines = whole.decode("utf-8", "replace").splitlines()
    return LogTail(
        file=str(path),
        cursor=end,
        size=size,
        lines=tuple(lines[-limit:]),
        truncated=len(lines) > limit or (skipped > 0 and cursor is not None and not reset),
        reset=reset,
    )


def last(place: LogFiles, limit: int) -> list[str]:
    """The last `limit` lines over all files, oldest first."""
    found: list[str] = []
    for path in reversed(place.files()):
        if len(found) >= limit:
            break
        size = path.stat().st_size
        found = list(tail(path, limit=limit - len(found), max_bytes=max(size, 1)).lines) + found
    return found


def follow(place: LogFiles, *, wait: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Lines as they are added, from now on; follows to the next day's file."""
    path = newest(place)
    cursor = path.stat().st_size if path else 0
    while True:
        if path is not None:
            piece = tail(path, cursor=cursor, limit=1 << 30, max_bytes=1 << 30)
            cursor = piece.cursor
            yield from piece.lines
            if piece.lines:
                continue
        latest = newest(place)
        if latest != path:
            path, cursor = latest, 0
            continue
        wait(POLL_SECONDS)


def read(text: str) -> LogLine | None:
    """Parses a line of the file; None when it is not ours."""
    try:
        return msgspec.json.decode(text, type=LogLine)
    except ValueError:
        return None
