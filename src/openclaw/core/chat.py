"""Messages between people and the assistant, before and after the loop."""

from msgspec import Struct


class Address(Struct, frozen=True, kw_only=True):
    """Where a reply goes: the channel, and the place in it."""

    channel: str
    to: str
    account: str = "default"
    thread: str | None = None


class Inbound(Struct, frozen=True, kw_only=True):
    """One message as a channel heard it."""

    id: str
    channel: str
    sender: str
    text: str
    account: str = "default"
    group: str | None = None
    thread: str | None = None
    mentioned: bool = False
    sender_name: str | None = None
    timestamp: int = 0

    @property
    def origin(self) -> Address:
        return Address(channel=self.channel, to=self.group or self.sender, account=self.account, thread=self.thread)


class Outbound(Struct, frozen=True, kw_only=True):
    """One message to hand over."""

    to: Address
    text: str
    media: tuple[str, ...] = ()
    reply_to: str | None = None


class Receipt(Struct, frozen=True, kw_only=True):
    """The platform's word that a message arrived."""

    id: str
    timestamp: int = 0
