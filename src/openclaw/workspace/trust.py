"""Decides whose words a directory holds: the owner's, or those of whoever made it or can write to it.

The configured workspace of this home is the owner's when it belongs to this user and nobody else can write to it. One
that somebody else owns or can write, and a checkout this home has never used, is untrusted until the owner says
otherwise.
"""

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

from openclaw.core.errors import StateError
from openclaw.storage import atomic
from openclaw.storage.locks import shared
from openclaw.workspace.files import BOOTSTRAP_FILES

Said = Literal["trusted", "untrusted"]


class DirectoryFacts(Struct, frozen=True, kw_only=True):
    """What the file system says about a directory."""

    path: str
    configured: bool = False
    """Named in the configuration, or the one the home makes by itself."""
    foreign: str = ""
    """A file or directory in it that belongs to another user; empty when there is none."""
    writable: str = ""
    """One that others can write to."""
    checkout: str = ""
    """The repository it is in."""


class DirectoryTrust(Struct, frozen=True, kw_only=True):
    """Whether the words in a directory are the owner's, and why."""

    trusted: bool
    why: str


def judge(facts: DirectoryFacts, said: Said | None) -> DirectoryTrust:
    """The owner's word first, then who owns it and who can write to it."""
    if said is not None:
        return DirectoryTrust(trusted=said == "trusted", why="you said so")
    if facts.foreign:
        return DirectoryTrust(trusted=False, why=f"{facts.foreign} belongs to another user")
    if facts.writable:
        return DirectoryTrust(trusted=False, why=f"others can write to {facts.writable}")
    if facts.configured:
        return DirectoryTrust(trusted=True, why="it is the workspace of this home")
    if facts.checkout:
        return DirectoryTrust(trusted=False, why=f"it is a checkout ({facts.checkout}) that was not used here before")
    return DirectoryTrust(trusted=True, why="it is your own directory")


def look(path: Path, *, configured: bool) -> DirectoryFacts:
    """Reads the facts; what is not there says nothing."""
    foreign = writable = ""
    places = (path, *(path / name for name in BOOTSTRAP_FILES)) if sys.platform != "win32" else ()
    for place in places:
        with suppress(OSError):
            about = place.stat()
            foreign = foreign or (str(place) if about.st_uid != os.getuid() else "")
            # A group of one's own is usual, and has nobody else in it.
            shared = stat.S_IWOTH | (stat.S_IWGRP if about.st_gid != os.getgid() else 0)
            sticky = about.st_mode & stat.S_ISVTX
            writable = writable or (str(place) if about.st_mode & shared and not sticky else "")
    above = next((each for each in (path, *path.parents) if (each / ".git").exists()), None)
    return DirectoryFacts(
        path=str(path), configured=configured, foreign=foreign, writable=writable, checkout=str(above) if above else ""
    )


class _TrustDocument(Struct, kw_only=True):
    version: int = 1
    directories: dict[str, Said] = field(default_factory=dict)


class TrustStore:
    """What the owner said about directories: `workspace-trust.json` in the state directory, read when it changed."""

    def __init__(self, state: Path) -> None:
        self.path = state / "workspace-trust.json"
        self._read: tuple[int, _TrustDocument] = (-1, _TrustDocument())

    def said(self, path: Path) -> Said | None:
        return self._document().directories.get(os.path.realpath(path))

    def set(self, path: Path, said: Said | None) -> None:
        """Records what the owner says; None takes it back."""
        with shared(self.path):
            document = self._document()
            document.directories.pop(os.path.realpath(path), None)
            if said is not None:
                document.directories[os.path.realpath(path)] = said
            atomic.replace_file(self.path, msgspec.json.format(msgspec.json.encode(document)) + b"\n")

    def all(self) -> dict[str, Said]:
        return dict(self._document().directories)

    def trust(self, path: Path, *, configured: bool = False) -> DirectoryTrust:
        return judge(look(path, configured=configured), self.said(path))

    def _document(self) -> _TrustDocument:
        try:
            changed = self.path.stat().st_mtime_ns
            if changed != self._read[0]:
                self._read = (changed, msgspec.json.decode(self.path.read_bytes(), type=_TrustDocument))
        except FileNotFoundError:
            self._read = (-1, _TrustDocument())
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # Nothing is trusted by a file nobody can read; nothing of it is lost either.
            raise StateError(f"{self.path} is not valid: repair it or move it away") from error
        return self._read[1]
