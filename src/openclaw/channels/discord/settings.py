"""Settings of `channels.discord`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, field

from openclaw.channels.settings import ChannelSettings, GroupSettings
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretInput, Settings
from openclaw.security.settings import Id


class DiscordChannelRules(Settings, frozen=True):
    """`channels.discord.guilds.<id>.channels.<id>`: one channel of a server, with its threads."""

    enabled: bool = True
    """hear this channel"""
    require_mention: bool | None = None
    """hear only what mentions the bot; as its server when left out"""
    users: tuple[Id, ...] | None = None
    """who is heard in it; as its server when left out"""


class DiscordGuildRules(Settings, frozen=True):
    """`channels.discord.guilds.<id>`: one server, or with * every server that is not named."""

    require_mention: bool | None = None
    """hear only what mentions the bot; true when nobody says"""
    users: tuple[Id, ...] | None = None
    """who is heard there; groupAllowFrom when left out"""
    channels: Mapping[str, DiscordChannelRules] = field(default_factory=dict)
    """its channels by id; with any, only these are heard"""


class DiscordSettings(ChannelSettings, frozen=True):
    """`channels.discord`: bots of Discord's developer portal."""

    LABEL: ClassVar[str] = "Discord"
    OWN: ClassVar[tuple[str, ...]] = ("token",)
    CREDENTIALS: ClassVar[tuple[str, ...]] = ("token",)
    MISSING: ClassVar[str] = "give the bot's token (token), from the page Bot of the developer portal"
    VARIABLE: ClassVar[str] = "DISCORD_BOT_TOKEN"

    token: SecretInput | None = None
    """the bot's token, from the page Bot of the developer portal"""
    guilds: Mapping[str, DiscordGuildRules] = field(default_factory=dict)
    """servers by id; * for all others"""
    api_root: str | None = None
    """the address of another server that speaks Discord's API"""
    suppress_embeds: bool = True
    """show no previews of links"""
    slash_commands: bool = True
    """offer our commands in Discord's own menu"""
    media_max_mb: Annotated[int, Meta(ge=1, le=500)] = 10
    """the largest file that is sent or opened"""
    accounts: Mapping[str, "DiscordSettings"] = field(default_factory=dict)
    """several bots, by name; each is as the channel where it says nothing"""

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
