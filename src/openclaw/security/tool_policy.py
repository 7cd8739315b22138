"""Which tools remain for a run, and whether it may leave its sandbox (elevation). Pure."""

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from openclaw.agent.settings import AgentsSettings
from openclaw.channels.settings import ChannelSettings, GroupSettings
from openclaw.core.keys import SessionKey, normalise_agent, peer_part
from openclaw.security.settings import (
    AgentElevated,
    AgentToolSettings,
    ElevatedDefault,
    ElevatedSettings,
    Id,
    NarrowSettings,
    ProviderRules,
)
from openclaw.tools.settings import ToolsSettings

# Elevation.

Level = Literal["off", "on", "ask", "full"]
LEVELS: tuple[Level, ...] = ("off", "on", "ask", "full")


class Speaker(Struct, frozen=True, kw_only=True):
    """Who is behind a run, as verified by the gateway."""

    channel: str = ""
    id: str = ""
    owner: bool = False


@lru_cache(maxsize=1024)
def identify_speaker(key: SessionKey, owners: tuple[str, ...]) -> Speaker:
    """Who speaks in a session, judging by its key. Sessions nobody types in have no owner."""
    route = key.route
    if route is None:
        return Speaker(owner=not (key.is_cron or key.is_hook or key.is_subagent))
    direct = route.kind == "direct"
    # An id identifies somebody only together with its channel.
    named = any(_is(name.strip(), route.channel, route.peer) for name in owners)
    return Speaker(channel=route.channel, id=route.peer if direct else "", owner=direct and named)


def _is(name: str, channel: str, peer: str) -> bool:
    """Whether a configured name (an id, or `channel:id`) matches the `peer` of a key."""
    place, colon, rest = name.partition(":")
    if colon and place.lower() != channel:
        return False
    return peer in {rest, peer_part(rest)} if colon else peer in {name, peer_part(name)}


def is_shared(key: SessionKey, owners: tuple[str, ...]) -> bool:
    """Whether somebody other than the owner speaks in a session, judging by its key."""
    return key.route is not None and not identify_speaker(key, owners).owner


class ElevationRequest(Struct, frozen=True):
    """The /elevated setting of a session, and when it was set."""

    level: Level
    at: int


class Elevation(Struct, frozen=True):
    """The level of a run, and why it is not higher."""

    level: Level
    why: str = ""


def resolve_elevation(
    speaker: Speaker,
    shared: ElevatedSettings,
    own: AgentElevated,
    default: ElevatedDefault | None,
    acknowledged: bool,
    said: ElevationRequest | None,
    now: int,
) -> Elevation:
    """The effective level: the session's setting until it expires, else the default where that is permitted."""
    if why := refuse_reason(speaker, shared, own):
        return Elevation("off", why)
    lasts = shared.expires_minutes * 60_000
    if said is not None and (not lasts or now - said.at < lasts):
        return Elevation(said.level, "" if said.level != "off" else "it is switched off: /elevated on")
    level: Level = "on" if default is True else default or "off"
    if level == "off":
        return Elevation("off", "it is switched off: /elevated on")
    # A default applies to everybody who can reach the session, so it counts only where the configuration names who may.
    named = [name for names in shared.allow_from.values() for name in names]
    if not acknowledged or not named or "*" in map(str, named):
        return Elevation(
            "ask", "agents.defaults.acknowledgeElevatedDefault or a named tools.elevated.allowFrom is missing"
        )
    return Elevation(level)


def refuse_reason(speaker: Speaker, shared: ElevatedSettings, own: AgentElevated) -> str:
    """Why this speaker may not be elevated at all; empty when they may."""
    for settings, name in ((shared, "tools.elevated"), (own, "agents.list[].tools.elevated")):
        if not settings.enabled:
            return f"{name}.enabled is false"
    if not speaker.owner and not _named(speaker, shared.allow_from):
        return f"{speaker.channel or 'this kind of session'} is not in tools.elevated.allowFrom"
    if own.allow_from and not speaker.owner and not _named(speaker, own.allow_from):
        return f"{speaker.channel or 'this kind of session'} is not in agents.list[].tools.elevated.allowFrom"
    return ""


