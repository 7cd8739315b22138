"""Markdown as text with styles, from which each platform makes its own form. Pure.

Nothing is lost on the way: what a platform cannot style stays readable text. Tables become code, so that columns stay
columns; links keep their address.
"""

import html
from collections.abc import Sequence
from functools import cache
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct

Style = Literal["bold", "italic", "strike", "code", "pre", "link", "quote"]
_INLINE: dict[str, Style] = {"strong": "bold", "em": "italic", "s": "strike"}
_RULE = "———"


class StyledSpan(Struct, frozen=True):
    """A style from `start` to `end`, counted in characters; `extra` is a link's address or a code's language."""

    start: int
    end: int
    style: Style
    extra: str = ""


class RichText(Struct, frozen=True):
    text: str
    spans: tuple[StyledSpan, ...] = ()


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def parse_markdown(text: str) -> RichText:
    """The text as people read it, and its styles."""
    return _Writer().write(_parser().parse(text))


@cache
def _html_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    parser.add_render_rule("image", _linked_image)
    return parser


def render_html(text: str) -> str:
    """The text as HTML, in which everything it says itself is escaped and pictures are links."""
    return str(_html_parser().render(text)).rstrip("\n")


def _linked_image(_: object, tokens: Sequence[Token], place: int, *__: object) -> str:
    source = html.escape(str(tokens[place].attrGet("src") or ""))
    return f'<a href="{source}">{html.escape(tokens[place].content or "image")}</a>'


class _Writer:
    def __init__(self) -> None:
        self._out: list[str] = []
        self._at = 0
        self._spans: list[StyledSpan] = []
        self._open: list[tuple[Style, int, str]] = []
        self._lists: list[int | None] = []
        self._item = False
        """A list item was opened and has no text yet."""

    def write(self, tokens: Sequence[Token]) -> RichText:
        for token in tokens:
            self._token(token)
        whole = "".join(self._out)
        text = whole.rstrip()
        spans = sorted(
            (
                StyledSpan(each.start, min(each.end, len(text)), each.style, each.extra)
                for each in self._spans
                if each.start < min(each.end, len(text))
            ),
            key=_order,
        )
        return RichText(text, tuple(spans))

    def _token(self, token: Token) -> None:
        match token.type:
            case "inline":
                for child in token.children or ():
                    self._inline(child)
                self._item = False
            case "paragraph_open":
                if not self._item:
                    self._blank(1 if self._lists else 2)
            case "heading_open":
                self._blank(2)
                self._begin("bold")
            case "heading_close":
                self._finish()
            case "fence" | "code_block":
                self._blank(2 if not self._lists else 1)
                self._styled(token.content.rstrip("\n"), "pre", token.info.strip().split(" ")[0])
            case "blockquote_open":
                self._blank(2)
                self._begin("quote")
            case "blockquote_close":
                self._finish()
            case "bullet_list_open" | "ordered_list_open":
                self._blank(1 if self._lists else 2)
                start = token.attrGet("start")
                self._lists.append(int(start or 1) if token.type == "ordered_list_open" else None)
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
            case "list_item_open":
                self._blank(1)
                number = self._lists[-1]
                mark = "•" if number is None else f"{number}."
                self._lists[-1] = None if number is None else number + 1
                self._put("  " * (len(self._lists) - 1) + mark + " ")
                self._item = True
            case "hr":
                self._blank(2)
                self._put(_RULE)
            case "table_open":
                self._blank(2)
                self._rows: list[list[str]] = []
            case "tr_open":
                self._rows.append([])
            case "th_open" | "td_open":
                self._cell, self._out, self._held = self._out, [], (self._at, self._spans)
                self._spans = []
            case "th_close" | "td_close":
                self._rows[-1].append("".join(self._out).replace("\n", " "))
                self._out, (self._at, self._spans) = self._cell, self._held
            case "table_close":
                self._styled(_aligned(self._rows), "pre")
            case _:
                pass

    def _inline(self, token: Token) -> None:
        match token.type:
            case "text" | "html_inline":
                self._put(token.content)
            case "softbreak" | "hardbreak":
                self._put("\n")
            case "code_inline":
                self._styled(token.content, "code")
            case "link_open":
                self._begin("link", str(token.attrGet("href") or ""))
            case "link_close":
                self._finish()
            case "image":
                self._styled(token.content or "image", "link", str(token.attrGet("src") or ""))
            case kind if kind.endswith("_open") and kind.removesuffix("_open") in _INLINE:
                self._begin(_INLINE[kind.removesuffix("_open")])
            case kind if kind.endswith("_close") and kind.removesuffix("_close") in _INLINE:
                self._finish()
            case _:
                self._put(token.content)

    def _put(self, text: str) -> None:
        self._out.append(text)
        self._at += len(text)

    def _styled(self, text: str, style: Style, extra: str = "") -> None:
        self._spans.append(StyledSpan(self._at, self._at + len(text), style, extra))
        self._put(text)

    def _begin(self, style: Style, extra: str = "") -> None:
        self._open.append((style, self._at, extra))

    def _finish(self) -> None:
        style, start, extra = self._open.pop()
        self._spans.append(StyledSpan(start, self._at, style, extra))

    def _blank(self, lines: int) -> None:
        """Makes sure that so many line breaks stand before what comes."""
        tail = "".join(self._out[-3:])
        if self._at:
            self._put("\n" * max(0, lines - (len(tail) - len(tail.rstrip("\n")))))
        # A style that begins here begins with its text.
        self._open = [
            (style, self._at if start + lines >= self._at else start, extra) for style, start, extra in self._open
        ]


def _order(span: StyledSpan) -> tuple[int, int]:
    return span.start, -span.end


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table in columns, with a line under its head."""
    count = max((len(row) for row in rows), default=0)
    full = [[*row, *[""] * (count - len(row))] for row in rows]
    widths = [max(len(row[place]) for row in full) for place in range(count)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in full]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def tables_as_code(markdown: str) -> str:
    """The same Markdown with tables as code, for platforms that know everything else of it."""
    lines = markdown.split("\n")
    tables = [
        token.map for token in _parser().parse(markdown) if token.type == "table_open" and token.map and not token.level
    ]
    for start, end in reversed(tables):
        table = parse_markdown("\n".join(lines[start:end])).text
        lines[start:end] = ["```", *table.split("\n"), "```"]
    return "\n".join(lines)
