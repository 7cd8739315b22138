"""The channel seams: the messages a chat platform delivers and takes, and what an adapter must implement."""

from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from openclaw.core.errors import OpenClawError


class Address(Struct, frozen=True, kw_only=True):
    """Where a reply goes: the channel, the account, and the chat and thread in it."""

    channel: str
    to: str
    account: str = "default"
    thread: str | None = None


FileKind = Literal["image", "audio", "voice", "video", "document", "sticker"]


class InboundFile(Struct, frozen=True, kw_only=True):
    """A file that came with a message."""

    kind: FileKind = "document"
    name: str = ""


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
    files: tuple[InboundFile, ...] = ()
    album: str | None = None
    """Messages with the same album belong together."""

    @property
    def origin(self) -> Address:
        return Address(channel=self.channel, to=self.group or self.sender, account=self.account, thread=self.thread)


class Outbound(Struct, frozen=True, kw_only=True):
    """One message to send, its text in Markdown."""

    to: Address
    text: str
    media: tuple[str, ...] = ()
    reply_to: str | None = None
    voice: bool = False
    """Media that is sound goes as a voice note."""
    key: str = ""
    """Names this very message: a platform that takes such a name delivers it once, however often it is sent."""


class Receipt(Struct, frozen=True, kw_only=True):
    """The platform's confirmation that a message arrived."""

    id: str
    timestamp: int = 0


class TryLater(OpenClawError):
    """The platform does not take the message now: after so many seconds it may."""

    code = "UNAVAILABLE"

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class MessageRefused(OpenClawError):
    """The platform will never take this message."""

    code = "INVALID_REQUEST"


class Unsure(OpenClawError):
    """The message left, and no answer came: the platform may have it or not."""

    code = "UNAVAILABLE"


class AccountClosed(OpenClawError):
    """The account cannot be used any more, for instance because its token was revoked: a person has to act."""

    code = "UNAVAILABLE"


class ChannelFacts(Struct, frozen=True, kw_only=True):
    """What a platform can do, and how much of it."""

    limit: int = 4_000
    """The longest text of one message, in `unit`."""
    unit: Literal["utf16", "chars", "bytes"] = "chars"
    caption: int = 0
    """The longest text beside a file; 0 when a file goes alone."""
    media_bytes: int = 0
    """The largest file it takes; 0 when it takes none."""
    typing_every: float = 0.0
    """Seconds after which a typing notice has to be repeated; 0 when there is none."""
    per_chat: float = 0.0
    """Seconds between two messages in one chat."""
    overall: float = 0.0
    """Seconds between two messages of the account."""
    idempotent: bool = False
    """Whether `Outbound.key` keeps a message from arriving twice."""


class TakesEvents(Protocol):
    """Where a platform hands over what it heard."""

    async def take(self, events: Sequence[Inbound], cursor: str | None) -> None:
        """Returns when the events and the cursor are on record, both or neither; only then may they be acknowledged."""
        ...


class Platform(Protocol):
    """One account on a chat platform."""

    @property
    def name(self) -> str: ...

    @property
    def account(self) -> str: ...

    @property
    def facts(self) -> ChannelFacts: ...

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        """Hears what happens after `cursor`, until it is cancelled; raises when the connection is lost."""
        ...

    async def send(self, message: Outbound) -> Receipt:
        """Sends one message that keeps to the facts; raises `TryLater`, `MessageRefused` or `Unsure`."""
        ...

    async def close(self) -> None: ...


class Channel(Protocol):
    """A place people talk, as a plugin brings it. Listening ends when the task is cancelled."""

    @property
    def name(self) -> str: ...

    def listen(self) -> AsyncIterator[Inbound]: ...

    async def send(self, message: Outbound) -> Receipt: ...


@runtime_checkable
class ShowsTyping(Protocol):
    async def typing(self, to: Address) -> None: ...
