"""The words of signal-cli's daemon: envelopes become events, messages become JSON-RPC calls. Pure.

A message has no name of its own on Signal: it is who wrote it, and when. Ours is `TIMESTAMP`, another's
`TIMESTAMP:SENDER`. All places in a text are counted in UTF-16 units.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field, structs

from openclaw.channels.rich import StyledSpan, parse_markdown
from openclaw.core.channel import (
    AccountClosed,
    Address,
    ChannelFacts,
    FileKind,
    Inbound,
    InboundFile,
    MessageRefused,
    Outbound,
    Quote,
    Receipt,
    TryLater,
)
from openclaw.core.errors import InvalidRequest, OpenClawError

T = TypeVar("T")

NAME = "signal"
FACTS = ChannelFacts(
    limit=4_000,
    unit="chars",
    caption=2_000,
    media_bytes=8_000_000,
    typing_every=10.0,
    per_chat=1.0,
    overall=0.2,
    actions=("send", "edit", "react", "delete"),
    edits_often=False,
)
STYLES = {
    "bold": "BOLD",
    "italic": "ITALIC",
    "strike": "STRIKETHROUGH",
    "code": "MONOSPACE",
    "pre": "MONOSPACE",
}
RATE_SECONDS = 60.0
_NUMBER = re.compile(r"\+[1-9][0-9]{2,14}\Z")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_USERNAME = re.compile(r"u:[^\s:]{3,64}\Z")
_GROUP = re.compile(r"[A-Za-z0-9+/_-]{16,128}={0,2}\Z")
_ATTACHMENT = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")
_MENTION = "\ufffc"
"""What stands in a text in the place of a mention."""


class SignalAttachment(Struct, frozen=True, rename="camel"):
    id: str = ""
    content_type: str = ""
    filename: str = ""
    size: int = 0
    caption: str = ""


class SignalMention(Struct, frozen=True, rename="camel"):
    start: int = 0
    length: int = 1
    name: str = ""
    number: str = ""
    uuid: str = ""


class _Group(Struct, frozen=True, rename="camel"):
    group_id: str = ""
    group_name: str = ""
    type: str = ""


class SignalQuote(Struct, frozen=True, rename="camel"):
    id: int = 0
    author: str = ""
    author_number: str = ""
    author_uuid: str = ""
    text: str = ""


class SignalReaction(Struct, frozen=True, rename="camel"):
    emoji: str = ""
    target_author: str = ""
    target_author_number: str = ""
    target_author_uuid: str = ""
    target_sent_timestamp: int = 0
    is_remove: bool = False


class _Sticker(Struct, frozen=True, rename="camel"):
    pack_id: str = ""
    sticker_id: int = 0


class SignalMessage(Struct, frozen=True, rename="camel"):
    timestamp: int = 0
    message: str = ""
    group_info: _Group | None = None
    attachments: tuple[SignalAttachment, ...] = ()
    mentions: tuple[SignalMention, ...] = ()
    quote: SignalQuote | None = None
    reaction: SignalReaction | None = None
    sticker: _Sticker | None = None


class _Edit(Struct, frozen=True, rename="camel"):
    target_sent_timestamp: int = 0
    data_message: SignalMessage = SignalMessage()


class SignalEnvelope(Struct, frozen=True, rename="camel"):
    """What came from one device; what we sent from another of our own devices is left alone, lest we answer us."""

    source: str = ""
    source_number: str = ""
    source_uuid: str = ""
    source_name: str = ""
    timestamp: int = 0
    data_message: SignalMessage | None = None
    edit_message: _Edit | None = None


class _Failure(Struct, frozen=True, rename="camel"):
    message: str = ""
    type: str = ""


class SignalEvent(Struct, frozen=True, rename="camel"):
    """One event of the stream."""

    envelope: SignalEnvelope | None = None
    exception: _Failure | None = None
    account: str = ""


class SignalSelf(Struct, frozen=True):
    """Who we are; the uuid is empty when signal-cli does not tell."""

    number: str
    uuid: str = ""

    def is_me(self, number: str, uuid: str, either: str = "") -> bool:
        return self.number in (number, either) or (bool(self.uuid) and self.uuid in (uuid, either))


class SignalCall(Struct, frozen=True, kw_only=True):
    """One call of a method; the file is not in its parameters yet."""

    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""


def decode_json(data: str | bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidRequest(f"signal-cli sent something that is no JSON: {error}") from error


def decode(value: Any, kind: type[T]) -> T:
    """A value of the wire as one of ours; raises `InvalidRequest`."""
    try:
        return msgspec.convert(_without_none(value), kind, strict=False)
    except (msgspec.ValidationError, RecursionError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"signal-cli sent something unreadable: {error}") from error


def _without_none(value: Any) -> Any:
    """It writes null where it has nothing to say."""
    if isinstance(value, Mapping):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value


# Hearing.


def decode_event(value: Any, me: SignalSelf, account: str, *, files: bool = True) -> Inbound | None:
    """What somebody said; None for receipts, typing, our own other devices, and what says nothing."""
    event = decode(value, SignalEvent)
    envelope = event.envelope
    if envelope is None or (event.account and event.account != me.number):
        return None
    edit = envelope.edit_message
    said = envelope.data_message or (edit.data_message if edit else None)
    sender = name_of(envelope.source_number, envelope.source_uuid, envelope.source)
    if said is None or not sender or me.is_me(envelope.source_number, envelope.source_uuid, envelope.source):
        return None
    found = _message(envelope, said, sender, me, account, files=files)
    if said.reaction is not None:
        return _reaction(found, said.reaction, me)
    if edit is not None:
        return structs.replace(found, kind="edit", about=f"{edit.target_sent_timestamp}:{sender}")
    return found if found.text.strip() or found.files else None


def _message(
    envelope: SignalEnvelope, said: SignalMessage, sender: str, me: SignalSelf, account: str, *, files: bool
) -> Inbound:
    group = said.group_info.group_id if said.group_info else ""
    quote, mentions = said.quote, said.mentions
    captions = [each.caption for each in said.attachments if each.caption]
    sticker = ["[sticker]"] if said.sticker is not None else []
    when = said.timestamp or envelope.timestamp
    if not 0 < when < 10**15:
        raise InvalidRequest("signal-cli sent a message without its time")
    return Inbound(
        id=f"{when}:{sender}",
        channel=NAME,
        account=account,
        sender=sender,
        sender_name=envelope.source_name or None,
        text="\n".join(filter(None, [readable(said.message, mentions, me), *captions, *sticker])),
        group=group or None,
        group_name=(said.group_info.group_name or None) if said.group_info else None,
        mentioned=any(me.is_me(each.number, each.uuid) for each in mentions)
        or (quote is not None and me.is_me(quote.author_number, quote.author_uuid, quote.author)),
        timestamp=when,
        files=tuple(_file(each, group or sender) for each in said.attachments if files and each.id),
        quote=_quote(quote, me) if quote is not None and quote.id else None,
    )


def _reaction(found: Inbound, reaction: SignalReaction, me: SignalSelf) -> Inbound:
    number, uuid, either = reaction.target_author_number, reaction.target_author_uuid, reaction.target_author
    ours = me.is_me(number, uuid, either)
    return structs.replace(
        found,
        text="",
        kind="reaction",
        about=message_id(reaction.target_sent_timestamp, "" if ours else name_of(number, uuid, either)),
        emoji="" if reaction.is_remove else reaction.emoji,
        mentioned=ours,
    )


def message_id(timestamp: int, author: str) -> str:
    return f"{timestamp}:{author}" if author else str(timestamp)


def name_of(number: str, uuid: str, either: str = "") -> str:
    """A person: the number where it is known, else the uuid; empty when it is neither."""
    for each in (number, either):
        if _NUMBER.match(each):
            return each
    for each in (uuid, either):
        if _UUID.match(each):
            return f"uuid:{each.lower()}"
    return ""


def readable(text: str, mentions: Iterable[SignalMention], me: SignalSelf) -> str:
    """The text with names in the places of mentions, and without our own at its beginning."""
    units = text.encode("utf-16-le", errors="surrogatepass")
    for each in sorted(mentions, key=_start, reverse=True):
        at = 2 * each.start
        if at < 0 or units[at : at + 2].decode("utf-16-le", errors="replace") != _MENTION:
            continue
        ours = me.is_me(each.number, each.uuid)
        first = not units[:at].decode("utf-16-le", errors="replace").strip()
        name = "" if ours and first else f"@{each.name or each.number or each.uuid}"
        units = units[:at] + name.encode("utf-16-le", errors="surrogatepass") + units[at + 2 :]
    return units.decode("utf-16-le", errors="replace").strip()


def _start(mention: SignalMention) -> int:
    return mention.start


def _quote(quote: SignalQuote, me: SignalSelf) -> Quote:
    ours = me.is_me(quote.author_number, quote.author_uuid, quote.author)
    author = name_of(quote.author_number, quote.author_uuid, quote.author)
    return Quote(id=message_id(quote.id, "" if ours else author), text=quote.text, sender=author, ours=ours)


def _file(found: SignalAttachment, place: str) -> InboundFile:
    kinds: dict[str, FileKind] = {"image": "image", "audio": "audio", "video": "video"}
    kind = kinds.get(found.content_type.partition("/")[0], "document")
    # A voice note is sound without a name.
    return InboundFile(
        kind="voice" if kind == "audio" and not found.filename else kind,
        name=found.filename[:255],
        ref=f"{found.id}|{place}",
        mime=found.content_type.partition(";")[0][:255],
        size=max(found.size, 0),
    )


# Speaking.


def encode_text(markdown: str) -> tuple[str, list[str]]:
    """The text, and its styles as ranges. Links keep their address, and quotes a mark before each line."""
    rich = parse_markdown(markdown)
    added = sorted([*_quote_marks(rich.text, rich.spans), *_addresses(rich.text, rich.spans)])
    pieces, at = [], 0
    for place, extra in added:
        pieces += [rich.text[at:place], extra]
        at = place
    text = "".join([*pieces, rich.text[at:]])

    def moved(place: int, *, end: bool) -> int:
        """Where a place of the text is behind what was put before it, in UTF-16 units."""
        before = [extra for there, extra in added if there < place or (there == place and not end)]
        return _units(rich.text[:place]) + sum(_units(extra) for extra in before)

    ranges = []
    for span in rich.spans:
        if span.style in STYLES:
            start, stop = moved(span.start, end=False), moved(span.end, end=True)
            ranges.append(f"{start}:{stop - start}:{STYLES[span.style]}")
    return text, ranges


def _quote_marks(text: str, spans: Iterable[StyledSpan]) -> list[tuple[int, str]]:
    quotes = [each for each in spans if each.style == "quote"]
    starts = [0, *(at + 1 for at, char in enumerate(text) if char == "\n")]
    return [(at, "> ") for at in starts if any(each.start <= at < each.end for each in quotes)]


def _addresses(text: str, spans: Iterable[StyledSpan]) -> list[tuple[int, str]]:
    links = [each for each in spans if each.style == "link" and each.extra and not each.extra.startswith("#")]
    return [(each.end, f" ({each.extra})") for each in links if each.extra != text[each.start : each.end]]


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", errors="surrogatepass")) // 2


def encode_target(to: Address) -> dict[str, Any]:
    """A person by number, uuid or username, or a group."""
    name = to.to.removeprefix("signal:")
    if name.startswith("group:") or (_GROUP.match(name) and not _UUID.match(name)):
        group = name.removeprefix("group:")
        if _GROUP.match(group):
            return {"groupId": group}
    person = name.removeprefix("uuid:")
    if _NUMBER.match(person) or _UUID.match(person) or _USERNAME.match(person):
        return {"recipient": [person]}
    raise MessageRefused(
        f"{name[:60]!r} is nobody on Signal: give a number such as +15551234567, uuid:…, u:name.01 or group:ID"
    )


def encode_message(message: Outbound, me: SignalSelf, quoted: str = "") -> SignalCall:
    """The call that a message, an edit, a reaction or a deletion needs; `quoted` is the text that it answers."""
    params: dict[str, Any] = {"account": me.number, **encode_target(message.to)}
    match message.action:
        case "react":
            when, author = split_id(message.about)
            target = {"targetAuthor": author.removeprefix("uuid:") or me.number, "targetTimestamp": when}
            # Taking back needs some emoji; which does not matter.
            emoji = {"emoji": message.text.strip() or "👍", **({} if message.text.strip() else {"remove": True})}
            return SignalCall(method="sendReaction", params={**params, **target, **emoji})
        case "delete":
            return SignalCall(method="remoteDelete", params={**params, "targetTimestamp": _own(message.about)})
        case "edit":
            params["editTimestamp"] = _own(message.about)
    text, styles = encode_text(message.text)
    params |= {"message": text} | ({"textStyle": styles} if styles else {})
    if message.action == "send" and message.reply_to and ":" in message.reply_to:
        when, author = split_id(message.reply_to)
        params |= {"quoteTimestamp": when, "quoteAuthor": author.removeprefix("uuid:"), "quoteMessage": quoted}
    return SignalCall(method="send", params=params, file=message.media[0] if message.media else "")


def split_id(name: str | None) -> tuple[int, str]:
    when, _, author = (name or "").partition(":")
    if not re.fullmatch(r"[0-9]{1,15}", when) or (author and name_of(author, author.removeprefix("uuid:")) == ""):
        raise MessageRefused(f"{(name or '')[:60]!r} is no message of Signal: it is TIME or TIME:SENDER")
    return int(when), author


def _own(name: str | None) -> int:
    when, author = split_id(name)
    if author:
        raise MessageRefused("on Signal only our own messages can be changed")
    return when


def split_file(ref: str) -> dict[str, Any]:
    """What signal-cli wants to hear when a file is fetched."""
    name, _, place = ref.partition("|")
    if not _ATTACHMENT.match(name):
        raise MessageRefused(f"{name[:60]!r} is no file of Signal")
    target = encode_target(Address(channel=NAME, to=place))
    return {"id": name, **({"recipient": target["recipient"][0]} if "recipient" in target else target)}


def decode_receipt(result: Any) -> Receipt:
    """When a message was sent, which is its name; raises when nobody got it."""
    found = result if isinstance(result, Mapping) else {}
    when = found.get("timestamp")
    results = [each for each in found.get("results") or () if isinstance(each, Mapping)]
    kinds = {str(each.get("type")) for each in results}
    if results and "SUCCESS" not in kinds:
        waits = [each["retryAfterSeconds"] for each in results if isinstance(each.get("retryAfterSeconds"), int)]
        if waits or "NETWORK_FAILURE" in kinds:
            raise TryLater("Signal does not take the message now", after=float(max(waits)) if waits else None)
        raise MessageRefused(f"Signal did not deliver it: {', '.join(sorted(kinds))[:200]}")
    return Receipt(id=str(when), timestamp=when) if isinstance(when, int) else Receipt(id="")


def failure(method: str, status: int, answer: Any, account: str) -> OpenClawError:
    """What the daemon means when it does not do something."""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    if not isinstance(error, Mapping):
        why = f"signal-cli answered {method} with HTTP {status}"
        return MessageRefused(why) if 400 <= status < 500 and status != 429 else TryLater(why)
    code, said = error.get("code"), str(error.get("message"))[:300]
    why = f"signal-cli: {said}"
    if "account does not exist" in said or "not registered" in said.lower():
        return AccountClosed(unregistered(account))
    match code:
        case -3:
            return TryLater(why)
        case -5:
            return TryLater(why, after=RATE_SECONDS)
        case -4:
            return MessageRefused(f"{why}. Their key has changed: signal-cli -a {account} trust -a THEIR-NUMBER")
        case _:
            return SignalRefused(why, code if isinstance(code, int) else 0)


def unregistered(account: str) -> str:
    return (
        f"signal-cli has no account {account}: link it to your phone with `signal-cli link -n OpenClaw`, or register "
        f"it with `signal-cli -a {account} register`"
    )


class SignalRefused(MessageRefused):
    """A refusal with its number."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number
