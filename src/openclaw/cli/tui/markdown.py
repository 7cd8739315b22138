"""Markdown as a terminal may show it: HTML stays text, and a link says where it leads."""

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from openclaw.cli.tui.words import one_line

ADDRESS_CHARS = 300


def parser() -> MarkdownIt:
    # What is left out silently could hide something, so HTML is shown as the text it is.
    made = MarkdownIt("gfm-like", {"html": False, "linkify": False})
    made.core.ruler.push("addresses", _write_addresses)
    return made


def _write_addresses(state: StateCore) -> None:
    for token in state.tokens:
        if token.type == "inline" and token.children:
            token.children = _with_addresses(token.children)


def _with_addresses(children: list[Token]) -> list[Token]:
    """Each link followed by its address, unless that is what it says already; pictures are links too."""
    kept: list[Token] = []
    label, address = "", ""
    for child in children:
        if child.type == "link_open":
            label, address = "", str(child.attrs.get("href", ""))
        elif child.type == "link_close" and label != address:
            kept.append(Token("text", "", 0, content=f" ({one_line(address, ADDRESS_CHARS)})"))
        elif child.type == "image":
            source = one_line(str(child.attrs.get("src", "")), ADDRESS_CHARS)
            child = Token("text", "", 0, content=f"[picture: {child.content} ({source})]")
        label += child.content
        kept.append(child)
    return kept
