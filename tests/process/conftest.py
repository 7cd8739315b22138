"""The watchdog over child processes belongs to this process and is started once, before a test counts open files."""

import pytest

from openclaw.process import group


@pytest.fixture(scope="session", autouse=True)
def watchdog() -> None:
    group.start_watchdog()
