"""Parses models' Markdown safely: HTML stays text, entities produce no hidden characters, lines stay lines."""

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore

from openclaw.core.text import strip_unprintable


def parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    made.core.ruler.push("printable", _printable)
    made.core.ruler.push("lines", _keep_lines)
    return made


def _keep_lines(state: StateCore) -> None:
    """Keeps the lines as they were written: models and commands write lists of facts line by line."""
    for token in state.tokens:
        for each in token.children or ():
            if each.type == "softbreak":
                each.type = "hardbreak"


def _printable(state: StateCore) -> None:
    """Removes hidden characters that entities such as `&#x202e;` become during parsing."""
    for token in state.tokens:
        for each in (token, *(token.children or ())):
            if not each.content.isprintable():
                each.content = strip_unprintable(each.content)
