"""Commands that exec never runs, because a person must do them. No I/O."""

import re
from collections.abc import Iterator

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_WRAPPERS = frozenset({"sudo", "env", "exec", "nohup", "time", "command", "builtin", "setsid", "nice", "npx", "uvx"})
_PUNCTUATION = frozenset("();<>|&\n`{}!")
_TOKEN = re.compile(r"""[();<>|&\n`]+|(?:[^\s();<>|&`'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)
_QUOTED = re.compile(r"""\\(.)|'([^']*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
# The longest text a system takes as one argument, the closing zero included.
MAX_COMMAND_BYTES = 128 * 1024 - 1


def forbidden(command: str) -> str | None:
    """Why `command` is refused, or None."""
    if not command.strip():
        return "The command is empty."
    if "\0" in command:
        return "The command contains a NUL character: remove it."
    if len(command) > MAX_COMMAND_BYTES or len(command.encode("utf-8", "replace")) > MAX_COMMAND_BYTES:
        return "The command is longer than 128 KB: write it to a file and run that."
    for words in _simple_commands(command):
        program = words[0].rpartition("/")[2]
        if words[0] == "/approve":
            return "exec cannot run /approve: an approval is given by a person, as a chat message."
        plain = [word for word in words[1:] if not word.startswith("-")]
        if program in ("openclaw", "openclaw-py") and plain[:2] == ["channels", "login"]:
            return (
                "exec cannot run 'openclaw channels login': it is interactive. "
                "Ask the person to run it in a terminal on the gateway host."
            )
    return None


def _simple_commands(command: str) -> Iterator[list[str]]:
    """The words of each program call in `command`, assignments and wrappers taken off."""
    words: list[str] = []
    for token in [*_tokens(command), ";"]:
        if not set(token) <= _PUNCTUATION:
            words.append(token)
            continue
        while words and (words[0] in _WRAPPERS or _ASSIGNMENT.match(words[0]) or words[0].startswith("-")):
            words.pop(0)
        if words:
            yield words
        words = []


def _tokens(command: str) -> Iterator[str]:
    """Words without their quotes, and operators; an open quote is passed over, the shell will complain."""
    for token in _TOKEN.finditer(command):
        yield _QUOTED.sub(lambda quoted: "".join(part or "" for part in quoted.groups()), token[0])
