"""Sets accounts up: a credential is tried first, and written to the configuration only when it opens the account."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, get_args

from msgspec import Struct, structs

from openclaw.channels.accounts import (
    AccountConfig,
    AccountName,
    configured_accounts,
    read_credential,
)
from openclaw.channels.settings import ChannelSettings
from openclaw.config.edit import Editor
from openclaw.config.load import LoadedConfig
from openclaw.config.schema import BUILT_IN_CHANNELS
from openclaw.core.channel import AccountProbe
from openclaw.core.errors import Conflict, InvalidRequest, NotFound
from openclaw.core.secret import Secret

OWNER = "owner"
"""Who the person is there: not a setting of the channel, but a name of `commands.ownerAllowFrom`."""


class SetupField(Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that an account is made of, by its name in the file."""

    key: str
    option: str
    """What the command line calls it."""
    label: str
    hint: str = ""
    secret: bool = False
    opens: bool = False
    """Whether it is a credential; a new one takes the place of all of them."""
    asked: bool = True
    optional: bool = False
    unless: str = ""
    """Not asked for when this one is given."""


class ChannelSetup(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a person connects a channel: what to do on the platform first, and what to paste here."""

    channel: str
    label: str
    first: str
    then: str
    """What to do when it is connected; `{name}` is the account."""
    unowned: str
    """What to do beside it while nobody there is known as the owner."""
    fields: tuple[SetupField, ...]


def _field(key: str, label: str, hint: str = "", *, option: str = "", **more: Any) -> SetupField:
    """A field; the command line calls it by its name in the file, unless `option` says otherwise."""
    name = option or re.sub("(?=[A-Z])", "-", key).lower()
    return SetupField(key=key, option=name, label=label, hint=hint, **more)


SETUPS = {
    each.channel: each
    for each in (
        ChannelSetup(
            channel="telegram",
            label="Telegram",
            first="Make a bot: write /newbot to @BotFather in Telegram, and copy the token it answers with.",
            then="Write to {name} in Telegram.",
            unowned="It answers with a command: run that here, and you are its owner.",
            fields=(
                _field("botToken", "Token", option="token", secret=True, opens=True),
                _field(
                    "tokenFile",
                    "File with the token",
                    "it stays there, and is read at every start",
                    opens=True,
                    asked=False,
                ),
                _field("apiRoot", "Address of another Bot API server", asked=False),
                _field(OWNER, "Your own account", "its number", asked=False),
            ),
        ),
        ChannelSetup(
            channel="discord",
            label="Discord",
            first="Make a bot on discord.com/developers: New Application, then Bot. Switch on Message Content Intent, "
            "and copy its token.",
            then="Write {name} a direct message in Discord.",
            unowned="It answers with a command: run that here, and you are its owner.",
            fields=(
                _field("token", "Token", secret=True, opens=True),
                _field("apiRoot", "Address of another server", asked=False),
                _field(OWNER, "Your own account", "its number", asked=False),
            ),
        ),
        ChannelSetup(
            channel="slack",
            label="Slack",
            first="Make an app on api.slack.com/apps (Create New App, From a manifest; docs/channels-slack.md has the "
            "manifest) and install it. Copy its Bot User OAuth Token, and make an App-Level Token with the scope "
            "connections:write.",
            then="Write {name} a direct message in Slack.",
            unowned="It answers with a command: run that here, and you are its owner.",
            fields=(
                _field("botToken", "Bot token", "xoxb-…", secret=True, opens=True),
                _field("appToken", "App-level token", "xapp-…", secret=True, opens=True, unless="signingSecret"),
                _field(
                    "signingSecret",
                    "Signing secret, when Slack calls the gateway over HTTP",
                    secret=True,
                    opens=True,
                    asked=False,
                ),
                _field("apiRoot", "Address of another server", asked=False),
                _field(OWNER, "Your own account", "such as U0123ABCD", asked=False),
            ),
        ),
        ChannelSetup(
            channel="signal",
            label="Signal",
            first="Install signal-cli, and give the assistant a number of its own: signal-cli -a NUMBER register and "
            "verify, or signal-cli link -n OpenClaw with a phone that has that number.",
            then="Write to {name} in Signal.",
            unowned="It answers with a command: run that here, and you are its owner.",
            fields=(
                _field("account", "The assistant's number", "such as +15551234567", option="number", opens=True),
                _field(
                    "httpUrl",
                    "Address of a signal-cli daemon",
                    "such as http://127.0.0.1:8080; empty to have it started",
                    optional=True,
                ),
                _field("cliPath", "The program signal-cli", asked=False),
                _field(OWNER, "Your own account", "your number, or uuid:…", asked=False),
            ),
        ),
        ChannelSetup(
            channel="email",
            label="Email",
            first="Make a mailbox for the assistant, and where the provider has them an app password for it.",
            then="Write a mail to {name}. If no answer comes, openclaw channels logs email says why.",
            unowned="First say who you are: openclaw config set commands.ownerAllowFrom '[\"email:you@example.com\"]'",
            fields=(
                _field("address", "Its address", "such as claw@example.com"),
                _field("password", "Password", secret=True, opens=True),
                _field(
                    "imap",
                    "Server for reading",
                    "HOST or HOST:PORT; empty when it is imap.DOMAIN or a large provider's",
                    optional=True,
                ),
                _field(
                    "smtp",
                    "Server for sending",
                    "HOST or HOST:PORT; empty when it is smtp.DOMAIN or a large provider's",
                    optional=True,
                ),
                _field("user", "Name to sign in with", asked=False),
                _field(OWNER, "Your own address", "it is heard, and may command the assistant", optional=True),
            ),
        ),
        ChannelSetup(
            channel="matrix",
            label="Matrix",
            first="Make an account for the assistant on any Matrix server (in Element: Create account).",
            then="Invite {name} to a conversation from your own account, and write to it.",
            unowned="First say who you are: openclaw config set commands.ownerAllowFrom '[\"matrix:@you:server\"]'",
            fields=(
                _field("homeserver", "Homeserver", "such as https://matrix.org"),
                _field(
                    "accessToken",
                    "Access token",
                    "or leave it empty, and give account and password",
                    secret=True,
                    opens=True,
                    optional=True,
                ),
                _field("userId", "Account", "such as @claw:matrix.org", optional=True, unless="accessToken"),
                _field("password", "Password", secret=True, opens=True, optional=True, unless="accessToken"),
                _field(
                    OWNER,
                    "Your own account",
                    "such as @ada:matrix.org: it is heard, and may command the assistant",
                    optional=True,
                ),
            ),
        ),
        ChannelSetup(
            channel="whatsapp",
            label="WhatsApp",
            first="Make an app with WhatsApp on developers.facebook.com (docs/channels-whatsapp.md has the steps). "
            "Copy the number's id, a system user's token and the app's secret. The gateway has to be reachable "
            "over https.",
            then="Enter https://YOUR-GATEWAY/whatsapp-webhook and the verify token on the app's page WhatsApp, "
            "Configuration, subscribe to messages, and write to {name}.",
            unowned="It answers with a command: run that here, and you are its owner.",
            fields=(
                _field("phoneNumberId", "Phone number ID", "not the number itself"),
                _field("accessToken", "Access token", secret=True, opens=True),
                _field("appSecret", "App secret", secret=True),
                _field("verifyToken", "Verify token", "make up a word; Meta repeats it", secret=True),
                _field("apiRoot", "Address of another server", asked=False),
                _field(OWNER, "Your own number", "such as +4915112345678", optional=True),
            ),
        ),
        ChannelSetup(
            channel="irc",
            label="IRC",
            first="Choose a nick for the assistant; where the network has accounts, register one for it.",
            then="Write to {name}: /msg NICK hello.",
            unowned="It answers with a command: run that here, and you are its owner.",
            fields=(
                _field("server", "Server", "such as irc.libera.chat"),
                _field("nick", "Nick"),
                _field(
                    "password",
                    "Password of its account",
                    "empty when it has none",
                    secret=True,
                    opens=True,
                    optional=True,
                ),
                _field("serverPassword", "Password of the server itself", secret=True, asked=False),
                _field(OWNER, "Your own account there", "or nick!user@host", asked=False),
            ),
        ),
        ChannelSetup(
            channel="webhook",
            label="Webhook",
            first="Make up a secret that your program and the assistant share: openssl rand -hex 24. Your program is "
            "called at its address with what the assistant says (docs/channels-webhook.md).",
            then="Let your program call https://YOUR-GATEWAY/webhook.",
            unowned="Say who is the owner there: openclaw config set commands.ownerAllowFrom '[\"webhook:SENDER\"]'",
            fields=(
                _field("url", "Address of your program"),
                _field("secret", "Secret", secret=True, opens=True),
                _field(OWNER, "Your own name there", asked=False),
            ),
        ),
    )
}
"""The built-in channels, as the command line, onboarding and the web page ask for them."""
_ACCOUNT = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")


class AddedAccount(Struct, frozen=True, kw_only=True):
    """An account that was tried and saved."""

    name: AccountName
    probe: AccountProbe | None


def find_setup(channel: str) -> ChannelSetup:
    if channel not in SETUPS:
        known = ", ".join(sorted(SETUPS))
        raise InvalidRequest(f"no channel {channel!r} is built in: there is {known}; others come as plugins")
    return SETUPS[channel]


async def add_account(
    name: AccountName,
    given: Mapping[str, str],
    loaded: LoadedConfig,
    editor: Editor,
    probe_account: Callable[[AccountConfig], Awaitable[AccountProbe | None]],
) -> AddedAccount:
    """Tries an account with the settings that are `given`, by their names in the file, and saves them.

    A running gateway follows its configuration, so it connects the account by itself.
    """
    channel, account = name
    find_setup(channel)
    if not _ACCOUNT.match(account):
        raise InvalidRequest(f"{account!r} is not a name of an account: small letters, digits, - and _")
    tried = _tried(name, given, loaded)
    for other, config in configured_accounts(loaded.config.channels, loaded.variables).items():
        same = config.credential == tried.credential and config.settings.identity == tried.settings.identity
        if other != name and other[0] == channel and same:
            raise Conflict(f"that is the account {other[1]} already: two of the same would take each other's messages")
    probe = await probe_account(tried)
    dropped = dict.fromkeys(BUILT_IN_CHANNELS[channel].CREDENTIALS)
    entry = {**dropped, "enabled": True, **given}
    editor.patch({"channels": {channel: entry if account == "default" else {"accounts": {account: entry}}}})
    return AddedAccount(name=name, probe=probe)


def _tried(name: AccountName, given: Mapping[str, str], loaded: LoadedConfig) -> AccountConfig:
    channel, account = name
    section = loaded.config.channels.get(channel)
    kind = BUILT_IN_CHANNELS[channel]
    base: Any = section.of(account) if section is not None else kind()
    fields = {each.encode_name: each.name for each in structs.fields(kind)}
    unknown = [key for key in given if key not in fields]
    if unknown:
        raise InvalidRequest(f"{kind.LABEL} has no {', '.join(unknown)}: {kind.MISSING}")
    # A new account says for itself who it is; an old one keeps what the new credential does not replace.
    forgotten = kind.CREDENTIALS if section is not None and account in section.accounts else kind.OWN
    if account == "default":
        forgotten = kind.CREDENTIALS
    known: dict[str, Any] = {fields[key]: None for key in forgotten if key in fields}
    secrets = {each.encode_name for each in structs.fields(kind) if Secret in (each.type, *get_args(each.type))}
    known |= {fields[key]: Secret(value) if key in secrets else value for key, value in given.items()}
    settings: ChannelSettings = structs.replace(base, enabled=True, **known)
    credential = read_credential(settings, account, loaded.variables)
    if not credential:
        raise InvalidRequest(f"{kind.LABEL} needs a credential: {kind.MISSING}")
    return AccountConfig(channel, account, settings, credential)


def forget_account(name: AccountName, loaded: LoadedConfig, editor: Editor) -> bool:
    """Takes the credential of an account out of the file; false when it is not there (but in a variable)."""
    channel, account = name
    kind = BUILT_IN_CHANNELS.get(channel, ChannelSettings)
    section = loaded.raw.get("channels", {}).get(channel, {})
    own = section if account == "default" else section.get("accounts", {}).get(account, {})
    there = [key for key in kind.CREDENTIALS if key in own]
    if there:
        gone: dict[str, Any] = dict.fromkeys(there)
        editor.patch({"channels": {channel: gone if account == "default" else {"accounts": {account: gone}}}})
    return bool(there)


def disable_account(name: AccountName, loaded: LoadedConfig, editor: Editor) -> None:
    """Switches an account off; its settings and its credential stay."""
    channel, account = name
    section = _section(name, loaded)
    if account == "default" and section.accounts:
        others = ", ".join(section.accounts)
        raise Conflict(f"channels.{channel}.enabled would switch {others} off too: --delete removes this one alone")
    path = f"channels.{channel}" if account == "default" else f"channels.{channel}.accounts.{account}"
    editor.set(f"{path}.enabled", False)


def remove_account(name: AccountName, loaded: LoadedConfig, editor: Editor) -> None:
    """Takes an account with everything that is set for it out of the file."""
    channel, account = name
    section = _section(name, loaded)
    if account != "default":
        editor.unset(f"channels.{channel}.accounts.{account}")
    elif section.accounts:
        forget_account(name, loaded, editor)  # the others live below it
    else:
        editor.unset(f"channels.{channel}")


def _section(name: AccountName, loaded: LoadedConfig) -> ChannelSettings:
    channel, account = name
    section = loaded.config.channels.get(channel)
    if section is None or (account != "default" and account not in section.accounts):
        raise NotFound(f"channels.{channel} has no account {account}: openclaw channels list")
    return section
