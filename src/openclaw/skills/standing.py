"""How far a skill is trusted, from what was accepted and what is there now. Pure."""

from typing import Literal

from msgspec import Struct

from openclaw.skills.manifest import SkillPermissions
from openclaw.skills.record import Skill, Source
from openclaw.skills.settings import TrustMode
from openclaw.store.tree import DigestedFile

State = Literal["trusted", "new", "changed", "blocked"]


class AcceptedContent(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What was accepted, when and by whom; or, when `blocked`, what was refused."""

    name: str
    source: Source
    content_hash: str
    tree_sha256: str
    approved_at: int
    approved_by: Literal["owner", "first-use", "install"]
    permissions: SkillPermissions = SkillPermissions()
    files: tuple[DigestedFile, ...] = ()
    blocked: bool = False


class Trust(Struct, frozen=True):
    """A state, and what a person should know about it."""

    state: State
    why: str = ""
    held: bool = False
    """Whether the skill stays out of the prompt and cannot be called."""
    by: str = ""
    """Who accepted it."""


def judge(
    skill: Skill,
    accepted: AcceptedContent | None,
    mode: TrustMode,
    *,
    verify: bool,
    shipped: str | None,
    alarming: bool,
) -> Trust:
    """Where `skill` stands. `shipped` is the digest a bundled skill must have; `alarming`, that a look through its
    files found something nobody should trust unseen."""
    if skill.bundled:
        return _bundled(skill, shipped, verify)
    if mode == "off":
        return Trust("trusted", "skills.trust is off")
    if accepted is not None and accepted.blocked:
        return Trust("blocked", f"you refused it: openclaw skills trust {skill.name} takes that back", held=True)
    if skill.tree is None:
        return Trust("blocked", skill.problem, held=True)
    if accepted is None:
        return _new(skill, mode, alarming)
    if verify and accepted.tree_sha256 != skill.tree.sha256:
        return Trust(
            "changed",
            f"its files changed since it was accepted: openclaw skills diff {skill.name}",
            True,
            accepted.approved_by,
        )
    return Trust("trusted", by=accepted.approved_by)


def _bundled(skill: Skill, shipped: str | None, verify: bool) -> Trust:
    if verify and (skill.tree is None or skill.tree.sha256 != shipped):
        return Trust("changed", "it is not as it was shipped: install OpenClaw again", held=True)
    return Trust("trusted", "it comes with OpenClaw", by="package")


def _new(skill: Skill, mode: TrustMode, alarming: bool) -> Trust:
    how = f"openclaw skills info {skill.name}, then openclaw skills trust {skill.name}"
    if alarming:
        return Trust("new", f"untrusted, and a look through its files found something alarming: {how}", held=True)
    if not skill.owned:
        return Trust("new", f"untrusted: it did not come from you. {how}", held=True)
    if mode == "locked":
        return Trust("new", f"untrusted (skills.trust is locked): {how}", held=True)
    return Trust("new", "trusted from its first use on")
