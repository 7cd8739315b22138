"""Servers in processes of their own, and an assistant that has them configured."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commandline import PYTHON, forked, quick_python

HERE = Path(__file__).parent


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "shop"
    made.mkdir()
    return made


@pytest.fixture
def quick_workers(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our side of a server does not load its library anew each time, which takes more than a second."""
    monkeypatch.setattr(sys, "executable", quick_python(tmp_path_factory.mktemp("python")))


@pytest.fixture
def real_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a test looks at which processes are put down with ours."""
    monkeypatch.setattr(sys, "executable", PYTHON)


@pytest.fixture
def shop(place: Path) -> dict[str, Any]:
    """The settings of the well-made server."""
    command, *args = forked("tests.tools.mcp.shop", str(place))
    return {"command": command, "args": args}


@pytest.fixture
def rude(real_workers: None) -> Callable[[str], dict[str, Any]]:
    return lambda manner: {"command": sys.executable, "args": [str(HERE / "rude.py"), manner]}
