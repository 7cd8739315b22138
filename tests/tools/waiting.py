"""Waiting for something that happens outside the event loop."""

from collections.abc import Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


async def until(look: Callable[[], T], seconds: float = 10) -> T:
    """What `look` gives, as soon as it is something."""
    with anyio.fail_after(seconds):
        while not (seen := look()):
            await anyio.sleep(0.01)
        return seen
