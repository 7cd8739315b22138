"""Boxes that nobody uses any more are emptied: the container goes, home and /tmp go, a workspace with files stays."""

import asyncio
import logging
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from openclaw.core.clock import Clock
from openclaw.core.keys import parse
from openclaw.core.sandbox import Sandbox
from openclaw.gateway.boxes import SandboxService
from openclaw.policy.confine import PruneRules, lenient, outlived

log = logging.getLogger(__name__)


class _Place(Struct, frozen=True):
    path: Path
    made: float
    used: float


async def prune(boxes: SandboxService, agents: list[str], busy: set[str], clock: Clock) -> int:
    """Empties what has outlived `sandbox.prune`, except boxes of the sessions in `busy`; gives how many went."""
    kept = {boxed.box.name for key in busy if (boxed := boxes.of(parse(key))) is not None}
    shared: dict[tuple[Path, str], PruneRules] = {}
    engines: dict[str, Sandbox] = {}
    for agent in agents:
        rules = boxes.rules(agent)
        where = (boxes.root(rules), rules.prefix)
        # Agents may share a place: what one of them wants to keep is kept.
        shared[where] = lenient(shared[where], rules.prune) if where in shared else rules.prune
        if rules.mode != "off":
            engines[rules.backend] = boxes.engine(rules)
    gone = 0
    for (root, prefix), limits in shared.items():
        for place in await asyncio.to_thread(_places, root, prefix):
            why = outlived(place.made, place.used, clock.now(), limits)
            if not why or place.path.name in kept:
                continue
            for engine in engines.values():
                await engine.discard(place.path.name)
            await asyncio.to_thread(_empty, place.path)
            log.info("the sandbox %s was emptied: %s", place.path.name, why)
            gone += 1
    return gone


def _places(root: Path, prefix: str) -> list[_Place]:
    found = []
    for path in sorted(root.glob(f"{prefix}*")) if root.is_dir() else ():
        if not (path / "home").is_dir():
            continue  # it was emptied before
        made, used = ((path / name if (path / name).exists() else path / "home") for name in ("made", "used"))
        with suppress(FileNotFoundError):  # somebody else makes it new
            found.append(_Place(path, made.stat().st_mtime, used.stat().st_mtime))
    return found


def _empty(place: Path) -> None:
    """First out of the way, so that a box that is used again in this moment gets new directories."""
    for name in ("home", "tmp"):
        aside = place / f"{name}.gone-{secrets.token_hex(4)}"
        with suppress(OSError):
            (place / name).rename(aside)
            shutil.rmtree(aside, ignore_errors=True)
    for name in ("made", "used"):
        (place / name).unlink(missing_ok=True)
    with suppress(OSError):  # it holds files, and they stay
        (place / "workspace").rmdir()
        shutil.rmtree(place)
