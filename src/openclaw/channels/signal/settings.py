"""Settings of `channels.signal`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import field

from openclaw.channels.settings import ChannelSettings
from openclaw.core.secret import Secret
from openclaw.core.settings import doc


class SignalSettings(ChannelSettings, frozen=True):
    """`channels.signal`: an account of signal-cli."""

    LABEL: ClassVar[str] = "Signal"
    OWN: ClassVar[tuple[str, ...]] = ("account",)
    CREDENTIALS: ClassVar[tuple[str, ...]] = ("account",)
    MISSING: ClassVar[str] = "give the number of the assistant's account (account), such as +15551234567"

    account: Annotated[str | None, doc("the assistant's own number, such as +15551234567")] = None
    http_url: Annotated[
        str | None,
        doc("the address of a signal-cli daemon that runs already; without it the gateway starts one"),
    ] = None
    cli_path: Annotated[str, doc("the program to start: signal-cli")] = "signal-cli"
    startup_timeout_ms: Annotated[int, doc("how long its daemon may take to start", ge=1_000, le=120_000)] = 30_000
    send_read_receipts: Annotated[bool, doc("show people that their messages were read")] = True
    ignore_attachments: Annotated[bool, doc("leave files that people send alone")] = False
    media_max_mb: Annotated[int, doc("the largest file that is sent or opened", ge=1, le=100)] = 8
    accounts: Annotated[
        Mapping[str, "SignalSettings"], doc("several accounts, by name; each is as the channel where it says nothing")
    ] = field(default_factory=dict)

    def credential(self, account: str, variables: Mapping[str, str]) -> Secret | None:
        # What opens the account is kept by signal-cli; here its number says which one it is.
        return Secret(self.account) if self.account else None
