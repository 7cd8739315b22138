"""Parses slash commands and stop words in a message. Pure."""

import re
import unicodedata

from msgspec import Struct

_ALIASES = {
    "commands": "help",
    "elev": "elevated",
    "id": "whoami",
    "thinking": "think",
    "t": "think",
    "v": "verbose",
    "reason": "reasoning",
}
_COMMANDS = (
    "help stop new reset status elevated capabilities whoami context model think verbose reasoning queue name approve"
    " compact usage"
)
NAMES = {name: name for name in _COMMANDS.split()} | _ALIASES
ABORT_WORDS = frozenset(
    "stop,esc,abort,exit,interrupt,halt,please stop,stop please,stop openclaw,stopp,pare,detente,arrete,arrête,стоп,"
    "停止,やめて,रुको,توقف".split(",")
)
_COMMAND = re.compile(r"/([a-z][a-z_-]{0,31})(?:\s*:\s*|\s+|$)(.*)", re.IGNORECASE | re.DOTALL)


class SlashCommand(Struct, frozen=True):
    """A command and its arguments."""

    name: str
    args: str = ""


def parse_command(text: str) -> SlashCommand | None:
    """The command in a message; None when the message is for the model."""
    message = text.strip()
    if len(message) <= 20:
        bare = "".join(char for char in message if unicodedata.category(char)[0] not in "PS")
        if bare.strip().lower() in ABORT_WORDS:
            return SlashCommand("stop")
    match = _COMMAND.fullmatch(message)
    if match is None:
        return None
    name = NAMES.get(match.group(1).lower())
    return SlashCommand(name, match.group(2).strip()) if name else None


def is_command(text: str) -> bool:
    """Whether `text` may be a command: a built-in one, or a slash word that a skill or plugin may handle."""
    return text.lstrip().startswith("/") or parse_command(text) is not None
