"""Prints for commands: results on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click


def print_json(value: Any) -> None:
    """Prints one JSON document, and nothing else on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_error(message: str, *, as_json: bool = False) -> None:
    if as_json:
        print_json({"ok": False, "error": {"type": "cli_error", "message": message}})
    else:
        click.echo(f"error: {message}", err=True)


def note(message: str) -> None:
    """Prints a dim line on standard error."""
    click.echo(click.style(message, dim=True) if sys.stderr.isatty() else message, err=True)


def table(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> str:
    """Formats rows in aligned columns."""
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [[heading.upper() for heading in headings], *rows]
    ]
    return "\n".join(lines)


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
