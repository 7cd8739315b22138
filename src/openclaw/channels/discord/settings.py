"""Settings of `channels.discord`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import field

from openclaw.channels.settings import ChannelSettings, GroupSettings
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretInput, Settings, doc
from openclaw.security.settings import Id


class DiscordChannelRules(Settings, frozen=True):
    """`channels.discord.guilds.<id>.channels.<id>`: one channel of a server, with its threads."""

    enabled: Annotated[bool, doc("hear this channel")] = True
    require_mention: Annotated[bool | None, doc("hear only what mentions the bot; as its server when left out")] = None
    users: Annotated[tuple[Id, ...] | None, doc("who is heard in it; as its server when left out")] = None


class DiscordGuildRules(Settings, frozen=True):
    """`channels.discord.guilds.<id>`: one server, or with * every server that is not named."""

    require_mention: Annotated[bool | None, doc("hear only what mentions the bot; true when nobody says")] = None
    users: Annotated[tuple[Id, ...] | None, doc("who is heard there; groupAllowFrom when left out")] = None
    channels: Annotated[
        Mapping[str, DiscordChannelRules], doc("its channels by id; with any, only these are heard")
    ] = field(default_factory=dict)


class DiscordSettings(ChannelSettings, frozen=True):
    """`channels.discord`: bots of Discord's developer portal."""

    LABEL: ClassVar[str] = "Discord"
    OWN: ClassVar[tuple[str, ...]] = ("token",)
    CREDENTIALS: ClassVar[tuple[str, ...]] = ("token",)
    MISSING: ClassVar[str] = "give the bot's token (token), from the page Bot of the developer portal"
    VARIABLE: ClassVar[str] = "DISCORD_BOT_TOKEN"

    token: Annotated[SecretInput | None, doc("the bot's token, from the page Bot of the developer portal")] = None
    guilds: Annotated[Mapping[str, DiscordGuildRules], doc("servers by id; * for all others")] = field(
        default_factory=dict
    )
    api_root: Annotated[str | None, doc("the address of another server that speaks Discord's API")] = None
    suppress_embeds: Annotated[bool, doc("show no previews of links")] = True
    slash_commands: Annotated[bool, doc("offer our commands in Discord's own menu")] = True
    media_max_mb: Annotated[int, doc("the largest file that is sent or opened", ge=1, le=500)] = 10
    accounts: Annotated[
        Mapping[str, "DiscordSettings"], doc("several bots, by name; each is as the channel where it says nothing")
    ] = field(default_factory=dict)

    def credential(self, account: str, variables: Mapping[str, str]) -> Secret | None:
        given = variables.get(self.VARIABLE) if account == "default" else None
        return self.token or (Secret(given) if given else None)

    def rules_of(self, group: str, space: str | None) -> GroupSettings | None:
        """What holds in a channel: its entry in `groups`, else in its server's."""
        if (named := self.groups.get(group)) is not None or space is None:
            return named
        guild = self.guilds.get(space) or self.guilds.get("*")
        if guild is None:
            return super().rules_of(group, space)
        if guild.channels and group not in guild.channels and "*" not in guild.channels:
            return None
        channel = guild.channels.get(group) or guild.channels.get("*") or DiscordChannelRules()
        mention = channel.require_mention if channel.require_mention is not None else guild.require_mention
        users = channel.users if channel.users is not None else guild.users
        return GroupSettings(enabled=channel.enabled, require_mention=mention, allow_from=users)

    def names_groups(self) -> bool:
        return bool(self.guilds) or super().names_groups()
