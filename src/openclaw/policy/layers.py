"""Which tools remain, and who removed the rest. Every layer can only take away."""

import fnmatch
from collections.abc import Iterable, Sequence

from msgspec import Struct

ALIASES = {
    "bash": "exec",
    "apply-patch": "apply_patch",
    "automations": "cron",
    "view_image": "image",
    "progress_card": "update_plan",
    "bundle-mcp": "*__*",
}
SESSION_TOOLS = (
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_spawn",
    "sessions_yield",
    "subagents",
    "session_status",
)
GROUPS: dict[str, tuple[str, ...]] = {
    "fs": ("read", "write", "edit", "apply_patch", "grep", "find", "ls"),
    "runtime": ("exec", "process"),
    "web": ("web_search", "web_fetch"),
    "memory": ("memory_search", "memory_get"),
    "sessions": SESSION_TOOLS,
    "ui": ("browser", "canvas"),
    "messaging": ("message",),
    "automation": ("cron", "gateway"),
    "nodes": ("nodes",),
    "agents": ("agents_list", "update_plan"),
    "media": ("image",),
}
GROUPS["openclaw"] = tuple(
    sorted({name for group in GROUPS.values() for name in group} - {*GROUPS["fs"], *GROUPS["runtime"], "canvas"})
)
GROUPS["plugins"] = ("*__*",)
PROFILES: dict[str, tuple[str, ...]] = {
    "minimal": ("session_status", "gateway"),
    "messaging": ("message", "gateway", "bundle-mcp", *SESSION_TOOLS),
    "coding": (
        "group:fs",
        "group:runtime",
        "group:web",
        "group:memory",
        "group:sessions",
        "cron",
        "gateway",
        "update_plan",
        "image",
        "bundle-mcp",
    ),
    "full": ("*",),
}


_GLOB = frozenset("*?[")


class ToolLayer(Struct, frozen=True, kw_only=True):
    """One place that may remove tools; `allow` None allows all."""

    name: str
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    key: str = ""
    """Where in the configuration it stands; `.allow` or `.deny` follows unless `exact_key`."""
    exact_key: bool = False
    explicit: bool = False
    """Somebody wrote this allowlist: when it leaves nothing, that is a mistake to be told."""


class Removed(Struct, frozen=True):
    """A tool that is gone: the layer that took it, and the setting to look at."""

    tool: str
    by: str
    key: str = ""


def profile_layer(profile: str, also_allow: Iterable[str] = ()) -> ToolLayer:
    allow = PROFILES.get(profile)
    return ToolLayer(
        name=f"tools.profile {profile}",
        key="tools.profile",
        exact_key=True,
        allow=None if allow is None else (*allow, *also_allow),
    )


def _expand(entries: Iterable[str]) -> set[str]:
    out: set[str] = set()
    for entry in entries:
        name = entry.strip().lower()
        if name.startswith("group:"):
            out.update(GROUPS.get(name.removeprefix("group:"), ()))
        else:
            out.add(ALIASES.get(name, name))
    return out


def _listed(tool: str, entries: set[str]) -> bool:
    return tool in entries or any(fnmatch.fnmatchcase(tool, entry) for entry in entries if _GLOB & set(entry))


def remaining(tools: Sequence[str], layers: Sequence[ToolLayer]) -> tuple[tuple[str, ...], tuple[Removed, ...]]:
    """The tools every layer lets through, and for each of the others the first layer that did not."""
    kept = list(tools)
    removed: list[Removed] = []
    for layer in layers:
        allow = _expand(layer.allow) if layer.allow else None
        if allow is not None and "write" in allow:
            allow.add("apply_patch")
        deny = _expand(layer.deny)
        for tool in list(kept):
            name = tool.lower()
            denied = _listed(name, deny)
            if denied or (allow is not None and not _listed(name, allow)):
                kept.remove(tool)
                removed.append(Removed(tool, layer.name, _key(layer, denied)))
    return tuple(kept), tuple(removed)


def _key(layer: ToolLayer, denied: bool) -> str:
    return layer.key if layer.exact_key or not layer.key else f"{layer.key}.{'deny' if denied else 'allow'}"


def emptied(tools: Sequence[str], layers: Sequence[ToolLayer]) -> str:
    """The allowlist somebody wrote that leaves no tool at all; empty when there is none."""
    for count in range(1, len(layers) + 1):
        layer = layers[count - 1]
        if layer.explicit and layer.allow and tools and not remaining(tools, layers[:count])[0]:
            return _key(layer, False) or layer.name
    return ""


def unknown(tools: Sequence[str], layers: Sequence[ToolLayer]) -> tuple[str, ...]:
    """Entries of written lists that name no tool and no group, each with its setting."""
    known = {name.lower() for name in tools} | {name for group in GROUPS.values() for name in group}
    found: list[str] = []
    for layer in layers:
        for entry in (*(layer.allow or ()), *layer.deny) if layer.explicit else ():
            name = entry.strip().lower()
            group = name.removeprefix("group:")
            fits = group in GROUPS or group == "plugins" if name.startswith("group:") else _listed_any(name, known)
            if not fits:
                found.append(f"{layer.key or layer.name}: {entry}")
    return tuple(found)


def _listed_any(entry: str, known: Iterable[str]) -> bool:
    pattern = ALIASES.get(entry, entry)
    return any(fnmatch.fnmatchcase(name, pattern) for name in known)
