"""Every command that the program or its docs tell a person to type is one that exists, with these options."""

import ast
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from openclaw.cli.main import NOUNS, TASKS
from openclaw.cli.root import root

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "openclaw").rglob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS = sorted((ROOT / "ui" / "src").glob("*.ts"))
MOST_WORDS = 30
_QUOTED = re.compile(r"`(?:\$ )?((?:openclaw|scripts/run) [^`]+)`|<(?:code|pre)>(openclaw [^<]+)</")
_LINE = re.compile(r"^\s*(?:\$ )?((?:openclaw|scripts/run) .*)$", re.MULTILINE)
_FENCE = re.compile(r"^```(?:console|sh|bash|shell)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PROSE = re.compile(r"(?<![`\w/.-])openclaw ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")
_END = re.compile(r"\s(?:\||>|>>|&&|\|\||;|#|<)(?:\s|$).*|\s[<>]\S.*|[;,:.)]+$")
IN_PROSE = ("a", "and", "answers", "for", "in", "is", "of", "or", "runs", "that", "the", "to", "with", "at", "by")
"""Words that go on with a sentence after the name of a command."""


class Hint(NamedTuple):
    where: str
    text: str


def quoted_hints() -> Iterator[Hint]:
    """What stands in backticks or in a block of commands: to be typed as it is."""
    for path in SOURCES:
        for number, text in _strings(path):
            for found in _QUOTED.finditer(text):
                yield Hint(f"{path.relative_to(ROOT)}:{number}", found[1] or found[2])
    for path in SCRIPTS:
        for found in _QUOTED.finditer(path.read_text()):
            yield Hint(str(path.relative_to(ROOT)), re.sub(r"\$\{[^}]*\}", "X", found[1] or found[2]))
    for path in PAGES:
        text = path.read_text()
        for block in _FENCE.findall(text):
            joined = block.replace("\\\n", " ")
            for found in _LINE.finditer(joined):
                yield Hint(str(path.relative_to(ROOT)), found[1])
        for found in _QUOTED.finditer(_FENCE.sub("", text)):
            yield Hint(str(path.relative_to(ROOT)), found[1])


def _strings(path: Path) -> Iterator[tuple[int, str]]:
    """The texts in a source, with X for what is filled in."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            parts = (str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


def expand(text: str) -> Iterator[list[str]]:
    """The command lines that a hint stands for: `add|remove` is two; a pipe and a remark end ours."""
    line = _END.sub("", f"{text} ").strip().replace("[", "").replace("]", "")
    try:
        words = shlex.split(line)[1:]
    except ValueError:
        words = line.split()[1:]
    choices = [word.split("|") if re.fullmatch(r"[\w-]+(?:\|[\w-]+)+", word) else [word] for word in words]
    for chosen in itertools.product(*choices):
        yield [word for word in chosen if word not in ("…", "...")]


def problem(words: list[str]) -> str:
    """Why the real command line would not take these words; nothing when it would."""
    context: click.Context = click.Context(root, info_name="openclaw")
    command: click.Command = root
    rest = words
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


def test_every_hint_is_a_command_that_exists() -> None:
    hints = list(quoted_hints())
    wrong = []
    for hint in hints:
        if hint.text.startswith("scripts/run install"):
            continue
        for words in expand(hint.text):
            if len(words) <= MOST_WORDS and (why := problem(words)):
                wrong.append(f"{hint.where}: {hint.text}\n    {why}")
    assert not wrong, "\n".join(wrong)
    assert len(hints) > 300, "the hints are not found any more"


def test_every_noun_has_its_place_in_the_help() -> None:
    assert sorted(" ".join(TASKS.values()).split()) == sorted(NOUNS)


def test_commands_named_in_sentences_exist() -> None:
    wrong = []
    for path in (*SOURCES, *PAGES):
        texts = _strings(path) if path.suffix == ".py" else [(0, _FENCE.sub("", path.read_text()))]
        for number, text in texts:
            for found in _PROSE.finditer(text):
                noun, verb = found[1], found[2]
                if noun not in NOUNS:
                    continue
                words = [noun, verb] if verb and verb not in IN_PROSE else [noun]
                command = root.get_command(click.Context(root), noun)
                if len(words) > 1 and not isinstance(command, click.Group):
                    continue
                why = problem(words)
                if why and "no command" in why:
                    wrong.append(f"{path.relative_to(ROOT)}:{number}: {found[0]}\n    {why}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "words", [["nonsense"], ["models", "nonsense"], ["models", "list", "--nonsense"], ["cron", "rm", "a", "b"]]
)
def test_what_does_not_exist_is_found_out(words: list[str]) -> None:
    assert problem(words)