def _named(speaker: Speaker, allowed: Mapping[str, Sequence[Id]]) -> bool:
    if not speaker.channel or not speaker.id:
        return False
    names = [str(name) for name in allowed.get(speaker.channel, ())]
    return "*" in names or speaker.id in names or any(_is(name, speaker.channel, speaker.id) for name in names)


# Tool names and layers.

ALIASES = {
    "bash": "exec",
    "apply-patch": "apply_patch",
    "automations": "cron",
    "view_image": "image",
    "progress_card": "update_plan",
    "bundle-mcp": "*__*",
}
SESSION_TOOLS = tuple(
    "sessions_list sessions_history sessions_search sessions_send sessions_spawn sessions_yield "
    "subagents session_status".split()
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
    "agents": ("agents_list", "ask_user", "update_plan"),
    "media": ("image",),
}
GROUPS["openclaw"] = tuple(
    sorted({name for group in GROUPS.values() for name in group} - {*GROUPS["fs"], *GROUPS["runtime"], "canvas"})
)
GROUPS["plugins"] = ("*__*",)
PROFILES: dict[str, tuple[str, ...]] = {
    "minimal": ("session_status", "gateway"),
    "messaging": ("message", "gateway", "bundle-mcp", *SESSION_TOOLS),
    "coding": tuple(
        "group:fs group:runtime group:web group:memory group:sessions cron gateway update_plan ask_user image "
        "bundle-mcp".split()
    ),
    "full": ("*",),
}


_GLOB = frozenset("*?[")


class ToolLayer(Struct, frozen=True, kw_only=True):
    """One layer that may remove tools; `allow` None allows all."""

    name: str
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    key: str = ""
    """Its path in the configuration; `.allow` or `.deny` follows unless `exact_key`."""
    exact_key: bool = False
    explicit: bool = False
    """Somebody wrote this allowlist: leaving no tool is a mistake to report."""


class RemovedTool(Struct, frozen=True):
    """A removed tool: the layer that removed it, and the setting behind it."""

    tool: str
    by: str
    key: str = ""


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


def apply_layers(tools: Sequence[str], layers: Sequence[ToolLayer]) -> tuple[tuple[str, ...], tuple[RemovedTool, ...]]:
    """The tools that pass every layer, and for each of the others the first layer that removed it."""
    kept = list(tools)
    removed: list[RemovedTool] = []
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
                removed.append(RemovedTool(tool, layer.name, _key(layer, denied)))
    return tuple(kept), tuple(removed)


def _key(layer: ToolLayer, denied: bool) -> str:
    return layer.key if layer.exact_key or not layer.key else f"{layer.key}.{'deny' if denied else 'allow'}"


def find_empty_allowlist(tools: Sequence[str], layers: Sequence[ToolLayer]) -> str:
    """The allowlist that leaves no tool at all; empty when there is none."""
    for count in range(1, len(layers) + 1):
        layer = layers[count - 1]
        if layer.explicit and layer.allow and tools and not apply_layers(tools, layers[:count])[0]:
            return _key(layer, False) or layer.name
    return ""


def find_unknown_entries(tools: Sequence[str], layers: Sequence[ToolLayer]) -> tuple[str, ...]:
    """Configured entries that name no tool and no group, each with its setting."""
    known = {name.lower() for name in tools} | {name for group in GROUPS.values() for name in group}
    found: list[str] = []
    for layer in layers:
        for entry in (*(layer.allow or ()), *layer.deny) if layer.explicit else ():
            name = entry.strip().lower()
            if name.startswith("group:"):
                fits = name.removeprefix("group:") in GROUPS
            else:
                fits = bool(fnmatch.filter(known, ALIASES.get(name, name)))
            if not fits:
                found.append(f"{layer.key or layer.name}: {entry}")
    return tuple(found)


# Layers from the configuration.

