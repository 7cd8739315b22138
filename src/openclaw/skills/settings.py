"""Settings of `skills`: where they come from, how many there may be, and how far they are trusted."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Settings, doc


class SkillsLimits(Settings, frozen=True):
    """`skillsLimits`: how much of the prompt an agent's skills may take."""

    max_skills_prompt_chars: Annotated[
        int | None, doc("characters of the list of skills; the general limit when absent")
    ] = None


TrustMode = Literal["off", "tofu", "locked"]
Strictness = Literal["off", "warn", "enforce"]
NodeManager = Literal["npm", "pnpm", "yarn", "bun"]

_Whole = Annotated[int, Meta(ge=0)]


class SkillLoadSettings(Settings, frozen=True):
    """`skills.load`: where skills are looked for, beside the usual places."""

    extra_dirs: Annotated[tuple[str, ...], doc("more directories with skills; ~ stands for the home directory")] = ()
    allow_symlink_targets: Annotated[
        tuple[str, ...], doc("directories a link inside a skills directory may lead to")
    ] = ()
    watch: Annotated[bool, doc("notice changed skills before each turn; otherwise only after a restart")] = True


class LimitSettings(Settings, frozen=True):
    """`skills.limits`: how much is looked at and how much reaches the prompt."""

    max_candidates_per_root: Annotated[Count, doc("directories looked at below one root")] = 300
    max_skills_loaded_per_source: Annotated[Count, doc("skills taken from one source")] = 200
    max_skills_in_prompt: Annotated[_Whole, doc("skills listed in the prompt")] = 150
    max_skills_prompt_chars: Annotated[_Whole, doc("characters of the list in the prompt")] = 30_000
    max_skill_file_bytes: Annotated[_Whole, doc("largest SKILL.md that is read")] = 256_000


class SkillEntrySettings(Settings, frozen=True):
    """`skills.entries.<key>`: one skill."""

    enabled: Annotated[bool, doc("offer the skill at all")] = True
    api_key: Annotated[Secret | None, doc("value of the skill's main credential variable")] = None
    env: Annotated[Mapping[str, Secret], doc("variables its commands get, unless they are set already")] = field(
        default_factory=dict
    )
    config: Annotated[Mapping[str, Any], doc("values the skill itself defines")] = field(default_factory=dict)


class DependencySettings(Settings, frozen=True):
    """`skills.install`: how programs a skill needs are installed, when you ask for it."""

    prefer_brew: Annotated[bool, doc("suggest Homebrew first where a skill offers several ways")] = True
    node_manager: Annotated[NodeManager, doc("what installs Node packages")] = "npm"


class SkillsSettings(Settings, frozen=True):
    """`skills`: abilities kept as files."""

    allow_bundled: Annotated[tuple[str, ...], doc("the only shipped skills to offer; all when empty")] = ()
    load: Annotated[SkillLoadSettings, doc("where skills are looked for")] = SkillLoadSettings()
    limits: Annotated[LimitSettings, doc("how much is looked at and listed")] = LimitSettings()
    entries: Annotated[Mapping[str, SkillEntrySettings], doc("single skills by key")] = field(default_factory=dict)
    install: Annotated[DependencySettings, doc("how programs a skill needs are installed")] = DependencySettings()
    trust: Annotated[
        TrustMode,
        doc("off: everything found is used; tofu: your own skills are trusted when first seen; locked: none is"),
    ] = "tofu"
    verify: Annotated[bool, doc("hold a skill back when one of its files is not the one that was accepted")] = True
    permissions: Annotated[
        Strictness, doc("what happens when a skill leads to a tool it did not declare: nothing, a note, or a question")
    ] = "warn"
    containment: Annotated[
        Literal["warn", "enforce"], doc("what happens when a skill leads outside its directory: a note, or a question")
    ] = "warn"
