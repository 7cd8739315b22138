"""Signed calls as our events, and our messages as signed calls. Pure.

The signature is that of Standard Webhooks: an HMAC of the call's name, its time and its body. The name is the same
when a call is repeated, so that whoever takes it takes it once.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from openclaw.core.channel import ChannelFacts, Inbound, InboundFile, Outbound, Quote
from openclaw.core.errors import InvalidRequest

NAME = "webhook"
FACTS = ChannelFacts(
    limit=100_000, caption=100_000, media_bytes=5_000_000, files_together=10, idempotent=True, threads=True
)
TOLERANCE = 300
"""Seconds by which the clocks of the two sides may differ: an older call may be a repeated one."""
MOST_FILES = 20
_PREFIX = "whsec_"


class WebhookFile(Struct, frozen=True):
    """A file on the other side's own server."""

    url: str
    name: str = ""
    mime: str = ""


class WebhookQuote(Struct, frozen=True, rename="camel"):
    id: str
    text: str = ""
    sender: str = ""
    ours: bool = False


class WebhookMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the other side says: mostly that somebody wrote something."""

    sender: str
    type: Literal["message", "edit", "reaction", "press"] = "message"
    id: str = ""
    """The message's own name; the name of the call when it is left out."""
    text: str = ""
    sender_name: str = ""
    group: str = ""
    group_name: str = ""
    thread: str = ""
    mentioned: bool = False
    about: str = ""
    """The message that was edited, reacted to, or whose button was pressed."""
    emoji: str = ""
    button: str = ""
    reply_to: WebhookQuote | None = None
    files: tuple[WebhookFile, ...] = ()
    timestamp: int = 0


def signing_key(secret: str) -> bytes:
    """The bytes of a secret; one with the usual prefix is Base64."""
    if secret.startswith(_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except (ValueError, binascii.Error):
            pass
    return secret.encode()


def sign(key: bytes, name: str, timestamp: int, body: bytes) -> str:
    digest = hmac.new(key, f"{name}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def check_signature(key: bytes, headers: Mapping[str, str], body: bytes, now: float) -> str:
    """The name of a call that is signed and fresh; raises `InvalidRequest` otherwise."""
    name, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not name or len(name) > 200 or not name.isascii() or not name.isprintable():
        raise InvalidRequest("the header webhook-id is missing, or no name")
    if not (stamp.isascii() and stamp.isdecimal() and len(stamp) <= 12):
        raise InvalidRequest("the header webhook-timestamp is no time in seconds")
    if abs(now - int(stamp)) > TOLERANCE:
        raise InvalidRequest(f"the call is more than {TOLERANCE} seconds old, or the clocks differ")
    wanted = sign(key, name, int(stamp), body).encode()
    # Several signatures stand side by side while a secret is being changed.
    given = headers.get("webhook-signature", "").encode(errors="replace").split()
    if not any(hmac.compare_digest(wanted, each) for each in given):
        raise InvalidRequest("the signature in webhook-signature is not the one of this secret")
    return name


def decode_call(body: bytes, name: str, account: str) -> Inbound:
    """What a call says; raises `InvalidRequest`."""
    try:
        said = msgspec.json.decode(body, type=WebhookMessage)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidRequest(f"the body is not a message: {error}") from error
    if not said.sender.strip():
        raise InvalidRequest("sender is empty: say who wrote it")
    if said.type != "message" and not said.about:
        raise InvalidRequest(f"{said.type} needs about: the id of the message it belongs to")
    quote = said.reply_to
    return Inbound(
        id=(said.id or name) if said.type == "message" else name,
        channel=NAME,
        account=account,
        sender=said.sender,
        sender_name=said.sender_name or None,
        text=said.text,
        kind=said.type,
        about=said.about or None,
        group=said.group or None,
        group_name=said.group_name or None,
        thread=said.thread or None,
        mentioned=said.mentioned,
        timestamp=max(said.timestamp, 0),
        emoji=said.emoji,
        button=said.button,
        press=name if said.type == "press" else "",
        quote=Quote(id=quote.id, text=quote.text, sender=quote.sender, ours=quote.ours) if quote else None,
        files=tuple(
            InboundFile(name=each.name[:255], ref=each.url, mime=each.mime[:255], kind=_kind(each.mime))
            for each in said.files[:MOST_FILES]
        ),
    )


def _kind(mime: str) -> Literal["image", "audio", "video", "document"]:
    match mime.partition("/")[0]:
        case "image" | "audio" | "video" as kind:
            return kind
        case _:
            return "document"


def encode_message(message: Outbound, files: Sequence[tuple[str, str, bytes]], now: float) -> tuple[str, bytes]:
    """The name and the body of a call; `files` are names, types and contents."""
    kinds = {"send": "message", "edit": "edit", "react": "reaction", "delete": "delete"}
    said: dict[str, Any] = {
        "type": kinds[message.action],
        "to": message.to.to,
        "thread": message.to.thread,
        "about": message.about,
        "replyTo": message.reply_to,
        "buttons": [[{"text": each.label, "data": each.data} for each in row] for row in message.buttons],
        "files": [{"name": n, "mime": m, "data": base64.b64encode(c).decode()} for n, m, c in files],
    }
    said |= {"emoji": message.text} if message.action == "react" else {"text": message.text}
    filled = {key: value for key, value in said.items() if value not in (None, [], "") or key in ("text", "emoji")}
    name = f"msg_{message.key or hashlib.sha256(msgspec.json.encode(filled)).hexdigest()[:32]}"
    at = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    return name, msgspec.json.encode({"id": name, "timestamp": at, **filled})


def encode_ping(now: float) -> tuple[str, bytes]:
    """The name and the body of a call that only asks whether somebody is there."""
    name, at = f"ping_{round(now * 1000)}", datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    return name, msgspec.json.encode({"id": name, "timestamp": at, "type": "ping"})


def decode_receipt(body: bytes) -> str:
    """The name that the other side gives a message, when it gives one."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    name = found.get("id") if isinstance(found, dict) else None
    return name[:200] if isinstance(name, str) else ""