SANDBOX_ALLOW = (*"exec process read ls grep find write edit apply_patch image".split(), *SESSION_TOOLS)
SANDBOX_DENY = ("browser", "canvas", "nodes", "cron", "gateway", "message")
NO_CHANNELS: Mapping[str, ChannelSettings] = {}
WRITE_TOOLS = ("write", "edit", "apply_patch")
MOST_KNOWN = 512
"""Requests whose layers are kept; a busy gateway has many senders."""


class RequestSender(Struct, frozen=True, kw_only=True):
    """The sender, with the names `toolsBySender` can match."""

    channel: str = ""
    id: str = ""
    e164: str = ""
    username: str = ""
    name: str = ""


class ToolRequest(Struct, frozen=True, kw_only=True):
    """For whom the tools are requested."""

    agent: str = "main"
    model: str = ""
    """provider/model; without one no provider rule applies."""
    sender: RequestSender | None = None
    """None where only the owner speaks; in a group at least the channel is known."""
    group: str = ""
    """The group, channel or room of `sender.channel`."""
    boxed: bool = False
    read_only: bool = False
    """The sandbox mounts the workspace read-only."""


def build_layers(
    shared: ToolsSettings,
    own: AgentToolSettings,
    asked: ToolRequest,
    channels: Mapping[str, ChannelSettings] = NO_CHANNELS,
) -> list[ToolLayer]:
    """The layers of the configuration, the widest rules first."""
    mine = f"agents.list[{asked.agent}].tools"
    providers = _of_provider(shared.by_provider, asked.model, "tools.byProvider")
    found = [
        _profile(shared, own, mine),
        *(_narrow("provider profile", f"{key}.profile", rules.profile, rules.also_allow) for key, rules in providers),
        _rules("tools.allow/deny", "tools", shared),
        *(_rules("provider", key, rules) for key, rules in providers),
        _rules(f"agent {asked.agent}", mine, own),
    ]
    for key, rules in _of_provider(own.by_provider, asked.model, f"{mine}.byProvider"):
        found.append(_narrow("agent's provider profile", f"{key}.profile", rules.profile, rules.also_allow))
        found.append(_rules("agent's provider", key, rules))
    tables = [(shared.tools_by_sender, "tools"), (own.tools_by_sender, mine)]
    if asked.sender and asked.group and (there := group_of(channels, asked.sender.channel, asked.group)):
        place, group = there
        found.append(_rules(f"group {asked.group}", f"{place}.tools", group.tools))
        tables.insert(0, (group.tools_by_sender, place))
    for table, where in tables:
        chosen = by_sender(table, asked.sender)
        if chosen is not None:
            found.append(_rules("sender", f"{where}.toolsBySender[{chosen[0]}]", chosen[1]))
    if asked.boxed:
        found += _boxed(shared, own, mine, asked.read_only)
    return [layer for layer in found if layer.allow or layer.deny] + _switches(shared)


class ToolPolicy:
    """The layers of the configuration, built once for a configuration and request."""

    def __init__(self) -> None:
        self._known: dict[ToolRequest, tuple[ToolLayer, ...]] = {}
        self._for: tuple[object, ...] = (None, None, None)

    def layers(
        self, shared: ToolsSettings, agents: AgentsSettings, asked: ToolRequest, channels: Mapping[str, ChannelSettings]
    ) -> tuple[ToolLayer, ...]:
        """The layers of the configuration, the widest rules first."""
        now = (shared, agents, channels)
        if any(one is not other for one, other in zip(now, self._for, strict=True)):
            self._known, self._for = {}, now
        found = self._known.get(asked)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = tuple(build_layers(shared, tool_settings(agents, asked.agent), asked, channels))
            self._known[asked] = found
        return found


def tool_settings(agents: AgentsSettings, agent_id: str) -> AgentToolSettings:
    """An agent's own settings of its tools."""
    return next((entry.tools for entry in agents.list if normalise_agent(entry.id) == agent_id), AgentToolSettings())


