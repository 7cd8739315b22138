"""The accounts that the configuration names, and how each is connected."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs

from openclaw.channels.settings import ChannelAccount, ChannelSettings
from openclaw.core.channel import Platform
from openclaw.core.errors import ConfigError
from openclaw.core.secret import Secret

BUILT_IN = ("telegram",)
"""The channels that need no plugin."""
TOKEN_VARIABLES = {"telegram": "TELEGRAM_BOT_TOKEN"}


class AccountConfig(Struct, frozen=True):
    """One account as it is configured; a change of it connects anew."""

    channel: str
    account: str
    settings: ChannelAccount
    token: Secret | None = None


def configured_accounts(
    channels: Mapping[str, ChannelSettings], variables: Mapping[str, str]
) -> dict[tuple[str, str], AccountConfig]:
    """Every account of a built-in channel that is enabled and has a credential."""
    found = {}
    for channel in BUILT_IN:
        settings = channels.get(channel, ChannelSettings() if TOKEN_VARIABLES[channel] in variables else None)
        if settings is None or not settings.enabled:
            continue
        root = ChannelAccount(**{name: getattr(settings, name) for name in ChannelAccount.__struct_fields__})
        for name, account in {"default": root, **settings.accounts}.items():
            own = {
                key: value for key in ChannelAccount.__struct_fields__ if (value := getattr(account, key)) is not None
            }
            merged = structs.replace(root, **own) if name != "default" else account
            token = _token(channel, name, account, variables)
            if merged.enabled and token is not None:
                found[channel, name] = AccountConfig(channel, name, merged, token)
    return found


def _token(channel: str, name: str, settings: ChannelAccount, variables: Mapping[str, str]) -> Secret | None:
    if settings.bot_token is not None:
        return settings.bot_token
    if settings.token_file:
        return Secret(_read_token(settings.token_file, channel))
    variable = variables.get(TOKEN_VARIABLES[channel], "") if name == "default" else ""
    return Secret(variable) if variable else None


def _read_token(path: str, channel: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"channels.{channel}.tokenFile: {path} cannot be read ({error})") from error


def connect(config: AccountConfig) -> Platform:
    """The account as a platform. A channel's code is loaded when one of its accounts is configured."""
    from openclaw.channels.telegram.channel import API_ROOT, Telegram

    assert config.token is not None
    return Telegram(config.token, account=config.account, api_root=config.settings.api_root or API_ROOT)
