"""The channel seams: the messages a chat platform delivers and takes, and what an adapter must implement."""

from collections.abc import AsyncIterator, Mapping, Sequence
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
    ref: str = ""
    """What the platform wants to hear when it is fetched."""
    mime: str = ""
    size: int = 0
    """Bytes, as far as the platform tells."""
    key: str = ""
    """What opens it when it is encrypted, in the platform's own form."""


class Quote(Struct, frozen=True, kw_only=True):
    """The message that another one answers."""

    id: str
    text: str = ""
    sender: str = ""
    sender_name: str = ""
    ours: bool = False
    """Whether we said it."""


class Inbound(Struct, frozen=True, kw_only=True):
    """One thing that happened on a channel: mostly a message."""

    id: str
    channel: str
    sender: str
    text: str
    kind: Literal["message", "edit", "reaction", "press"] = "message"
    about: str | None = None
    """The message that was edited, reacted to, or whose button was pressed."""
    account: str = "default"
    group: str | None = None
    chat: str | None = None
    """Where an answer goes, when that is not the group or the sender: people may have a room with us."""
    thread: str | None = None
    mentioned: bool = False
    sender_name: str | None = None
    sender_username: str | None = None
    group_name: str | None = None
    space: str | None = None
    """What the group is part of, such as a server of Discord."""
    timestamp: int = 0
    files: tuple[InboundFile, ...] = ()
    album: str | None = None
    """Messages with the same album belong together."""
    quote: Quote | None = None
    emoji: str = ""
    """Of a reaction; empty when it was taken back."""
    button: str = ""
    """Of a press: what the button stands for."""
    press: str = ""
    """Of a press: its name, when the platform wants an answer to it."""
    forwarded: bool = False
    """Somebody else wrote it, and the sender passed it on."""
    split: bool = False
    """It is as long as a message can be: the rest of the text may follow in the next."""

    @property
    def origin(self) -> Address:
        to = self.chat or self.group or self.sender
        return Address(channel=self.channel, to=to, account=self.account, thread=self.thread)


class Button(Struct, frozen=True):
    """A button below a message; `data` comes back when it is pressed."""

    label: str
    data: str


Action = Literal["send", "edit", "react", "delete"]


class Outbound(Struct, frozen=True, kw_only=True):
    """One message to send, its text in Markdown; or what is done to a message that is there."""

    to: Address
    text: str
    """The message, or the emoji of a reaction; an empty one takes the reaction back."""
    action: Action = "send"
    about: str | None = None
    """The message that is edited, reacted to or deleted."""
    buttons: tuple[tuple[Button, ...], ...] = ()
    """Rows of buttons; an edit without any takes them away."""
    media: tuple[str, ...] = ()
    reply_to: str | None = None
    voice: bool = False
    """Media that is sound goes as a voice note."""
    pause: float = 0.0
    """Seconds to wait before it, as a person would between two messages."""
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
    files_together: int = 1
    """How many files one message takes."""
    typing_every: float = 0.0
    """Seconds after which a typing notice has to be repeated; 0 when there is none."""
    per_chat: float = 0.0
    """Seconds between two messages in one chat."""
    overall: float = 0.0
    """Seconds between two messages of the account."""
    idempotent: bool = False
    """Whether `Outbound.key` keeps a message from arriving twice."""
    actions: tuple[Action, ...] = ("send",)
    edits_often: bool = True
    """Whether a message may be edited as often as an answer grows; else an edit is for what has changed."""
    edit_every: float = 1.0
    """Seconds between two edits of a message that is being written."""
    buttons: bool = False
    threads: bool = False
    follows_threads: bool = False
    """Whether who writes in a thread in which we have spoken speaks to us, without a mention."""
    voice: bool = False
    """Whether sound can be sent as a voice note."""


class TakesEvents(Protocol):
    """Where a platform hands over what it heard."""

    def connected(self) -> None:
        """The platform answers: it is said in the status, and the next pause is a short one again."""
        ...

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


@runtime_checkable
class OpensThreads(Protocol):
    """A platform on which a thread can be begun."""

    async def open_thread(self, to: Address, title: str) -> Address:
        """The address of a new thread in a chat; raises `MessageRefused` where there are none."""
        ...


@runtime_checkable
class PacesChats(Protocol):
    """A platform whose conversations take messages at different paces."""

    def seconds_between(self, to: Address) -> float: ...


@runtime_checkable
class MeasuresText(Protocol):
    """A platform on which a text may be longer than it is in Markdown."""

    def length(self, text: str) -> int:
        """As the platform counts it, in the unit of its facts."""
        ...


@runtime_checkable
class FetchesFiles(Protocol):
    """A platform whose files can be opened."""

    def fetch(self, file: InboundFile) -> AsyncIterator[bytes]:
        """The content, piece by piece; raises `TryLater` or `MessageRefused`."""
        ...


@runtime_checkable
class AnswersPresses(Protocol):
    """A platform that shows a button as busy until the press was answered."""

    async def answer_press(self, event: Inbound, text: str) -> None: ...


class AccountProbe(Struct, frozen=True, kw_only=True):
    """Who we are on a platform, as it says itself."""

    id: str
    name: str = ""


@runtime_checkable
class Probes(Protocol):
    async def probe(self) -> AccountProbe:
        """Asks the platform who we are; raises `AccountClosed` or `TryLater`."""
        ...


@runtime_checkable
class LogsOut(Protocol):
    async def logout(self) -> None:
        """Makes the credential worthless there."""
        ...


class ChannelWebhook(Struct, frozen=True, kw_only=True):
    """One HTTP call of a platform."""

    body: bytes = b""
    headers: Mapping[str, str] = {}
    """By their names in small letters."""
    method: str = "POST"
    query: Mapping[str, str] = {}


class ChannelWebhookAnswer(Struct, frozen=True, kw_only=True):
    """What the platform is answered: the HTTP status, and plain text where it wants to read something."""

    status: int = 200
    text: str = ""


class WebhookEntry(Protocol):
    """Where calls of platforms come in."""

    def has_webhook(self, path: str) -> bool: ...

    async def take_webhook(self, path: str, call: ChannelWebhook) -> ChannelWebhookAnswer: ...


@runtime_checkable
class TakesWebhooks(Protocol):
    """A platform that may call us instead of being asked."""

    @property
    def webhook_path(self) -> str:
        """The path it calls; empty when it is asked instead."""
        ...

    async def take_webhook(self, call: ChannelWebhook, inbox: TakesEvents) -> ChannelWebhookAnswer:
        """Deals with one GET or POST: returns when what it holds is on record; 401 when it is not for this account."""
        ...
