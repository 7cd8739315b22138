"""Pytest fixtures of the kit, registered through the entry point."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from openclaw.testing import FakeChannel, FakeClock, ScriptedModel, TemporaryHome


@pytest.fixture
def openclaw_home(tmp_path: Path) -> "TemporaryHome":
    """A home in the test's own directory."""
    from openclaw.testing import TemporaryHome

    return TemporaryHome(tmp_path)


@pytest.fixture
def scripted_model() -> "ScriptedModel":
    from openclaw.testing import ScriptedModel

    return ScriptedModel()


@pytest.fixture
def fake_clock() -> "FakeClock":
    from openclaw.testing import FakeClock

    return FakeClock()


@pytest.fixture
def fake_channel() -> "FakeChannel":
    from openclaw.testing import FakeChannel

    return FakeChannel()
