"""Fixtures every test may use, and how properties are searched."""

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, however busy the machine is. `pytest --hypothesis-profile=seek` looks for new ones.
settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("seek", settings.get_profile("house"), derandomize=False, print_blob=True)
settings.load_profile("house")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
