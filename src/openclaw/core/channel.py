"""The channel seam: the messages a chat platform delivers and takes, and what an adapter must implement."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from msgspec import Struct


class Address(Struct, frozen=True, kw_only=True):
    """Where a reply goes: the channel, the account, and the chat and thread in it."""

    channel: str
    to: str
    account: str = "default"
    thread: str | None = None


class Inbound(Struct, frozen=True, kw_only=True):
    """One message as a channel received it."""

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
    """One message to send."""

    to: Address
    text: str
    media: tuple[str, ...] = ()
    reply_to: str | None = None


class Receipt(Struct, frozen=True, kw_only=True):
    """The platform's confirmation that a message arrived."""

    id: str
    timestamp: int = 0


class Channel(Protocol):
    """A place people talk. Listening ends when the task is cancelled."""

    @property
    def name(self) -> str: ...

    def listen(self) -> AsyncIterator[Inbound]: ...

    async def send(self, message: Outbound) -> Receipt: ...


@runtime_checkable
class ShowsTyping(Protocol):
    async def typing(self, to: Address) -> None: ...
