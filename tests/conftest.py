"""Fixtures every test may use."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Sets have no order of their own; without one, workers would disagree on the names of tests."""
    return ",".join(sorted(map(str, val)))[:60] or "none" if isinstance(val, set | frozenset) else None
