"""A home in a temporary directory."""

from collections.abc import Callable
from pathlib import Path

import pytest

from openclaw.process.environment import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    return Home(state=state, config=state / "openclaw.json")


@pytest.fixture
def write(home: Home) -> Callable[..., Path]:
    def put(text: str, name: str = "openclaw.json") -> Path:
        path = home.state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        path.chmod(0o600)
        return path

    return put
