"""Decides whether a skill is trusted and eligible here, and if not, what is missing and how to get it. Pure."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from openclaw.core.errors import NotFound
from openclaw.extensions.gate import MachineFacts, MissingRequirement, find_missing
from openclaw.skills.find import Collision, Skill, SkillProblem, Source
from openclaw.skills.manifest import Installer, SkillManifest, SkillPermissions
from openclaw.skills.settings import DependencySettings, SkillEntrySettings, SkillsSettings, TrustMode
from openclaw.storage.digests import DigestedFile

# Trust.

State = Literal["trusted", "new", "changed", "blocked"]
Approver = Literal["owner", "first-use", "install"]


class AcceptedContent(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The accepted state of a skill's files, when and by whom; or, when `blocked`, the refused one."""

    name: str
    source: Source
    content_hash: str
    tree_sha256: str
    approved_at: int
    approved_by: Approver
    permissions: SkillPermissions = SkillPermissions()
    files: tuple[DigestedFile, ...] = ()
    blocked: bool = False
    untold: bool = False
    """Its owner changed it, it is used as it is now, and nobody was told so yet."""


class Trust(Struct, frozen=True):
    """The trust state of a skill, with an explanation for a person."""

    state: State
    why: str = ""
    held: bool = False
    """Whether the skill is kept out of the prompt and cannot be called."""
    by: str = ""
    """Who accepted it."""


def judge_trust(
    skill: Skill,
    accepted: AcceptedContent | None,
    settings: SkillsSettings,
    *,
    shipped: str | None,
    alarming: bool,
    own_edit: bool = False,
) -> Trust:
    """The trust state of `skill`. `shipped` is the digest a bundled skill must have; `alarming` means that a scan of
    its files has critical findings; `own_edit` that only its owner can have changed it since it was accepted."""
    if skill.bundled:
        if settings.verify and (skill.tree is None or skill.tree.sha256 != shipped):
            return Trust("changed", "it is not as it was shipped: install OpenClaw again", held=True)
        return Trust("trusted", "it comes with OpenClaw", by="package")
    if settings.trust == "off":
        return Trust("trusted", "skills.trust is off")
    if accepted is not None and accepted.blocked:
        return Trust("blocked", f"you refused it: openclaw skills trust {skill.name} takes that back", held=True)
    if skill.tree is None:
        return Trust("blocked", skill.problem, held=True)
    if accepted is None:
        return _new(skill, settings.trust, alarming)
    if settings.verify and accepted.tree_sha256 != skill.tree.sha256:
        if own_edit and settings.trust == "tofu":
            return Trust("changed", "you changed it; trusted from its next use on", by=accepted.approved_by)
        why = f"its files changed since it was accepted: openclaw skills diff {skill.name}"
        return Trust("changed", why, held=True, by=accepted.approved_by)
    return Trust("trusted", by=accepted.approved_by)


def _new(skill: Skill, mode: TrustMode, alarming: bool) -> Trust:
    how = f"openclaw skills info {skill.name}, then openclaw skills trust {skill.name}"
    if alarming:
        return Trust("new", f"untrusted, and a look through its files found something alarming: {how}", held=True)
    if not skill.owned:
        return Trust("new", f"untrusted: it did not come from you. {how}", held=True)
    if mode == "locked":
        return Trust("new", f"untrusted (skills.trust is locked): {how}", held=True)
    return Trust("new", "trusted from its first use on")


# Eligibility.


class SkillVerdict(Struct, frozen=True, kw_only=True):
    """Whether a skill is offered, else every reason why not."""

    eligible: bool
    disabled: bool = False
    blocked_by_allowlist: bool = False
    blocked_by_agent: bool = False
    missing: MissingRequirement = MissingRequirement()
    reasons: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()


def judge(
    skill: Skill, trust: Trust, settings: SkillsSettings, machine: MachineFacts, allowlist: tuple[str, ...] | None
) -> SkillVerdict:
    """The verdict on `skill` for an agent that may use `allowlist` (None: everything)."""
    manifest = skill.manifest
    entry = settings.entries.get(manifest.key, SkillEntrySettings())
    disabled = not entry.enabled
    unlisted = skill.bundled and bool(settings.allow_bundled) and skill.name not in settings.allow_bundled
    orphan = bool(skill.plugin) and skill.plugin not in machine.plugins
    filtered = allowlist is not None and skill.name not in allowlist
    lacking = _missing(manifest, entry, machine)
    reasons = [
        *([f"switched off: skills.entries.{manifest.key}.enabled is false"] if disabled else []),
        *(["not in skills.allowBundled"] if unlisted else []),
        *([f"its plugin {skill.plugin} is not enabled"] if orphan else []),
        *lacking.sentences(),
        *(["not in the agent's list of skills"] if filtered else []),
        *([f"{trust.state}: {trust.why}"] if trust.held else []),
    ]
    return SkillVerdict(
        eligible=not reasons,
        disabled=disabled,
        blocked_by_allowlist=unlisted,
        blocked_by_agent=filtered,
        missing=lacking,
        reasons=tuple(reasons),
        remedies=tuple(_remedies(manifest, lacking, machine.platform, settings.install)),
    )


