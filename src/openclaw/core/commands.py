"""Parses slash commands and stop words in a message. Pure."""

import re
import unicodedata

from msgspec import Struct

NAMES = {
    "help": "help",
    "commands": "help",
    "stop": "stop",
    "new": "new",
    "reset": "reset",
    "status": "status",
    "elevated": "elevated",
    "elev": "elevated",
    "capabilities": "capabilities",
    "whoami": "whoami",
    "id": "whoami",
    "context": "context",
    "model": "model",
    "think": "think",
    "thinking": "think",
    "t": "think",
    "verbose": "verbose",
    "v": "verbose",
    "reasoning": "reasoning",
    "reason": "reasoning",
    "queue": "queue",
    "name": "name",
    "approve": "approve",
    "compact": "compact",
    "usage": "usage",
}
ABORT_WORDS = frozenset(
    {
        "stop",
        "esc",
        "abort",
        "exit",
        "interrupt",
        "halt",
        "please stop",
        "stop please",
        "stop openclaw",
        "stopp",
        "pare",
        "detente",
        "arrete",
        "arrête",
        "стоп",
        "停止",
        "やめて",
        "रुको",
        "توقف",
    }
)
_COMMAND = re.compile(r"/([a-z][a-z_-]{0,31})(?:\s*:\s*|\s+|$)(.*)", re.IGNORECASE | re.DOTALL)


class SlashCommand(Struct, frozen=True):
    """A command and its arguments."""

    name: str
    args: str = ""


def parse_command(text: str) -> SlashCommand | None:
    """The command in a message; None when the message is for the model."""
    message = text.strip()
    if _is_abort_word(message):
        return SlashCommand("stop")
    match = _COMMAND.fullmatch(message)
    if match is None:
        return None
    name = NAMES.get(match.group(1).lower())
    return SlashCommand(name, match.group(2).strip()) if name else None


def is_command(text: str) -> bool:
    """Whether `text` may be a command: a built-in one, or a slash word that a skill or plugin may handle."""
    return text.lstrip().startswith("/") or parse_command(text) is not None


def _is_abort_word(message: str) -> bool:
    if len(message) > 20:
        return False
    bare = "".join(char for char in message if unicodedata.category(char)[0] not in "PS").strip().lower()
    return bare in ABORT_WORDS
