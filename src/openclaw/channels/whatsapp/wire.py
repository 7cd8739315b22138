"""Meta's calls as our events, and our messages as requests of the Cloud API. Pure."""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from openclaw.channels.rich import RichText, parse_markdown
from openclaw.core.channel import (
    AccountClosed,
    Button,
    ChannelFacts,
    FileKind,
    Inbound,
    InboundFile,
    MessageRefused,
    Outbound,
    Quote,
    TryLater,
)
from openclaw.core.errors import InvalidRequest, OpenClawError

NAME = "whatsapp"
MOST_CHARS = 4096
CAPTION_CHARS = 1024
FACTS = ChannelFacts(
    limit=MOST_CHARS,
    caption=CAPTION_CHARS,
    media_bytes=50_000_000,
    typing_every=20.0,
    per_chat=6.0 / 45,  # Meta's limit is 45 messages within six seconds to one person
    actions=("send", "react"),
    buttons=True,
    voice=True,
)
BODY_CHARS = 1024
"""The longest text above buttons."""
BUTTONS, BUTTON_CHARS = 3, 20
ROWS, ROW_CHARS = 10, 24
DATA_CHARS = 256
WINDOW = (
    "WhatsApp takes our messages only within 24 hours after the person last wrote: they have to write first "
    "(templates are not sent from here)"
)
_WINDOW_CODES = (131047, 470)
_LATER_CODES = (1, 2, 4, 80007, 130429, 131000, 131016, 131056, 133004, 131057)
_CLOSED_CODES = (0, 10, 190, 200)
_IMAGES = ("image/jpeg", "image/png")
_SOUNDS = ("audio/aac", "audio/mp4", "audio/mpeg", "audio/amr", "audio/ogg")
_FILMS = ("video/mp4", "video/3gpp")
SMALL_BYTES, SOUND_BYTES = 5_000_000, 16_000_000
_NUMBER = re.compile(r"[1-9][0-9]{4,15}\Z")
_MARKS = {"bold": "*", "italic": "_", "strike": "~", "code": "`"}


class _Text(Struct, frozen=True):
    body: str = ""


class _Media(Struct, frozen=True):
    id: str = ""
    mime_type: str = ""
    caption: str = ""
    filename: str = ""
    voice: bool = False


class _Context(Struct, frozen=True):
    id: str = ""
    sender: str = field(default="", name="from")
    forwarded: bool = False
    frequently_forwarded: bool = False


class _Choice(Struct, frozen=True):
    id: str = ""
    title: str = ""


class _Interactive(Struct, frozen=True):
    button_reply: _Choice | None = None
    list_reply: _Choice | None = None


class _Template(Struct, frozen=True):
    payload: str = ""
    text: str = ""


class _Reaction(Struct, frozen=True):
    message_id: str = ""
    emoji: str = ""


class _Place(Struct, frozen=True):
    latitude: float = 0.0
    longitude: float = 0.0
    name: str = ""
    address: str = ""


class WhatsAppMessage(Struct, frozen=True):
    """One thing that somebody did."""

    sender: str = field(name="from")
    id: str
    type: str = ""
    timestamp: str = ""
    context: _Context = _Context()
    text: _Text = _Text()
    image: _Media | None = None
    audio: _Media | None = None
    video: _Media | None = None
    document: _Media | None = None
    sticker: _Media | None = None
    interactive: _Interactive = _Interactive()
    button: _Template = _Template()
    reaction: _Reaction = _Reaction()
    location: _Place = _Place()


class _Profile(Struct, frozen=True):
    name: str = ""


class _Contact(Struct, frozen=True):
    wa_id: str = ""
    profile: _Profile = _Profile()


class _Metadata(Struct, frozen=True):
    phone_number_id: str = ""
    display_phone_number: str = ""


class _Problem(Struct, frozen=True):
    code: int = 0
    title: str = ""
    message: str = ""


