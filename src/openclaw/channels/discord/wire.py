"""The words of Discord's gateway and REST API: dispatches become events, messages become requests. Pure.

Discord's own Markdown is close to ours, so a text is sent as it is, but for tables, which it does not know.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, field, structs

from openclaw.channels.rich import tables_as_code
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
    Receipt,
    TryLater,
)
from openclaw.core.errors import InvalidRequest, OpenClawError

T = TypeVar("T")

NAME = "discord"
THREAD_NAME_CHARS = 100
PUBLIC_THREAD = 11
MOST_CHARS = 2_000
FACTS = ChannelFacts(
    limit=1_900,
    unit="utf16",
    caption=1_900,
    media_bytes=10_000_000,
    typing_every=8.0,
    per_chat=1.0,
    overall=1 / 45,
    idempotent=True,
    actions=("send", "edit", "react", "delete"),
    edit_every=1.2,
    buttons=True,
    threads=True,
)
INTENTS = 1 << 0 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 15
"""Servers, messages and reactions there and in direct messages, and the content of messages."""
NONCE_CHARS = 25
CUSTOM_ID_CHARS, LABEL_CHARS = 100, 80
COMMANDS_MOST = 100
SUPPRESS_EMBEDS, EPHEMERAL = 1 << 2, 1 << 6
SAID = (0, 19)
"""The types of messages that people write: plain ones and replies."""
THREADS = (10, 11, 12)
FATAL_CLOSES = {
    4004: "Discord does not know the token (any more): set channels.discord.token to the one of the developer portal",
    4010: "Discord refuses the connection: the bot has too many servers for one connection",
    4011: "Discord refuses the connection: the bot has too many servers for one connection",
    4013: "Discord refuses what we ask to hear",
    4014: "the bot may not read messages yet: switch on MESSAGE CONTENT INTENT on the page Bot of the developer portal",
}
FORGOTTEN_CLOSES = (4007, 4009)
"""The session is gone: a new one is begun, and what was missed is read from the history."""
_COMMAND = re.compile(r"[a-z0-9_-]{1,32}\Z")
_USER = re.compile(r"<@!?(\d+)>")
_CHANNEL = re.compile(r"<#(\d+)>")
_EMOJI = re.compile(r"<a?:(\w+):\d+>")
_ID = re.compile(r"[0-9]{1,20}\Z")
_UNKNOWN_MESSAGE, _UNKNOWN_CHANNEL, _UNKNOWN_INTERACTION = 10008, 10003, 10062


class DiscordUser(Struct, frozen=True):
    id: str
    username: str = ""
    global_name: str | None = None
    bot: bool = False

    @property
    def name(self) -> str:
        return self.global_name or self.username


class DiscordMember(Struct, frozen=True):
    nick: str | None = None
    user: DiscordUser | None = None


class DiscordAttachment(Struct, frozen=True):
    url: str
    filename: str = ""
    content_type: str = ""
    size: int = 0
    waveform: str | None = None
    """Only voice messages have one."""


class DiscordSticker(Struct, frozen=True):
    name: str = ""


class DiscordMessage(Struct, frozen=True):
    """A message; of an edit Discord may tell only a part."""

    id: str
    channel_id: str
    author: DiscordUser | None = None
    content: str = ""
    type: int = 0
    guild_id: str | None = None
    member: DiscordMember | None = None
    mentions: tuple[DiscordUser, ...] = ()
    attachments: tuple[DiscordAttachment, ...] = ()
    sticker_items: tuple[DiscordSticker, ...] = ()
    webhook_id: str | None = None
    edited_timestamp: str | None = None
    referenced_message: "DiscordMessage | None" = None


class DiscordChannel(Struct, frozen=True):
    """A channel of a server, a thread, or a conversation with one person."""

    id: str
    type: int = 0
    guild_id: str | None = None
    name: str | None = None
    parent_id: str | None = None
    last_message_id: str | None = None
    recipients: tuple[DiscordUser, ...] = ()

    @property
    def is_thread(self) -> bool:
        return self.type in THREADS


class _Emoji(Struct, frozen=True):
    name: str | None = None
    id: str | None = None


class DiscordReaction(Struct, frozen=True):
    user_id: str
    channel_id: str
    message_id: str
    emoji: _Emoji
    guild_id: str | None = None
    member: DiscordMember | None = None
    message_author_id: str | None = None


class _Option(Struct, frozen=True):
    name: str = ""
    value: str | int | float | bool = ""


class _InteractionData(Struct, frozen=True):
    name: str = ""
    custom_id: str = ""
    options: tuple[_Option, ...] = ()


class DiscordInteraction(Struct, frozen=True):
    """A button that was pressed, or a command chosen from the menu."""

    id: str
    token: str
    type: int
    channel_id: str = ""
    guild_id: str | None = None
    data: _InteractionData = _InteractionData()
    member: DiscordMember | None = None
    user: DiscordUser | None = None
    message: DiscordMessage | None = None

    @property
    def sender(self) -> DiscordUser | None:
        return self.user or (self.member.user if self.member else None)


class _Application(Struct, frozen=True):
    id: str = ""


class DiscordReady(Struct, frozen=True):
    """The answer to identifying ourselves."""

    user: DiscordUser
    session_id: str
    resume_gateway_url: str = ""
    application: _Application = _Application()
    guilds: tuple["DiscordGuild", ...] = ()


class DiscordGuild(Struct, frozen=True):
    """A server; Discord sends each after identifying."""

    id: str
    name: str = ""
    channels: tuple[DiscordChannel, ...] = ()
    threads: tuple[DiscordChannel, ...] = ()


class DiscordFrame(Struct, frozen=True):
    """One frame of the gateway."""

    op: int
    d: Any = None
    s: int | None = None
    t: str | None = None


class DiscordPlace(Struct, frozen=True, kw_only=True):
    """Where a message was said, as far as we know."""

    group: str | None = None
    group_name: str | None = None
    space: str | None = None
    thread: str | None = None


class DiscordCall(Struct, frozen=True, kw_only=True):
    """One request of the REST API."""

    method: Literal["GET", "POST", "PATCH", "PUT", "DELETE"]
    path: str
    body: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""


def decode(value: Any, kind: type[T]) -> T:
    """A value of the wire as one of ours; raises `InvalidRequest`."""
    try:
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, RecursionError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"Discord sent something unreadable: {error}") from error


def decode_frame(text: str | bytes) -> DiscordFrame:
    try:
        return msgspec.json.decode(text, type=DiscordFrame)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidRequest(f"Discord sent a frame that is none: {error}") from error


# Hearing.


def decode_message(said: DiscordMessage, place: DiscordPlace, me: str, account: str) -> Inbound | None:
    """What somebody wrote; None for our own words, those of programs, and what Discord says itself."""
    author = said.author
    if author is None or author.id == me or author.bot or said.webhook_id or said.type not in SAID:
        return None
    answered = said.referenced_message
    ours = answered is not None and answered.author is not None and answered.author.id == me
    text = "\n".join([readable(said, me), *(f"[sticker {each.name}]" for each in said.sticker_items)]).strip()
    return Inbound(
        id=said.id,
        channel=NAME,
        account=account,
        sender=author.id,
        sender_name=(said.member and said.member.nick) or author.name or None,
        sender_username=author.username or None,
        text=text,
        group=place.group,
        group_name=place.group_name,
        space=place.space,
        thread=place.thread,
        mentioned=ours or any(each.id == me for each in said.mentions),
        timestamp=time_of(said.id),
        files=tuple(_file(each) for each in said.attachments),
        quote=_quote(answered, me) if answered is not None else None,
    )


def decode_edit(said: DiscordMessage, place: DiscordPlace, me: str, account: str) -> Inbound | None:
    """A message that its author changed; previews of links change messages too, and are passed over."""
    if not said.edited_timestamp or (found := decode_message(said, place, me, account)) is None:
        return None
    return structs.replace(found, id=f"{said.id}:{said.edited_timestamp}", kind="edit", about=said.id)


def decode_reaction(
    reaction: DiscordReaction, place: DiscordPlace, me: str, account: str, *, removed: bool
) -> Inbound | None:
    user = reaction.member.user if reaction.member else None
    if reaction.user_id == me or (user is not None and user.bot):
        return None
    emoji = reaction.emoji.name or ""
    return Inbound(
        id=f"{reaction.message_id}:{reaction.user_id}:{'-' if removed else '+'}{reaction.emoji.id or emoji}",
        channel=NAME,
        account=account,
        sender=reaction.user_id,
        sender_name=user.name if user else None,
        text="",
        kind="reaction",
        about=reaction.message_id,
        emoji="" if removed else f":{emoji}:" if reaction.emoji.id else emoji,
        group=place.group,
        group_name=place.group_name,
        space=place.space,
        thread=place.thread,
        mentioned=reaction.message_author_id == me,
    )


def decode_interaction(asked: DiscordInteraction, place: DiscordPlace, account: str) -> Inbound | None:
    """A press of a button, or a command of the menu as the words it stands for."""
    sender = asked.sender
    if sender is None or sender.bot:
        return None
    common = Inbound(
        id=asked.id,
        channel=NAME,
        account=account,
        sender=sender.id,
        sender_name=(asked.member and asked.member.nick) or sender.name or None,
        sender_username=sender.username or None,
        text="",
        group=place.group,
        group_name=place.group_name,
        space=place.space,
        thread=place.thread,
        mentioned=True,
        timestamp=time_of(asked.id),
        press=f"{asked.id}/{asked.token}",
    )
    match asked.type:
        case 2 if asked.data.name:
            words = [f"/{asked.data.name}", *(str(option.value) for option in asked.data.options)]
            return structs.replace(common, text=" ".join(words).strip(), press="")
        case 3:
            about = asked.message.id if asked.message else None
            return structs.replace(common, kind="press", about=about, button=asked.data.custom_id)
        case _:
            return None


def readable(said: DiscordMessage, me: str) -> str:
    """The text with names instead of ids, and without our own name at its beginning."""
    names = {each.id: each.name for each in said.mentions}
    text = re.sub(rf"\A\s*<@!?{re.escape(me)}>[,:]?\s*", "", said.content)
    text = _USER.sub(lambda found: f"@{names.get(found[1]) or found[1]}", text)
    return _EMOJI.sub(r":\1:", _CHANNEL.sub(r"#\1", text))


def time_of(snowflake: str) -> int:
    """The milliseconds since 1970 that an id of Discord's holds."""
    return (int(snowflake) >> 22) + 1_420_070_400_000 if _ID.match(snowflake) else 0


