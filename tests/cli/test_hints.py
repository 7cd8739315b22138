"""Every command that the program or its docs tell a person to type is one that exists, with these options."""

import re

import click
import pytest

from openclaw.cli.main import NOUNS, TASKS
from openclaw.cli.root import root
from tests.cli.hints import FENCE, PAGES, ROOT, SOURCES, expand, hints, problem, strings, words

_NAMED = re.compile(r"(?<![`\w/.-])openclaw ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")
IN_PROSE = ("a", "and", "answers", "for", "in", "is", "of", "or", "runs", "that", "the", "to", "with", "at", "by")
"""Words that go on with a sentence after the name of a command."""


def test_every_hint_is_a_command_that_exists() -> None:
    found = list(hints())
    wrong = [
        f"{hint.where}: {line}\n    {why}"
        for hint in found
        for line in expand(hint.text)
        if line not in ("openclaw install", "openclaw channels X XX") and (why := problem(words(line)))
    ]
    assert not wrong, "\n".join(wrong)
    assert len(found) > 500, "the hints are not found any more"


def test_every_noun_has_its_place_in_the_help() -> None:
    assert sorted(" ".join(TASKS.values()).split()) == sorted(NOUNS)


def test_commands_named_in_sentences_exist() -> None:
    wrong = []
    for path in (*SOURCES, *PAGES):
        texts = strings(path) if path.suffix == ".py" else [(0, FENCE.sub("", path.read_text()))]
        for number, text in texts:
            for found in _NAMED.finditer(text):
                noun, verb = found[1], found[2]
                if noun not in NOUNS:
                    continue
                given = [noun, verb] if verb and verb not in IN_PROSE else [noun]
                command = root.get_command(click.Context(root), noun)
                if len(given) > 1 and not isinstance(command, click.Group):
                    continue
                why = problem(given)
                if why and "no command" in why:
                    wrong.append(f"{path.relative_to(ROOT)}:{number}: {found[0]}\n    {why}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "given", [["nonsense"], ["models", "nonsense"], ["models", "list", "--nonsense"], ["cron", "rm", "a", "b"]]
)
def test_what_does_not_exist_is_found_out(given: list[str]) -> None:
    assert problem(given)
