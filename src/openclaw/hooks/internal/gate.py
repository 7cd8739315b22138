"""Which of the hooks that were found run, and exactly why the others do not. Pure."""

from collections.abc import Callable, Collection

from msgspec import Struct

from openclaw.hooks.internal.record import HookDirectory
from openclaw.hooks.internal.settings import HookEntrySettings, InternalHooksSettings


class HookMachine(Struct, frozen=True, kw_only=True):
    """What this machine and its configuration have."""

    platform: str
    env: Collection[str]
    """Names of the variables that are set and not empty."""
    has_bin: Callable[[str], bool]
    has_config: Callable[[str], bool]


class HookVerdict(Struct, frozen=True, kw_only=True):
    """Whether a hook can run here, whether it was chosen, and every reason when it does not run."""

    eligible: bool
    chosen: bool
    reasons: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        return self.eligible and self.chosen


def judge(hook: HookDirectory, settings: InternalHooksSettings, machine: HookMachine) -> HookVerdict:
    """The verdict on one hook, its trust aside."""
    entry = settings.entries.get(hook.manifest.key, HookEntrySettings())
    lacking = [hook.problem] if hook.problem else _missing(hook, entry, machine)
    refusal = _refusal(hook, settings)
    return HookVerdict(eligible=not lacking, chosen=not refusal, reasons=(*lacking, *([refusal] if refusal else [])))


def _refusal(hook: HookDirectory, settings: InternalHooksSettings) -> str:
    """Why the settings leave a hook out; empty when they do not."""
    key = hook.manifest.key
    entry = settings.entries.get(key)
    enable = f"openclaw hooks enable {hook.name}"
    if settings.enabled is False:
        return "hooks.internal.enabled is false"
    if entry is not None and entry.enabled is False:
        return f"switched off: {enable}"
    if hook.source == "openclaw-workspace" and (entry is None or entry.enabled is not True):
        return f"a workspace's hook runs only after you say so: {enable}"
    if entry is not None:
        return ""
    if any(each.enabled is not False for each in settings.entries.values()):
        return f"not among hooks.internal.entries: {enable}"
    if settings.enabled is None and not (settings.load.extra_dirs and hook.source == "openclaw-extra"):
        return f"off unless you switch it on: {enable}"
    return ""


def _missing(hook: HookDirectory, entry: HookEntrySettings, machine: HookMachine) -> list[str]:
    manifest = hook.manifest
    if manifest.os and machine.platform not in manifest.os:
        return [f"only for {', '.join(manifest.os)}"]
    if manifest.always:
        return []
    requires = manifest.requires
    given = {name for name, value in entry.env.items() if value} | set(machine.env)
    bins = [name for name in requires.bins if not machine.has_bin(name)]
    env = [name for name in requires.env if name not in given]
    config = [path for path in requires.config if not machine.has_config(path)]
    said = []
    if bins:
        said.append(f"not installed: {', '.join(bins)}")
    if requires.any_bins and not any(machine.has_bin(name) for name in requires.any_bins):
        said.append(f"none of these is installed: {', '.join(requires.any_bins)}")
    if env:
        said.append(f"not set: {', '.join(env)}")
    if config:
        said.append(f"not configured: {', '.join(config)}")
    return said
