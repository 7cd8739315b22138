"""Decides which plugins run and which of their registrations count. Pure."""

from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any

from msgspec import Struct

from openclaw.core.plugin import PluginContributions
from openclaw.plugins.find import FoundPlugin
from openclaw.plugins.manifest import FIELDS, PluginManifest
from openclaw.plugins.settings import MEMORY_CORE, PluginEntry, PluginsSettings

NAMES = {
    "tools": attrgetter("spec.name"),
    "hooks": attrgetter("point"),
    "routes": attrgetter("path"),
    **dict.fromkeys(("commands", "methods", "channels"), attrgetter("name")),
}
"""What counts as the name of a registration, by its kind."""
PAGES = frozenset(
    "api v1 chat prompt assets hooks tools sessions metrics health healthz ready readyz control-ui plugins".split()
)
"""First parts of addresses that are the gateway's own."""


# Registrations: only what the manifest declares, and no name that is taken.


def admit(
    brought: PluginContributions, manifest: PluginManifest, taken: Mapping[str, Collection[str]]
) -> tuple[PluginContributions, tuple[str, ...]]:
    """Drops the registrations the plugin may not have; gives what is left and a line about each that was dropped."""
    declared, notes = manifest.declared(), []
    kept: dict[str, set[str]] = {}
    for kind, names in brought.names().items():
        kept[kind] = set()
        for name in names:
            why = _objection(kind, name, manifest.id, declared[kind], taken.get(kind, ()))
            if why:
                notes.append(f"{kind[:-1]} {name} was left out: {why}")
            else:
                kept[kind].add(name)
    left: dict[str, Any] = {
        kind: tuple(each for each in getattr(brought, kind) if name_of(each) in kept[kind])
        for kind, name_of in NAMES.items()
    }
    for kind in ("providers", "embedders", "services"):
        left[kind] = {name: each for name, each in getattr(brought, kind).items() if name in kept[kind]}
    return PluginContributions(optional_tools=brought.optional_tools & kept["tools"], **left), tuple(notes)


def _objection(kind: str, name: str, plugin: str, declared: Collection[str], taken: Collection[str]) -> str:
    if name not in declared:
        return f"{FIELDS[kind]} of its manifest does not name it"
    if name in taken:
        return "something else has that name already"
    if kind == "routes":
        first, _, rest = name.lstrip("/").partition("/")
        own = first == plugin and first not in PAGES
        if not own and not (first == "plugins" and rest.partition("/")[0] == plugin):
            return f"its addresses begin with /plugins/{plugin}/"
    return ""


# Plugins: enabled by the settings, accepted, and with what they depend on.

NO_PLUGIN = (MEMORY_CORE, "none")
"""What `plugins.slots.memory` can be besides a plugin."""


class PluginVerdict(Struct, frozen=True):
    """Whether a plugin runs; `why` says why not, with what to do about it."""

    why: str = ""
    held: bool = False
    """Enabled, but not accepted as it is now."""

    @property
    def runs(self) -> bool:
        return not self.why


def judge(
    plugins: Iterable[FoundPlugin], settings: PluginsSettings, accepted: Mapping[str, str], digests: Mapping[str, str]
) -> dict[str, PluginVerdict]:
    """The verdict on every plugin. `accepted` has the digests that were accepted, `digests` the present ones."""
    found = list(plugins)
    verdicts = {each.id: _judge(each, settings, accepted.get(each.id), digests.get(each.id)) for each in found}
    # A plugin runs only with those it depends on; excluding one may exclude more.
    changed = True
    while changed:
        changed = False
        for each in found:
            needed = each.manifest.requires_plugins
            missing = [name for name in needed if name not in verdicts or not verdicts[name].runs]
            if verdicts[each.id].runs and missing:
                verdicts[each.id] = PluginVerdict(f"it needs the plugin {missing[0]}", held=True)
                changed = True
    return verdicts


def _judge(plugin: FoundPlugin, settings: PluginsSettings, accepted: str | None, digest: str | None) -> PluginVerdict:
    name, entry = plugin.id, settings.entries.get(plugin.id, PluginEntry())
    if not settings.enabled:
        return PluginVerdict("plugins.enabled is false")
    if name in settings.deny:
        return PluginVerdict("it is in plugins.deny")
    if settings.allow and name not in settings.allow:
        return PluginVerdict("it is not in plugins.allow")
    if entry.enabled is False:
        return PluginVerdict(f"it is switched off: openclaw plugins enable {name}")
    if entry.enabled is None and not runs_by_default(plugin, accepted):
        return PluginVerdict(f"it is not switched on: openclaw plugins enable {name}")
    if plugin.manifest.kind == "context-engine":
        return PluginVerdict("it is a context engine, and those of plugins are not supported yet")
    if plugin.manifest.kind == "memory" and settings.slots.memory != name:
        return PluginVerdict(f"plugins.slots.memory is {settings.slots.memory}")
    if plugin.source == "installed" and digest is not None and digest != accepted:
        why = "its files changed since they were accepted" if accepted else "nobody has accepted it yet"
        return PluginVerdict(f"{why}: look at it, then openclaw plugins enable {name}", held=True)
    unknown = sorted(set(entry.env) - set(plugin.manifest.permissions.env))
    if unknown:
        why = f"plugins.entries.{name}.env gives it {unknown[0]}, which its manifest does not ask for"
        return PluginVerdict(why, held=True)
    return PluginVerdict()


def runs_by_default(plugin: FoundPlugin, accepted: str | None) -> bool:
    """Whether a plugin runs without an entry of its own: those that were named or installed do."""
    if plugin.source == "bundled":
        return plugin.manifest.enabled_by_default
    return plugin.source == "path" or (plugin.source == "installed" and accepted is not None)


def memory_slot_problem(
    plugins: Iterable[FoundPlugin], verdicts: Mapping[str, PluginVerdict], settings: PluginsSettings
) -> str:
    """Why no plugin fills the memory slot although the settings name one; empty when it is filled."""
    name = settings.slots.memory
    if name in NO_PLUGIN:
        return ""
    found = next((plugin for plugin in plugins if plugin.id == name), None)
    if found is None:
        why = "there is no such plugin"
    elif found.manifest.kind != "memory":
        why = "its manifest does not say that it is of kind memory"
    elif not verdicts[name].runs:
        why = f"it does not run ({verdicts[name].why})"
    else:
        return ""
    return (
        f"plugins.slots.memory is {name}, and {why}: there is no memory. Set it to {MEMORY_CORE} for the built-in one"
    )


def unknown_entries(plugins: Iterable[FoundPlugin], settings: PluginsSettings) -> tuple[str, ...]:
    """Ids in the settings that belong to no plugin."""
    known = {*NO_PLUGIN, *(plugin.id for plugin in plugins)}
    return tuple(sorted({*settings.entries, *settings.allow} - known))
