"""Kit for testing a plugin: it runs in a process of its own, as it does under the gateway.

    async with running_plugin("path/to/plugin", config={"city": "Bern"}) as plugin:
        assert (await plugin.tool("forecast", day="today")).text == "sunny"

    assert await plugin_problems("path/to/plugin") == []

The last line checks the plugin contract, as `openclaw plugins doctor` does.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from openclaw.plugins.contract import RunningPlugin, check_contract, run_plugin
from openclaw.plugins.settings import PluginLimits
from openclaw.process.tasks import SystemClock

__all__ = ["RunningPlugin", "plugin_problems", "running_plugin"]


def running_plugin(
    directory: str | Path,
    *,
    config: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    limits: PluginLimits | None = None,
    isolation: str = "process",
) -> AbstractAsyncContextManager[RunningPlugin]:
    """Starts the plugin in `directory`; raises what keeps it from starting."""
    return run_plugin(directory, SystemClock(), config=config, env=env, limits=limits, isolation=isolation)


async def plugin_problems(
    directory: str | Path, *, config: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None
) -> list[str]:
    """Checks the plugin in `directory` against the contract; gives every violation."""
    return await check_contract(directory, SystemClock(), config=config, env=env)
