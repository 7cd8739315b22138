"""ARCHITECTURE.md walks one message through the house; what it names is there."""

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
