"""Parses slash commands and stop words in a message. Pure."""

import re
import unicodedata
from collections.abc import Iterable

from msgspec import Struct

from openclaw.core.text import compile_lazily

_ALIASES = {
    "elev": "elevated",
    "id": "whoami",
    "thinking": "think",
    "t": "think",
    "v": "verbose",
    "reason": "reasoning",
    "tell": "steer",
    "export": "export-session",
}
_COMMANDS = (
    "help commands stop new reset status elevated capabilities whoami context model models runtime think verbose trace"
    " reasoning queue name approve compact usage tools skill subagents tasks agents session steer send activation exec"
    " config restart export-session trust unfocus"
)
NAMES = {name: name for name in _COMMANDS.split()} | _ALIASES
DIRECTIVES = frozenset("think verbose trace reasoning elevated exec model queue".split())
"""Commands that may stand inside a message and then hold for that message."""
ABORT_WORDS = frozenset(
    "stop,esc,abort,exit,interrupt,halt,please stop,stop please,stop openclaw,stopp,pare,detente,arrete,arrête,стоп,"
    "停止,やめて,रुको,توقف".split(",")
)
ROOT_DIRECTORIES = frozenset(
    "applications bin boot dev etc home lib lib64 library media mnt nix opt private proc root run sbin srv sys tmp usr"
    " users var volumes".split()
)
"""A message that begins with one of these speaks of a directory."""
_COMMAND = compile_lazily(r"/([a-z][a-z_-]{0,31})(?:\s*:\s*|\s+|$)(.*)", re.IGNORECASE | re.DOTALL)
_SHAPE = compile_lazily(r"/([a-z][a-z0-9_-]{0,39})(?=[\s:]|$)", re.IGNORECASE)


class SlashCommand(Struct, frozen=True):
    """A command and its arguments."""

    name: str
    args: str = ""


def is_stop_word(text: str) -> bool:
    """Whether a message says nothing but stop, in one of the languages we know."""
    bare = "".join(char for char in text if unicodedata.category(char)[0] not in "PS") if len(text) <= 30 else ""
    return bare.strip().lower() in ABORT_WORDS


def may_be_command(text: str, triggers: Iterable[str]) -> bool:
    """Whether there may be a command in a message at all."""
    named = tuple(map(str.casefold, triggers))
    return "/" in text or is_stop_word(text) or text.lstrip().casefold().startswith(named)


def parse_command(text: str) -> SlashCommand | None:
    """The command in a message; None when the message is for the model."""
    message = text.strip()
    if is_stop_word(message):
        return SlashCommand("stop")
    match = _COMMAND.fullmatch(message)
    if match is None:
        return None
    name = NAMES.get(match.group(1).lower())
    return SlashCommand(name, match.group(2).strip()) if name else None


def parse_trigger(text: str, triggers: Iterable[str]) -> SlashCommand | None:
    """The command of a message that is, or begins with, a word of the owner's choice for a new conversation."""
    message = text.strip()
    for trigger in triggers:
        size = len(trigger)
        if message[:size].casefold() == trigger.casefold() and not message[size : size + 1].strip():
            return SlashCommand("new", message[size:].strip())
    return None


def is_whole_command(text: str) -> bool:
    """Whether a message is one of our commands and nothing else: not a stop word, and no directive."""
    command = parse_command(text) if text.lstrip().startswith("/") else None
    return command is not None and command.name not in DIRECTIVES


def command_word(text: str) -> str | None:
    """The name in a message that is shaped like a command: `/typo now`, and neither `/etc/hosts` nor `/tmp is full`."""
    match = _SHAPE.match(text.strip())
    name = match.group(1).lower() if match else ""
    return name if name and name not in ROOT_DIRECTORIES else None


def is_command(text: str) -> bool:
    """Whether `text` may be a command: a built-in one, or a slash word that a skill or plugin may handle."""
    return text.lstrip().startswith("/") or parse_command(text) is not None