def newest(*snowflakes: str | None) -> str:
    """The latest of some ids, which count upwards."""
    return max((each for each in snowflakes if each and _ID.match(each)), key=int, default="")


def _file(found: DiscordAttachment) -> InboundFile:
    kinds: dict[str, FileKind] = {"image": "image", "audio": "audio", "video": "video"}
    kind = "voice" if found.waveform else kinds.get(found.content_type.partition("/")[0], "document")
    return InboundFile(
        kind=kind,
        name=found.filename[:255],
        ref=found.url,
        mime=found.content_type.partition(";")[0][:255],
        size=max(found.size, 0),
    )


def _quote(answered: DiscordMessage, me: str) -> Quote:
    author = answered.author or DiscordUser(id="")
    return Quote(
        id=answered.id,
        text=readable(answered, me),
        sender=author.id,
        sender_name=author.name,
        ours=author.id == me,
    )


# Speaking.


def encode_text(markdown: str) -> str:
    """Our Markdown as Discord's. Where its form would be too long, the text is sent as it stands."""
    written = tables_as_code(markdown)
    return written if len(written.encode("utf-16-le")) // 2 <= MOST_CHARS else markdown


def encode_message(message: Outbound, channel: str, *, suppress_embeds: bool) -> DiscordCall:
    path, about = f"channels/{channel}/messages", message.about or ""
    match message.action:
        case "delete":
            return DiscordCall(method="DELETE", path=f"{path}/{check_id(about)}")
        case "react":
            raise MessageRefused("a reaction is not a message")
    # Nobody but those who are named is told: a text can quote @everyone.
    body: dict[str, Any] = {
        "content": encode_text(message.text),
        "allowed_mentions": {"parse": ["users"], "replied_user": True},
        "components": encode_buttons(message.buttons),
    }
    if message.action == "edit":
        return DiscordCall(method="PATCH", path=f"{path}/{check_id(about)}", body=body)
    if suppress_embeds:
        body["flags"] = SUPPRESS_EMBEDS
    if message.key:
        body |= {"nonce": message.key[:NONCE_CHARS], "enforce_nonce": True}
    if message.reply_to and _ID.match(message.reply_to):
        body["message_reference"] = {"message_id": message.reply_to, "fail_if_not_exists": False}
    return DiscordCall(method="POST", path=path, body=body, file=message.media[0] if message.media else "")


