"""The words of Matrix' client-server API: events of rooms become ours, messages become contents of events. Pure.

What people write is theirs to shape: an event that makes no sense is passed over, and never keeps the next from being
heard. Only an answer of the server itself that cannot be read raises `InvalidRequest`.
"""

import html
import json
import math
import mimetypes
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct, structs

from openclaw.channels.rich import parse_markdown, render_html
from openclaw.core.channel import (
    AccountClosed,
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

NAME = "matrix"
FACTS = ChannelFacts(
    limit=4_000,
    unit="chars",
    caption=1_000,
    media_bytes=50_000_000,
    typing_every=10.0,
    idempotent=True,
    actions=("send", "edit", "react", "delete"),
    edit_every=2.0,
    threads=True,
)
EVENT_BYTES = 60_000
"""An event may have 65,536 bytes with what the server adds to it."""
ENCRYPTED = "m.room.encrypted"
THREAD = "m.thread"
SIGN_IN = "set channels.matrix.accessToken to a valid one, or userId and password"
ThreadReplies = Literal["off", "inbound", "always"]
SYNC_FILTER: dict[str, Any] = {
    "presence": {"not_types": ["*"]},
    "room": {
        "ephemeral": {"not_types": ["*"]},
        "account_data": {"not_types": ["*"]},
        "timeline": {"limit": 50, "lazy_load_members": True},
        "state": {
            "types": ["m.room.name", "m.room.canonical_alias", "m.room.encryption", "m.room.member"],
            "lazy_load_members": True,
        },
    },
}
_FILES: dict[str, FileKind] = {"m.image": "image", "m.file": "document", "m.audio": "audio", "m.video": "video"}
_VOICE = ("org.matrix.msc3245.voice", "m.voice")
_PILL = re.compile(r"""href\s*=\s*["']?https?://matrix\.to/#/([^"'>\s?]+)""", re.IGNORECASE)
_USER_ID = re.compile(r"(?<![\w@])@[a-z0-9._=/+-]{1,200}:[A-Za-z0-9.\-\[\]:]*[A-Za-z0-9\]]")
_MXC = re.compile(r"mxc://([A-Za-z0-9.\-:\[\]]{1,255})/([A-Za-z0-9_-]{1,255})\Z")

Event = Mapping[str, Any]


class RoomState(Struct, kw_only=True):
    """What we know of a room; changed by the events of its state."""

    id: str
    name: str = ""
    alias: str = ""
    encrypted: bool = False
    members: dict[str, str] = msgspec.field(default_factory=dict)
    """Who is in it, with the names they have there."""

    def apply(self, event: Event) -> None:
        content, key = object_of(event, "content"), text_of(event, "state_key")
        match event.get("type"):
            case "m.room.name":
                self.name = text_of(content, "name")
            case "m.room.canonical_alias":
                self.alias = text_of(content, "alias")
            case "m.room.encryption":
                self.encrypted = True  # it cannot be switched off again
            case "m.room.member" if text_of(content, "membership") == "join":
                self.members[key] = text_of(content, "displayname")
            case "m.room.member":
                self.members.pop(key, None)
            case _:
                pass

    def is_direct(self) -> bool:
        """Whether it is a conversation of two. A third person makes it a group, whatever anybody calls the room."""
        return len(self.members) <= 2


class RoomInvite(Struct, frozen=True):
    """Somebody wants us in a room."""

    room: str
    sender: str
    direct: bool = False


class RoomUpdate(Struct, frozen=True, kw_only=True):
    """What is new in a room."""

    room: str
    state: tuple[Event, ...] = ()
    timeline: tuple[Event, ...] = ()
    limited: bool = False
    """There is more between the last answer and the timeline, before `prev_batch`."""
    prev_batch: str = ""


class SyncAnswer(Struct, frozen=True, kw_only=True):
    """What is new on the account."""

    next_batch: str
    rooms: tuple[RoomUpdate, ...] = ()
    invites: tuple[RoomInvite, ...] = ()
    left: tuple[str, ...] = ()


# Reading.


def decode_json(body: bytes) -> dict[str, Any]:
    """An answer's object."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        found = _decode_leniently(body)
    if not isinstance(found, dict):
        raise InvalidRequest("the Matrix server's answer is not an object")
    return found


def _decode_leniently(body: bytes) -> Any:
    """JSON with halves of characters and numbers that are none, which people can put into what they write."""
    try:
        loose = json.loads(body, parse_constant=lambda _: None, parse_float=_finite)
        return msgspec.json.decode(json.dumps(loose, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("the Matrix server's answer is not JSON") from error


def _finite(number: str) -> float | None:
    value = float(number)
    return value if math.isfinite(value) else None


def text_of(source: Event, name: str) -> str:
    """The text under `name`; empty when there is none."""
    found = source.get(name)
    return found if isinstance(found, str) else ""


def object_of(source: Event, name: str) -> dict[str, Any]:
    """The object under `name`; empty when there is none."""
    found = source.get(name)
    return found if isinstance(found, dict) else {}


def _events(source: Event, name: str) -> tuple[Event, ...]:
    found = object_of(source, name).get("events")
    return tuple(each for each in found if isinstance(each, dict)) if isinstance(found, list) else ()


def failure(status: int, answer: Event) -> OpenClawError:
    """What the server means when it does not do something."""
    code, said = text_of(answer, "errcode"), text_of(answer, "error")
    why = f"Matrix: {said or code or f'HTTP {status}'}"
    after = answer.get("retry_after_ms")
    match code:
        case "M_LIMIT_EXCEEDED":
            return TryLater(why, after=after / 1000 if isinstance(after, int | float) and after >= 0 else 5.0)
        case "M_UNKNOWN_TOKEN" | "M_MISSING_TOKEN" | "M_USER_DEACTIVATED":
            return AccountClosed(f"{why}. The account was signed out there: {SIGN_IN}")
        case _ if status == 429:
            return TryLater(why, after=5.0)
        case _ if status >= 500 or (status in (404, 405) and not code):
            return TryLater(why)
        case _:
            return MessageRefused(why)


def decode_sync(answer: Event) -> SyncAnswer:
    """An answer to /sync."""
    following = text_of(answer, "next_batch")
    if not following:
        raise InvalidRequest("the Matrix server's /sync has no next_batch")
    rooms = object_of(answer, "rooms")
    joined = object_of(rooms, "join")
    return SyncAnswer(
        next_batch=following,
        rooms=tuple(_update(room, object_of(joined, room)) for room in joined),
        invites=tuple(_invite(room, found) for room, found in object_of(rooms, "invite").items()),
        left=tuple(object_of(rooms, "leave")),
    )


def _update(room: str, found: Event) -> RoomUpdate:
    timeline = object_of(found, "timeline")
    return RoomUpdate(
        room=room,
        state=_events(found, "state"),
        timeline=_events(found, "timeline"),
        limited=timeline.get("limited") is True,
        prev_batch=text_of(timeline, "prev_batch"),
    )


def _invite(room: str, found: Any) -> RoomInvite:
    for event in _events(found if isinstance(found, dict) else {}, "invite_state"):
        content = object_of(event, "content")
        if event.get("type") == "m.room.member" and text_of(content, "membership") == "invite":
            return RoomInvite(room, text_of(event, "sender"), content.get("is_direct") is True)
    return RoomInvite(room, "")


def membership_of(event: Event, user: str) -> str:
    """What an event makes of our being in the room: join, invite, leave, ban; empty when it is about something else."""
    if event.get("type") != "m.room.member" or event.get("state_key") != user:
        return ""
    return text_of(object_of(event, "content"), "membership")


def heard_from(timeline: Sequence[Event], user: str) -> int | None:
    """Where to begin in a room we have just come into: behind the invitation, else behind our own joining.

    None when we have been there all along.
    """
    joined = None
    for place, event in enumerate(timeline):
        before = text_of(object_of(object_of(event, "unsigned"), "prev_content"), "membership")
        if membership_of(event, user) == "join" and before != "join":
            joined = place
    if joined is None:
        return None
    invited = [place for place in range(joined) if membership_of(timeline[place], user) == "invite"]
    return (invited[-1] if invited else joined) + 1


def related_id(event: Event) -> str:
    """The event that this one edits, answers, reacts to or takes back; it has to be known to understand this one."""
    content = object_of(event, "content")
    if event.get("type") == "m.room.redaction":
        return text_of(event, "redacts") or text_of(content, "redacts")
    relation = object_of(content, "m.relates_to")
    if text_of(relation, "rel_type") in ("m.replace", "m.annotation"):
        return text_of(relation, "event_id")
    if text_of(relation, "rel_type") == THREAD and relation.get("is_falling_back") is True:
        return ""
    return text_of(object_of(relation, "m.in_reply_to"), "event_id")


def decode_event(
    event: Event,
    room: RoomState,
    me: str,
    account: str = "default",
    *,
    related: Event | None = None,
    threads: ThreadReplies = "inbound",
) -> Inbound | None:
    """What happened; None for what we do not listen to, for what we did ourselves, and for what other programs say."""
    sender, name = text_of(event, "sender"), text_of(event, "event_id")
    if not sender or not name or sender == me:
        return None
    content = object_of(event, "content")
    direct = room.is_direct()
    at = event.get("origin_server_ts")
    common = Inbound(
        id=name,
        channel=NAME,
        account=account,
        sender=sender,
        sender_name=room.members.get(sender) or None,
        text="",
        group=None if direct else room.id,
        group_name=None if direct else room.name or room.alias or None,
        chat=room.id,
        thread=None if threads == "off" else _thread(content) or _thread(object_of(related or {}, "content")),
        timestamp=at if isinstance(at, int) and 0 <= at < 2**53 else 0,
    )
    match event.get("type"):
        case "m.room.message" | "m.sticker" if text_of(object_of(content, "m.relates_to"), "rel_type") == "m.replace":
            if related is None or text_of(related, "sender") != sender:
                return None  # only their own words can be changed
            found = _message(common, object_of(content, "m.new_content"), event, room, me)
            return found and structs.replace(found, kind="edit", about=related_id(event))
        case "m.room.message" | "m.sticker":
            found = _message(common, content, event, room, me)
            if found is not None and related_id(event):
                found = _with_quote(found, related_id(event), related, room, me)
            if found is not None and threads == "always" and not direct and found.thread is None:
                found = structs.replace(found, thread=name)  # an answer begins a thread there
            return found
        case "m.reaction":
            relation = object_of(content, "m.relates_to")
            emoji, about = text_of(relation, "key"), text_of(relation, "event_id")
            ours = related is not None and text_of(related, "sender") == me
            return structs.replace(common, kind="reaction", about=about, emoji=emoji, mentioned=ours) if about else None
        case "m.room.redaction" if related is not None and related.get("type") == "m.reaction":
            about = related_id(related)
            if not about or text_of(related, "sender") != sender:
                return None
            return structs.replace(common, kind="reaction", about=about, emoji="")
        case _:
            return None


def _thread(content: Event) -> str | None:
    relation = object_of(content, "m.relates_to")
    return text_of(relation, "event_id") or None if text_of(relation, "rel_type") == THREAD else None


def _message(common: Inbound, content: Event, event: Event, room: RoomState, me: str) -> Inbound | None:
    body, kind = content.get("body"), text_of(content, "msgtype")
    if event.get("type") == "m.sticker":
        kind = "m.sticker"
    if not isinstance(body, str):
        return None
    files: tuple[InboundFile, ...] = ()
    match kind:
        case "m.text":
            body = strip_reply(body)
        case "m.emote":
            body = f"* {common.sender_name or common.sender} {strip_reply(body)}"
        case "m.location":
            body = f"[location {text_of(content, 'geo_uri') or body}]"
        case "m.sticker":
            files, body = _files(content, "sticker", body), f"[sticker {body}]".replace(" ]", "]")
        case "m.image" | "m.file" | "m.audio" | "m.video":
            voice = kind == "m.audio" and any(name in content for name in _VOICE)
            # With a name of its own the body is a caption.
            name = text_of(content, "filename") or body
            files = _files(content, "voice" if voice else _FILES[kind], name)
            body = "" if name == body else strip_reply(body)
        case _:  # notices are what programs say: answered, two of them would talk for ever
            return None
    return structs.replace(common, text=body, files=files, mentioned=_mentions(body, content, room, me))


def _files(content: Event, kind: FileKind, name: str) -> tuple[InboundFile, ...]:
    url = text_of(content, "url")
    if _MXC.match(url) is None:
        return ()
    info = object_of(content, "info")
    size = info.get("size")
    return (
        InboundFile(
            kind=kind,
            name=name[:255],
            ref=url,
            mime=text_of(info, "mimetype")[:255],
            size=size if isinstance(size, int) and 0 <= size < 2**53 else 0,
        ),
    )


def _with_quote(found: Inbound, about: str, related: Event | None, room: RoomState, me: str) -> Inbound:
    if related is None:
        return structs.replace(found, quote=Quote(id=about))
    sender = text_of(related, "sender")
    said = Quote(
        id=about,
        text=strip_reply(text_of(object_of(related, "content"), "body")),
        sender=sender,
        sender_name=room.members.get(sender, ""),
        ours=sender == me,
    )
    return structs.replace(found, quote=said, mentioned=found.mentioned or said.ours)


def strip_reply(body: str) -> str:
    """A text without the quote that older clients put before an answer."""
    if not body.startswith("> <") and not body.startswith("> * <"):
        return body
    lines = body.split("\n")
    first = next((place for place, line in enumerate(lines) if not line.startswith(">")), len(lines))
    return "\n".join(lines[first:]).lstrip("\n")


def _mentions(body: str, content: Event, room: RoomState, me: str) -> bool:
    named = object_of(content, "m.mentions").get("user_ids")
    if isinstance(named, list) and me in named:
        return True
    if any(unquote(html.unescape(each)) == me for each in _PILL.findall(text_of(content, "formatted_body"))):
        return True
    names = (me, me.partition(":")[0], room.members.get(me, ""))
    return any(name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", body, re.IGNORECASE) for name in names)


def decode_media_ref(ref: str) -> str:
    """The end of the path a file is downloaded from."""
    found = _MXC.match(ref)
    if found is None:
        raise MessageRefused("the file has no address on a Matrix server")
    return f"{quote(found[1], safe='')}/{found[2]}"


# Writing.


def encode_text(markdown: str) -> dict[str, Any]:
    """The body as plain text, and as HTML where that says more."""
    plain, rich = parse_markdown(markdown).text, render_html(markdown)
    content: dict[str, Any] = {"msgtype": "m.text", "body": plain, "m.mentions": _named_in(plain)}
    escaped = html.escape(plain, quote=False).replace('"', "&quot;")
    if rich.removeprefix("<p>").removesuffix("</p>").replace("<br />\n", "\n") != escaped:
        content |= {"format": "org.matrix.custom.html", "formatted_body": rich}
    return content


def _named_in(text: str) -> dict[str, Any]:
    """Who is told that they were mentioned: those whose ids the text has."""
    named = list(dict.fromkeys(_USER_ID.findall(text)))[:20]
    return {"user_ids": named} if named else {}


def encode_relation(thread: str | None, reply_to: str | None) -> dict[str, Any]:
    """How a message hangs on another: in a thread, or as a reply."""
    if thread:
        # The reply is for clients that do not know threads; in the thread it is not shown.
        about = {"m.in_reply_to": {"event_id": reply_to or thread}}
        return {"m.relates_to": {"rel_type": THREAD, "event_id": thread, "is_falling_back": True, **about}}
    return {"m.relates_to": {"m.in_reply_to": {"event_id": reply_to}}} if reply_to else {}


def encode_message(message: Outbound) -> dict[str, Any]:
    """The content of the event that says, or changes, a text."""
    content = _fitted(encode_text(message.text))
    if message.action == "edit":
        new = content
        # Shown by clients that do not know edits; short, because an event holds both.
        content = {"msgtype": "m.text", "body": f"* {new['body'][:1_000]}", "m.mentions": {}}
        return {**content, "m.new_content": new, "m.relates_to": {"rel_type": "m.replace", "event_id": message.about}}
    return {**content, **encode_relation(message.to.thread, message.reply_to)}


def encode_file(message: Outbound, name: str, url: str, size: int) -> dict[str, Any]:
    """The content of the event that shows an uploaded file, with its caption."""
    mime = mime_of(name)
    kind = {"image": "m.image", "audio": "m.audio", "video": "m.video"}.get(mime.partition("/")[0], "m.file")
    content = _fitted(encode_text(message.text)) if message.text.strip() else {"body": name, "m.mentions": {}}
    content |= {"msgtype": kind, "filename": name, "url": url, "info": {"mimetype": mime, "size": size}}
    if kind == "m.audio" and message.voice:
        content |= {"org.matrix.msc3245.voice": {}, "org.matrix.msc1767.audio": {}}
    return {**content, **encode_relation(message.to.thread, message.reply_to)}


def mime_of(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def encode_reaction(about: str, emoji: str) -> dict[str, Any]:
    return {"m.relates_to": {"rel_type": "m.annotation", "event_id": about, "key": emoji[:100]}}


def _fitted(content: dict[str, Any]) -> dict[str, Any]:
    """A content that fits into an event: plain where its HTML is too much."""
    if len(msgspec.json.encode(content)) > EVENT_BYTES:
        return {name: value for name, value in content.items() if name not in ("format", "formatted_body")}
    return content