def _missing(manifest: SkillManifest, entry: SkillEntrySettings, machine: MachineFacts) -> MissingRequirement:
    given = {name for name, value in entry.env.items() if value}
    if entry.api_key and manifest.primary_env:
        given.add(manifest.primary_env)
    return find_missing(manifest.requires, manifest.os, manifest.always, given, machine)


def _remedies(
    manifest: SkillManifest, missing: MissingRequirement, platform: str, how: DependencySettings
) -> list[str]:
    steps = [
        f"{step.label or f'get {step.id}'}: {describe_step(step, how)}" for step in steps_for(manifest, platform, how)
    ]
    said = steps if missing.bins or missing.any_bins else []
    names = ["apiKey" if name == manifest.primary_env else f"env.{name}" for name in missing.env]
    unset = [*(f"skills.entries.{manifest.key}.{name}" for name in names), *missing.config]
    return [*said, *(f"openclaw config set {path} …" for path in unset)]


_PREFERRED = ("brew", "uv", "node", "go", "download")


def steps_for(manifest: SkillManifest, platform: str, how: DependencySettings) -> tuple[Installer, ...]:
    """The install steps for this system, preferred one first."""
    order = _PREFERRED if how.prefer_brew and platform != "win32" else (*_PREFERRED[1:], "brew")
    fitting = [step for step in manifest.install if not step.os or platform in step.os]
    return tuple(step for kind in order for step in fitting if step.kind == kind)


def command(step: Installer, how: DependencySettings) -> tuple[str, ...]:
    """The command line of a step; empty for a download, which is not a command."""
    match step.kind:
        case "brew":
            return ("brew", "install", *(["--cask"] if step.cask else []), step.formula)
        case "node":
            verbs = {"npm": ("install", "-g"), "pnpm": ("add", "-g"), "yarn": ("global", "add"), "bun": ("add", "-g")}
            return (how.node_manager, *verbs[how.node_manager], "--ignore-scripts", step.package)
        case "uv":
            return ("uv", "tool", "install", step.package)
        case "go":
            return ("go", "install", step.module if "@" in step.module else f"{step.module}@latest")
        case "download":
            return ()


def describe_step(step: Installer, how: DependencySettings) -> str:
    """Describes a step for the person who approves it."""
    if step.kind != "download":
        return " ".join(command(step, how))
    check = f"sha256 {step.sha256}" if step.sha256 else "no checksum given, so it is never downloaded for you"
    return f"download {step.url} ({check})"


# The resulting list.


class JudgedSkill(Struct, frozen=True):
    """A skill with its trust state."""

    skill: Skill
    trust: Trust


def merge(found: Sequence[JudgedSkill]) -> tuple[tuple[JudgedSkill, ...], tuple[Collision, ...]]:
    """Keeps one skill per name, sorted, and lists the collisions. `found` is in order of precedence.

    An untrusted skill never displaces a usable one: a cloned repository cannot disable yours.
    """
    by_name: dict[str, list[JudgedSkill]] = {}
    for item in found:
        by_name.setdefault(item.skill.name, []).append(item)
    winners: list[JudgedSkill] = []
    clashes: list[Collision] = []
    for name, items in sorted(by_name.items()):
        winner = next((item for item in items if not item.trust.held), items[0])
        winners.append(winner)
        clashes += [
            Collision(name=name, winner=winner.skill, loser=item.skill)
            for item in items
            if item is not winner and item.skill.content_hash != winner.skill.content_hash
        ]
    return tuple(winners), tuple(clashes)


class ListedSkill(Struct, frozen=True, kw_only=True):
    """One skill with its trust and verdict."""

    skill: Skill
    trust: Trust
    verdict: SkillVerdict
    quiet: bool = False
    """Its description contains instructions and nobody has reviewed it: it is listed by name only."""

    @property
    def model_visible(self) -> bool:
        return self.verdict.eligible and not self.skill.manifest.disable_model_invocation

    @property
    def user_invocable(self) -> bool:
        return self.verdict.eligible and self.skill.manifest.user_invocable


class SkillList(Struct, frozen=True, kw_only=True):
    """The skills found, by name."""

    items: tuple[ListedSkill, ...] = ()
    shadowed: tuple[JudgedSkill, ...] = ()
    """Skills hidden by another one of the same name."""
    collisions: tuple[Collision, ...] = ()
    diagnostics: tuple[SkillProblem, ...] = ()
    edited: tuple[Skill, ...] = ()
    """Changed by their owner and in use as they are now; nobody was told so yet."""

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
