"""Prints for commands: results on standard output, everything else on standard error. Also the options many share."""

import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import click

from openclaw.core.clock import format_duration
from openclaw.core.deferred import json, shutil
from openclaw.core.errors import InvalidRequest
from openclaw.core.text import strip_unprintable

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document.")
YES = click.option("--yes", is_flag=True, help="Do not ask.")


def print_json(value: Any) -> None:
    """Prints one JSON document, and nothing else on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def show(document: Any, text: str | Iterable[str], as_json: bool) -> None:
    """Prints the result of a command: `document` as JSON, or `text` for people, without control sequences."""
    if as_json:
        print_json(document)
        return
    for line in (text,) if isinstance(text, str) else text:
        say(line)


def say(text: str = "", *, err: bool = False) -> None:
    """Prints text that may come from elsewhere, without control sequences."""
    click.echo(strip_unprintable(text), err=err)


def fold(text: str, stream: TextIO) -> str:
    """`text` with its lines broken between words where the terminal would break them; elsewhere as it is.

    Not for lines with a command: one that is broken cannot be copied.
    """
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    lines = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        folded = textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
        )
        lines += folded if len(line) > width else [line]
    return "\n".join(lines)


def open_in_browser(url: str) -> bool:
    """Opens a browser when there is a screen for one; without, a text browser would take over this terminal."""
    has_screen = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return has_screen and click.launch(url) == 0


def note(message: str) -> None:
    """Prints a dim line on standard error."""
    click.echo(click.style(message, dim=True) if sys.stderr.isatty() else message, err=True)


def confirm(question: str) -> bool:
    """Asks for a yes; without a terminal the answer is no."""
    return sys.stdin.isatty() and sys.stderr.isatty() and click.confirm(question, default=False, err=True)


def require_yes(question: str, yes: bool, refusal: str) -> None:
    """Goes on after a yes, given before or at the terminal."""
    if not yes and not confirm(question):
        raise InvalidRequest(f"{refusal}: answer yes at a terminal, or give --yes")


# Progress.

BAR = 20
EVERY = 0.1
"""Seconds between two drawings of the line."""


@contextmanager
def waiting_for(what: str, *, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """A line that says what is waited for, for as long as the block lasts; gives what is told the seconds."""
    line = ProgressLine(quiet=quiet)
    try:
        yield partial(line.wait, what)
    finally:
        line.clear()


class ProgressLine:
    """A `Report` for a person at a terminal: the line is rewritten, and gone when the work is done."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._shows = not quiet and sys.stderr.isatty()
        self._what = ""
        self._began = 0.0
        self._drawn = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        if not self._shows or not total:
            return
        now = time.monotonic()
        if what != self._what:
            self._what, self._began, self._drawn = what, now, 0.0
        if done == total:
            self.clear()
        elif now - self._drawn >= EVERY:
            self._drawn = now
            filled = BAR * done // total
            left = f", {format_duration((now - self._began) / done * (total - done))} left" if done else ""
            self._draw(f"{what} [{'#' * filled}{'.' * (BAR - filled)}] {done:,} of {total:,}{left}")

    def wait(self, what: str, seconds: float) -> None:
        """Says what is waited for, and how long by now; for work that cannot be counted."""
        if self._shows:
            self._what = what
            self._draw(f"{what} … {seconds:.0f} s")

    def clear(self) -> None:
        """Takes the line away, so that what is printed next stands alone."""
        if self._what:
            self._what = ""
            self._draw("")

    def _draw(self, line: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        click.echo(f"\r{line[:width]:<{width}}\r{line[:width]}", nl=False, err=True)


# Tables and figures.


def table(rows: Sequence[Sequence[Any]], headings: Sequence[str], empty: str = "", *, own: bool = False) -> str:
    """Formats rows in aligned columns; without rows it is `empty`.

    Cells may come from elsewhere and are stripped, unless they are the person's `own`: then joined emoji stay whole.
    """
    if empty and not rows:
        return empty
    clean = str if own else strip_unprintable
    cells = [[heading.upper() for heading in headings], *([clean(str(cell)) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def facts(pairs: Iterable[tuple[str, Any]], width: int) -> Iterable[str]:
    """Lines of a name and its value; what has no value is left out."""
    return (f"{name:<{width}}{value}" for name, value in pairs if value)


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def ago(milliseconds: int, now: float) -> str:
    """How long ago, in one unit."""
    seconds = max(0, now - milliseconds / 1000)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def when(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%Y-%m-%d %H:%M")


def tokens(count: int) -> str:
    return f"{count / 1000:.1f}k" if count >= 1000 else str(count)


def dollars(amount: float | None) -> str:
    return "" if amount is None else f"${amount:.4f}" if amount < 1 else f"${amount:.2f}"


SKILL = click.option(
    "--skill", "skills", multiple=True, metavar="PATH", help="Also use the skill, or the skills, in this directory."
)


def skill_directories(given: Sequence[str]) -> tuple[str, ...]:
    """The directories that `--skill` names, in full; the file SKILL.md stands for its directory."""
    found = [Path(path).expanduser().absolute() for path in given]
    return tuple(str(path.parent if path.name == "SKILL.md" else path) for path in found)
