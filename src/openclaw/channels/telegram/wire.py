"""The words of Telegram's Bot API: updates become events, messages become requests. Pure.

Text is sent with entities instead of a markup language, so that no text can be refused for its punctuation.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.channels.rich import RichText, StyledSpan, parse_markdown
from openclaw.core.channel import (
    AccountClosed,
    Address,
    Button,
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

log = logging.getLogger("openclaw.channels")

NAME = "telegram"
FACTS = ChannelFacts(
    limit=4_000,
    unit="utf16",
    voice=True,
    caption=1_024,
    media_bytes=50_000_000,
    typing_every=5.0,
    per_chat=1.0,
    overall=1 / 30,
    actions=("send", "edit", "react", "delete"),
    edit_every=1.0,
    buttons=True,
    threads=True,
)
GROUP_PACE = 3.0
"""Seconds between two messages in a group: it takes twenty a minute."""
UPDATES = ("message", "edited_message", "channel_post", "callback_query", "message_reaction")
"""What we ask for; reactions come only to who asks."""
TOPIC_CHARS = 128
GENERAL_TOPIC = "1"
"""The topic of a forum that messages without a topic belong to; it must not be named when sending."""
SPLIT_UNITS = 4_000
"""Clients split what people paste into messages of this length and a little more."""
CALLBACK_BYTES = 64
DOWNLOAD_BYTES = 20_000_000
"""The largest file that the cloud server hands out."""
PHOTO_BYTES = 10_000_000
COMMANDS_MOST = 100
_COMMAND = re.compile(r"[a-z0-9_]{1,32}\Z")
_ENTITIES = {
    "bold": "bold",
    "italic": "italic",
    "strike": "strikethrough",
    "code": "code",
    "pre": "pre",
    "link": "text_link",
    "quote": "blockquote",
}
# An animation comes as a document too, for clients that do not know animations.
_FILES: tuple[tuple[str, FileKind, str], ...] = (
    ("voice", "voice", "audio/ogg"),
    ("audio", "audio", ""),
    ("video", "video", "video/mp4"),
    ("video_note", "video", "video/mp4"),
    ("animation", "video", ""),
    ("document", "document", ""),
)


class BotIdentity(Struct, frozen=True):
    """Who we are there."""

    id: int
    username: str


def decode_json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest("what Telegram sent is not JSON") from error


def decode_answer(body: bytes) -> Any:
    """The result of a call; raises what a refusal means."""
    answer = decode_json(body)
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


# Hearing.


def decode_updates(result: Any, bot: BotIdentity, account: str) -> tuple[list[Inbound], int | None]:
    """The events of an answer to getUpdates, and the offset to go on from.

    An update that cannot be read is passed over: it would come again and again, and nothing behind it.
    """
    if not isinstance(result, list):
        raise InvalidRequest("Telegram's getUpdates gave no list")
    events, last = [], None
    for update in result:
        if not isinstance(update, Mapping) or not isinstance(update.get("update_id"), int):
            raise InvalidRequest("an update of Telegram has no id")
        last = max(last or 0, update["update_id"])
        try:
            event = decode_update(update, bot, account)
        except InvalidRequest as error:
            log.warning("channel %s: the update %d is passed over: %s", NAME, update["update_id"], error.message)
            continue
        if event is not None:
            events.append(event)
    return events, None if last is None else last + 1


def decode_update(update: Any, bot: BotIdentity, account: str = "default") -> Inbound | None:
    """What happened; None for what we do not listen to, and for what bots do. Raises nothing but `InvalidRequest`."""
    try:
        event = _update(update, bot, account)
        # What came is on record as JSON, which must be possible whatever it holds.
        msgspec.json.encode(event)
        return event
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
        raise InvalidRequest(f"an update of Telegram cannot be read: {type(error).__name__}") from error


def _update(update: Mapping[str, Any], bot: BotIdentity, account: str) -> Inbound | None:
    match update:
        case {"message": said} | {"channel_post": said}:
            return _message(said, bot, account)
        case {"edited_message": said, "update_id": number}:
            event = None if said.get("location") else _message(said, bot, account)  # a live location moves all the time
            return event and msgspec.structs.replace(event, kind="edit", id=f"edit:{number}", about=event.id)
        case {"callback_query": query}:
            return _press(query, account)
        case {"message_reaction": changed, "update_id": number}:
            return _reaction(changed, int(number), account)
        case _:
            return None


def _message(said: Mapping[str, Any], bot: BotIdentity, account: str) -> Inbound | None:
    # Who speaks for a group or a channel is not named: `from` is then a bot of Telegram's.
    sender = said.get("sender_chat") or said.get("from")
    if sender is None or sender.get("is_bot"):
        return None
    text = str(said.get("text") or said.get("caption") or "")
    marks = said.get("entities") or said.get("caption_entities") or ()
    mentioned, files = _mentions(text, marks, bot), _files(said)
    text = _without_our_name(text, bot) or _described(said)
    if not text and not files:
        return None  # somebody joined, a message was pinned: nothing was said
    origin = _origin(said)
    if origin:
        text = f"[forwarded from {origin}]\n{text}"
    quote = _quote(said, bot)
    address = _address(said, account)
    return Inbound(
        id=str(int(said["message_id"])),
        channel=NAME,
        account=account,
        sender=str(int(sender["id"])),
        sender_name=_name(sender),
        sender_username=_optional(sender.get("username")),
        text=text,
        group=None if _private(said["chat"]) else address.to,
        group_name=_optional(said["chat"].get("title")),
        thread=address.thread,
        mentioned=mentioned or (quote is not None and quote.ours),
        timestamp=int(said.get("date") or 0) * 1000,
        files=files,
        album=_optional(said.get("media_group_id")),
        quote=quote,
        forwarded=bool(origin),
        split=_units(text) >= SPLIT_UNITS,
    )


def _press(query: Mapping[str, Any], account: str) -> Inbound | None:
    sender, about = query["from"], query.get("message")
    if about is None or sender.get("is_bot"):
        return None
    address = _address(about, account)
    return Inbound(
        id=f"press:{query['id']}",
        channel=NAME,
        account=account,
        kind="press",
        sender=str(int(sender["id"])),
        sender_name=_name(sender),
        sender_username=_optional(sender.get("username")),
        text="",
        about=str(int(about["message_id"])),
        button=str(query.get("data") or ""),
        press=str(query["id"]),
        group=None if _private(about["chat"]) else address.to,
        group_name=_optional(about["chat"].get("title")),
        thread=address.thread,
    )


def _reaction(changed: Mapping[str, Any], number: int, account: str) -> Inbound | None:
    sender = changed.get("actor_chat") or changed.get("user")
    if sender is None or sender.get("is_bot"):
        return None
    before = list(changed.get("old_reaction") or ())
    added = [each for each in changed.get("new_reaction") or () if each not in before]
    address = _address(changed, account)
    return Inbound(
        id=f"reaction:{number}",
        channel=NAME,
        account=account,
        kind="reaction",
        sender=str(int(sender["id"])),
        sender_name=_name(sender),
        sender_username=_optional(sender.get("username")),
        text="",
        about=str(int(changed["message_id"])),
        emoji=str(added[0].get("emoji") or "a custom emoji") if added else "",
        group=None if _private(changed["chat"]) else address.to,
        group_name=_optional(changed["chat"].get("title")),
        timestamp=int(changed.get("date") or 0) * 1000,
    )


def _address(message: Mapping[str, Any], account: str) -> Address:
    chat = message["chat"]
    thread = GENERAL_TOPIC if chat.get("is_forum") and "date" in message else None
    if message.get("is_topic_message"):
        thread = _optional(message.get("message_thread_id"))
    return Address(channel=NAME, account=account, to=str(int(chat["id"])), thread=thread)


def _private(chat: Mapping[str, Any]) -> bool:
    return bool(chat.get("type") == "private")


def _optional(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


def _name(sender: Mapping[str, Any]) -> str:
    parts = (sender.get("first_name"), sender.get("last_name"), sender.get("title"))
    return " ".join(str(part) for part in parts if part) or str(sender.get("username") or "")


def _described(said: Mapping[str, Any]) -> str:
    """What was sent instead of text, in words."""
    match said:
        case {"sticker": sticker}:
            what = f"sticker {sticker.get('emoji') or ''}"
        case {"venue": venue}:
            where = venue["location"]
            what = f"place {venue.get('title')}, {venue.get('address')}, {where['latitude']}, {where['longitude']}"
        case {"location": where}:
            what = f"location {where['latitude']}, {where['longitude']}"
        case {"contact": person}:
            what = f"contact {_name(person)} {person.get('phone_number') or ''}"
        case {"poll": poll}:
            choices = " / ".join(str(each.get("text")) for each in poll.get("options") or ())
            what = f"poll {poll.get('question')}: {choices}"
        case {"dice": dice}:
            what = f"{dice.get('emoji')} shows {dice.get('value')}"
        case _:
            return ""
    return f"[{_line(what)}]"


def _line(text: str, most: int = 1_000) -> str:
    """Somebody's words inside our brackets."""
    return " ".join(text.split())[:most].replace("[", "(").replace("]", ")")


