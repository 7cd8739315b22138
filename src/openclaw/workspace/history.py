"""Stores earlier versions of workspace files, one whenever a change is noticed.

Long-term memory is excluded: what a person deletes from it must be gone, and a version would keep it.
"""

import asyncio
import contextlib
import hashlib
import re
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Literal

from msgspec import Struct

from openclaw.core.errors import NotFound, StateError
from openclaw.storage import atomic
from openclaw.storage.atomic import Identity, identity_at
from openclaw.workspace.files import BOOTSTRAP_FILES

By = Literal["edit", "run", "elsewhere"]
"""Who changed it: a client through the gateway, a run, or anything else on the machine."""
UNVERSIONED_FILES = ("MEMORY.md", "memory.md")
VERSIONED_FILES = tuple(name for name in BOOTSTRAP_FILES if name not in UNVERSIONED_FILES)
MAX_VERSIONS = 100
"""Most versions of one file; the oldest is deleted."""
MOST_BYTES = 1024 * 1024
UNSTEADY_MS = 1000
_NAME = re.compile(r"(\d{13})-(edit|run|elsewhere)-([0-9a-f]{64})\Z")


class Version(Struct, frozen=True, kw_only=True, rename="camel"):
    """One version of a file."""

    id: str
    at: int
    by: By
    size: int
    hash: str


class FileHistory:
    """The versions of one agent's files, in a separate directory. Does file I/O: call it in a thread."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        self._folder = folder
        self._workspace = workspace
        self._paths = [str(workspace / name) for name in VERSIONED_FILES]
        self._seen: list[Identity | None] = []

    @property
    def is_behind(self) -> bool:
        """Whether a file changed since `notice`; fast enough for the event loop."""
        return self._seen != self._look()

    def _look(self) -> list[Identity | None]:
        return [identity_at(path, follow=False) for path in self._paths]

    def notice(self, by: By, at: int) -> None:
        """Stores a version of every file that changed."""
        seen = self._look()
        for name in VERSIONED_FILES:
            path = self._workspace / name
            with contextlib.suppress(OSError):
                if path.is_file() and not path.is_symlink() and path.stat().st_size <= MOST_BYTES:
                    self.keep(name, path.read_bytes(), by, at)
        # A file changed just now may change again within the same timestamp: do not trust its identity yet.
        self._seen = seen if all(each is None or each[3] < (at - UNSTEADY_MS) * 1_000_000 for each in seen) else []

    def keep(self, name: str, data: bytes, by: By, at: int) -> None:
        """Stores `data` as the newest version of `name`, unless it equals that."""
        if name not in VERSIONED_FILES:
            return
        known = self.versions(name)
        digest = hashlib.sha256(data).hexdigest()
        if known and known[0].hash == digest:
            return
        # Keeps the order of two changes within a millisecond.
        moment = max(at, known[0].at + 1) if known else at
        atomic.replace_file(self._folder / name / f"{moment:013d}-{by}-{digest}", data)
        for old in known[MAX_VERSIONS - 1 :]:
            (self._folder / name / old.id).unlink(missing_ok=True)

    def versions(self, name: str) -> list[Version]:
        """The versions of `name`, newest first."""
        found = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for path in (self._folder / name).iterdir():
                match = _NAME.match(path.name)
                if match is not None:
                    by: By = match[2]  # type: ignore[assignment]
                    size = path.stat().st_size
                    found.append(Version(id=path.name, at=int(match[1]), by=by, size=size, hash=match[3]))
        return sorted(found, key=attrgetter("id"), reverse=True)

    def read(self, name: str, version: str) -> bytes:
        """The content of a version."""
        match = _NAME.match(version)
        if match is None or name not in VERSIONED_FILES:
            raise NotFound(f"{name} has no version {version!r}: ask for its versions first")
        try:
            data = (self._folder / name / version).read_bytes()
        except OSError as error:
            raise NotFound(f"{name} has no version {version!r}: ask for its versions first") from error
        if hashlib.sha256(data).hexdigest() != match[3]:
            raise StateError(f"the version {version} of {name} was damaged on disk: use another one")
        return data


FOLDER = "workspace-history"


class WorkspaceHistories:
    """The histories of all agents."""

    def __init__(self, state: Path, workspace_of: Callable[[str], Path], now: Callable[[], int]) -> None:
        self._state = state
        self._workspace_of = workspace_of
        self._now = now
        self._kept: dict[tuple[str, Path], FileHistory] = {}
        self._waiting: asyncio.Queue[tuple[str, By]] = asyncio.Queue()
        """Agents whose files were seen to have changed."""
        self._turn = asyncio.Lock()
        """Serialises `notice`: two concurrent ones would store the same change twice."""

    def of(self, agent_id: str) -> FileHistory:
        workspace = self._workspace_of(agent_id)
        if (agent_id, workspace) not in self._kept:
            self._kept[agent_id, workspace] = FileHistory(self._state / FOLDER / agent_id, workspace)
        return self._kept[agent_id, workspace]

    async def notice(self, agent_id: str, by: By) -> FileHistory:
        """The history of an agent's files, brought up to date."""
        history = self.of(agent_id)
        if history.is_behind:
            async with self._turn:
                await asyncio.to_thread(history.notice, by, self._now())
        return history

    async def edited(self, agent_id: str, name: str, data: bytes) -> None:
        """Stores the version a client wrote through the gateway."""
        async with self._turn:
            await asyncio.to_thread(self.of(agent_id).keep, name, data, "edit", self._now())

    def look(self, agent_id: str, by: By) -> None:
        """Has versions stored of the files that have changed by now; mostly there are none, and nobody is woken."""
        if self.of(agent_id).is_behind:
            self._waiting.put_nowait((agent_id, by))

    async def keep(self) -> None:
        """Stores versions of what `look` has seen, until cancelled."""
        while True:
            await self.notice(*await self._waiting.get())
