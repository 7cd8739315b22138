"""The skills a session works with: kept with the session, made anew only when something in it changed. Pure."""

import hashlib

import msgspec
from msgspec import Struct

from openclaw.core.text import PromptText
from openclaw.skills.catalog import CatalogLine, compose
from openclaw.skills.shelf import ListedSkill, SkillList


class SnapshotSkill(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    name: str
    skill_key: str
    primary_env: str = ""
    required_env: tuple[str, ...] = ()


class SkillSnapshot(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is stored with a session and reused each turn."""

    prompt: str
    skills: tuple[SnapshotSkill, ...] = ()
    skill_filter: tuple[str, ...] | None = None
    version: int = 0
    """When it was made, in milliseconds."""
    fingerprint: str = ""
    """Of everything it was made from; equal fingerprints mean there is nothing new."""

    @property
    def text(self) -> PromptText | None:
        """The list for the prompt; None when there is nothing to list."""
        return PromptText(self.prompt, "skills catalog", "skill") if self.prompt else None


def take(
    shelf: SkillList,
    *,
    home: str,
    max_skills: int,
    max_chars: int,
    now: int,
    skill_filter: tuple[str, ...] | None = None,
    previous: SkillSnapshot | None = None,
) -> SkillSnapshot:
    """The snapshot of `shelf`; `previous` itself when nothing it shows has changed."""
    usable = shelf.usable
    fingerprint = _fingerprint(usable, skill_filter, max_skills, max_chars)
    if previous is not None and previous.fingerprint == fingerprint:
        return previous
    lines = [line_of(item, home) for item in usable if item.model_visible]
    return SkillSnapshot(
        prompt=compose(lines, max_skills, max_chars).text,
        skills=tuple(
            SnapshotSkill(
                name=item.skill.name,
                skill_key=item.skill.manifest.key,
                primary_env=item.skill.manifest.primary_env,
                required_env=item.skill.manifest.requires.env,
            )
            for item in usable
        ),
        skill_filter=skill_filter,
        version=now,
        fingerprint=fingerprint,
    )


def line_of(item: ListedSkill, home: str) -> CatalogLine:
    skill = item.skill
    return CatalogLine(
        name=skill.name,
        description="" if item.quiet else skill.manifest.description,
        location=shortened(skill.file_path, home),
        version=skill.version,
        rank=skill.rank,
    )


def shortened(path: str, home: str) -> str:
    """`path` with the home directory as `~`."""
    top = home.rstrip("/\\")
    return f"~{path[len(top) :]}" if top and path.startswith((f"{top}/", f"{top}\\")) else path


def _fingerprint(
    items: tuple[ListedSkill, ...], skill_filter: tuple[str, ...] | None, max_skills: int, max_chars: int
) -> str:
    facts = [
        (
            item.skill.name,
            item.skill.source,
            item.skill.file_path,
            item.skill.content_hash,
            item.model_visible,
            item.quiet,
        )
        for item in items
    ]
    return hashlib.sha256(msgspec.json.encode((facts, skill_filter, max_skills, max_chars))).hexdigest()[:32]