def _origin(said: Mapping[str, Any]) -> str:
    """Who wrote what is forwarded; empty when nothing is."""
    origin = said.get("forward_origin") or {}
    who = origin.get("sender_user") or origin.get("sender_chat") or origin.get("chat")
    who = who or said.get("forward_from") or said.get("forward_from_chat") or {}
    hidden = origin.get("sender_user_name") or said.get("forward_sender_name")
    found = _name(who) or str(hidden or "")
    return _line(found, 64) or ("somebody" if origin or "forward_date" in said else "")


def _quote(said: Mapping[str, Any], bot: BotIdentity) -> Quote | None:
    """The message that is answered. In a topic, everything answers the message that opened it: that is no quote."""
    part = str((said.get("quote") or {}).get("text") or "")
    quoted = said.get("reply_to_message")
    if quoted is not None and "forum_topic_created" not in quoted:
        sender = quoted.get("sender_chat") or quoted.get("from") or {}
        return Quote(
            id=str(int(quoted["message_id"])),
            text=part or str(quoted.get("text") or quoted.get("caption") or "") or _described(quoted),
            sender=str(sender.get("id") or ""),
            sender_name=_name(sender),
            ours=sender.get("id") == bot.id,
        )
    elsewhere = said.get("external_reply")
    if elsewhere is None:
        return None
    name = _origin({"forward_origin": elsewhere.get("origin")})
    return Quote(id=str(elsewhere.get("message_id") or ""), text=part, sender_name=name)


