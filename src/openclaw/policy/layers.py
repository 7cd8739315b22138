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
PROFILES: dict[str, tuple[str, ...]] = {
    "minimal": ("session_status", "gateway"),
    "messaging": ("message", "gateway", *SESSION_TOOLS),
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
    ),
    "full": ("*",),
}


class Layer(Struct, frozen=True, kw_only=True):
    """One place that may remove tools; `allow` None allows all."""

    name: str
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()


class Removed(Struct, frozen=True):
    tool: str
    by: str


def profile_layer(profile: str, also_allow: Iterable[str] = ()) -> Layer:
    allow = PROFILES.get(profile)
    return Layer(name=f"tools.profile {profile}", allow=None if allow is None else (*allow, *also_allow))


def _expand(entries: Iterable[str]) -> set[str]:
    out: set[str] = set()
    for entry in entries:
        name = entry.strip().lower()
        if name.startswith("group:"):
            out.update(GROUPS.get(name.removeprefix("group:"), ()))
        else:
            out.add(ALIASES.get(name, name))
    return out


def _listed(tool: str, entries: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(tool, entry) for entry in entries)


def remaining(tools: Sequence[str], layers: Sequence[Layer]) -> tuple[tuple[str, ...], tuple[Removed, ...]]:
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
            if _listed(name, deny) or (allow is not None and not _listed(name, allow)):
                kept.remove(tool)
                removed.append(Removed(tool, layer.name))
    return tuple(kept), tuple(removed)
