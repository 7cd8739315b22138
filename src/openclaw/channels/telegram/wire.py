"""The words of Telegram's Bot API: updates become events, messages become requests. Pure.

Text is sent with entities instead of a markup language, so that no text can be refused for its punctuation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.channels.rich import RichText, StyledSpan, parse_markdown
from openclaw.core.channel import (
    AccountClosed,
    Address,
    ChannelFacts,
    FileKind,
    Inbound,
    InboundFile,
    MessageRefused,
    Outbound,
    Receipt,
    TryLater,
)
from openclaw.core.errors import InvalidRequest, OpenClawError

NAME = "telegram"
FACTS = ChannelFacts(
    limit=4_000,
    unit="utf16",
    caption=1_024,
    media_bytes=50_000_000,
    typing_every=5.0,
    per_chat=1.0,
    overall=1 / 30,
)
UPDATES = ("message", "channel_post")
GENERAL_TOPIC = "1"
"""The topic of a forum that messages without a topic belong to; it must not be named when sending."""
_ENTITIES = {
    "bold": "bold",
    "italic": "italic",
    "strike": "strikethrough",
    "code": "code",
    "pre": "pre",
    "link": "text_link",
    "quote": "blockquote",
}
_FILES: tuple[tuple[str, FileKind], ...] = (
    ("voice", "voice"),
    ("audio", "audio"),
    ("video", "video"),
    ("video_note", "video"),
    ("animation", "video"),
    ("document", "document"),
)


class BotIdentity(Struct, frozen=True):
    """Who we are there."""

    id: int
    username: str


def decode_answer(body: bytes) -> Any:
    """The result of a call; raises what a refusal means."""
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest("Telegram's answer is not JSON") from error
    if not isinstance(answer, dict):
        raise InvalidRequest("Telegram's answer is not an object")
    if answer.get("ok") is True:
        return answer.get("result")
    raise failure(answer)


def failure(answer: Mapping[str, Any]) -> OpenClawError:
    """What Telegram says when it does not do something."""
    code = answer.get("error_code")
    why = f"Telegram: {answer.get('description') or 'no reason given'}"
    parameters = answer.get("parameters")
    after = parameters.get("retry_after") if isinstance(parameters, Mapping) else None
    match code:
        case 401 | 404:
            return AccountClosed(f"{why}. The token is not valid: get a new one from @BotFather")
        case 429:
            return TryLater(why, after=float(after) if isinstance(after, int | float) else 5.0)
        case 409:
            return TryLater(f"{why}. Another program uses this bot: stop it, or give us a bot of our own", after=30.0)
        case int() if code >= 500:
            return TryLater(why)
        case _:
            return MessageRefused(why)


def decode_bot(result: Any) -> BotIdentity:
    if not isinstance(result, Mapping) or not isinstance(result.get("id"), int):
        raise InvalidRequest("Telegram's getMe gave no bot")
    return BotIdentity(result["id"], str(result.get("username") or ""))


def decode_updates(result: Any, bot: BotIdentity, account: str) -> tuple[list[Inbound], int | None]:
    """The events of an answer to getUpdates, and the offset to go on from; updates of other kinds are passed over."""
    if not isinstance(result, list):
        raise InvalidRequest("Telegram's getUpdates gave no list")
    events, last = [], None
    for update in result:
        if not isinstance(update, Mapping) or not isinstance(update.get("update_id"), int):
            raise InvalidRequest("an update of Telegram has no id")
        last = max(last or 0, update["update_id"])
        try:
            event = decode_update(update, bot, account)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRequest(f"an update of Telegram cannot be read: {type(error).__name__}") from error
        if event is not None:
            events.append(event)
    return events, None if last is None else last + 1


def decode_update(update: Mapping[str, Any], bot: BotIdentity, account: str = "default") -> Inbound | None:
    """What happened; None for what we do not listen to, and for what bots say."""
    for name in UPDATES:
        if name in update:
            return _message(update[name], bot, account)
    return None


def _address(message: Mapping[str, Any], account: str) -> Address:
    thread = message.get("message_thread_id") if message.get("is_topic_message") else None
    return Address(
        channel=NAME,
        account=account,
        to=str(message["chat"]["id"]),
        thread=None if thread is None else str(thread),
    )


def _message(said: Mapping[str, Any], bot: BotIdentity, account: str) -> Inbound | None:
    sender = said.get("from") or said.get("sender_chat")
    if sender is None or sender.get("is_bot"):
        return None
    chat, address = said["chat"], _address(said, account)
    text = str(said.get("text") or said.get("caption") or "")
    marks = said.get("entities") or said.get("caption_entities") or ()
    quoted = said.get("reply_to_message")
    ours = quoted is not None and (quoted.get("from") or {}).get("id") == bot.id
    if sticker := said.get("sticker"):
        text = text or f"[sticker {sticker.get('emoji') or ''}]".replace(" ]", "]")
    if where := said.get("location"):
        text = text or f"[location {where.get('latitude')}, {where.get('longitude')}]"
    private = chat.get("type") == "private"
    return Inbound(
        id=str(said["message_id"]),
        channel=NAME,
        account=account,
        sender=str(sender["id"]),
        sender_name=_name(sender),
        text=text,
        group=None if private else address.to,
        thread=address.thread,
        mentioned=ours or _mentions(text, marks, bot),
        timestamp=int(said.get("date") or 0) * 1000,
        files=_files(said),
        album=str(said["media_group_id"]) if said.get("media_group_id") else None,
    )


def _name(sender: Mapping[str, Any]) -> str:
    parts = (sender.get("first_name"), sender.get("last_name"), sender.get("title"))
    return " ".join(str(part) for part in parts if part) or str(sender.get("username") or "")


def _files(said: Mapping[str, Any]) -> tuple[InboundFile, ...]:
    if said.get("photo"):
        return (InboundFile(kind="image"),)
    for name, kind in _FILES:
        if found := said.get(name):
            return (InboundFile(kind=kind, name=str(found.get("file_name") or "")),)
    return ()


def _mentions(text: str, marks: Sequence[Mapping[str, Any]], bot: BotIdentity) -> bool:
    wide = text.encode("utf-16-le", errors="surrogatepass")
    name = f"@{bot.username}".lower()
    for mark in marks:
        start, end = 2 * int(mark["offset"]), 2 * (int(mark["offset"]) + int(mark["length"]))
        part = wide[start:end].decode("utf-16-le", errors="replace").lower()
        match mark.get("type"):
            case "mention" if part == name:
                return True
            case "bot_command" if part.endswith(name):
                return True
            case "text_mention" if (mark.get("user") or {}).get("id") == bot.id:
                return True
            case _:
                pass
    return False


# Sending.


class TelegramCall(Struct, frozen=True):
    """A method with its parameters; `file` is the path of a file that goes along, under the field `field`."""

    method: str
    params: dict[str, Any]
    file: str = ""
    field: str = ""


def encode_text(markdown: str) -> dict[str, Any]:
    rich = parse_markdown(markdown)
    entities = encode_entities(rich)
    return {"text": rich.text, **({"entities": entities} if entities else {})}


def encode_entities(rich: RichText) -> list[dict[str, Any]]:
    """Styles in UTF-16 units; none inside code, which Telegram does not nest."""
    code = [(span.start, span.end) for span in rich.spans if span.style in ("code", "pre")]
    return [
        _entity(rich.text, span)
        for span in rich.spans
        if span.style in ("code", "pre") or not any(start <= span.start and span.end <= end for start, end in code)
        if span.style != "link" or span.extra.startswith(("http://", "https://", "tg://", "mailto:"))
    ]


def _entity(text: str, span: StyledSpan) -> dict[str, Any]:
    entity: dict[str, Any] = {
        "type": _ENTITIES[span.style],
        "offset": _units(text[: span.start]),
        "length": _units(text[span.start : span.end]),
    }
    if span.style == "link":
        entity["url"] = span.extra
    elif span.style == "pre" and span.extra:
        entity["language"] = span.extra[:64]
    return entity


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", errors="surrogatepass")) // 2


def encode_target(to: Address) -> dict[str, Any]:
    chat: int | str = int(to.to) if to.to.lstrip("-").isdecimal() else to.to
    thread = {} if to.thread in (None, "", GENERAL_TOPIC) else {"message_thread_id": int(to.thread or 0)}
    return {"chat_id": chat, **thread}


def encode_message(message: Outbound) -> list[TelegramCall]:
    """The calls a message needs: its text, then its files; a short text is the caption of the first."""
    target = encode_target(message.to)
    reply = {}
    if message.reply_to is not None and message.reply_to.isdecimal():
        reply = {"reply_parameters": {"message_id": int(message.reply_to), "allow_sending_without_reply": True}}
    text = encode_text(message.text)
    calls, common = [], {**target, **reply}
    caption = text if message.media and _units(text["text"]) <= FACTS.caption else None
    if text["text"].strip() and caption is None:
        calls.append(TelegramCall("sendMessage", {**common, **text}))
    for place, path in enumerate(message.media):
        method, name = _method_for(path, voice=message.voice)
        params = dict(common)
        if place == 0 and caption is not None and caption["text"]:
            params |= {"caption": caption["text"]}
            if "entities" in caption:
                params["caption_entities"] = caption["entities"]
        calls.append(TelegramCall(method, params, path, name))
    return calls


def _method_for(path: str, *, voice: bool) -> tuple[str, str]:
    kind = path.lower().rpartition(".")[2]
    if kind in ("jpg", "jpeg", "png", "webp"):
        return "sendPhoto", "photo"
    if kind in ("ogg", "opus", "oga") and voice:
        return "sendVoice", "voice"
    if kind in ("mp3", "m4a", "ogg"):
        return "sendAudio", "audio"
    if kind in ("mp4", "mov"):
        return "sendVideo", "video"
    return "sendDocument", "document"


def decode_receipt(result: Any) -> Receipt:
    if isinstance(result, Mapping) and isinstance(result.get("message_id"), int):
        return Receipt(id=str(result["message_id"]), timestamp=int(result.get("date") or 0) * 1000)
    return Receipt(id="")
