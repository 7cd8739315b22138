"""Keeps a memory index in step with its notes: watches their directories, or syncs every so often."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError
from openclaw.memory.files import LONG_TERM_FILES
from openclaw.memory.index import MemoryIndex
from openclaw.process.tasks import run_in_thread

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

STEP_MS = 250
"""How often the watching thread wakes up to look whether something came, or whether it is to end."""


async def watch(memory: MemoryIndex, warn: Callable[[str], None]) -> None:
    """Syncs the index whenever notes change, until cancelled.

    Where the system cannot watch files, warns once and returns; every search then scans the files itself.
    """
    try:
        while True:
            await _watch_once(memory)
    except (OSError, RuntimeError) as error:
        warn(f"memory: notes cannot be watched here ({error}); every search looks at them instead")
    finally:
        memory.watched = False


async def sync_periodically(memory: MemoryIndex, clock: Clock) -> None:
    """Syncs the index every `sync.intervalMinutes`, until cancelled."""
    while True:
        await clock.sleep(memory.settings.sync.interval_minutes * 60)
        memory.changed()
        await _sync(memory)


async def _watch_once(memory: MemoryIndex) -> None:
    """Watches until the set of directories changes."""
    places = _places(memory)
    names = [str(place) for place in places]
    debounce = max(50, memory.settings.sync.watch_debounce_ms)
    with ExitStack() as stack:
        # Not recursive: a link that leads back up would never end, and what is new is found by looking again.
        notify = stack.enter_context(_notifier()(names, False, False, 0, False, True))
        thread = stack.enter_context(ThreadPoolExecutor(1, "notes"))
        # What changed before it was watched is found by one sync.
        memory.watched = True
        memory.changed()
        await _sync(memory)
        while _places(memory) == places:
            seen = await run_in_thread(lambda stop: notify.watch(debounce, min(STEP_MS, debounce), 0, stop), thread)
            if not isinstance(seen, set):  # asked to stop, or a signal
                return
            if notes := frozenset(path for _, path in seen if _is_note(memory, Path(path))):
                await _sync(memory, notes)


def _is_note(memory: MemoryIndex, path: Path) -> bool:
    workspace = memory.plan.scope.workspace
    markdown = path.suffix.lower() == ".md" or not path.suffix
    if not path.is_relative_to(workspace):
        return markdown
    top, *rest = path.relative_to(workspace).parts or ("",)
    return top == "memory" and markdown if rest else top in (*LONG_TERM_FILES, "memory")


def _places(memory: MemoryIndex) -> list[Path]:
    """What to watch: the workspace, and every directory and file of notes."""
    scope = memory.plan.scope
    found = [scope.workspace]
    for top in (scope.workspace / "memory", *(path for path, _ in scope.places())):
        if top.is_symlink() or not top.exists():
            continue
        found.append(top)
        for directory, inside, _ in os.walk(top):
            found += [Path(directory, name) for name in inside if not Path(directory, name).is_symlink()]
    return list(dict.fromkeys(found))


async def _sync(memory: MemoryIndex, only: frozenset[str] = frozenset()) -> None:
    try:
        await memory.sync(only=only)
    except OpenClawError:
        # Logged where it happened; the next change tries again.
        await asyncio.sleep(0)


@cache
def _notifier() -> "type[RustNotify]":
    """The compiled part of watchfiles. Its package would load anyio, 1.5 MiB, for a loop that is ours."""
    package = PathFinder.find_spec("watchfiles")
    found = PathFinder.find_spec("watchfiles._rust_notify", package.submodule_search_locations) if package else None
    if found is None or found.loader is None:
        raise OSError("watchfiles is not installed")
    module = module_from_spec(found)
    found.loader.exec_module(module)
    kind: type[RustNotify] = module.RustNotify
    return kind
