"""The layers of tool policy in their order, built from settings: who may take which tool away. Pure."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from openclaw.core.keys import peer_part
from openclaw.policy.layers import PROFILES, ToolLayer
from openclaw.policy.narrowing import AgentToolSettings, ChannelSettings, GroupSettings, NarrowSettings, ProviderRules
from openclaw.policy.settings import ToolsSettings

BOXED_ALLOW = (
    "exec process read ls grep find write edit apply_patch image sessions_list sessions_history sessions_send "
    "sessions_spawn sessions_yield subagents session_status"
).split()
BOXED_DENY = ("browser", "canvas", "nodes", "cron", "gateway", "message")
NO_CHANNELS: Mapping[str, ChannelSettings] = {}
READ_ONLY = ("write", "edit", "apply_patch")


class RequestSender(Struct, frozen=True, kw_only=True):
    """Who speaks, in the terms `toolsBySender` uses."""

    channel: str = ""
    id: str = ""
    e164: str = ""
    username: str = ""
    name: str = ""


class ToolRequest(Struct, frozen=True, kw_only=True):
    """For whom the tools are wanted."""

    agent: str = "main"
    model: str = ""
    """provider/model; without one no rule for a provider counts."""
    sender: RequestSender | None = None
    """Nobody in particular where only the owner is; in a group at least its channel is known."""
    group: str = ""
    """The group, channel or room of `sender.channel` it is for."""
    boxed: bool = False
    read_only: bool = False
    """The sandbox mounts the workspace read-only."""


def layers(
    shared: ToolsSettings,
    own: AgentToolSettings,
    asked: ToolRequest,
    channels: Mapping[str, ChannelSettings] = NO_CHANNELS,
) -> list[ToolLayer]:
    """What the configuration takes away, first the widest rules."""
    mine = f"agents.list[{asked.agent}].tools"
    found = [_profile(shared, own, mine)]
    found += [
        _narrow("provider profile", f"{key}.profile", profile=rules.profile, also=rules.also_allow)
        for key, rules in _of_provider(shared.by_provider, asked.model, "tools.byProvider")
    ]
    found.append(
        ToolLayer(name="tools.allow/deny", key="tools", allow=shared.allow or None, deny=shared.deny, explicit=True)
    )
    found += [
        _rules("provider", key, rules)
        for key, rules in _of_provider(shared.by_provider, asked.model, "tools.byProvider")
    ]
    found.append(
        ToolLayer(name=f"agent {asked.agent}", key=mine, allow=own.allow or None, deny=own.deny, explicit=True)
    )
    for key, rules in _of_provider(own.by_provider, asked.model, f"{mine}.byProvider"):
        found.append(
            _narrow("agent's provider profile", f"{key}.profile", profile=rules.profile, also=rules.also_allow)
        )
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


def _profile(shared: ToolsSettings, own: AgentToolSettings, mine: str) -> ToolLayer:
    if own.profile:
        return _narrow(f"profile {own.profile}", f"{mine}.profile", profile=own.profile, also=own.also_allow)
    also = (*shared.also_allow, *own.also_allow)
    return _narrow(f"profile {shared.profile}", "tools.profile", profile=shared.profile, also=also)


def _narrow(name: str, key: str, *, profile: str | None, also: Sequence[str]) -> ToolLayer:
    allow = PROFILES.get(profile or "")
    return ToolLayer(name=name, key=key, exact_key=True, allow=None if allow is None else (*allow, *also))


def _rules(name: str, key: str, rules: NarrowSettings) -> ToolLayer:
    return ToolLayer(name=name, key=key, allow=rules.allow or None, deny=rules.deny, explicit=True)


def _of_provider(table: Mapping[str, ProviderRules], model: str, where: str) -> list[tuple[str, ProviderRules]]:
    """The rules for the provider, then those for the model itself."""
    provider = model.partition("/")[0].lower()
    wanted = [provider, model.lower()] if provider else []
    return [(f"{where}.{name}", rules) for want in wanted for name, rules in table.items() if name.lower() == want]


def group_of(channels: Mapping[str, ChannelSettings], channel: str, group: str) -> tuple[str, GroupSettings] | None:
    """The rules for a group with the key they stand under; the group's own come before those for all."""
    groups = next((each.groups for name, each in channels.items() if name.lower() == channel.lower()), {})
    lowered = {spelled: name for name in groups for spelled in (peer_part(name), name.lower())}
    name = lowered.get(group.lower()) or lowered.get("*")
    return (f"channels.{channel.lower()}.groups[{name}]", groups[name]) if name else None


def by_sender(table: Mapping[str, NarrowSettings], sender: RequestSender | None) -> tuple[str, NarrowSettings] | None:
    """The first entry that names `sender`, the most exact kind first."""
    if sender is None or not table:
        return None
    keys = [f"channel:{sender.channel}:{sender.id}"] if sender.channel and sender.id else []
    keys += [f"{kind}:{value}" for kind, value in _names(sender) if value]
    lowered = {spelled.lower(): name for name in table for spelled in (_in_key(name), name)}
    for key in [*keys, "*"]:
        if key.lower() in lowered:
            name = lowered[key.lower()]
            return name, table[name]
    return None


def _in_key(name: str) -> str:
    """An entry with its id as session keys have it, which is where a sender's id is read from."""
    kind, _, rest = name.rpartition(":")
    return f"{kind}:{peer_part(rest)}" if kind else name


def _names(sender: RequestSender) -> tuple[tuple[str, str], ...]:
    return ("id", sender.id), ("e164", sender.e164), ("username", sender.username), ("name", sender.name)


def _boxed(shared: ToolsSettings, own: AgentToolSettings, mine: str, read_only: bool) -> list[ToolLayer]:
    """Inside a sandbox only tools that stay inside remain, unless the owner named others."""
    rules, key = (
        (own.sandbox.tools, f"{mine}.sandbox.tools") if own.sandbox else (shared.sandbox.tools, "tools.sandbox.tools")
    )
    allow = rules.allow or (*BOXED_ALLOW, *rules.also_allow)
    named = {*rules.allow, *rules.also_allow}
    deny = (*(name for name in BOXED_DENY if name not in named), *rules.deny)
    found = [ToolLayer(name="sandbox", key=key, allow=tuple(allow), deny=deny)]
    if read_only:
        found.append(ToolLayer(name="sandbox read-only", key="sandbox.workspaceAccess", exact_key=True, deny=READ_ONLY))
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
