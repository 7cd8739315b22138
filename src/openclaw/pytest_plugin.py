"""Pytest fixtures of the kit; installed as an entry point."""

from pathlib import Path

import pytest

from openclaw.testing import FakeChannel, FakeClock, ScriptedModel, TemporaryHome


@pytest.fixture
def openclaw_home(tmp_path: Path) -> TemporaryHome:
    """A home in the test's own directory."""
    return TemporaryHome(tmp_path)


@pytest.fixture
def scripted_model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
def fake_clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def fake_channel() -> FakeChannel:
    return FakeChannel()
