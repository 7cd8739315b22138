"""Whether a skill can be used here, and if not, exactly what is missing and how to get it. Pure."""

from collections.abc import Callable, Collection

from msgspec import Struct

from openclaw.skills.manifest import Installer, SkillManifest
from openclaw.skills.record import Skill
from openclaw.skills.settings import DependencySettings, SkillEntrySettings, SkillsSettings
from openclaw.skills.standing import Trust


class MachineFacts(Struct, frozen=True, kw_only=True):
    """What this machine and its configuration have."""

    platform: str
    """`darwin`, `linux` or `win32`."""
    env: Collection[str]
    """Names of the variables that are set and not empty."""
    has_bin: Callable[[str], bool]
    has_config: Callable[[str], bool]
    """Whether a configuration path has a value that counts as yes."""
    plugins: Collection[str] = ()
    """Enabled plugins."""


class MissingRequirement(Struct, frozen=True, kw_only=True, rename="camel"):
    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    os: tuple[str, ...] = ()


class SkillVerdict(Struct, frozen=True, kw_only=True):
    """Whether a skill is offered, and every reason when it is not."""

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
        *_sentences(lacking),
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
    systems = manifest.os if manifest.os and machine.platform not in manifest.os else ()
    if systems or manifest.always:
        return MissingRequirement(os=systems)
    requires = manifest.requires
    given = {name for name, value in entry.env.items() if value} | set(machine.env)
    if entry.api_key and manifest.primary_env:
        given.add(manifest.primary_env)
    return MissingRequirement(
        bins=tuple(name for name in requires.bins if not machine.has_bin(name)),
        any_bins=requires.any_bins if not any(machine.has_bin(name) for name in requires.any_bins) else (),
        env=tuple(name for name in requires.env if name not in given),
        config=tuple(path for path in requires.config if not machine.has_config(path)),
    )


def _sentences(missing: MissingRequirement) -> list[str]:
    said = []
    if missing.os:
        said.append(f"only for {', '.join(missing.os)}")
    if missing.env:
        said.append(f"not set: {', '.join(missing.env)}")
    if missing.config:
        said.append(f"not configured: {', '.join(missing.config)}")
    if missing.bins:
        said.append(f"not installed: {', '.join(missing.bins)}")
    if missing.any_bins:
        said.append(f"none of these is installed: {', '.join(missing.any_bins)}")
    return said


def _remedies(
    manifest: SkillManifest, missing: MissingRequirement, platform: str, how: DependencySettings
) -> list[str]:
    steps = [f"{step.label or f'get {step.id}'}: {shown(step, how)}" for step in steps_for(manifest, platform, how)]
    said = steps if missing.bins or missing.any_bins else []
    for name in missing.env:
        key = f"skills.entries.{manifest.key}"
        said.append(
            f"openclaw config set {key}.apiKey …"
            if name == manifest.primary_env
            else f"openclaw config set {key}.env.{name} …"
        )
    said += [f"openclaw config set {path} …" for path in missing.config]
    return said


_PREFERRED = ("brew", "uv", "node", "go", "download")


def steps_for(manifest: SkillManifest, platform: str, how: DependencySettings) -> tuple[Installer, ...]:
    """The install steps that fit this system, the one to try first first."""
    order = _PREFERRED if how.prefer_brew and platform != "win32" else (*_PREFERRED[1:], "brew")
    fitting = [step for step in manifest.install if not step.os or platform in step.os]
    return tuple(sorted(fitting, key=lambda step: order.index(step.kind)))


def command(step: Installer, how: DependencySettings) -> tuple[str, ...]:
    """The command line of a step; empty for a download, which is not a command."""
    match step.kind:
        case "brew":
            return ("brew", "install", *(["--cask"] if step.cask else []), step.formula)
        case "node":
            managers = {
                "npm": ("npm", "install", "-g", "--ignore-scripts"),
                "pnpm": ("pnpm", "add", "-g", "--ignore-scripts"),
                "yarn": ("yarn", "global", "add", "--ignore-scripts"),
                "bun": ("bun", "add", "-g", "--ignore-scripts"),
            }
            return (*managers[how.node_manager], step.package)
        case "uv":
            return ("uv", "tool", "install", step.package)
        case "go":
            return ("go", "install", step.module if "@" in step.module else f"{step.module}@latest")
        case "download":
            return ()


def shown(step: Installer, how: DependencySettings) -> str:
    """A step as a person reads it before saying yes."""
    if step.kind != "download":
        return " ".join(command(step, how))
    check = f"sha256 {step.sha256}" if step.sha256 else "no checksum given, so it is never downloaded for you"
    return f"download {step.url} ({check})"
