"""All skills of one look, each with its trust and its verdict. Pure."""

from msgspec import Struct

from openclaw.core.errors import NotFound
from openclaw.skills.gate import SkillVerdict
from openclaw.skills.merge import JudgedSkill
from openclaw.skills.record import Collision, Skill, SkillProblem
from openclaw.skills.standing import Trust


class ListedSkill(Struct, frozen=True, kw_only=True):
    """One skill, and whether and how it is offered."""

    skill: Skill
    trust: Trust
    verdict: SkillVerdict
    quiet: bool = False
    """Its description gives orders, and nobody has read it yet: it is listed by name only."""

    @property
    def model_visible(self) -> bool:
        return self.verdict.eligible and not self.skill.manifest.disable_model_invocation

    @property
    def user_invocable(self) -> bool:
        return self.verdict.eligible and self.skill.manifest.user_invocable


class SkillList(Struct, frozen=True, kw_only=True):
    """What a look found, by name."""

    items: tuple[ListedSkill, ...] = ()
    shadowed: tuple[JudgedSkill, ...] = ()
    """Skills another one of the same name stands before."""
    collisions: tuple[Collision, ...] = ()
    diagnostics: tuple[SkillProblem, ...] = ()

    @property
    def usable(self) -> tuple[ListedSkill, ...]:
        return tuple(item for item in self.items if item.verdict.eligible)

    def get(self, name: str) -> ListedSkill:
        """The skill called `name`, by its name or its key; raises `NotFound` with the nearest names."""
        wanted = name.strip().lower()
        for item in self.items:
            if wanted in (item.skill.name.lower(), item.skill.manifest.key.lower()):
                return item
        near = sorted(item.skill.name for item in self.items if _alike(wanted, item.skill.name.lower()))
        hint = f" Did you mean {', '.join(near[:3])}?" if near else ""
        raise NotFound(f"there is no skill {name!r}.{hint} `openclaw skills list` shows what there is.")


def _alike(one: str, other: str) -> bool:
    return bool(one) and (one in other or other in one or (one[:3] == other[:3] and abs(len(one) - len(other)) < 3))
