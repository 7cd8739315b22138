"""Following the notes as they change, for a process that lives on."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError
from openclaw.memory.discover import CURATED
from openclaw.memory.index import MemoryIndex


async def watch(memory: MemoryIndex, warn: Callable[[str], None] = lambda line: None) -> None:
    """Brings the index up to date whenever notes change, until it is cancelled.

    Where the system cannot watch, it says so once and ends; every search then looks at the files itself.
    """
    try:
        while True:
            await _watch_once(memory)
    except* (OSError, RuntimeError) as group:
        warn(f"memory: notes cannot be watched here ({group.exceptions[0]}); every search looks at them instead")
    finally:
        memory.watched = False


async def _watch_once(memory: MemoryIndex) -> None:
    """Watches until the directories to watch are others."""
    workspace = memory.plan.scope.workspace
    places = _places(memory)
    other = asyncio.Event()

    async def top() -> None:
        async for _ in _changes(memory, (workspace,), other, recursive=False):
            if _places(memory) != places:
                other.set()

    async def deep() -> None:
        async for _ in _changes(memory, places, other, recursive=True):
            pass

    async with asyncio.TaskGroup() as group:
        group.create_task(top(), name="memory:watch")
        if places:
            group.create_task(deep(), name="memory:watch")
        # Both are in place after their first step; what changed before that is found by looking once.
        await asyncio.sleep(0)
        memory.watched = True
        memory.changed()
        await _sync(memory)


async def _changes(
    memory: MemoryIndex, places: tuple[Path, ...], stop: asyncio.Event, *, recursive: bool
) -> AsyncIterator[None]:
    from watchfiles import Change, awatch

    workspace = memory.plan.scope.workspace

    def ours(change: Change, path: str) -> bool:
        return _is_note(Path(path), workspace)

    async for seen in awatch(
        *places,
        watch_filter=ours,
        debounce=max(50, memory.settings.sync.watch_debounce_ms),
        step=50,
        stop_event=stop,
        recursive=recursive,
        ignore_permission_denied=True,
    ):
        await _sync(memory, frozenset(path for _, path in seen))
        yield


async def repeat(memory: MemoryIndex, clock: Clock, minutes: float) -> None:
    """Brings the index up to date every so often, until it is cancelled."""
    while True:
        await clock.sleep(minutes * 60)
        memory.changed()
        await _sync(memory)


async def _sync(memory: MemoryIndex, only: frozenset[str] = frozenset()) -> None:
    try:
        await memory.sync(only=only)
    except OpenClawError:
        # Said already where it happened; the next change tries again.
        await asyncio.sleep(0)


def _places(memory: MemoryIndex) -> tuple[Path, ...]:
    """The directories of notes; the workspace itself is watched without what is below it."""
    scope = memory.plan.scope
    wanted = (scope.workspace / "memory", *(path for path, _ in scope.places()))
    return tuple(path for path in wanted if path.exists() and not path.is_symlink())


def _is_note(path: Path, workspace: Path) -> bool:
    if not path.is_relative_to(workspace):
        return path.suffix.lower() == ".md" or not path.suffix
    parts = path.relative_to(workspace).parts
    if len(parts) == 1:
        return parts[0] in (*CURATED, "memory")
    return parts[0] == "memory" and (path.suffix.lower() == ".md" or not path.suffix)
