"""Memory searched with the embedder of a plugin: by meaning, and by words, with the reason, when it is not there."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from openclaw.core.embedder import EmbedderEndpoint
from openclaw.core.errors import RateLimited
from openclaw.core.plugin import OpensEmbedder
from openclaw.memory.embedders.pool import build_embedder
from openclaw.memory.index import MemoryIndex, SearchAnswer
from openclaw.memory.service import open_memory
from openclaw.memory.settings import MemorySearchSettings
from openclaw.process.tasks import SystemClock
from openclaw.testing import Calls, Says, TemporaryHome, calls, says
from openclaw.testing_server import MockModelServer
from tests.commandline import openclaw
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE, Bench, bench, write

pytestmark = pytest.mark.anyio

THEMES = """
from openclaw.plugin import Api, EmbedderEndpoint, RateLimited, Traits

WORDS = [("ship", "vessel", "boat"), ("tea", "beverage", "drink"), ("dentist", "teeth")]

class Themes:
    traits = Traits(max_bytes=4_000, unrelated=0.1, alike=0.9)

    def __init__(self, endpoint: EmbedderEndpoint, config) -> None:
        self.model = endpoint.model or config.get("model", "themes-1")
        self._more = config.get("more", 0)
        self._limited = config.get("limited", 0)

    def _vector(self, text):
        low = text.lower()
        found = [float(any(word in low for word in theme)) for theme in WORDS]
        return [*found, 0.05, *([0.0] * self._more)]

    async def embed(self, texts):
        if self._limited:
            self._limited -= 1
            raise RateLimited("slowly, please", retry_after=0.01)
        return [self._vector(text) for text in texts]

    async def embed_query(self, text):
        return self._vector(text)

    async def close(self):
        pass

def register(api: Api) -> None:
    api.embedder("themes", lambda endpoint: Themes(endpoint, api.config))
    api.embedder("openai", lambda endpoint: Themes(endpoint, api.config))
