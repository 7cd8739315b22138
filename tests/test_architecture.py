"""ARCHITECTURE.md walks one message through the house, CONTRIBUTING.md says where to change what; both are true."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "openclaw"
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^\| `([\w/]+\.py)` `([\w.]+)` \|", TEXT, re.MULTILINE)
FILES = sorted(set(re.findall(r"`((?:\w+/)+\w+\.py)`", TEXT)))


def names(path: Path) -> set[str]:
    """The functions, classes and methods of a module."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (ast.FunctionDef, ast.AsyncFunctionDef)
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, inner)}
    return found


def test_the_walk_is_long_enough_to_be_one() -> None:
    assert len(STEPS) > 15


@pytest.mark.parametrize(("file", "name"), STEPS)
def test_a_step_of_the_walk_exists(file: str, name: str) -> None:
    assert name in names(SRC / file)


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_is_named_exists(file: str) -> None:
    assert (SRC / file).exists() or (ROOT / file).exists()


def test_every_package_is_listed() -> None:
    for path in SRC.iterdir():
        if path.is_dir() and path.name != "__pycache__":
            assert re.search(rf"^{path.name}/ ", TEXT, re.MULTILINE), path.name


# CONTRIBUTING.md says where a stranger changes what.

GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ANSWERS = re.findall(r"^\| (.+\?) \| (.+) \|$", GUIDE, re.MULTILINE)


def test_a_strangers_five_questions_are_answered() -> None:
    asked = " ".join(question for question, _ in ANSWERS)
    for words in ("`cron.add`", "long answers are cut", "a provider", "not delivered", "`memory search`"):
        assert words in asked


@pytest.mark.parametrize(("question", "answer"), ANSWERS)
def test_what_an_answer_names_is_there(question: str, answer: str) -> None:
    """Files exist; a name stands in one of the files of its answer."""
    named = re.findall(r"`([^`]+)`", answer)
    paths = [each for each in named if "/" in each]
    files = [file for each in paths if each.endswith(".py") for file in SRC.glob(re.sub("<.*?>", "*", each))]
    for path in paths:
        place = path.partition("<")[0]
        assert (SRC / place).exists() or (ROOT / place).exists(), path
    texts = [file.read_text(encoding="utf-8") for file in files]
    for name in (each for each in named if "/" not in each):
        word = re.compile(rf"\b{re.escape(name.rpartition('.')[2])}\b")
        assert any(word.search(text) for text in texts), f"{question} {name}"
