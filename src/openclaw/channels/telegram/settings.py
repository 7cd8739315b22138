"""Settings of `channels.telegram`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import field

from openclaw.channels.settings import ChannelSettings, CredentialFile
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretInput, Settings, doc


class TelegramCommand(Settings, frozen=True):
    """`channels.telegram.customCommands[]`: an entry of the menu; choosing it sends its name to the assistant."""

    command: Annotated[str, doc("the word behind the slash: small letters, digits and _", pattern="^[a-z0-9_]{1,32}$")]
    description: Annotated[str, doc("what the menu says about it", min_length=1)]


class TelegramSettings(ChannelSettings, frozen=True):
    """`channels.telegram`: bots that @BotFather made."""

    LABEL: ClassVar[str] = "Telegram"
    OWN: ClassVar[tuple[str, ...]] = ("botToken", "tokenFile", "webhookUrl", "webhookSecret", "webhookPath")
    CREDENTIALS: ClassVar[tuple[str, ...]] = ("botToken", "tokenFile")
    MISSING: ClassVar[str] = "give the token that @BotFather gave you (botToken), or a file with it (tokenFile)"
    VARIABLE: ClassVar[str] = "TELEGRAM_BOT_TOKEN"

    bot_token: Annotated[SecretInput | None, doc("the token that @BotFather gave")] = None
    token_file: Annotated[str | None, doc("a file with the token, instead of botToken")] = None
    api_root: Annotated[str | None, doc("the address of another Bot API server")] = None
    proxy: Annotated[SecretInput | None, doc("the address of an HTTP proxy to go through")] = None
    link_preview: Annotated[bool, doc("show a preview of the first link of a message")] = True
    custom_commands: Annotated[
        tuple[TelegramCommand, ...], doc("more entries for the menu of commands, behind our own")
    ] = ()
    webhook_url: Annotated[
        str | None, doc("an https address that reaches this gateway: Telegram calls it, and is not asked any more")
    ] = None
    webhook_secret: Annotated[SecretInput | None, doc("what Telegram's calls must carry; made up when left out")] = None
    webhook_path: Annotated[
        str,
        doc(
            "the path of those calls at the gateway; /telegram-webhook, with /ACCOUNT behind it for another account",
            pattern="^(/[A-Za-z0-9_.-]+)*$",
        ),
    ] = ""
    accounts: Annotated[
        Mapping[str, "TelegramSettings"], doc("several bots, by name; each is as the channel where it says nothing")
    ] = field(default_factory=dict)

    def credential(self, account: str, variables: Mapping[str, str]) -> Secret | CredentialFile | None:
        if self.bot_token is not None:
            return self.bot_token
        if self.token_file is not None:
            return CredentialFile(self.token_file, "channels.telegram.tokenFile")
        given = variables.get(self.VARIABLE) if account == "default" else None
        return Secret(given) if given else None
