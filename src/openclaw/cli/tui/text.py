"""Text for the terminal: made harmless, shortened, and Markdown in pieces so that only the end of a growing answer
is drawn again.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from markdown_it.token import Token
from rich.console import Console, JustifyMethod
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.theme import Theme

from openclaw.cli.talk.markdown import parser
from openclaw.core.text import strip_unprintable

MOST_CHARS = 60_000
"""Of one message: what is longer is cut here and whole in the transcript."""
SHORT_CHARS = 160


def sanitize(text: str, most: int = MOST_CHARS) -> str:
    """Removes control sequences and hidden characters from `text`; tabs become spaces."""
    clean = strip_unprintable(text[: most + 1].replace("\r\n", "\n")).expandtabs(4)
    if len(text) <= most:
        return clean
    return f"{clean[:most]}\n\n… cut here: {len(text) - most:,} more characters are in the transcript"


def one_line(text: str, most: int = SHORT_CHARS) -> str:
    """`text` as one harmless line."""
    line = " ".join(strip_unprintable(text[: most * 8]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def text_of(message: Any, kind: str = "text") -> str:
    """The text blocks (or the thinking) of a message or a result from the gateway."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content if kind == "text" else ""
    if not isinstance(content, list):
        return ""
    return "".join(
        str(block.get(kind, "")) for block in content if isinstance(block, Mapping) and block.get("type") == kind
    )


def summary_of(arguments: Any) -> str:
    """The arguments of a call, abbreviated."""
    values = arguments.values() if isinstance(arguments, Mapping) else [arguments] if arguments else []
    return one_line(" ".join(value if isinstance(value, str) else json.dumps(value) for value in values))


def pretty(arguments: Any) -> str:
    """The arguments of a call, one per line, with the line breaks of their texts."""
    if not isinstance(arguments, Mapping):
        return sanitize(json.dumps(arguments, ensure_ascii=False)) if arguments else ""
    lines = []
    for name, value in arguments.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        shown = sanitize(shown, 8_000)
        shown = "\n  " + shown.replace("\n", "\n  ") if "\n" in shown else f" {shown}"
        lines.append(f"{one_line(str(name), 40)}:{shown}")
    return "\n".join(lines)


def last_lines(text: str, count: int) -> str:
    """The end of `text`; says how many lines come before it."""
    lines = sanitize(text[-20_000:]).rstrip("\n").split("\n")
    before = text.count("\n", 0, max(0, len(text) - 20_000)) + max(0, len(lines) - count)
    kept = "\n".join(lines[-count:])
    return f"… {before} lines before\n{kept}" if before else kept


# Markdown.

PIECE_CHARS = 1_500
ADDRESS_CHARS = 300
THEME = {
    "markdown.code": "bold cyan",
    "markdown.code_block": "cyan",
    "markdown.h1": "bold underline",
    "markdown.h2": "bold underline",
    "markdown.h3": "bold",
    "markdown.h4": "bold",
    "markdown.item.bullet": "bold",
    "markdown.item.number": "bold",
    "markdown.block_quote": "italic",
    "markdown.link": "underline",
    "markdown.link_url": "underline",
    "markdown.table.border": "dim",
    "markdown.table.header": "bold",
}
"""Colours any terminal has, on its own background."""


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class MarkdownPiece(Markdown):
    """A piece of Markdown. Links and pictures show their address; nothing is fetched or opened."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _Heading}

    def __init__(self, text: str) -> None:
        super().__init__("", code_theme="ansi_dark", hyperlinks=False)
        self.markup = text
        self.parsed = parser().parse(text)
        for token in self.parsed:
            if token.children:
                token.children = [_without_picture(child) for child in token.children]


def _without_picture(token: Token) -> Token:
    if token.type != "image":
        return token
    source = one_line(str(token.attrs.get("src", "")), ADDRESS_CHARS)
    return Token("text", "", 0, content=f"[picture: {token.content} ({source})]")


def split_markdown(text: str, size: int = PIECE_CHARS) -> list[str]:
    """Splits `text` without changing its meaning: between paragraphs, not in code or inside a list item."""
    made: list[str] = []
    current: list[str] = []
    length, fence, blank = 0, "", False
    for line in text.split("\n"):
        mark = line.lstrip()[:3]
        if blank and not fence and length >= size and line and not line[0].isspace():
            made.append("\n".join(current))
            current, length = [], 0
        if mark in ("```", "~~~") and fence in ("", mark):
            fence = "" if fence else mark
        current.append(line)
        length += len(line) + 1
        blank = not line.strip()
    return [*made, "\n".join(current)]


class TerminalMarkdown:
    """Prints Markdown on standard output as it grows: a block when the next one begins, the last one at the end."""

    def __init__(self) -> None:
        self._console = Console(theme=Theme(THEME), highlight=False, no_color="NO_COLOR" in os.environ or None)
        self._text = ""
        self._printed = 0

    def add(self, text: str) -> None:
        self._text += text
        pieces = split_markdown(sanitize(self._text), size=1)
        self._print(pieces[self._printed : -1])

    def end(self) -> None:
        """What is there is all of this text."""
        if self._text.strip():
            self._print(split_markdown(sanitize(self._text), size=1)[self._printed :])
        self._text, self._printed = "", 0

    def _print(self, pieces: Sequence[str]) -> None:
        for piece in pieces:
            if self._printed:
                self._console.print()
            self._console.print(MarkdownPiece(piece))
            self._printed += 1