def _profile(shared: ToolsSettings, own: AgentToolSettings, mine: str) -> ToolLayer:
    if own.profile:
        return _narrow(f"profile {own.profile}", f"{mine}.profile", own.profile, own.also_allow)
    return _narrow(f"profile {shared.profile}", "tools.profile", shared.profile, (*shared.also_allow, *own.also_allow))


def _narrow(name: str, key: str, profile: str | None, also: Sequence[str]) -> ToolLayer:
    allow = PROFILES.get(profile or "")
    return ToolLayer(name=name, key=key, exact_key=True, allow=None if allow is None else (*allow, *also))


def _rules(name: str, key: str, rules: NarrowSettings | ToolsSettings | AgentToolSettings) -> ToolLayer:
    return ToolLayer(name=name, key=key, allow=rules.allow or None, deny=rules.deny, explicit=True)


def _of_provider(table: Mapping[str, ProviderRules], model: str, where: str) -> list[tuple[str, ProviderRules]]:
    """The rules for the provider, then those for the model."""
    provider = model.partition("/")[0].lower()
    wanted = [provider, model.lower()] if provider else []
    return [(f"{where}.{name}", rules) for want in wanted for name, rules in table.items() if name.lower() == want]


def group_of(channels: Mapping[str, ChannelSettings], channel: str, group: str) -> tuple[str, GroupSettings] | None:
    """The rules for a group and their key; the group's own before those for all."""
    groups = next((each.groups for name, each in channels.items() if name.lower() == channel.lower()), {})
    lowered = {spelled: name for name in groups for spelled in (peer_part(name), name.lower())}
    name = lowered.get(group.lower()) or lowered.get("*")
    return (f"channels.{channel.lower()}.groups[{name}]", groups[name]) if name else None


def by_sender(table: Mapping[str, NarrowSettings], sender: RequestSender | None) -> tuple[str, NarrowSettings] | None:
    """The first entry that matches `sender`, the most specific kind first."""
    if sender is None or not table:
        return None
    keys = [f"channel:{sender.channel}:{sender.id}"] if sender.channel and sender.id else []
    keys += [f"{kind}:{value}" for kind in ("id", "e164", "username", "name") if (value := getattr(sender, kind))]
    lowered = {spelled.lower(): name for name in table for spelled in (_in_key(name), name)}
    name = next((lowered[key.lower()] for key in [*keys, "*"] if key.lower() in lowered), None)
    return None if name is None else (name, table[name])


def _in_key(name: str) -> str:
    """An entry with its id as session keys spell it, which is where a sender's id comes from."""
    kind, _, rest = name.rpartition(":")
    return f"{kind}:{peer_part(rest)}" if kind else name


def _boxed(shared: ToolsSettings, own: AgentToolSettings, mine: str, read_only: bool) -> list[ToolLayer]:
    """In a sandbox only tools that stay inside remain, unless the owner named others."""
    rules = (own.sandbox or shared.sandbox).tools
    key = f"{mine}.sandbox.tools" if own.sandbox else "tools.sandbox.tools"
    allow = rules.allow or (*SANDBOX_ALLOW, *rules.also_allow)
    named = {*rules.allow, *rules.also_allow}
    deny = (*(name for name in SANDBOX_DENY if name not in named), *rules.deny)
    found = [ToolLayer(name="sandbox", key=key, allow=tuple(allow), deny=deny)]
    if read_only:
        found.append(
            ToolLayer(name="sandbox read-only", key="sandbox.workspaceAccess", exact_key=True, deny=WRITE_TOOLS)
        )
    return found


def _switches(settings: ToolsSettings) -> list[ToolLayer]:
    switches = {
        "tools.exec.applyPatch.enabled": (settings.exec.apply_patch.enabled, "apply_patch"),
        "tools.web.fetch.enabled": (settings.web.fetch.enabled, "web_fetch"),
        "tools.web.search.enabled": (settings.web.search.enabled, "web_search"),
    }
    return [
        ToolLayer(name=name, key=name, exact_key=True, deny=(tool,)) for name, (on, tool) in switches.items() if not on
    ]
