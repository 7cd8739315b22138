"""Markdown on a screen: in pieces, so that an answer that grows is drawn at its end only."""

from typing import ClassVar

from markdown_it.token import Token
from rich.console import JustifyMethod
from rich.markdown import Heading, Markdown, MarkdownElement

from openclaw.cli.tui.words import one_line
from openclaw.gateway.markdown import parser

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


class Drawn(Markdown):
    """A piece of Markdown. A link says where it leads and a picture where it is; nothing is fetched or opened."""

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


def pieces(text: str, size: int = PIECE_CHARS) -> list[str]:
    """`text` cut where it means the same: between paragraphs, not in code and not inside a list item."""
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
