"""Calling a function that somebody else wrote."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def called(function: Callable[..., Any], *args: Any) -> Any:
    """What a plugin's function gives; a plain function runs in a thread, so that it may take its time."""
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    found = await asyncio.to_thread(function, *args)
    return await found if inspect.isawaitable(found) else found
