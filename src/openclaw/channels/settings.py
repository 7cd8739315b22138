"""Settings of `channels`: who may write on which channel, and with which tools."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import field

from openclaw.core.settings import SecretInput, Settings, doc
from openclaw.security.settings import Id, NarrowSettings


class DeliverySettings(Settings, frozen=True):
    """`delivery`: how messages to people on channels are sent."""

    unsure: Annotated[
        Literal["resend", "hold"],
        doc("a message that left without an answer from the platform: send it again, or hold it for you to decide"),
    ] = "resend"


class GroupSettings(Settings, frozen=True):
    """`channels.<channel>.groups.<id>`: one group, or with * every group that is not named."""

    enabled: Annotated[bool, doc("hear this group")] = True
    require_mention: Annotated[bool | None, doc("hear only what mentions the assistant; true when nobody says")] = None
    allow_from: Annotated[tuple[Id, ...] | None, doc("who is heard in it, instead of groupAllowFrom")] = None
    tools: Annotated[NarrowSettings, doc("tools in this group, out of those that remain")] = NarrowSettings()
    tools_by_sender: Annotated[
        Mapping[str, NarrowSettings], doc("and by who speaks: channel:CHANNEL:ID, id:, e164:, username:, name: or *")
    ] = field(default_factory=dict)


class ChannelAccount(Settings, frozen=True):
    """`channels.<channel>.accounts.<id>`: one account there; what it leaves out is as the channel says."""

    enabled: Annotated[bool, doc("hear anybody on it at all")] = True
    bot_token: Annotated[SecretInput | None, doc("Telegram: the token that @BotFather gave")] = None
    token_file: Annotated[str | None, doc("Telegram: a file with the token, instead of botToken")] = None
    api_root: Annotated[str | None, doc("Telegram: the address of another Bot API server")] = None


class ChannelSettings(ChannelAccount, frozen=True):
    """`channels.<channel>`: one place people talk. Without a section only the owner is heard, in direct messages."""

    accounts: Annotated[Mapping[str, ChannelAccount], doc("several accounts on the same channel, by name")] = field(
        default_factory=dict
    )
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
