"""The accounts that the configuration names, and how each is connected."""

import asyncio
import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

from msgspec import Struct

from openclaw.channels.settings import ChannelSettings, CredentialFile
from openclaw.config.schema import BUILT_IN_CHANNELS
from openclaw.core.channel import (
    AccountClosed,
    AccountProbe,
    Address,
    Channel,
    ChannelFacts,
    LogsOut,
    MessageRefused,
    Outbound,
    Platform,
    Probes,
    Receipt,
    ShowsTyping,
    TakesEvents,
    TryLater,
    Unsure,
)
from openclaw.core.clock import Clock
from openclaw.core.errors import ConfigError, InvalidRequest, NotFound
from openclaw.core.plugin import PluginFailed
from openclaw.core.secret import Secret
from openclaw.core.settings import Live
from openclaw.security.settings import CommandsSettings

PROBE_SECONDS = 15.0

LABELS = {name: kind.LABEL for name, kind in BUILT_IN_CHANNELS.items()}
"""The built-in channels as people call them."""

AccountName = tuple[str, str]
"""A channel and the name of an account there."""


class AccountConfig(Struct, frozen=True):
    """One account as it is configured; a change of it connects anew."""

    channel: str
    account: str
    settings: ChannelSettings
    credential: Secret
    problem: str = ""
    """Why it cannot be connected."""


class ChannelContext(Struct, frozen=True, kw_only=True):
    """What an account may need besides its settings."""

    state_dir: Path
    commands: Live[CommandsSettings]
    clock: Clock
    menu: Sequence[tuple[str, str]] = ()
    """The names and descriptions of what can be typed, for platforms that show them."""


def configured_accounts(
    channels: Mapping[str, ChannelSettings], variables: Mapping[str, str]
) -> dict[AccountName, AccountConfig]:
    """Every account of a built-in channel that is enabled and has a credential."""
    by_variable = {
        name: kind()
        for name, kind in BUILT_IN_CHANNELS.items()
        if name not in channels and variables.get(kind.VARIABLE)
    }
    found = {}
    for channel, section in {**channels, **by_variable}.items():
        for name, settings in {"default": section, **section.accounts}.items():
            if not (section.enabled and settings.enabled):
                continue
            if name == "default":
                settings = settings.with_variables(variables)
            try:
                if credential := read_credential(settings, name, variables):
                    found[channel, name] = AccountConfig(channel, name, settings, credential)
            except ConfigError as error:
                found[channel, name] = AccountConfig(channel, name, settings, Secret(""), error.message)
    return found


def read_credential(settings: ChannelSettings, account: str, variables: Mapping[str, str]) -> Secret | None:
    """What opens an account; None when it is not configured. Raises `ConfigError`."""
    match settings.credential(account, variables):
        case CredentialFile(path, key):
            try:
                return Secret(Path(path).expanduser().read_text(encoding="utf-8").strip())
            except (OSError, UnicodeError) as error:
                raise ConfigError(f"{key}: {path} cannot be read ({error})") from error
        case found:
            return found


def connect(config: AccountConfig, context: ChannelContext) -> Platform:
    """The account as a platform. A channel's code is loaded when one of its accounts is configured."""
    if config.problem:
        raise AccountClosed(config.problem)
    if config.channel not in BUILT_IN_CHANNELS:
        raise AccountClosed(f"channels.{config.channel} is not a channel of this version")
    build: Callable[[AccountConfig, ChannelContext], Platform] = importlib.import_module(
        f"openclaw.channels.{config.channel}.channel"
    ).build
    return build(config, context)


async def probe_platform(platform: Platform, seconds: float = PROBE_SECONDS) -> AccountProbe | None:
    """Asks a platform who we are there; None when it cannot be asked."""
    if not isinstance(platform, Probes):
        return None
    try:
        async with asyncio.timeout(seconds):
            return await platform.probe()
    except TimeoutError:
        raise TryLater(f"{platform.name} has not answered within {seconds:.0f} s") from None


async def sign_out_platform(platform: object) -> bool:
    """Makes a credential worthless on its platform; false where that cannot be done from here."""
    if not isinstance(platform, LogsOut):
        return False
    await platform.logout()
    return True


# Channels of plugins.

TYPING_EVERY = 5.0
FINAL = ("InvalidRequest", "NotFound")


class PluginChannel:
    """Adapts `Channel` to `Platform`."""

    account = "default"

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.name = channel.name
        self.facts = ChannelFacts(
            media_bytes=50_000_000, typing_every=TYPING_EVERY if isinstance(channel, ShowsTyping) else 0.0
        )

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        inbox.connected()
        async with aclosing(self.channel.listen()) as heard:  # type: ignore[type-var]
            async for message in heard:
                await inbox.take([message], None)

    async def send(self, message: Outbound) -> Receipt:
        try:
            return await self.channel.send(message)
        except PluginFailed as error:
            if error.kind in FINAL:
                raise MessageRefused(error.message) from error
            # Without an exception of its own its process ended or hung: the message may have left before.
            raise (TryLater if error.kind else Unsure)(error.message) from error
        except (InvalidRequest, NotFound) as error:
            raise MessageRefused(error.message) from error

    async def typing(self, to: Address) -> None:
        if isinstance(self.channel, ShowsTyping):
            await self.channel.typing(to)

    async def close(self) -> None:
        """Does nothing: the plugin ends with its process."""
