"""What of a plugin's registrations counts: what its manifest declares, unless it is somebody else's. Pure."""

from collections.abc import Collection, Mapping
from typing import Any

from openclaw.core.plugin import Brought
from openclaw.plugins.manifest import PluginManifest

FIELDS = {
    "tools": "contracts.tools",
    "hooks": "hooks",
    "commands": "contracts.commands",
    "methods": "contracts.gatewayMethods",
    "routes": "contracts.httpRoutes",
    "channels": "channels",
    "providers": "providers",
    "embedders": "contracts.embedders",
    "services": "contracts.services",
}
"""Where in the manifest each kind is declared."""
PAGES = frozenset(
    "api v1 chat prompt assets hooks tools sessions metrics health healthz ready readyz control-ui plugins".split()
)
"""First parts of addresses that are the gateway's own."""


def admit(
    brought: Brought, manifest: PluginManifest, taken: Mapping[str, Collection[str]]
) -> tuple[Brought, tuple[str, ...]]:
    """`brought` without what the plugin may not have, and a line about each thing that was left out."""
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
    admitted = Brought(
        tools=tuple(each for each in brought.tools if each.spec.name in kept["tools"]),
        optional_tools=brought.optional_tools & kept["tools"],
        hooks=tuple(each for each in brought.hooks if each.point in kept["hooks"]),
        commands=tuple(each for each in brought.commands if each.name in kept["commands"]),
        methods=tuple(each for each in brought.methods if each.name in kept["methods"]),
        routes=tuple(each for each in brought.routes if each.path in kept["routes"]),
        channels=tuple(each for each in brought.channels if each.name in kept["channels"]),
        providers=_only(brought.providers, kept["providers"]),
        embedders=_only(brought.embedders, kept["embedders"]),
        services=_only(brought.services, kept["services"]),
    )
    return admitted, tuple(notes)


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


def _only(table: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: each for name, each in table.items() if name in names}
