"""Servers in processes of their own, and an assistant that has them configured."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commandline import forked

HERE = Path(__file__).parent


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "shop"
    made.mkdir()
    return made


@pytest.fixture
def shop(place: Path) -> dict[str, Any]:
    """The settings of the well-made server."""
    command, *args = forked("tests.tools.mcp.shop", str(place))
    return {"command": command, "args": args}


@pytest.fixture
def rude() -> Callable[[str], dict[str, Any]]:
    return lambda manner: {"command": sys.executable, "args": [str(HERE / "rude.py"), manner]}
