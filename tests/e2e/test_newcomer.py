"""A newcomer, with nothing configured, reaches a model's answer: by terminal, by a local server, by web."""

from pathlib import Path

import pytest

from tests.e2e import newcomer
from tests.web.conftest import browser, launched
from tests.web.support import SharedBrowser

__all__ = ["browser", "launched"]


def test_by_terminal(tmp_path: Path) -> None:
    newcomer.by_terminal(tmp_path, newcomer.Stopwatch())


def test_by_a_local_server_that_is_started_later(tmp_path: Path) -> None:
    if not newcomer.by_local_server(tmp_path, newcomer.Stopwatch()):
        pytest.skip("every port where model servers usually are is taken on this machine")


def test_by_the_address_of_a_server(tmp_path: Path) -> None:
    newcomer.by_address(tmp_path, newcomer.Stopwatch())


def test_by_web(tmp_path: Path, browser: SharedBrowser) -> None:
    newcomer.by_web(tmp_path, newcomer.Stopwatch(), browser)
