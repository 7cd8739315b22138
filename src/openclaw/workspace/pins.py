"""Pins the instruction files of a workspace: changes are told of, or held back until the owner has looked."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import structs

from openclaw.core.errors import NotFound
from openclaw.core.settings import Live
from openclaw.storage import atomic
from openclaw.workspace.files import WorkspaceFile, load
from openclaw.workspace.history import VERSIONED_FILES

Pinning = Literal["off", "notify", "hold"]
FOLDER = "workspace-pins"
REVIEW = "openclaw workspace review"
HELD = f"it was changed since you last looked, and is used as it was then: {REVIEW}"


class PinningSettings(Protocol):
    @property
    def bootstrap_pinning(self) -> Pinning: ...


class BootstrapPins:
    """The accepted versions of the files that every prompt holds; memory is not among them."""

    def __init__(self, state: Path, settings: Live[PinningSettings] | None = None) -> None:
        self._state = state
        self.settings = settings

    def apply(self, workspace: Path, loaded: tuple[WorkspaceFile, ...]) -> tuple[tuple[WorkspaceFile, ...], list[str]]:
        """The files as they may be used, and the names of those that changed."""
        folder = self._folder(workspace)
        if not folder.is_dir():  # seen for the first time
            self.accept(workspace, loaded)
            return loaded, []
        changed = {file.name: accepted for file in loaded if (accepted := self._before(folder, file)) is not None}
        if not changed or not self._holds:
            return loaded, list(changed)
        held = [
            structs.replace(file, content=changed[file.name], missing=not changed[file.name], note=HELD, raw_chars=None)
            if file.name in changed
            else file
            for file in loaded
        ]
        return tuple(held), list(changed)

    def tell(self, workspace: Path, changed: Sequence[str]) -> tuple[str, ...]:
        """What the owner is told about files that changed; where they are only told of, once."""
        if not changed:
            return ()
        names = ", ".join(changed)
        if self._holds:
            return (f"Changed since you last looked, and used as they were then: {names}. Look at them: {REVIEW}",)
        self.accept(workspace)
        return (
            f"Changed since the last time, and used as they are now: {names}. Was that not you? Their earlier versions"
            " are on the page Agents.",
        )

    @property
    def _holds(self) -> bool:
        return self.settings is not None and self.settings.current.bootstrap_pinning == "hold"

    def changes(self, workspace: Path) -> list[tuple[str, str, str]]:
        """Name, accepted text and present text of every file that changed."""
        folder = self._folder(workspace)
        if not folder.is_dir():
            return []
        files = load(workspace, names=VERSIONED_FILES)
        return [
            (file.name, before, file.content) for file in files if (before := self._before(folder, file)) is not None
        ]

    def accept(self, workspace: Path, files: Sequence[WorkspaceFile] | None = None) -> None:
        """Takes the files as they are now, or `files` alone, for the accepted ones."""
        folder = self._folder(workspace)
        for file in files if files is not None else load(workspace, names=VERSIONED_FILES):
            if file.name in VERSIONED_FILES and not file.problem:
                atomic.replace_file(folder / file.name, file.content.encode())

    def reject(self, workspace: Path) -> list[str]:
        """Puts the accepted versions back; gives their names."""
        found = self.changes(workspace)
        for name, before, _ in found:
            path = workspace / name
            if path.is_symlink():
                raise NotFound(f"{path} is a link: change it on the machine itself")
            if before:
                atomic.replace_file(path, before.encode(), mode=0o644)
            else:
                path.unlink(missing_ok=True)
        return [name for name, _, _ in found]

    def _folder(self, workspace: Path) -> Path:
        return self._state / FOLDER / hashlib.sha256(str(workspace.resolve()).encode()).hexdigest()[:24]

    def _before(self, folder: Path, file: WorkspaceFile) -> str | None:
        """The accepted text of a file that is not as it was; None for all others, and for one that is gone."""
        if file.name not in VERSIONED_FILES or file.missing or file.problem:
            return None
        try:
            before = (folder / file.name).read_text()
        except FileNotFoundError:
            before = ""
        return before if before != file.content else None
