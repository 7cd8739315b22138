"""Finds directives inside a message (`/think high`) and questions to the gateway beside it (`/status`). Pure."""

import re
from collections.abc import Callable
from itertools import takewhile

from msgspec import Struct

from openclaw.core.commands import DIRECTIVES, NAMES, SlashCommand
from openclaw.core.errors import InvalidRequest
from openclaw.core.text import compile_lazily
from openclaw.models import thinking
from openclaw.runs.queue import is_queue_word
from openclaw.security.tool_policy import LEVELS
from openclaw.sessions.reply_text import REASONING, VERBOSE

SHORTCUTS = frozenset(("help", "commands", "status", "whoami"))
"""Commands that are answered at once when they stand before or behind a message; the message goes on without them."""
TRACE = ("on", "off")
EXEC_KEYS = ("host", "node", "security", "ask")
_CODE = compile_lazily(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_SLASH = compile_lazily(r"(?<!\S)/([a-z][a-z-]*)(?=[\s:]|$)(?:[ \t]*:)?[ \t]*", re.IGNORECASE)
_WORDS = compile_lazily(r"(\S+)[ \t]*")
_FIXED = {
    "verbose": (*VERBOSE, "default"),
    "reasoning": (*REASONING, "default"),
    "trace": TRACE,
    "elevated": LEVELS,
}


class InlineDirectives(Struct, frozen=True, kw_only=True):
    """A message without its directives, and what they are."""

    text: str
    directives: tuple[SlashCommand, ...] = ()
    shortcuts: tuple[str, ...] = ()


def split_inline(text: str, is_model: Callable[[str], bool]) -> InlineDirectives:
    """Takes directives out of a message. What is quoted as code, and a directive without a value it can have, stay."""
    code = [match.span() for match in _CODE.finditer(text)]
    directives: list[SlashCommand] = []
    shortcuts: list[str] = []
    kept: list[str] = []
    at = 0
    for match in _SLASH.finditer(text):
        name = NAMES.get(match.group(1).lower(), "")
        if match.start() < at or any(start <= match.start() < end for start, end in code):
            continue
        if name in SHORTCUTS and not (text[: match.start()].strip() and text[match.end() :].strip()):
            shortcuts.append(name)
            end = match.end()
        elif name in DIRECTIVES and (words := _values(name, text[match.end() :], is_model)):
            directives.append(SlashCommand(name, " ".join(word.group(1) for word in words)))
            end = match.end() + words[-1].end()
        else:
            continue
        kept.append(text[at : match.start()])
        at = end
    kept.append(text[at:])
    rest = "".join(kept).strip() if at else text
    return InlineDirectives(text=rest, directives=tuple(directives), shortcuts=tuple(shortcuts))


def _values(name: str, rest: str, is_model: Callable[[str], bool]) -> list[re.Match[str]]:
    """The words behind a directive that are its value."""
    line = rest.partition("\n")[0]
    words = list(_WORDS.finditer(line))
    if name == "queue":
        return list(takewhile(lambda word: is_queue_word(word.group(1)), words))
    if name == "exec":
        return list(takewhile(lambda word: word.group(1).partition("=")[0].lower() in EXEC_KEYS, words))
    first = words[0].group(1) if words else ""
    fits = is_model(first) if name == "model" else _is_level(name, first)
    return words[:1] if first and fits else []


def _is_level(name: str, word: str) -> bool:
    if name != "think":
        return word.lower() in _FIXED[name]
    try:
        thinking.parse(word)
    except InvalidRequest:
        return False
    return True