def encode_buttons(rows: Sequence[Sequence[Button]]) -> list[dict[str, Any]]:
    found = []
    for row in rows[:5]:
        for button in row:
            if len(button.data) > CUSTOM_ID_CHARS:
                raise MessageRefused(f"a button's data has more than {CUSTOM_ID_CHARS} characters, the most on Discord")
        buttons = [
            {"type": 2, "style": 2, "label": each.label[:LABEL_CHARS] or "·", "custom_id": each.data}
            for each in row[:5]
        ]
        found.append({"type": 1, "components": buttons})
    return found


def encode_commands(entries: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Our commands for Discord's menu; each takes whatever is written behind it."""
    words = {"type": 3, "name": "text", "description": "what to say behind it", "required": False}
    return [
        {"type": 1, "name": name, "description": description[:100] or name, "options": [words]}
        for name, description in entries
        if _COMMAND.match(name)
    ][:COMMANDS_MOST]


def check_id(text: str) -> str:
    """An id that may stand in a path."""
    if not _ID.match(text):
        raise MessageRefused(f"{text!r} is no id of Discord: it is a number")
    return text


def encode_thread(channel: str, title: str) -> DiscordCall:
    """A thread that everybody in the channel sees."""
    about = {"name": title[:THREAD_NAME_CHARS] or "thread", "type": PUBLIC_THREAD, "auto_archive_duration": 1_440}
    return DiscordCall(method="POST", path=f"channels/{channel}/threads", body=about)


def decode_receipt(answer: Any, about: str | None = None) -> Receipt:
    name = answer.get("id") if isinstance(answer, Mapping) else None
    return Receipt(id=name if isinstance(name, str) else about or "")


def failure(status: int, answer: Any, after: str = "") -> OpenClawError:
    """What Discord means when it does not do something; `after` is its header with the seconds to wait."""
    found = answer if isinstance(answer, Mapping) else {}
    why = f"Discord: {found.get('message') or f'HTTP {status}'}"
    if status == 429:
        wait = found.get("retry_after", after)
        try:
            return TryLater(why, after=max(0.0, float(wait)))
        except (TypeError, ValueError):
            return TryLater(why, after=5.0)
    if status == 401:
        return AccountClosed(FATAL_CLOSES[4004])
    if status >= 500:
        return TryLater(why)
    details = f" {msgspec.json.encode(found['errors']).decode()[:300]}" if "errors" in found else ""
    return DiscordRefused(why + details, int(found["code"]) if isinstance(found.get("code"), int) else 0)


class DiscordRefused(MessageRefused):
    """A refusal with Discord's own number."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number

    @property
    def is_gone(self) -> bool:
        """What the request is about is not there any more."""
        return self.number in (_UNKNOWN_MESSAGE, _UNKNOWN_CHANNEL, _UNKNOWN_INTERACTION)
