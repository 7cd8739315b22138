"""Text from models, tools and strangers as a terminal may show it. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from openclaw.core.visible import printable

MOST_CHARS = 60_000
"""Of one message: what is longer is cut here and whole in the transcript."""
SHORT_CHARS = 160


def harmless(text: str, most: int = MOST_CHARS) -> str:
    """`text` without what moves the cursor, talks to the terminal or hides characters; tabs become spaces."""
    clean = printable(text[: most + 1].replace("\r\n", "\n")).expandtabs(4)
    if len(text) <= most:
        return clean
    return f"{clean[:most]}\n\n… cut here: {len(text) - most:,} more characters are in the transcript"


def one_line(text: str, most: int = SHORT_CHARS) -> str:
    """`text` as one harmless line."""
    line = " ".join(printable(text[: most * 8]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def text_of(message: Any, kind: str = "text") -> str:
    """The text blocks (or the thinking) of a message or a result as the gateway gives them."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content if kind == "text" else ""
    if not isinstance(content, list):
        return ""
    return "".join(
        str(block.get(kind, "")) for block in content if isinstance(block, Mapping) and block.get("type") == kind
    )


def summary_of(arguments: Any) -> str:
    """The arguments of a call in a few words."""
    values = arguments.values() if isinstance(arguments, Mapping) else [arguments] if arguments else []
    return one_line(" ".join(value if isinstance(value, str) else json.dumps(value) for value in values))


def pretty(arguments: Any) -> str:
    """The arguments of a call, one under the other, with the line breaks of their texts."""
    if not isinstance(arguments, Mapping):
        return harmless(json.dumps(arguments, ensure_ascii=False)) if arguments else ""
    lines = []
    for name, value in arguments.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        shown = harmless(shown, 8_000)
        lines.append(f"{one_line(str(name), 40)}:" + (f"\n{_indented(shown)}" if "\n" in shown else f" {shown}"))
    return "\n".join(lines)


def last_lines(text: str, count: int) -> str:
    """The end of `text`; says how much stands before it."""
    lines = harmless(text[-20_000:]).rstrip("\n").split("\n")
    before = text.count("\n", 0, max(0, len(text) - 20_000)) + max(0, len(lines) - count)
    kept = "\n".join(lines[-count:])
    return f"… {before} lines before\n{kept}" if before else kept


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
