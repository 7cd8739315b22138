"""`session.maintenance`: removes what programs left behind; what a person said stays unless they want it gone."""

import logging
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from openclaw.core.clock import Clock, millis
from openclaw.core.keys import SessionKey
from openclaw.core.settings import Live
from openclaw.sessions.index import SessionIndex, SessionRow
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.service import RunState
from openclaw.sessions.settings import MaintenanceSettings, SessionSettings, seconds_of, size_of

log = logging.getLogger(__name__)

AT_ONCE = 200
"""The most sessions one sweep removes; the next one continues."""
HIGH_WATER = 0.8


class OldSession(Struct, frozen=True):
    """A session that no person speaks in, and the size of its transcript."""

    row: SessionRow
    size: int


class OldFile(Struct, frozen=True):
    """A transcript that was set aside: when, and its size."""

    path: Path
    at: int
    size: int


class Removal(Struct, frozen=True):
    """What is to go."""

    sessions: tuple[OldSession, ...] = ()
    files: tuple[OldFile, ...] = ()

    def __str__(self) -> str:
        counts = f"{len(self.sessions)} conversation(s) of programs and {len(self.files)} old transcript(s)"
        return f"{counts}, {_size(self.sessions, self.files):,} bytes"


def is_disposable(key: SessionKey) -> bool:
    """Whether no person speaks in a session; `cron.sessionRetention` is for those of jobs."""
    return key.is_hook or key.is_subagent or key.is_acp


def plan_removal(
    settings: MaintenanceSettings,
    now: int,
    listed: int,
    total: int,
    old: Sequence[OldSession],
    aside: Sequence[OldFile],
) -> Removal:
    """What is too old, too many or too much, of `old` and `aside`; `listed` sessions take `total` bytes with them."""
    sessions = sorted(old, key=lambda each: each.row.updated_at)
    files = sorted(aside, key=lambda each: each.at)
    before = now - round(seconds_of(settings.prune_after) * 1000)
    gone = sum(each.row.updated_at < before for each in sessions)
    gone = min(len(sessions), max(gone, listed - settings.max_entries))
    kept = settings.reset_archive_retention
    erased = sum(each.at < now - round(seconds_of(kept) * 1000) for each in files) if kept else 0
    most = size_of(settings.max_disk_bytes)
    if most and total > most:
        level = most * HIGH_WATER if settings.high_water_bytes is None else size_of(settings.high_water_bytes)
        left = total - _size(sessions[:gone], files[:erased])
        while left > level and erased < len(files):
            left -= files[erased].size
            erased += 1
        while left > level and gone < len(sessions):
            left -= sessions[gone].size
            gone += 1
    return Removal(tuple(sessions[:gone]), tuple(files[:erased]))


class SessionMaintenance:
    """Sweeps the sessions of all agents."""

    def __init__(
        self,
        index: SessionIndex,
        lifecycle: SessionLifecycle,
        runs: RunState,
        clock: Clock,
        settings: Live[SessionSettings],
    ) -> None:
        self._index = index
        self._lifecycle = lifecycle
        self._runs = runs
        self._clock = clock
        self._settings = settings
        self._warned = Removal()

    async def sweep(self) -> None:
        """Removes what has had its time; with `mode: warn` it only says what that would be."""
        settings = self._settings.current.maintenance
        found = await self._plan(settings)
        if found == self._warned or not (found.sessions or found.files):
            return
        if settings.mode == "warn":
            self._warned = found
            log.warning("session.maintenance would remove %s", found)
            return
        for each in found.sessions[:AT_ONCE]:
            await self._lifecycle.erase(each.row.key, each.row.session_id)
        for file in found.files:
            await self._index.store.remove(file.path)
        log.info("session.maintenance removed %s", Removal(found.sessions[:AT_ONCE], found.files))

    async def _plan(self, settings: MaintenanceSettings) -> Removal:
        rows = await self._index.list()
        chosen = await self._lifecycle.all_preferences()
        eligible = [
            row
            for row in rows
            if is_disposable(row.key)
            and not self._runs.active(row.key)
            and not (row.session_key in chosen and chosen[row.session_key].pinned)
        ]
        sizes = await self._index.store.sizes()
        old = [OldSession(row, sizes.get(self._index.path(row.agent_id, row.session_id), 0)) for row in eligible]
        aside = [OldFile(path, at, size) for path, size in sizes.items() if (at := _set_aside_at(path))]
        return plan_removal(settings, millis(self._clock), len(rows), sum(sizes.values()), old, aside)


def _size(sessions: Sequence[OldSession], files: Sequence[OldFile]) -> int:
    return sum(each.size for each in sessions) + sum(each.size for each in files)


def _set_aside_at(path: Path) -> int:
    """When a transcript was set aside, as its name tells; 0 for every other file."""
    _, _, rest = path.name.partition(".jsonl.")
    why, _, at = rest.partition(".")
    return int(at) if why in ("reset", "deleted") and at.isdecimal() else 0
