"""Notes that change while a process lives on."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from openclaw.agent.settings import AgentsSettings
from openclaw.core.settings import Fixed
from openclaw.memory.embedders.pool import EmbedderSource
from openclaw.memory.index import MemoryIndex
from openclaw.memory.service import MemoryService
from openclaw.memory.settings import MemorySettings
from openclaw.memory.watch import watch
from openclaw.models.settings import ModelsSettings
from openclaw.plugins.settings import PluginsSettings
from openclaw.process.environment import Environment
from openclaw.workspace.seed import Workspaces
from tests.memory.conftest import House

pytestmark = pytest.mark.anyio
QUICK = {"watchDebounceMs": 60, "onSearch": False}


@asynccontextmanager
async def watched(house: House):
    async with house.opened(sync=QUICK) as memory:
        task = asyncio.ensure_future(watch(memory, house.warnings.append))
        async with asyncio.timeout(120):
            while not (memory.watched and (await memory.status()).synced_at):
                await asyncio.sleep(0.01)
        try:
            yield memory
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def until(memory: MemoryIndex, query: str, wanted: Callable[[list[str]], bool]) -> None:
    async with asyncio.timeout(120):
        while True:
            found = [item.piece.path for item in (await memory.search(query)).results]
            if wanted(found):
                return
            await asyncio.sleep(0.02)


async def test_watching_leaves_the_threads_of_others_free(house: House):
    with ThreadPoolExecutor(1) as few:
        asyncio.get_running_loop().set_default_executor(few)
        house.write("memory/a.md", "first\n")
        async with watched(house):
            assert await asyncio.wait_for(asyncio.to_thread(lambda: "done"), 120) == "done"


async def test_edits_renames_and_removals_are_followed(house: House):
    house.write("memory/a.md", "first\n")
    async with watched(house) as memory:
        house.write("memory/deep/b.md", "zanzibar\n")
        await until(memory, "zanzibar", lambda found: found == ["memory/deep/b.md"])
        (house.workspace / "memory/deep/b.md").rename(house.workspace / "memory/c.md")
        await until(memory, "zanzibar", lambda found: found == ["memory/c.md"])
        (house.workspace / "memory/c.md").unlink()
        await until(memory, "zanzibar", lambda found: found == [])


async def test_an_editor_that_replaces_the_file_is_followed(house: House):
    house.write("MEMORY.md", "old\n")
    async with watched(house) as memory:
        beside = house.write(".MEMORY.md.swp", "the new zanzibar\n")
        beside.rename(house.workspace / "MEMORY.md")
        await until(memory, "zanzibar", lambda found: found == ["MEMORY.md"])


async def test_a_memory_directory_that_appears_later_is_followed(house: House):
    (house.workspace / "memory").rmdir()
    async with watched(house) as memory:
        house.write("memory/a.md", "mombasa\n")
        await until(memory, "mombasa", lambda found: found == ["memory/a.md"])
        house.write("memory/b.md", "zanzibar\n")
        await until(memory, "zanzibar", lambda found: found == ["memory/b.md"])


async def test_every_so_often_means_every_so_often(house: House):
    house.write("memory/a.md", "zanzibar\n")
    sync = {"onSearch": False, "watch": False, "intervalMinutes": 5}
    agents = {"defaults": {"memorySearch": {"provider": "none", "sync": sync}}}
    service = MemoryService(
        Environment(environ={"OPENCLAW_STATE_DIR": str(house.state)}, home_dir=house.root, cwd=house.root),
        house.clock,
        cast(Workspaces, SimpleNamespace(of=lambda agent: house.workspace)),
        cast(EmbedderSource, None),
        agents=Fixed(msgspec.convert(agents, AgentsSettings)),
        settings=Fixed(MemorySettings()),
        models=Fixed(ModelsSettings()),
        slots=Fixed(PluginsSettings()),
        variables=Fixed(dict[str, str]()),
    )
    following = asyncio.ensure_future(service.follow())
    memory = service.of("main")
    assert memory is not None
    await until(memory, "zanzibar", lambda found: found == ["memory/a.md"])
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    await service.close()
    assert house.clock.slept[0] == 300