def _files(said: Mapping[str, Any]) -> tuple[InboundFile, ...]:
    if sizes := said.get("photo"):
        return (_file(max(sizes, key=_area), "image", "image/jpeg"),)
    for name, kind, mime in _FILES:
        if found := said.get(name):
            return (_file(found, kind, mime),)
    if sticker := said.get("sticker"):
        mime = "application/x-tgsticker" if sticker.get("is_animated") else "image/webp"
        return (_file(sticker, "sticker", "video/webm" if sticker.get("is_video") else mime),)
    return ()


def _area(size: Mapping[str, Any]) -> int:
    return int(size.get("width") or 0) * int(size.get("height") or 0)


def _file(found: Mapping[str, Any], kind: FileKind, mime: str) -> InboundFile:
    return InboundFile(
        kind=kind,
        name=str(found.get("file_name") or ""),
        ref=str(found["file_id"]),
        mime=str(found.get("mime_type") or mime),
        size=int(found.get("file_size") or 0),
    )


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


def _without_our_name(text: str, bot: BotIdentity) -> str:
    """In groups the menu writes `/status@our_bot`: the command is `/status`."""
    word, space, rest = text.partition(" ")
    name = f"@{bot.username}".lower()
    if bot.username and word.startswith("/") and word.lower().endswith(name):
        return f"{word[: -len(name)]}{space}{rest}"
    return text


# Doing.


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


def length(markdown: str) -> int:
    """How long Telegram finds a text; tables grow when their columns are made equally wide."""
    return _units(parse_markdown(markdown).text)


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


def encode_target(to: Address, *, sending: bool = True) -> dict[str, Any]:
    """A chat and its topic; `to` is a number or a public name."""
    name = to.to.removeprefix("telegram:").removeprefix("tg:")
    chat: int | str = int(name) if re.fullmatch(r"-?[0-9]{1,19}", name) else name
    if isinstance(chat, str) and not chat.startswith("@"):
        raise MessageRefused(f"{name[:60]!r} is no chat of Telegram: use its number, or @name of a public one")
    if not to.thread or (sending and to.thread == GENERAL_TOPIC):
        return {"chat_id": chat}
    return {"chat_id": chat, "message_thread_id": _number(to.thread, "topic")}


def _number(text: str | None, what: str) -> int:
    if text is None or not re.fullmatch(r"[0-9]{1,19}", text):
        raise MessageRefused(f"{str(text)[:60]!r} is no {what} of Telegram: it is a number")
    return int(text)


