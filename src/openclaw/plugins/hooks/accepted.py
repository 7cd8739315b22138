"""The record of accepted hooks, `hooks-trust.json`: a handler runs only while its files are as they were accepted."""

import hashlib
import os
import stat
from operator import attrgetter
from pathlib import Path
from typing import Literal

from msgspec import Struct

from openclaw.core.errors import StateError
from openclaw.plugins.hooks.manifest import HookDirectory
from openclaw.storage.accepted import AcceptedStore
from openclaw.storage.digests import Identity, identity_of

FILE = "hooks-trust.json"
MAX_FILES = 500
MAX_BYTES = 32 << 20
UNCOUNTED = frozenset({".git", ".DS_Store"})


class AcceptedHook(Struct, frozen=True, kw_only=True, rename="camel"):
    """What was accepted, when and by whom."""

    name: str
    sha256: str
    approved_at: int
    approved_by: Literal["owner", "first-use"]


class UnverifiableHook(ValueError):
    """A directory that cannot be digested safely; the text says why."""


class AcceptedHooks(AcceptedStore[AcceptedHook]):
    """Accepted hooks by directory."""

    def __init__(self, state: Path) -> None:
        otherwise = "mend it, or move it away and enable your hooks again"
        super().__init__(state / FILE, "hooks", AcceptedHook, otherwise)
        self._digests: dict[str, tuple[tuple[tuple[str, Identity], ...], str]] = {}

    def accept(self, hook: HookDirectory, by: Literal["owner", "first-use"], now: int) -> AcceptedHook:
        """Records a hook as it is now; raises `StateError` when it cannot be digested."""
        try:
            sha256 = self.digest(hook.directory)
        except UnverifiableHook as error:
            raise StateError(f"{hook.name} cannot be accepted: {error}") from error
        entry = AcceptedHook(name=hook.name, sha256=sha256, approved_at=now, approved_by=by)
        with self.changing() as entries:
            entries[hook.directory] = entry
        return entry

    def objection(self, hook: HookDirectory) -> str:
        """Why a hook must not run as it is now; empty when it may. Checked before every run."""
        if hook.bundled:
            return ""
        try:
            known = self.read().get(hook.directory)
            if known is None:
                return f"nobody has accepted it yet: look at its files, then openclaw hooks enable {hook.name}"
            if self.digest(hook.directory) != known.sha256:
                return f"its files changed since it was accepted: look at them, then openclaw hooks enable {hook.name}"
        except UnverifiableHook as error:
            return str(error)
        except StateError as error:
            return error.message
        return ""

    def digest(self, directory: str) -> str:
        """One digest over everything in `directory`, cached until a file changes."""
        try:
            files = _walk(directory)
            signature = tuple((path, identity_of(about)) for path, about in files)
            known = self._digests.get(directory)
            if known is not None and known[0] == signature:
                return known[1]
            whole = hashlib.sha256()
            for path, about in files:
                content = hashlib.sha256((Path(directory) / path).read_bytes()).hexdigest()
                whole.update(f"{path}\0{about.st_mode & 0o111:o}\0{content}\n".encode())
        except OSError as error:
            raise UnverifiableHook(f"{error.filename or directory} cannot be read: {error.strerror}") from error
        self._digests[directory] = (signature, whole.hexdigest())
        return whole.hexdigest()


def _walk(directory: str) -> list[tuple[str, os.stat_result]]:
    """Every file below `directory`, sorted; refuses links, special files and files others could change."""
    found: list[tuple[str, os.stat_result]] = []
    size = 0

    def visit(place: str, prefix: str) -> None:
        nonlocal size
        if stat.S_IMODE(Path(place).stat().st_mode) & 0o002:
            raise UnverifiableHook(f"everyone on this machine can write to {place}: chmod o-w {place}")
        with os.scandir(place) as listing:
            entries = sorted(listing, key=attrgetter("name"))
        for entry in entries:
            if entry.name in UNCOUNTED:
                continue
            about = entry.stat(follow_symlinks=False)
            size += about.st_size
            if len(found) >= MAX_FILES or size > MAX_BYTES:
                raise UnverifiableHook(
                    f"it holds more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB: keep data elsewhere"
                )
            if stat.S_ISDIR(about.st_mode):
                visit(entry.path, f"{prefix}{entry.name}/")
            elif not stat.S_ISREG(about.st_mode):
                raise UnverifiableHook(f"{prefix}{entry.name} is a link or no regular file: replace it with a copy")
            elif about.st_mode & 0o002:
                raise UnverifiableHook(f"everyone on this machine can write to {entry.path}: chmod o-w {entry.path}")
            else:
                found.append((prefix + entry.name, about))

    visit(directory, "")
    return found
