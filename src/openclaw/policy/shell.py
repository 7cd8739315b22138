"""Reading a command line the way an approver must: every program it would start, or "not clear".

This is not a shell. Whatever it does not fully understand (expansion, redirection, grouping, control words) is
`Unclear`, and unclear never matches an allowlist.
"""

from msgspec import Struct


class Segment(Struct, frozen=True):
    """One program and its arguments."""

    argv: tuple[str, ...]


class Unclear(Struct, frozen=True):
    why: str


_OPERATORS = ("&&", "||", ";", "|", "\n")
_FORBIDDEN = {
    "$": "it expands a variable or a command",
    "`": "it runs a command inside another",
    ">": "it redirects output",
    "<": "it redirects input",
    "&": "it puts a command in the background",
    "(": "it uses a subshell",
    ")": "it uses a subshell",
    "{": "it uses brace expansion",
    "}": "it uses brace expansion",
    "#": "it contains a comment",
    "*": "it contains a wildcard",
    "?": "it contains a wildcard",
    "[": "it contains a wildcard",
}
_WORDS = frozenset(
    "if then else elif fi for while until do done case esac function select in time coproc eval exec source . alias "
    "builtin trap set export declare typeset local readonly unset [[ ]] !".split()
)
_WRAPPERS = frozenset(("nohup", "command", "env", "nice"))


def parse(command: str) -> tuple[Segment, ...] | Unclear:
    """The programs `command` starts, in order."""
    words: list[str] = []
    segments: list[Segment] = []
    word: str | None = None
    index = 0
    while index < len(command):
        char = command[index]
        operator = next((op for op in _OPERATORS if command.startswith(op, index)), None)
        if operator:
            if word is not None:
                words.append(word)
            if words or operator != "\n":
                segments.append(Segment(tuple(words)))
            words, word = [], None
            index += len(operator)
        elif char in " \t":
            if word is not None:
                words.append(word)
            word = None
            index += 1
        elif char in "'\"":
            quoted, index = _quoted(command, index)
            if isinstance(quoted, Unclear):
                return quoted
            word = (word or "") + quoted
        elif char == "\\":
            if index + 1 >= len(command) or command[index + 1] == "\n":
                return Unclear("it continues over several lines")
            word = (word or "") + command[index + 1]
            index += 2
        elif char in _FORBIDDEN:
            return Unclear(_FORBIDDEN[char])
        elif ord(char) < 32 or ord(char) == 127:
            return Unclear("it contains a control character")
        else:
            word = (word or "") + char
            index += 1
    if word is not None:
        words.append(word)
    if words:
        segments.append(Segment(tuple(words)))
    return _checked(segments)


def _quoted(command: str, start: int) -> tuple[str | Unclear, int]:
    quote = command[start]
    out: list[str] = []
    index = start + 1
    while index < len(command):
        char = command[index]
        if char == quote:
            return "".join(out), index + 1
        if quote == '"':
            if char in "$`":
                return Unclear(_FORBIDDEN[char]), index
            if char == "\\" and command[index + 1 : index + 2] in ('"', "\\", "$", "`"):
                index += 1
                char = command[index]
        out.append(char)
        index += 1
    return Unclear("a quote is not closed"), index


def _checked(segments: list[Segment]) -> tuple[Segment, ...] | Unclear:
    if not segments:
        return Unclear("it is empty")
    out: list[Segment] = []
    for segment in segments:
        argv = segment.argv
        while argv and argv[0] in _WRAPPERS and len(argv) > 1 and not argv[1].startswith("-"):
            argv = argv[1:]
        if not argv:
            return Unclear("a command is missing between two operators")
        if argv[0] in _WORDS:
            return Unclear(f"it uses the shell's own {argv[0]!r}")
        if "=" in argv[0]:
            return Unclear("it sets a variable for a command")
        out.append(Segment(argv))
    return tuple(out)
