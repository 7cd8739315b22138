"""Collects every command that the program, its page or its docs tell a person to type."""

import ast
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from openclaw.cli.main import NOUNS
from openclaw.cli.root import root

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "openclaw").rglob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS = sorted((ROOT / "ui" / "src").glob("*.ts"))
NAME = r"(?:openclaw|scripts/run)"
_QUOTED = re.compile(rf"`(?:\$ )?({NAME} [^`]+)`|<(?:code|pre)>(openclaw [^<]+)</")
_LINE = re.compile(rf"^(?:\$ )?((?:[A-Z_]+=)?(?!.*: openclaw).*(?<![\w/.\"'-]){NAME}(?: .*)?)$", re.MULTILINE)
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TYPED = ("console", "sh", "bash", "shell", "")
"""Blocks of these kinds hold lines to be typed."""
_PROSE = re.compile(rf"(?<![`'\w/.$(-])openclaw (?:{'|'.join(NOUNS)})\b[^`\n]*")
_STOP = re.compile(
    r"[.,;:)](?=\s|$)|[()`]|\s(?:·|—|and|or|then|to|in|of|for|with|under|anew|again|starts|runs|says|shows|takes|asks|opens"
    r"|connects|ends|looks|lists|renews|lets|makes|signs|brings|tells|is|are|the|a|has|does|which|that|on)(?=[\s.,;:)]|$)"
)
"""Where a sentence goes on after the command in it."""


ROUTINES = (ast.FunctionDef, ast.AsyncFunctionDef)


class Hint(NamedTuple):
    where: str
    text: str
    names: bool = False
    """It stands in a sentence of the docs, which may only name a command."""


def hints() -> Iterator[Hint]:
    """What is to be typed: in backticks, in blocks of commands, and in the sentences of the program."""
    for path in SOURCES:
        for number, text in strings(path):
            where = f"{path.relative_to(ROOT)}:{number}"
            for found in _QUOTED.finditer(text):
                yield Hint(where, found[1] or found[2])
            for sentence in _PROSE.finditer(_QUOTED.sub("", text)):
                for part in re.split(r"(?<=\s)(?=openclaw )", sentence[0]):
                    command = _STOP.split(f"{part} ", maxsplit=1)[0].strip()
                    if len(command.split()) > 1:
                        yield Hint(where, command)
    for path in SCRIPTS:
        for found in _QUOTED.finditer(path.read_text()):
            yield Hint(str(path.relative_to(ROOT)), re.sub(r"\$\{[^}]*\}", "X", found[1] or found[2]))
    for path in PAGES:
        yield from _of_page(path)


def _of_page(path: Path) -> Iterator[Hint]:
    where, text = str(path.relative_to(ROOT)), path.read_text()
    for kind, block in FENCE.findall(text):
        if kind.strip() in _TYPED:
            for found in _LINE.finditer(block.replace("\\\n", " ")):
                # In a console the rest is what the program prints.
                if kind.strip() != "console" or found[0].startswith("$ "):
                    yield Hint(where, found[1])
    for found in _QUOTED.finditer(FENCE.sub("", text)):
        yield Hint(where, found[1], names=True)


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """The texts in a source that somebody may read on a screen, with X for what is filled in."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        # What the code says of itself is for its readers; the exception is the help of a command.
        if isinstance(node, ast.Module | ast.ClassDef) or (isinstance(node, ROUTINES) and not node.decorator_list):
            inside |= {id(node.body[0].value)} if node.body and isinstance(node.body[0], ast.Expr) else set()
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            parts = (str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


def expand(text: str) -> Iterator[str]:
    """The lines that a hint stands for: `add|remove` is two, and what is optional is given."""
    line = " ".join(re.sub(r"\s#\s.*$", "", text).replace("\\|", "|").split())
    line = re.sub(r"(?<=\s)\[([^\]\[\"']*)\](?=\s|$)", r"\1", line).replace("scripts/run", "openclaw")
    parts = re.split(r"((?<=\s)[\w-]+(?:\|[\w-]+)+(?=\s|$))", line)
    choices = [part.split("|") if number % 2 else [part] for number, part in enumerate(parts)]
    for chosen in itertools.product(*choices):
        yield "".join(chosen)


def words(line: str) -> list[str]:
    """The words of the first `openclaw` in a line; a pipe, a redirection and a remark end it."""
    rest = re.sub(r".*?(\$\()?(?=openclaw\b)", "", line, count=1)
    rest = rest.partition(")")[0] if f"$({rest}" in line else rest
    lexer = shlex.shlex(rest, posix=True, punctuation_chars="|&;<>()")
    lexer.commenters = ""
    lexer.whitespace_split = True
    try:
        found = list(lexer)
    except ValueError:
        found = rest.split()
    return list(itertools.takewhile(lambda word: not re.fullmatch(r"[|&;<>()]+", word), found))[1:]


def problem(given: list[str]) -> str:
    """Why the real command line would not take these words; nothing when it would."""
    context: click.Context = click.Context(root, info_name="openclaw")
    command: click.Command = root
    rest = given
    while isinstance(command, click.Group):
        parser = command.make_parser(context)
        parser.allow_interspersed_args = False
        try:
            _, rest, _ = parser.parse_args(list(rest))
        except click.UsageError as error:
            return error.format_message()
        if not rest:
            return ""
        found = command.get_command(context, rest[0])
        if found is None:
            return f"there is no command {rest[0]!r} in {context.command_path!r}"
        context = click.Context(found, info_name=rest[0], parent=context)
        command, rest = found, rest[1:]
    try:
        _, left, _ = command.make_parser(context).parse_args(list(rest))
    except click.UsageError as error:
        return error.format_message()
    return f"{left} is too much" if left and not context.allow_extra_args else ""
