"""The record of accepted hooks, `hooks-trust.json`: a handler runs only while its files are as they were accepted."""

import hashlib
from pathlib import Path
from typing import Literal

from msgspec import Struct

from openclaw.core.errors import StateError
from openclaw.plugins.hooks.manifest import HookDirectory
from openclaw.storage.accepted import AcceptedStore
from openclaw.storage.digests import Identity, Unverifiable, identity_of, walk

FILE = "hooks-trust.json"
MAX_FILES = 500
MAX_BYTES = 32 << 20
UNCOUNTED = frozenset({".git", ".DS_Store"})


Approver = Literal["owner", "first-use", "install"]


class AcceptedHook(Struct, frozen=True, kw_only=True, rename="camel"):
    """What was accepted, when and by whom."""

    name: str
    sha256: str
    approved_at: int
    approved_by: Approver
    spec: str = ""
    """Where it was installed from."""


class AcceptedHooks(AcceptedStore[AcceptedHook]):
    """Accepted hooks by directory."""

    def __init__(self, state: Path) -> None:
        otherwise = "mend it, or move it away and enable your hooks again"
        super().__init__(state / FILE, "hooks", AcceptedHook, otherwise)
        self._digests: dict[str, tuple[tuple[tuple[str, Identity], ...], str]] = {}

    def accept(self, hook: HookDirectory, by: Approver, now: int) -> None:
        """Records a hook as it is now; raises `StateError` when it cannot be digested."""
        self.record(hook.name, hook.directory, by, now)

    def record(self, name: str, directory: str, by: Approver, now: int, spec: str = "") -> None:
        """Records the hook in `directory`; one that was installed stays installed from where it came."""
        try:
            sha256 = self.digest(directory)
        except Unverifiable as error:
            raise StateError(f"{name} cannot be accepted: {error}") from error
        with self.changing() as entries:
            known = entries.get(directory)
            spec = spec or (known.spec if known else "")
            entries[directory] = AcceptedHook(name=name, sha256=sha256, approved_at=now, approved_by=by, spec=spec)

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
        except Unverifiable as error:
            return str(error)
        except StateError as error:
            return error.message
        return ""

    def digest(self, directory: str) -> str:
        """One digest over everything in `directory`, cached until a file changes."""
        try:
            entries = walk(directory, UNCOUNTED, most_files=MAX_FILES, most_bytes=MAX_BYTES, private=True)
            files = [(path, about) for path, about in entries if about is not None]
            signature = tuple((path, identity_of(about)) for path, about in files)
            known = self._digests.get(directory)
            if known is not None and known[0] == signature:
                return known[1]
            whole = hashlib.sha256()
            for path, about in files:
                content = hashlib.sha256((Path(directory) / path).read_bytes()).hexdigest()
                whole.update(f"{path}\0{about.st_mode & 0o111:o}\0{content}\n".encode())
        except OSError as error:
            raise Unverifiable(f"{error.filename or directory} cannot be read: {error.strerror}") from error
        self._digests[directory] = (signature, whole.hexdigest())
        return whole.hexdigest()
