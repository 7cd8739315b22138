"""Parses models' Markdown safely: HTML stays text, and entities produce no hidden characters."""

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore

from openclaw.core.text import strip_unprintable


def parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    made.core.ruler.push("printable", _printable)
    return made


def _printable(state: StateCore) -> None:
    """Removes hidden characters that entities such as `&#x202e;` become during parsing."""
    for token in state.tokens:
        for each in (token, *(token.children or ())):
            if not each.content.isprintable():
                each.content = strip_unprintable(each.content)
