"""Settings of `channels.slack`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field, structs

from openclaw.channels.settings import ChannelSettings, GroupSettings
from openclaw.core.errors import ConfigError
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretInput, Settings
from openclaw.security.settings import Id, NarrowSettings


class SlackChannelRules(Settings, frozen=True):
    """`channels.slack.channels.<id>`: one channel, with its threads."""

    enabled: bool = True
    """hear this channel"""
    require_mention: bool | None = None
    """hear only what mentions the app; true when nobody says"""
    users: tuple[Id, ...] | None = None
    """who is heard in it; groupAllowFrom when left out"""
    tools: NarrowSettings = NarrowSettings()
    """tools in this channel, out of those that remain"""


class SlackCommandSettings(Settings, frozen=True):
    """`channels.slack.slashCommand`."""

    name: Annotated[str, Meta(pattern="^[a-z0-9_-]{1,32}$")] = "openclaw"
    """the slash command behind which anything can be written to us"""


class SlackSettings(ChannelSettings, frozen=True):
    """`channels.slack`: apps in a workspace of Slack."""

    LABEL: ClassVar[str] = "Slack"
    OWN: ClassVar[tuple[str, ...]] = ("botToken", "appToken", "signingSecret", "mode", "webhookPath")
    CREDENTIALS: ClassVar[tuple[str, ...]] = ("botToken", "appToken", "signingSecret")
    MISSING: ClassVar[str] = (
        "give the app's botToken (xoxb-…), and its appToken (xapp-…) for Socket Mode or its signingSecret for HTTP"
    )
    VARIABLE: ClassVar[str] = "SLACK_BOT_TOKEN"

    bot_token: SecretInput | None = None
    """the app's Bot User OAuth Token, xoxb-…"""
    app_token: SecretInput | None = None
    """an App-Level Token with connections:write, xapp-…"""
    signing_secret: SecretInput | None = None
    """what Slack signs its calls with, when it calls us"""
    mode: Literal["socket", "http"] | None = None
    """hear over a connection that we open, or be called; socket when there is an appToken"""
    webhook_path: Annotated[
        str,
        Meta(
            pattern="^(/[A-Za-z0-9_.-]+)*$",
        ),
    ] = ""
    """the path of Slack's calls at the gateway; /slack/events, with /ACCOUNT behind it for another account"""
    channels: Mapping[str, SlackChannelRules] = field(default_factory=dict)
    """channels by id; * for all others. With any, only these are heard"""
    reply_to_mode: Literal["off", "all"] = "off"
    """answer in the channel where one was asked, or always in a thread below the question"""
    slash_command: SlackCommandSettings = SlackCommandSettings()
    """our command in Slack's own menu"""
    unfurl_links: bool = False
    """show previews of links"""
    media_max_mb: Annotated[int, Meta(ge=1, le=1000)] = 20
    """the largest file that is sent or opened"""
    api_root: str | None = None
    """the address of another server that speaks Slack's Web API"""
    accounts: Mapping[str, "SlackSettings"] = field(default_factory=dict)
    """several apps, by name; each is as the channel where it says nothing"""

    @property
    def is_called(self) -> bool:
        """Whether Slack calls us, instead of being listened to."""
        return self.mode == "http" or (self.mode is None and self.app_token is None)

    def credential(self, account: str, variables: Mapping[str, str]) -> Secret | None:
        if self.bot_token is None:
            return None
        if self.is_called and self.signing_secret is None:
            raise ConfigError(
                "channels.slack: set appToken (xapp-…, on the app's page Basic Information), or signingSecret for HTTP"
            )
        if not self.is_called and self.app_token is None:
            raise ConfigError("channels.slack.mode is socket, which needs appToken (xapp-…)")
        return self.bot_token

    def with_variables(self, variables: Mapping[str, str]) -> "SlackSettings":
        """What is not set comes from SLACK_BOT_TOKEN, SLACK_APP_TOKEN and SLACK_SIGNING_SECRET."""

        def secret(name: str) -> Secret | None:
            return Secret(variables[name]) if variables.get(name) else None

        return structs.replace(
            self,
            bot_token=self.bot_token or secret("SLACK_BOT_TOKEN"),
            app_token=self.app_token or secret("SLACK_APP_TOKEN"),
            signing_secret=self.signing_secret or secret("SLACK_SIGNING_SECRET"),
        )

    def rules_of(self, group: str, space: str | None) -> GroupSettings | None:
        """What holds in a channel: its entry in `groups`, else in `channels`."""
        if (named := self.groups.get(group)) is not None:
            return named
        rules = self.channels.get(group) or self.channels.get("*")
        if rules is None:
            return super().rules_of(group, space)
        return GroupSettings(
            enabled=rules.enabled, require_mention=rules.require_mention, allow_from=rules.users, tools=rules.tools
        )

    def names_groups(self) -> bool:
        return bool(self.channels) or super().names_groups()
