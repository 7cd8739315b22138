"""A skill as found on disk, and the sources of skills by precedence. Pure."""

from typing import Literal, get_args

from msgspec import Struct

from openclaw.skills.manifest import Reference, SkillManifest
from openclaw.storage.digests import TreeDigest

Source = Literal[
    "cli",
    "openclaw-workspace",
    "agents-skills-project",
    "agents-skills-personal",
    "package",
    "plugin",
    "openclaw-managed",
    "openclaw-bundled",
    "openclaw-extra",
]
PRECEDENCE: tuple[Source, ...] = get_args(Source)
"""Highest first: of two skills with one name, the one from the earlier source is used."""

BUNDLED: Source = "openclaw-bundled"

RECORDS = ".openclaw"
ORIGIN = "source-origin.json"
"""In `RECORDS` of a skill that was installed: where it came from."""


class Skill(Struct, frozen=True, kw_only=True):
    """One skill on disk."""

    manifest: SkillManifest
    file_path: str
    """Its SKILL.md, links not resolved."""
    base_dir: str
    """Its directory, links resolved."""
    source: Source
    owned: bool
    """Whether the owner of this installation put it there."""
    content_hash: str
    tree: TreeDigest | None = None
    problem: str = ""
    """Why its directory cannot be verified."""
    plugin: str = ""
    outside: tuple[Reference, ...] = ()

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def rank(self) -> int:
        return PRECEDENCE.index(self.source)

    @property
    def bundled(self) -> bool:
        return self.source == BUNDLED

    @property
    def version(self) -> str:
        return f"sha256:{self.content_hash[:12]}"


class SkillProblem(Struct, frozen=True, kw_only=True):
    """A path skipped by the scan, and why."""

    kind: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Collision(Struct, frozen=True, kw_only=True):
    """Two skills with one name."""

    name: str
    winner: Skill
    loser: Skill

    def __str__(self) -> str:
        return (
            f'Skill precedence collision: skill="{self.name}" winner={self.winner.source}:{self.winner.file_path} '
            f"loser={self.loser.source}:{self.loser.file_path}"
        )