class WhatsAppStatus(Struct, frozen=True):
    """What became of a message of ours."""

    id: str = ""
    status: str = ""
    recipient_id: str = ""
    errors: tuple[_Problem, ...] = ()


class _Value(Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    contacts: tuple[_Contact, ...] = ()
    messages: tuple[WhatsAppMessage, ...] = ()
    statuses: tuple[WhatsAppStatus, ...] = ()


class _Change(Struct, frozen=True):
    field: str = ""
    value: _Value = _Value()


class _Entry(Struct, frozen=True):
    changes: tuple[_Change, ...] = ()


class _Call(Struct, frozen=True):
    entry: tuple[_Entry, ...] = ()


class WhatsAppNews(Struct, frozen=True):
    """What a call says of one number."""

    ours: bool
    """Whether it speaks of this number at all."""
    events: tuple[Inbound, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    """Messages of ours that did not arrive: to whom, and why."""


# Hearing.


def is_signed(body: bytes, header: str, secret: str) -> bool:
    wanted = f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
    return hmac.compare_digest(wanted.encode(), header.encode(errors="replace"))


def decode_call(body: bytes, phone_number_id: str, account: str) -> WhatsAppNews:
    """What a call says of a number of ours; raises `InvalidRequest`."""
    try:
        call = msgspec.json.decode(body, type=_Call)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidRequest(f"Meta sent something unreadable: {error}") from error
    values = [change.value for entry in call.entry for change in entry.changes if change.field == "messages"]
    own = [value for value in values if value.metadata.phone_number_id == phone_number_id]
    events: list[Inbound] = []
    failures: list[tuple[str, str]] = []
    for value in own:
        names = {each.wa_id: each.profile.name for each in value.contacts}
        number = value.metadata.display_phone_number
        found = (_decode(each, names.get(each.sender, ""), number, account) for each in value.messages)
        events += [each for each in found if each is not None]
        for status in value.statuses:
            if status.status == "failed":
                problem = status.errors[0] if status.errors else _Problem()
                why = (
                    WINDOW if problem.code in _WINDOW_CODES else f"{problem.title or problem.message} ({problem.code})"
                )
                failures.append((f"+{status.recipient_id}", why))
    return WhatsAppNews(bool(own) or not values, tuple(events), tuple(failures))


def _decode(said: WhatsAppMessage, name: str, number: str, account: str) -> Inbound | None:
    """None for what nobody has said, such as a number that was changed."""
    if not _NUMBER.match(said.sender) or not said.id:
        return None
    event = Inbound(
        id=said.id,
        channel=NAME,
        account=account,
        sender=f"+{said.sender}",
        sender_name=name or None,
        text="",
        timestamp=int(said.timestamp) * 1000 if said.timestamp.isdecimal() and len(said.timestamp) < 13 else 0,
        forwarded=said.context.forwarded or said.context.frequently_forwarded,
        quote=_quote(said.context, number),
    )
    for kind in ("image", "audio", "video", "document", "sticker"):
        media: _Media | None = getattr(said, kind)
        if said.type == kind and media is not None and media.id:
            return structs.replace(event, text=media.caption, files=(_file(kind, media),))
    match said.type:
        case "text":
            return structs.replace(event, text=said.text.body)
        case "reaction":
            about, emoji = said.reaction.message_id, said.reaction.emoji
            return structs.replace(event, kind="reaction", about=about, emoji=emoji, quote=None) if about else None
        case "interactive":
            chosen = said.interactive.button_reply or said.interactive.list_reply
            below = said.context.id or None
            return structs.replace(event, kind="press", about=below, button=chosen.id, quote=None) if chosen else None
        case "button":
            return structs.replace(event, text=said.button.text or said.button.payload)
        case "location":
            place = said.location
            words = " ".join(filter(None, (place.name, place.address)))
            return structs.replace(
                event, text=f"[location {place.latitude:.6f}, {place.longitude:.6f} {words}".rstrip() + "]"
            )
        case "system" | "":
            return None
        case other:
            return structs.replace(event, text=f"[a {other[:40]} that cannot be shown here]")


def _quote(context: _Context, number: str) -> Quote | None:
    if not context.id:
        return None
    ours = bool(context.sender) and context.sender == re.sub(r"\D", "", number)
    return Quote(id=context.id, sender=f"+{context.sender}" if context.sender else "", ours=ours)


def _file(kind: str, media: _Media) -> InboundFile:
    kinds: dict[str, FileKind] = {"image": "image", "video": "video", "document": "document", "sticker": "sticker"}
    found: FileKind = kinds.get(kind, "voice" if media.voice else "audio")
    return InboundFile(
        kind=found, name=media.filename[:255], ref=media.id, mime=media.mime_type.partition(";")[0].strip()[:255]
    )


def is_media_id(text: str) -> bool:
    """Whether something may stand in a path of Meta's."""
    return bool(re.fullmatch(r"[A-Za-z0-9_.-]{1,200}", text)) and ".." not in text


# Speaking.


def encode_text(markdown: str) -> str:
    """Markdown in WhatsApp's marks. Where that would be too long, the text is sent as it stands."""
    written = _marked(parse_markdown(markdown))
    return written if len(written) <= MOST_CHARS else markdown


def length(markdown: str) -> int:
    return len(_marked(parse_markdown(markdown)))


def _marked(rich: RichText) -> str:
    text = rich.text
    before: dict[int, list[str]] = {}
    after: dict[int, list[str]] = {}

    def wrap(start: int, end: int, opening: str, closing: str) -> None:
        before.setdefault(start, []).append(opening)
        after.setdefault(end, []).insert(0, closing)

    code = [(span.start, span.end) for span in rich.spans if span.style in ("pre", "code")]
    for span in rich.spans:
        inside = any(start <= span.start and span.end <= end for start, end in code)
        match span.style:
            case "pre":
                wrap(span.start, span.end, "```", "```")
            case "link":
                shown = text[span.start : span.end]
                if span.extra and span.extra.removeprefix("mailto:") != shown:
                    wrap(span.start, span.end, "", f" ({span.extra})")
            case "quote":
                for start, _ in _lines(text, span.start, span.end):
                    before.setdefault(start, []).insert(0, "> ")
            case style if style == "code" or not inside:
                # A mark does not reach over the end of a line.
                for start, end in _lines(text, span.start, span.end):
                    wrap(start, end, _MARKS[style], _MARKS[style])
    out: list[str] = []
    for place in range(len(text) + 1):
        out += after.get(place, ())
        out += before.get(place, ())
        out.append(text[place : place + 1])
    return "".join(out)


def _lines(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The lines between two places, without the blanks around them."""
    found, at = [], start
    for line in text[start:end].split("\n"):
        bare = line.strip()
        if bare:
            begin = at + line.index(bare)
            found.append((begin, begin + len(bare)))
        at += len(line) + 1
    return found


def to_number(text: str) -> str:
    """A number as Meta wants it: digits, with the country's; raises `MessageRefused`."""
    digits = re.sub(r"[\s()./-]", "", text).removeprefix("+")
    if not _NUMBER.match(digits):
        raise MessageRefused(f"{text!r} is no number with its country: +4915112345678")
    return digits


def encode_message(
    message: Outbound, media_id: str = "", mime: str = "", name: str = "", size: int = 0
) -> dict[str, Any]:
    """The body of a request; of a file that was uploaded before, its id, type, name and size."""
    body: dict[str, Any] = {
        "messaging_product": "whatsapp",
        "recipient_type": "individual",
        "to": to_number(message.to.to),
    }
    if message.action == "react":
        about = {"message_id": message.about or "", "emoji": message.text}
        return {**body, "type": "reaction", "reaction": about}
    if message.action != "send":
        raise MessageRefused(f"WhatsApp cannot {message.action} messages")
    if message.reply_to:
        body["context"] = {"message_id": message.reply_to}
    text = encode_text(message.text)
    if media_id:
        return {**body, **_encode_media(text, media_id, mime, name, size)}
    if message.buttons:
        return {**body, **_encode_buttons(text, message.buttons)}
    return {**body, "type": "text", "text": {"body": text, "preview_url": False}}


def _encode_media(text: str, media_id: str, mime: str, name: str, size: int) -> dict[str, Any]:
    caption = {"caption": text[:CAPTION_CHARS]} if text.strip() else {}
    kind = media_kind(mime, size, captioned=bool(caption))
    more = {"filename": name[:240]} if kind == "document" else {}
    return {"type": kind, kind: {"id": media_id, **caption, **more}}


def media_kind(mime: str, size: int, *, captioned: bool) -> str:
    """How a file is shown; sound has no words beside it."""
    if mime in _IMAGES and size <= SMALL_BYTES:
        return "image"
    if mime in _FILMS and size <= SOUND_BYTES:
        return "video"
    return "audio" if mime in _SOUNDS and size <= SOUND_BYTES and not captioned else "document"


def _encode_buttons(text: str, rows: Sequence[Sequence[Button]]) -> dict[str, Any]:
    every = [button for row in rows for button in row]
    for button in every:
        if len(button.data) > DATA_CHARS:
            raise MessageRefused(f"a button's data has more than {DATA_CHARS} characters, the most on WhatsApp")
    if len(text) > BODY_CHARS or len(every) > ROWS or len({each.data for each in every}) < len(every):
        # Too much for buttons: the words are there, and an answer in words is understood as well.
        choices = "\n".join(f"{place}. {each.label}" for place, each in enumerate(every, 1))
        return {"type": "text", "text": {"body": f"{text}\n\n{choices}"[:MOST_CHARS], "preview_url": False}}
    if len(every) <= BUTTONS:
        replies = [{"type": "reply", "reply": {"id": e.data, "title": _title(e, BUTTON_CHARS)}} for e in every]
        asked: dict[str, Any] = {"type": "button", "action": {"buttons": replies}}
    else:
        lines = [{"id": each.data, "title": _title(each, ROW_CHARS)} for each in every]
        asked = {"type": "list", "action": {"button": "Choose", "sections": [{"title": "Choose", "rows": lines}]}}
    return {"type": "interactive", "interactive": {**asked, "body": {"text": text.strip() or "?"}}}


def _title(button: Button, most: int) -> str:
    label = " ".join(button.label.split()) or "·"
    return label if len(label) <= most else f"{label[: most - 1]}…"


def decode_receipt(answer: Any) -> str:
    """The id that Meta gave a message."""
    found = answer.get("messages") if isinstance(answer, Mapping) else None
    first = found[0] if isinstance(found, list) and found and isinstance(found[0], Mapping) else {}
    name = first.get("id")
    return name if isinstance(name, str) else ""


def failure(status: int, answer: Any, after: str = "") -> OpenClawError:
    """What Meta means when it does not do something; `after` is its header with the seconds to wait."""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    said = error if isinstance(error, Mapping) else {}
    code = said.get("code") if isinstance(said.get("code"), int) else -1
    data = said.get("error_data")
    details = data.get("details") if isinstance(data, Mapping) else None
    why = f"WhatsApp: {details or said.get('message') or f'HTTP {status}'} ({code if code != -1 else status})"[:400]
    wait = float(after) if after.isascii() and after.isdecimal() else None
    if code in _WINDOW_CODES:
        return MessageRefused(WINDOW)
    if status == 429 or status >= 500 or code in _LATER_CODES:
        return TryLater(why, after=wait)
    if status == 401 or code in _CLOSED_CODES:
        return AccountClosed(
            f"{why}: set channels.whatsapp.accessToken to a token of a system user that does not expire"
        )
    return MessageRefused(why)