"""
SETTINGS = {"model": {"type": "string"}, "more": {"type": "integer"}, "limited": {"type": "integer"}}
DECLARED: dict[str, Any] = {
    "contracts": {"embedders": ["themes", "openai"]},
    "configSchema": {"type": "object", "properties": SETTINGS},
}
NOTES = {
    "memory/harbour.md": "# Harbour\n\nThe old boat was painted blue in spring.\n",
    "memory/kitchen.md": "# Kitchen\n\nTea in the afternoon, without milk.\n",
}


class Running:
    """`BringsEmbedders` of a bench."""

    def __init__(self, here: Bench) -> None:
        self._here = here

    async def ready(self) -> None:
        await self._here.plugins.settled()

    def embedder(self, name: str) -> OpensEmbedder | None:
        found = [brought.embedders[name] for brought in self._here.here.values() if name in brought.embedders]
        return found[0] if found else None


def plugin(root: Path, code: str = THEMES, **manifest: Any) -> Path:
    return write(root, "themes", code, **{**DECLARED, **manifest})


@asynccontextmanager
async def memory_of(tmp_path: Path, here: Bench, **settings: Any) -> AsyncIterator[MemoryIndex]:
    workspace = tmp_path / "workspace"
    for name, text in NOTES.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    memory = open_memory(
        msgspec.convert({"provider": "themes", **settings}, MemorySearchSettings),
        agent_id="main",
        workspace=workspace,
        state=tmp_path / "memory-state",
        home=tmp_path,
        clock=SystemClock(),
        keys={},
        build=partial(build_embedder, Running(here)),
    )
    try:
        yield memory
    finally:
        await memory.close()


async def indexed(memory: MemoryIndex, query: str = "vessel") -> SearchAnswer:
    async with asyncio.timeout(DEADLINE):
        await memory.sync()
        return await memory.search(query)


@pytest.mark.parametrize("isolation", ["process", "inprocess"])
async def test_notes_are_found_by_the_meaning_a_plugin_gives_them(tmp_path: Path, isolation: str) -> None:
    root = tmp_path / "plugins"
    plugin(root)
    entries = {"themes": {"isolation": isolation}}
    async with bench(tmp_path, root, entries=entries) as here, memory_of(tmp_path, here) as memory:
        answer = await indexed(memory)
        assert (answer.mode, answer.provider, answer.model) == ("hybrid", "themes", "themes-1")
        assert answer.results[0].piece.path == "memory/harbour.md" and answer.results[0].text is None
        vectors = memory.means.vectors()
        assert vectors is not None and vectors.traits.max_bytes == 4_000


async def test_without_its_plugin_words_are_searched_and_the_reason_is_said(tmp_path: Path) -> None:
    root = tmp_path / "plugins"
    plugin(root)
    async with bench(tmp_path, root) as here:
        async with memory_of(tmp_path, here) as memory:
            assert (await indexed(memory)).mode == "hybrid"
            pid = here.status("themes").pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await here.until("themes", "quarantined")
            answer = await memory.search("boat")
            assert answer.mode == "keyword" and answer.results[0].piece.path == "memory/harbour.md"
            assert "no plugin that runs brings an embedder themes" in answer.reason and not answer.unavailable
        async with memory_of(tmp_path, here) as memory:  # the next process, with the plugin still away
            answer = await indexed(memory, "boat")
            assert answer.mode == "keyword" and "no plugin that runs" in answer.reason
            assert "no plugin that runs" in (await memory.status()).reason
        await here.plugins.reload("themes", here.settings, here)
        async with memory_of(tmp_path, here) as memory:
            assert (await indexed(memory)).mode == "hybrid"


async def test_a_second_choice_takes_over_and_may_be_a_plugin(tmp_path: Path) -> None:
    root = tmp_path / "plugins"
    plugin(root)
    named = {"provider": "nobody", "fallback": "themes"}
    async with bench(tmp_path, root) as here, memory_of(tmp_path, here, **named) as memory:
        answer = await indexed(memory)
        assert (answer.mode, answer.provider) == ("hybrid", "themes")
        assert "no plugin that runs brings an embedder nobody" in answer.fallback


async def test_vectors_of_another_length_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "plugins"
    plugin(root)
    async with bench(tmp_path, root) as here, memory_of(tmp_path, here) as memory:
        assert (await indexed(memory)).mode == "hybrid"
        longer = {"load": {"paths": [str(root)]}, "entries": {"themes": {"config": {"more": 3}}}}
        await here.apply(longer)
        answer = await memory.search("boat")
        assert answer.mode == "keyword" and answer.results[0].piece.path == "memory/harbour.md"
        assert "7 numbers, and the index has 4" in answer.reason


async def test_a_plugin_that_comes_back_with_another_model_makes_the_index_anew(tmp_path: Path) -> None:
    root = tmp_path / "plugins"
    plugin(root)
    async with bench(tmp_path, root) as here, memory_of(tmp_path, here) as memory:
        assert (await indexed(memory)).model == "themes-1"
        other = {"model": "themes-2", "more": 3}
        await here.apply({"load": {"paths": [str(root)]}, "entries": {"themes": {"config": other}}})
        answer = await indexed(memory)
        assert (answer.mode, answer.model) == ("hybrid", "themes-2")


async def test_a_plugin_that_asks_for_patience_gets_it_and_is_not_put_away(tmp_path: Path) -> None:
    root = tmp_path / "plugins"
    plugin(root)
    limits, entries = {"failures": 2}, {"themes": {"config": {"limited": 3}}}
    async with bench(tmp_path, root, limits=limits, entries=entries) as here:
        opens = here.here["themes"].embedders["themes"]
        embedder = opens(EmbedderEndpoint(provider="themes"))
        for _ in range(3):
            with pytest.raises(RateLimited, match="slowly, please"):
                await embedder.embed(["boat"])
        assert len(await embedder.embed(["boat"])) == 1
        assert here.status("themes").state == "running"


def load(home: TemporaryHome) -> dict[str, Any]:
    return {"load": {"paths": [str(home.root / "plugins")]}}


async def test_the_gateway_searches_with_it_and_says_why_when_it_cannot(openclaw_home: TemporaryHome) -> None:
    plugin(openclaw_home.root / "plugins")
    for name, text in NOTES.items():
        (openclaw_home.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (openclaw_home.workspace / name).write_text(text)
    script: list[Says | Calls] = [
        calls("memory_search", query="vessel"),
        says("Blue."),
        calls("memory_search", query="boat"),
        says("Still blue."),
    ]
    chosen = {"agents": {"defaults": {"memorySearch": {"provider": "themes"}}}}
    with MockModelServer(script) as server:
        settings = server.settings()
        settings["agents"]["defaults"] |= chosen["agents"]["defaults"]
        openclaw_home.configure({**settings, "plugins": load(openclaw_home)})
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                await client.call("agent", {"message": "which colour?", "idempotencyKey": "1"}, final=True)
                found = document(server)
                assert found["provider"] == "themes" and found["results"][0]["path"] == "memory/harbour.md"
                listed = await client.call("plugins.list", {})
                assert "embedder openai was left out: something else has that name" in json.dumps(listed["diagnostics"])

                off = {**load(openclaw_home), "entries": {"themes": {"enabled": False}}}
                openclaw_home.configure({**settings, "plugins": off})
                async with asyncio.timeout(DEADLINE):
                    while (await client.call("plugins.list", {}))["plugins"][0]["state"] != "disabled":
                        await asyncio.sleep(0.1)
                await client.call("agent", {"message": "sure?", "idempotencyKey": "2"}, final=True)
                found = document(server)
                assert found["results"][0]["path"] == "memory/harbour.md"
                assert found["debug"]["mode"] == "keyword"
                assert "no plugin that runs brings an embedder themes" in found["debug"]["reason"]


def document(server: MockModelServer) -> dict[str, Any]:
    """The last result of a search, as the model read it."""
    results = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "tool"]
    text = results[-1] if isinstance(results[-1], str) else results[-1][0]["text"]
    found: dict[str, Any] = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return found


def test_the_command_line_starts_the_plugin_for_itself(
    openclaw_home: TemporaryHome,
) -> None:
    root = openclaw_home.root / "plugins"
    plugin(root)
    write(root, "broken", "import nothing_of_that_name\n")
    for name, text in NOTES.items():
        (openclaw_home.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (openclaw_home.workspace / name).write_text(text)
    openclaw_home.configure(
        {"agents": {"defaults": {"memorySearch": {"provider": "themes"}}}, "plugins": load(openclaw_home)}
    )

    def run(*arguments: str) -> str:
        done = openclaw("memory", *arguments, env=openclaw_home.environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert json.loads(run("index", "--json"))["waiting"] == 0
    found = json.loads(run("search", "vessel", "--json"))
    assert (found["provider"], found["results"][0]["path"]) == ("themes", "memory/harbour.md")
    assert json.loads(run("status", "--deep", "--json"))["meaning"] == "works"
