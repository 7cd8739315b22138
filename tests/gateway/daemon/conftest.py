"""Gateways in processes of their own."""

from collections.abc import Iterator

import pytest

from openclaw.testing import TemporaryHome
from tests.gateway.daemon.support import Launcher, launching


@pytest.fixture
def launch(openclaw_home: TemporaryHome) -> Iterator[Launcher]:
    openclaw_home.state.chmod(0o700)
    with launching(openclaw_home) as launcher:
        yield launcher
