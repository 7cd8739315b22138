"""The channel seam: a place people talk."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

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


class Channel(Protocol):
    """A place people talk. Listening ends when the task is cancelled."""

    @property
    def name(self) -> str: ...

    def listen(self) -> AsyncIterator[Inbound]: ...

    async def send(self, message: Outbound) -> Receipt: ...


@runtime_checkable
class ShowsTyping(Protocol):
    async def typing(self, to: Address) -> None: ...
