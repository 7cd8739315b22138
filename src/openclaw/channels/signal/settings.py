"""Settings of `channels.signal`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, field

from openclaw.channels.settings import ChannelSettings
from openclaw.core.secret import Secret


class SignalSettings(ChannelSettings, frozen=True):
    """`channels.signal`: an account of signal-cli."""

    LABEL: ClassVar[str] = "Signal"
    OWN: ClassVar[tuple[str, ...]] = ("account",)
    CREDENTIALS: ClassVar[tuple[str, ...]] = ("account",)
    MISSING: ClassVar[str] = "give the number of the assistant's account (account), such as +15551234567"

    account: str | None = None
    """the assistant's own number, such as +15551234567"""
    http_url: str | None = None
    """the address of a signal-cli daemon that runs already; without it the gateway starts one"""
    cli_path: str = "signal-cli"
    """the program to start: signal-cli"""
    startup_timeout_ms: Annotated[int, Meta(ge=1_000, le=120_000)] = 30_000
    """how long its daemon may take to start"""
    send_read_receipts: bool = True
    """show people that their messages were read"""
    ignore_attachments: bool = False
    """leave files that people send alone"""
    media_max_mb: Annotated[int, Meta(ge=1, le=100)] = 8
    """the largest file that is sent or opened"""
    accounts: Mapping[str, "SignalSettings"] = field(default_factory=dict)
    """several accounts, by name; each is as the channel where it says nothing"""

    def credential(self, account: str, variables: Mapping[str, str]) -> Secret | None:
        # What opens the account is kept by signal-cli; here its number says which one it is.
        return Secret(self.account) if self.account else None
