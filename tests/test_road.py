"""How many functions and files one message passes. The limits are not raised: who adds a step shortens another."""

import pytest

from openclaw.testing import TemporaryHome
from tests.road import measured

pytestmark = pytest.mark.anyio

FUNCTIONS = 350
FILES = 80


async def test_the_road_of_a_message_grows_no_longer(openclaw_home: TemporaryHome) -> None:
    road = await measured(openclaw_home)
    assert len(road.functions) <= FUNCTIONS, len(road.functions)
    assert len(road.files) <= FILES, len(road.files)
