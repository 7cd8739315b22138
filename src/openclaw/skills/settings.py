"""Settings of `skills`: where they come from, how many there may be, and how far they are trusted."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Settings


class SkillsLimits(Settings, frozen=True):
    """`skillsLimits`: how much of the prompt an agent's skills may take."""

    max_skills_prompt_chars: int | None = None
    """characters of the list of skills; the general limit when absent"""


TrustMode = Literal["off", "tofu", "locked"]
Strictness = Literal["off", "warn", "enforce"]
NodeManager = Literal["npm", "pnpm", "yarn", "bun"]

_Whole = Annotated[int, Meta(ge=0)]


class SkillLoadSettings(Settings, frozen=True):
    """`skills.load`: where skills are looked for, beside the usual places."""

    extra_dirs: tuple[str, ...] = ()
    """more directories with skills; ~ stands for the home directory"""
    allow_symlink_targets: tuple[str, ...] = ()
    """directories a link inside a skills directory may lead to"""
    watch: bool = True
    """notice changed skills before each turn; otherwise only after a restart"""


class LimitSettings(Settings, frozen=True):
    """`skills.limits`: how much is looked at and how much reaches the prompt."""

    max_candidates_per_root: Count = 300
    """directories looked at below one root"""
    max_skills_loaded_per_source: Count = 200
    """skills taken from one source"""
    max_skills_in_prompt: _Whole = 150
    """skills listed in the prompt"""
    max_skills_prompt_chars: _Whole = 30_000
    """characters of the list in the prompt"""
    max_skill_file_bytes: _Whole = 256_000
    """largest SKILL.md that is read"""


class SkillEntrySettings(Settings, frozen=True):
    """`skills.entries.<key>`: one skill."""

    enabled: bool = True
    """offer the skill at all"""
    api_key: Secret | None = None
    """value of the skill's main credential variable"""
    env: Mapping[str, Secret] = field(default_factory=dict)
    """variables its commands get, unless they are set already"""
    config: Mapping[str, Any] = field(default_factory=dict)
    """values the skill itself defines"""


class DependencySettings(Settings, frozen=True):
    """`skills.install`: how programs a skill needs are installed, when you ask for it."""

    prefer_brew: bool = True
    """suggest Homebrew first where a skill offers several ways"""
    node_manager: NodeManager = "npm"
    """what installs Node packages"""


class SkillsSettings(Settings, frozen=True):
    """`skills`: abilities kept as files."""

    allow_bundled: tuple[str, ...] = ()
    """the only shipped skills to offer; all when empty"""
    load: SkillLoadSettings = SkillLoadSettings()
    """where skills are looked for"""
    limits: LimitSettings = LimitSettings()
    """how much is looked at and listed"""
    entries: Mapping[str, SkillEntrySettings] = field(default_factory=dict)
    """single skills by key"""
    install: DependencySettings = DependencySettings()
    """how programs a skill needs are installed"""
    trust: TrustMode = "tofu"
    """off: everything found is used; tofu: your own skills are trusted when first seen; locked: none is"""
    verify: bool = True
    """hold a skill back when one of its files is not the one that was accepted"""
    permissions: Strictness = "warn"
    """what happens when a skill leads to a tool it did not declare: nothing, a note, or a question"""
    containment: Literal["warn", "enforce"] = "warn"
    """what happens when a skill leads outside its directory: a note, or a question"""
