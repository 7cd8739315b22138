"""The docs speak of everything a person can type."""

from pathlib import Path

import click
import pytest

from openclaw.cli.main import NOUNS
from openclaw.cli.root import root
from openclaw.core.hook_points import POINTS

TOP = Path(__file__).parent.parent
DOCS = "\n".join(path.read_text() for path in (TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))))


def commands() -> list[str]:
    found = []
    context = click.Context(root)
    for noun in NOUNS:
        found.append(noun)
        command = root.get_command(context, noun)
        if isinstance(command, click.Group):
            found += [f"{noun} {name}" for name in command.list_commands(context)]
    return found


@pytest.mark.parametrize("words", commands())
def test_every_command_is_in_the_docs(words: str) -> None:
    noun, _, verb = words.partition(" ")
    listed = any(f"openclaw {noun} " in line and verb in line for line in DOCS.splitlines())
    assert f"openclaw {words}" in DOCS or f"scripts/run {words}" in DOCS or (verb and listed), words


@pytest.mark.parametrize("point", POINTS)
def test_every_hook_point_is_in_the_docs_with_an_example(point: str) -> None:
    page = (TOP / "docs" / "hooks.md").read_text()
    _, found, rest = page.partition(f"\n## {point}\n")
    assert found and f'api.on("{point}"' in rest.partition("\n## ")[0], point


def test_links_between_pages_lead_somewhere() -> None:
    import re

    for page in (TOP / "README.md", TOP / "CONTRIBUTING.md", TOP / "ARCHITECTURE.md", *(TOP / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_blocks_of_commands_end_where_they_should() -> None:
    for page in (*TOP.glob("*.md"), *(TOP / "docs").glob("*.md")):
        inside = False
        for number, line in enumerate(page.read_text().splitlines(), 1):
            if line.lstrip().startswith("```"):
                assert not inside or line.strip() == "```", f"{page.name}:{number} has text behind the end of a block"
                inside = not inside
        assert not inside, f"{page.name} ends inside a block"


def test_the_project_never_tells_people_to_install_somebody_elses_package() -> None:
    forbidden = "pip install " + "openclaw"
    for path in [*TOP.glob("*.md"), *(TOP / "docs").glob("*.md"), *(TOP / "src").rglob("*.py")]:
        for line in path.read_text().splitlines():
            assert f"{forbidden} " not in f"{line} " and not line.rstrip().endswith(forbidden), path
