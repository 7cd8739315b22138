"""A plugin inside this process, because the operator trusts it: registered, its services started and stopped."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from openclaw.core.errors import OpenClawError, Unavailable
from openclaw.core.plugin import Api, Brought, Service
from openclaw.plugins import schema
from openclaw.plugins.child import GOODBYE_SECONDS
from openclaw.plugins.find import FoundPlugin
from openclaw.plugins.load import describe_error, register

log = logging.getLogger("openclaw.plugins")


@asynccontextmanager
async def inside(
    plugin: FoundPlugin, config: Mapping[str, Any], data: Path, seconds: float
) -> AsyncIterator[Brought | str]:
    """What the plugin brings, with its services running for as long as the block; or why it cannot run."""
    why = schema.problem(plugin.manifest.config_schema, config, f"plugins.entries.{plugin.id}.config")
    if why:
        yield why
        return
    if str(plugin.directory) not in sys.path:
        sys.path.append(str(plugin.directory))
    api = Api(plugin.id, config=config, directory=plugin.directory, state=data)
    async with AsyncExitStack() as started:
        yield await _begun(plugin, api, seconds, started)


async def _begun(plugin: FoundPlugin, api: Api, seconds: float, started: AsyncExitStack) -> Brought | str:
    # A plugin's own code: whatever it raises before it runs is the reason it cannot.
    try:
        brought = register(api, plugin.entry)
        for name, service in brought.services.items():
            await within(seconds, service.start(), f"the service {name} did not start")
            started.push_async_callback(_stopped, plugin, name, service)
    except Exception as error:
        return error.message if isinstance(error, OpenClawError) else describe_error(error, plugin.directory)
    return brought


async def within(seconds: float, work: Awaitable[None], otherwise: str) -> None:
    """`work` of a plugin, which may not hold us up for longer."""
    try:
        async with asyncio.timeout(seconds) as limit:
            await work
    except TimeoutError as error:
        if not limit.expired():
            raise  # its own
        raise Unavailable(f"{otherwise} within {seconds:g} s") from error


async def _stopped(plugin: FoundPlugin, name: str, service: Service) -> None:
    try:
        await within(GOODBYE_SECONDS, service.stop(), "it did not end")
    # A plugin's own code, and we are going on without it.
    except Exception as error:
        log.warning(
            "plugin %s: the service %s did not stop: %s", plugin.id, name, describe_error(error, plugin.directory)
        )