def encode_message(message: Outbound, *, link_preview: bool = True) -> TelegramCall:
    """The call that a message, an edit, a reaction or a deletion needs: a text, or one file with its caption."""
    common = encode_target(message.to)
    if message.action != "send":
        return _change(message, common["chat_id"], link_preview)
    if message.reply_to is not None and message.reply_to.isdecimal():
        common["reply_parameters"] = {"message_id": int(message.reply_to), "allow_sending_without_reply": True}
    if message.buttons:
        common["reply_markup"] = encode_buttons(message.buttons)
    text = encode_text(message.text)
    if not message.media:
        return TelegramCall("sendMessage", {**common, **text, **_preview(link_preview)})
    method, name = _method_for(message.media[0], voice=message.voice)
    if text["text"]:
        common |= {"caption": text["text"], "caption_entities": text.get("entities", [])}
    return TelegramCall(method, common, message.media[0], name)


def _change(message: Outbound, chat: int | str, link_preview: bool) -> TelegramCall:
    target = {"chat_id": chat, "message_id": _number(message.about, "message")}
    match message.action:
        case "react":
            # Its emoji have no variation selectors, which keyboards add.
            emoji = message.text.strip().replace("\ufe0f", "")
            return TelegramCall(
                "setMessageReaction", {**target, "reaction": [{"type": "emoji", "emoji": emoji}] if emoji else []}
            )
        case "delete":
            return TelegramCall("deleteMessage", target)
        case _:
            if message.media:
                raise MessageRefused("on Telegram a file cannot take the place of a message: send it as a new one")
            markup = {"reply_markup": encode_buttons(message.buttons)} if message.buttons else {}
            text = encode_text(message.text)
            return TelegramCall("editMessageText", {**target, **text, **_preview(link_preview), **markup})


def edit_caption(call: TelegramCall) -> TelegramCall:
    """The same edit for a message that is a file: its caption changes."""
    params = {name: value for name, value in call.params.items() if name not in ("text", "entities")}
    params.pop("link_preview_options", None)
    caption = {"caption": call.params["text"], "caption_entities": call.params.get("entities", [])}
    return TelegramCall("editMessageCaption", {**params, **caption})


def as_document(call: TelegramCall) -> TelegramCall:
    """The same file as it is: for a picture that Telegram does not show, a voice note that somebody does not take."""
    return TelegramCall("sendDocument", call.params, call.file, "document")


def is_done_already(error: MessageRefused) -> bool:
    """Whether a refusal says that there is nothing left to do."""
    said = error.message.lower()
    return "message is not modified" in said or "message to delete not found" in said or "query is too old" in said


def is_a_caption(error: MessageRefused) -> bool:
    return "there is no text in the message to edit" in error.message.lower()


def is_the_kind_of_file(error: MessageRefused) -> bool:
    """Whether a file was refused as what it is sent as, and may go as a document."""
    said = error.message.upper()
    return any(word in said for word in ("PHOTO_", "IMAGE_PROCESS_FAILED", "VOICE_MESSAGES_FORBIDDEN", "VIDEO_"))


def _preview(wanted: bool) -> dict[str, Any]:
    return {} if wanted else {"link_preview_options": {"is_disabled": True}}


def encode_buttons(rows: Sequence[Sequence[Button]]) -> dict[str, Any]:
    for button in (button for row in rows for button in row):
        if not button.label.strip() or not button.data:
            raise MessageRefused("a button needs a label, and data that comes back when it is pressed")
        if len(button.data.encode("utf-8", "surrogatepass")) > CALLBACK_BYTES:
            raise MessageRefused(
                f"the data of the button {button.label[:40]!r} is longer than {CALLBACK_BYTES} bytes: shorten it"
            )
    return {
        "inline_keyboard": [
            [{"text": button.label, "callback_data": button.data} for button in row] for row in rows if row
        ]
    }


def encode_commands(entries: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """The menu: names that Telegram takes, each once, the first hundred."""
    named = {name: about for name, about in reversed(entries) if _COMMAND.match(name)}
    first = [name for name in dict.fromkeys(name for name, _ in entries) if name in named][:COMMANDS_MOST]
    return [{"command": name, "description": " ".join(named[name].split())[:256] or name} for name in first]


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
    if kind == "gif":
        return "sendAnimation", "animation"
    return "sendDocument", "document"


def decode_topic(result: Any) -> str:
    number = result.get("message_thread_id") if isinstance(result, Mapping) else None
    if not isinstance(number, int):
        raise MessageRefused("Telegram did not say which topic it made")
    return str(number)


def decode_receipt(result: Any, about: str | None = None) -> Receipt:
    """What arrived; `about` is the message that something was done to, where the answer names none."""
    if isinstance(result, Mapping) and isinstance(result.get("message_id"), int):
        date = result.get("date")
        return Receipt(id=str(result["message_id"]), timestamp=date * 1000 if isinstance(date, int) else 0)
    return Receipt(id=about or "")
