"""Markdown of models, parsed so that it can do no harm: HTML stays text, and nothing hidden comes out of entities."""

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore

from openclaw.core.text import printable


def parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    made.core.ruler.push("printable", _printable)
    return made


def _printable(state: StateCore) -> None:
    """Entities such as `&#x202e;` become characters while a text is parsed, after it was looked through."""
    for token in state.tokens:
        for each in (token, *(token.children or ())):
            if not each.content.isprintable():
                each.content = printable(each.content)
