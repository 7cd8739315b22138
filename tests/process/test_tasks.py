"""Tasks that are begun again when they fail."""

import asyncio

import pytest

from openclaw.core.errors import StateError
from openclaw.process.tasks import supervise
from openclaw.testing import FakeClock

pytestmark = pytest.mark.anyio


async def test_what_fails_while_it_is_cancelled_is_not_begun_again() -> None:
    began = 0

    async def work() -> None:
        nonlocal began
        began += 1
        try:
            await asyncio.Event().wait()
        finally:
            raise StateError("it could not be put down")

    task = asyncio.create_task(supervise(work, "work", FakeClock()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() and began == 1
