"""A workspace with notes, and a memory over it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from openclaw.core.clock import Timer
from openclaw.core.embedder import Embedder, EmbedderEndpoint, Vector
from openclaw.core.secret import Secret
from openclaw.memory.embedders.hashed import HashedEmbedder
from openclaw.memory.index import MemoryIndex
from openclaw.memory.service import open_memory
from openclaw.memory.settings import MemorySearchSettings

NOW = 1_794_700_800.0  # 15 November 2026


class StillClock:
    """Time stands still; sleeping is instant and remembered."""

    def __init__(self) -> None:
        self.time = NOW
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)

    def call_later(self, seconds: float, work: Callable[[], object]) -> Timer:
        raise NotImplementedError


class Counting(HashedEmbedder):
    """The hashing embedder, which remembers what it was asked; `fail` makes it raise."""

    def __init__(self, model: str = "hash-256") -> None:
        super().__init__(model)
        self.seen: list[str] = []
        self.fail: Exception | None = None
        self.closed = False

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        if self.fail is not None:
            raise self.fail
        self.seen += texts
        return await super().embed(texts)

    async def close(self) -> None:
        self.closed = True


class House:
    """One agent's files and settings; `opened` gives its memory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "workspace"
        (self.workspace / "memory").mkdir(parents=True)
        self.state = root / "state"
        self.clock = StillClock()
        self.warnings: list[str] = []
        self.embedders: dict[str, Embedder] = {}

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def embedder(self, endpoint: EmbedderEndpoint) -> Embedder:
        return self.embedders.setdefault(endpoint.provider, Counting(endpoint.model or "hash-256"))

    @asynccontextmanager
    async def opened(
        self, *, agent: str = "main", keys: dict[str, Secret] | None = None, **settings: Any
    ) -> AsyncIterator[MemoryIndex]:
        chosen = msgspec.convert({"provider": "none", **settings}, MemorySearchSettings)
        memory = open_memory(
            chosen,
            agent_id=agent,
            workspace=self.workspace,
            state=self.state,
            home=self.root,
            clock=self.clock,
            keys=keys or {},
            build=self.embedder,
            problem=lambda endpoint: "" if endpoint.provider != "local" else "the local model is not installed",
            warn=self.warnings.append,
        )
        try:
            yield memory
        finally:
            await memory.close()


async def paths(memory: MemoryIndex, query: str, **options: Any) -> list[str]:
    return [found.piece.path for found in (await memory.search(query, **options)).results]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)
