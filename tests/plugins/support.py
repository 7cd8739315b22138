"""Plugins written for a test, and a house that uses what they bring."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from openclaw.core.plugin import PluginContributions
from openclaw.core.tool import Output, Tool, ToolContext
from openclaw.plugins.find import FoundPlugin
from openclaw.plugins.manager import PluginManager, PluginStatus
from openclaw.plugins.settings import PluginEntry, PluginsSettings
from openclaw.process.tasks import SystemClock

DEADLINE = 300.0

TOOL = """
from openclaw.plugin import Api; from openclaw.plugin import FunctionTool

def register(api: Api) -> None:
    api.tool(FunctionTool("{name}", "Says something.", {{}}, run))

def run(args, context):
    {body}
"""


def write(root: Path, name: str, code: str, **manifest: Any) -> Path:
    """A plugin below `root`; gives its directory."""
    directory = root / name
    directory.mkdir(parents=True, mode=0o755, exist_ok=True)
    said = {"id": name, "configSchema": {"type": "object"}, **manifest}
    (directory / "openclaw.plugin.json").write_text(json.dumps(said))
    (directory / "plugin.py").write_text(code)
    return directory


def tool_plugin(root: Path, name: str, body: str, **manifest: Any) -> Path:
    """A plugin with one tool of its own name; `body` is the function."""
    code = TOOL.format(name=name, body=body.replace("\n", "\n    "))
    return write(root, name, code, contracts={"tools": [name]}, **manifest)


class Bench:
    """A house without walls: keeps what joins."""

    def __init__(self, state: Path, settings: Mapping[str, Any]) -> None:
        self.settings = msgspec.convert(settings, PluginsSettings)
        self.here: dict[str, PluginContributions] = {}
        self.plugins = PluginManager(state, state, SystemClock())

    def taken(self, plugin: str) -> Mapping[str, Iterable[str]]:
        others = [brought.names() for name, brought in self.here.items() if name != plugin]
        return {"tools": ["exec", *(tool for names in others for tool in names["tools"])]}

    def join(self, plugin: FoundPlugin, entry: PluginEntry, brought: PluginContributions) -> tuple[str, ...]:
        self.here[plugin.id] = brought
        return ()

    def leave(self, plugin: str) -> None:
        self.here.pop(plugin, None)

    async def apply(self, settings: Mapping[str, Any] | None = None) -> None:
        if settings is not None:
            self.settings = msgspec.convert(settings, PluginsSettings)
        await self.plugins.apply(self.settings, self)
        async with asyncio.timeout(DEADLINE):
            await self.plugins.settled()

    def status(self, name: str) -> PluginStatus:
        return self.plugins.status(name)

    def tool(self, plugin: str, name: str | None = None) -> Tool:
        return next(tool for tool in self.here[plugin].tools if tool.spec.name == (name or plugin))

    async def call(self, plugin: str, **args: Any) -> Output:
        async with asyncio.timeout(DEADLINE):
            return await self.tool(plugin).call(args, ToolContext(call_id="1", workspace=Path("/")))

    async def until(self, name: str, state: str) -> PluginStatus:
        async with asyncio.timeout(DEADLINE):
            while self.status(name).state != state:
                await asyncio.sleep(0.02)
        return self.status(name)


@asynccontextmanager
async def bench(tmp_path: Path, root: Path, **settings: Any):
    state = tmp_path / "state"
    found = Bench(state, {"load": {"paths": [str(root)]}, **settings})
    try:
        await found.apply()
        yield found
    finally:
        await found.plugins.close()
