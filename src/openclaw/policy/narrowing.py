"""Settings that take tools away from some: an agent, a provider, a group, a sender, a sandbox."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import field

from openclaw.core.settings import Settings, doc

Profile = Literal["minimal", "coding", "messaging", "full"]
Security = Literal["deny", "allowlist", "full"]
Ask = Literal["off", "on-miss", "always"]
Mode = Literal["deny", "allowlist", "ask", "full"]

Id = str | int


class NarrowSettings(Settings, frozen=True):
    """Tools that remain: names, globs or group:<name>."""

    allow: Annotated[tuple[str, ...], doc("only these; all there may be when empty")] = ()
    also_allow: Annotated[
        tuple[str, ...], doc("these besides the ones that remain anyway; not together with allow")
    ] = ()
    deny: Annotated[tuple[str, ...], doc("never these; wins over everything else")] = ()


class ProviderRules(NarrowSettings, frozen=True):
    """`byProvider`: tools for the models of one provider, or for one model."""

    profile: Annotated[Profile | None, doc("the set of tools these models start from")] = None


class GroupSettings(Settings, frozen=True):
    """`channels.<channel>.groups.<id>`: one group, or with * every group that is not named."""

    enabled: Annotated[bool, doc("hear this group")] = True
    require_mention: Annotated[bool | None, doc("hear only what mentions the assistant; true when nobody says")] = None
    allow_from: Annotated[tuple[Id, ...] | None, doc("who is heard in it, instead of groupAllowFrom")] = None
    tools: Annotated[NarrowSettings, doc("tools in this group, out of those that remain")] = NarrowSettings()
    tools_by_sender: Annotated[
        Mapping[str, NarrowSettings], doc("and by who speaks: channel:CHANNEL:ID, id:, e164:, username:, name: or *")
    ] = field(default_factory=dict)


class ChannelSettings(Settings, frozen=True):
    """`channels.<channel>`: one place people talk. Without a section only the owner is heard, in direct messages."""

    enabled: Annotated[bool, doc("hear anybody on it at all")] = True
    dm_policy: Annotated[
        Literal["pairing", "allowlist", "open", "disabled"],
        doc("direct messages: strangers get a code for you to approve, are ignored, are heard, or nobody is heard"),
    ] = "pairing"
    allow_from: Annotated[tuple[Id, ...], doc("who is heard in direct messages; open needs *")] = ()
    group_policy: Annotated[
        Literal["allowlist", "open", "disabled"], doc("groups: those listed, all, or none are heard")
    ] = "allowlist"
    group_allow_from: Annotated[tuple[Id, ...] | None, doc("who is heard in groups; allowFrom when left out")] = None
    groups: Annotated[Mapping[str, GroupSettings], doc("groups, channels and rooms by id; * for all others")] = field(
        default_factory=dict
    )


class SandboxToolSettings(Settings, frozen=True):
    """`tools.sandbox`: what runs in a sandbox may do."""

    tools: Annotated[NarrowSettings, doc("tools inside a sandbox; the safe ones unless set")] = NarrowSettings()


class ElevatedSettings(Settings, frozen=True):
    """`tools.elevated`: leaving the sandbox."""

    enabled: Annotated[bool, doc("let the owner switch it on with /elevated")] = True
    allow_from: Annotated[Mapping[str, tuple[Id, ...]], doc("who else may, by channel; * is everyone")] = field(
        default_factory=dict
    )
    expires_minutes: Annotated[float, doc("how long /elevated holds in a session; 0 until it is taken back", ge=0)] = 60


class ExecOverride(Settings, frozen=True):
    """`agents.list[].tools.exec`: running commands, for one agent, in place of tools.exec."""

    mode: Annotated[Mode | None, doc("security and ask in one word; not together with them")] = None
    security: Annotated[Security | None, doc("what runs at all")] = None
    ask: Annotated[Ask | None, doc("when a person is asked")] = None
    timeout_seconds: Annotated[float | None, doc("longest run of a command")] = None


class FsOverride(Settings, frozen=True):
    """`agents.list[].tools.fs`: the file tools, for one agent."""

    workspace_only: Annotated[bool | None, doc("read and write inside the workspace only")] = None


class AgentElevated(Settings, frozen=True):
    """`agents.list[].tools.elevated`: leaving the sandbox, for one agent; both places must allow it."""

    enabled: Annotated[bool, doc("let the owner switch it on with /elevated")] = True
    allow_from: Annotated[Mapping[str, tuple[Id, ...]], doc("who else may, by channel")] = field(default_factory=dict)


class AgentToolSettings(Settings, frozen=True):
    """`agents.list[].tools`: tools of one agent, out of those that remain for all."""

    profile: Annotated[Profile | None, doc("the set of tools it starts from, in place of tools.profile")] = None
    allow: Annotated[tuple[str, ...], doc("only these tools; all when empty")] = ()
    also_allow: Annotated[tuple[str, ...], doc("tools added to the profile; not together with allow")] = ()
    deny: Annotated[tuple[str, ...], doc("never these tools")] = ()
    by_provider: Annotated[Mapping[str, ProviderRules], doc("by provider, or provider/model")] = field(
        default_factory=dict
    )
    tools_by_sender: Annotated[
        Mapping[str, NarrowSettings], doc("by who speaks: channel:CHANNEL:ID, id:, e164:, username:, name: or *")
    ] = field(default_factory=dict)
    exec: Annotated[ExecOverride, doc("running commands")] = ExecOverride()
    fs: Annotated[FsOverride, doc("the file tools")] = FsOverride()
    elevated: Annotated[AgentElevated, doc("leaving the sandbox")] = AgentElevated()
    sandbox: Annotated[SandboxToolSettings | None, doc("tools inside its sandbox, in place of tools.sandbox")] = None
