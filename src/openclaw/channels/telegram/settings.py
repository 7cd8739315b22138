"""Settings of `channels.telegram`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, field

from openclaw.channels.settings import ChannelSettings, CredentialFile
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretInput, Settings


class TelegramCommand(Settings, frozen=True):
    """`channels.telegram.customCommands[]`: an entry of the menu; choosing it sends its name to the assistant."""

    command: Annotated[str, Meta(pattern="^[a-z0-9_]{1,32}$")]
    """the word behind the slash: small letters, digits and _"""
    description: Annotated[str, Meta(min_length=1)]
    """what the menu says about it"""


class TelegramSettings(ChannelSettings, frozen=True):
    """`channels.telegram`: bots that @BotFather made."""

    LABEL: ClassVar[str] = "Telegram"
    OWN: ClassVar[tuple[str, ...]] = ("botToken", "tokenFile", "webhookUrl", "webhookSecret", "webhookPath")
    CREDENTIALS: ClassVar[tuple[str, ...]] = ("botToken", "tokenFile")
    MISSING: ClassVar[str] = "give the token that @BotFather gave you (botToken), or a file with it (tokenFile)"
    VARIABLE: ClassVar[str] = "TELEGRAM_BOT_TOKEN"

    bot_token: SecretInput | None = None
    """the token that @BotFather gave"""
    token_file: str | None = None
    """a file with the token, instead of botToken"""
    api_root: str | None = None
    """the address of another Bot API server"""
    proxy: SecretInput | None = None
    """the address of an HTTP proxy to go through"""
    link_preview: bool = True
    """show a preview of the first link of a message"""
    custom_commands: tuple[TelegramCommand, ...] = ()
    """more entries for the menu of commands, behind our own"""
    webhook_url: str | None = None
    """an https address that reaches this gateway: Telegram calls it, and is not asked any more"""
    webhook_secret: SecretInput | None = None
    """what Telegram's calls must carry; made up when left out"""
    webhook_path: Annotated[
        str,
        Meta(
            pattern="^(/[A-Za-z0-9_.-]+)*$",
        ),
    ] = ""
    """the path of those calls at the gateway; /telegram-webhook, with /ACCOUNT behind it for another account"""
    accounts: Mapping[str, "TelegramSettings"] = field(default_factory=dict)
    """several bots, by name; each is as the channel where it says nothing"""

    def credential(self, account: str, variables: Mapping[str, str]) -> Secret | CredentialFile | None:
        if self.bot_token is not None:
            return self.bot_token
        if self.token_file is not None:
            return CredentialFile(self.token_file, "channels.telegram.tokenFile")
        given = variables.get(self.VARIABLE) if account == "default" else None
        return Secret(given) if given else None
