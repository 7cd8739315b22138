"""The words of Slack's events and Web API: payloads become events, messages become calls. Pure."""

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct, field, structs

from openclaw.channels.slack.emoji import from_name, to_name
from openclaw.channels.slack.mrkdwn import encode_text as encode_text
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

NAME = "slack"
MOST_CHARS = 4_000
FACTS = ChannelFacts(
    limit=MOST_CHARS,
    unit="chars",
    caption=3_000,
    media_bytes=20_000_000,
    typing_every=30.0,
    per_chat=1.0,
    overall=0.1,
    actions=("send", "edit", "react", "delete"),
    edit_every=1.3,
    buttons=True,
    threads=True,
    follows_threads=True,
)
SECTION_CHARS = 3_000
LABEL_CHARS, DATA_CHARS = 75, 2_000
SKEW_SECONDS = 300
"""How old a call may be: an older one may have been recorded and sent again by somebody."""
SAID = ("", "file_share", "thread_broadcast", "me_message")
"""The subtypes of messages that people write."""
TYPES = "public_channel,private_channel,mpim,im"
DEAD = ("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type")
LATER = ("ratelimited", "rate_limited", "internal_error", "fatal_error", "request_timeout", "service_unavailable")
DONE = ("message_not_found", "already_reacted", "no_reaction", "cant_delete_message", "not_reactable")
_ID = re.compile(r"[CGDUW][A-Z0-9]{2,20}\Z")
_TS = re.compile(r"[0-9]{1,12}\.[0-9]{1,9}\Z")
_COMMAND = re.compile(r"/([A-Za-z0-9_-]{1,32})\Z")
_SPECIAL = re.compile(r"<([^<>]*)>")
_PERSON = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^>]*)?>")


class SlackFile(Struct, frozen=True):
    id: str = ""
    name: str | None = None
    mimetype: str = ""
    size: int = 0
    subtype: str = ""
    url_private: str = ""
    url_private_download: str = ""


class _Edited(Struct, frozen=True):
    ts: str = ""


class SlackMessage(Struct, frozen=True):
    """A message as an event or the history tells it; of a change it is around the changed one."""

    ts: str = ""
    channel: str = ""
    user: str = ""
    text: str = ""
    subtype: str = ""
    bot_id: str = ""
    thread_ts: str = ""
    parent_user_id: str = ""
    latest_reply: str = ""
    files: tuple[SlackFile, ...] = ()
    edited: _Edited | None = None
    message: "SlackMessage | None" = None

    @property
    def thread(self) -> str | None:
        """The thread it is in; the message that began one is not."""
        return self.thread_ts if self.thread_ts and self.thread_ts != self.ts else None


class _Item(Struct, frozen=True):
    type: str = ""
    channel: str = ""
    ts: str = ""


class SlackReaction(Struct, frozen=True):
    user: str = ""
    reaction: str = ""
    item: _Item = _Item()
    item_user: str = ""
    event_ts: str = ""


class SlackCallback(Struct, frozen=True):
    """What the Events API wraps an event in."""

    type: str = ""
    event: Mapping[str, Any] = {}
    team_id: str = ""
    challenge: str = ""


class _Named(Struct, frozen=True):
    id: str = ""
    name: str = ""
    username: str = ""


class _Pressed(Struct, frozen=True):
    value: str = ""
    action_ts: str = ""
    type: str = ""


class _Container(Struct, frozen=True):
    message_ts: str = ""
    thread_ts: str = ""
    channel_id: str = ""


class SlackInteraction(Struct, frozen=True):
    """A button that was pressed."""

    type: str = ""
    user: _Named = _Named()
    team: _Named | None = None
    channel: _Named | None = None
    container: _Container = _Container()
    actions: tuple[_Pressed, ...] = ()


class SlackSlash(Struct, frozen=True):
    """A command chosen from Slack's menu."""

    command: str = ""
    text: str = ""
    user_id: str = ""
    user_name: str = ""
    channel_id: str = ""
    team_id: str = ""
    trigger_id: str = ""


class SlackEnvelope(Struct, frozen=True):
    """One frame of Socket Mode."""

    type: str
    envelope_id: str = ""
    payload: Any = None
    reason: str = ""
    accepts_response_payload: bool = False


class SlackIdentity(Struct, frozen=True):
    """Who we are, as auth.test says."""

    user_id: str
    user: str = ""
    team_id: str = ""
    bot_id: str = ""


class SlackConversation(Struct, frozen=True):
    id: str
    name: str = ""
    user: str = ""
    is_im: bool = False


class SlackCall(Struct, frozen=True, kw_only=True):
    """One call of the Web API; values that are no text are sent as JSON."""

    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""


def decode(value: Any, kind: type[T]) -> T:
    """A value of the wire as one of ours; raises `InvalidRequest`."""
    try:
        return msgspec.convert(_without_none(value), kind, strict=False)
    except (msgspec.ValidationError, RecursionError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"Slack sent something unreadable: {error}") from error


def _without_none(value: Any) -> Any:
    """Slack writes null where it has nothing to say."""
    if isinstance(value, Mapping):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value


def decode_json(data: str | bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidRequest(f"Slack sent something that is no JSON: {error}") from error


def decode_envelope(data: str | bytes) -> SlackEnvelope:
    return decode(decode_json(data), SlackEnvelope)


def decode_call(kind: str, body: bytes) -> SlackEnvelope:
    """A call over HTTP, as Socket Mode would have delivered it."""
    if not kind.startswith("application/x-www-form-urlencoded"):
        return SlackEnvelope(type="events_api", payload=decode_json(body))
    try:
        fields = {name: values[0] for name, values in parse_qs(body.decode(), max_num_fields=100).items()}
    except (UnicodeError, ValueError) as error:
        raise InvalidRequest(f"Slack sent a form that is none: {error}") from error
    if "payload" in fields:
        return SlackEnvelope(type="interactive", payload=decode_json(fields["payload"]))
    return SlackEnvelope(type="slash_commands", payload=fields)


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Whether Slack made this call, within the last minutes."""
    sent = headers.get("x-slack-request-timestamp", "")
    if not re.fullmatch(r"[0-9]{1,12}", sent) or abs(now - int(sent)) > SKEW_SECONDS:
        return False
    made = hmac.new(secret.encode(), b"v0:%s:%s" % (sent.encode(), body), hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"v0={made}".encode(), headers.get("x-slack-signature", "").encode())


# Hearing.


def team_of(envelope: SlackEnvelope) -> str:
    """The workspace that a payload is about; empty when it does not say."""
    match envelope.type:
        case "events_api":
            return decode(envelope.payload, SlackCallback).team_id
        case "slash_commands":
            return decode(envelope.payload, SlackSlash).team_id
        case _:
            team = decode(envelope.payload, SlackInteraction).team
            return team.id if team else ""


def people_in(message: SlackMessage) -> set[str]:
    """Whose names are needed to read a message."""
    inner = message.message or message
    return {*_PERSON.findall(inner.text), *([inner.user] if inner.user else [])}


def decode_message(
    said: SlackMessage, me: SlackIdentity, account: str, names: Mapping[str, str], *, threads: bool = False
) -> Inbound | None:
    """What somebody wrote; None for our own words, those of programs, and what Slack says itself.

    With `threads` a message to all in a channel begins a thread, in which it is answered.
    """
    if said.subtype == "message_changed" and said.message is not None:
        inner = structs.replace(said.message, channel=said.channel)
        found = decode_message(inner, me, account, names, threads=threads) if inner.edited else None
        if found is None or inner.edited is None:
            return None
        return structs.replace(found, id=f"{inner.ts}:{inner.edited.ts}", kind="edit", about=inner.ts)
    if not said.user or said.user == me.user_id or said.bot_id or said.subtype not in SAID or not said.channel:
        return None
    if not _TS.match(said.ts):
        raise InvalidRequest("Slack sent a message without its time")
    direct = is_direct(said.channel)
    return Inbound(
        id=said.ts,
        channel=NAME,
        account=account,
        sender=said.user,
        sender_name=names.get(said.user),
        text=readable(said.text, me.user_id, names),
        group=None if direct else said.channel,
        space=None if direct else me.team_id or None,
        thread=said.thread or (said.ts if threads and not direct else None),
        mentioned=f"<@{me.user_id}" in said.text or said.parent_user_id == me.user_id,
        timestamp=time_of(said.ts),
        files=tuple(_file(each) for each in said.files),
    )


def decode_quote(said: SlackMessage, me: SlackIdentity, names: Mapping[str, str]) -> Quote:
    """The message that a thread is about."""
    return Quote(
        id=said.ts,
        text=readable(said.text, me.user_id, names),
        sender=said.user,
        sender_name=names.get(said.user, ""),
        ours=said.user == me.user_id,
    )


def decode_reaction(reaction: SlackReaction, me: SlackIdentity, account: str, *, removed: bool) -> Inbound | None:
    item = reaction.item
    if not reaction.user or reaction.user == me.user_id or item.type != "message" or not item.channel:
        return None
    direct = is_direct(item.channel)
    return Inbound(
        id=f"{item.ts}:{reaction.user}:{'-' if removed else '+'}{reaction.reaction}:{reaction.event_ts}",
        channel=NAME,
        account=account,
        sender=reaction.user,
        text="",
        kind="reaction",
        about=item.ts,
        emoji="" if removed else from_name(reaction.reaction),
        group=None if direct else item.channel,
        space=None if direct else me.team_id or None,
        mentioned=reaction.item_user == me.user_id,
        timestamp=time_of(reaction.event_ts),
    )


def decode_press(pressed: SlackInteraction, account: str) -> Inbound | None:
    """A press of one of our buttons; its answer goes to the one who pressed, where it was pressed."""
    if pressed.type != "block_actions" or not pressed.actions or not pressed.user.id:
        return None
    action, at = pressed.actions[0], pressed.container
    channel = at.channel_id or (pressed.channel.id if pressed.channel else "")
    if action.type != "button" or not channel:
        return None
    direct = is_direct(channel)
    return Inbound(
        id=f"press:{action.action_ts}:{pressed.user.id}",
        channel=NAME,
        account=account,
        sender=pressed.user.id,
        sender_name=pressed.user.name or pressed.user.username or None,
        sender_username=pressed.user.username or None,
        text="",
        kind="press",
        about=at.message_ts or None,
        button=action.value,
        press=f"{channel}:{at.thread_ts}",
        group=None if direct else channel,
        space=(pressed.team.id or None) if pressed.team and not direct else None,
        thread=at.thread_ts if at.thread_ts and at.thread_ts != at.message_ts else None,
        mentioned=True,
        timestamp=time_of(action.action_ts),
    )


def decode_slash(asked: SlackSlash, account: str, ours: str, known: Iterable[str]) -> Inbound | None:
    """A command of Slack's menu as the words it stands for.

    Behind `ours` anything can be written; the name of one of our `known` commands does not need its slash there.
    /agentstatus is our /status, whose name Slack keeps for itself.
    """
    name = _COMMAND.match(asked.command)
    if name is None or not asked.user_id or not asked.channel_id or not asked.trigger_id:
        return None
    words = asked.text.strip()
    if name[1] == ours:
        bare = words.partition(" ")[0].lower()
        text = f"/{words}" if bare in known else words or "/help"
    else:
        text = f"/{'status' if name[1] == 'agentstatus' else name[1]} {words}".strip()
    direct = is_direct(asked.channel_id)
    return Inbound(
        id=asked.trigger_id,
        channel=NAME,
        account=account,
        sender=asked.user_id,
        sender_name=asked.user_name or None,
        sender_username=asked.user_name or None,
        text=text,
        group=None if direct else asked.channel_id,
        space=None if direct else asked.team_id or None,
        mentioned=True,
    )


def readable(text: str, me: str, names: Mapping[str, str]) -> str:
    """The text with names instead of ids, links as they are read, and without our own name at its beginning."""

    def written(found: re.Match[str]) -> str:
        target, _, label = found[1].partition("|")
        if target.startswith("@"):
            return f"@{names.get(target[1:]) or label or target[1:]}"
        if target.startswith("#"):
            return f"#{label or target[1:]}"
        if target.startswith("!"):
            return label or f"@{target[1:].partition('^')[0]}"
        return f"{label} ({target})" if label and label != target.removeprefix("mailto:") else label or target

    text = re.sub(rf"\A\s*<@{re.escape(me)}(\|[^>]*)?>[,:]?\s*", "", text)
    text = _SPECIAL.sub(written, text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def is_direct(channel: str) -> bool:
    """Whether a channel is the conversation with one person."""
    return channel.startswith("D")


def time_of(ts: str) -> int:
    """The milliseconds since 1970 that an id of a message says."""
    return int(ts.partition(".")[0]) * 1000 + int(ts.partition(".")[2][:3].ljust(3, "0")) if _TS.match(ts) else 0


def newest(*times: str) -> str:
    return max((each for each in times if _TS.match(each)), key=_order, default="")


def before(ts: str, seconds: int) -> str:
    """The time so many seconds earlier."""
    whole, _, rest = ts.partition(".")
    return f"{max(0, int(whole) - seconds)}.{rest}" if _TS.match(ts) else "0.0"


def in_order(messages: Iterable[SlackMessage]) -> list[SlackMessage]:
    return sorted((each for each in messages if _TS.match(each.ts)), key=_at)


def _at(message: SlackMessage) -> tuple[int, str]:
    return _order(message.ts)


def _order(ts: str) -> tuple[int, str]:
    return int(ts.partition(".")[0]), ts.partition(".")[2]


def _file(found: SlackFile) -> InboundFile:
    kinds: dict[str, FileKind] = {"image": "image", "audio": "audio", "video": "video"}
    kind = "voice" if found.subtype == "slack_audio" else kinds.get(found.mimetype.partition("/")[0], "document")
    return InboundFile(
        kind=kind,
        name=(found.name or "")[:255],
        ref=found.url_private_download or found.url_private or f"file:{found.id}",
        mime=found.mimetype.partition(";")[0][:255],
        size=max(found.size, 0),
    )


# Speaking.


def encode_message(message: Outbound, channel: str, *, unfurl: bool) -> SlackCall:
    """The call that a message, an edit or a deletion needs."""
    about = message.about or ""
    if message.action == "delete":
        return SlackCall(method="chat.delete", params={"channel": channel, "ts": check_ts(about)})
    text = encode_text(message.text)
    params: dict[str, Any] = {"channel": channel, "text": text}
    if message.action == "edit":
        # Without blocks an edit would leave the buttons.
        blocks = encode_blocks(text, message.buttons) if message.buttons else []
        return SlackCall(method="chat.update", params={**params, "ts": check_ts(about), "blocks": blocks})
    if message.to.thread:
        params["thread_ts"] = check_ts(message.to.thread)
    if message.media:
        return SlackCall(method="files.completeUploadExternal", params=params, file=message.media[0])
    if message.buttons:
        params["blocks"] = encode_blocks(text, message.buttons)
    return SlackCall(method="chat.postMessage", params={**params, "unfurl_links": unfurl, "unfurl_media": unfurl})


def encode_upload(call: SlackCall, file: str, title: str) -> SlackCall:
    """Shows a file that was uploaded in the conversation that `call` is meant for."""
    params: dict[str, Any] = {"files": [{"id": file, "title": title}], "channel_id": call.params["channel"]}
    if "thread_ts" in call.params:
        params["thread_ts"] = call.params["thread_ts"]
    if call.params["text"]:
        params["initial_comment"] = call.params["text"]
    return SlackCall(method=call.method, params=params)


def encode_blocks(text: str, rows: Sequence[Sequence[Button]]) -> list[dict[str, Any]]:
    """A message with buttons: sections of text, and a row of buttons each."""
    pieces = [text[at : at + SECTION_CHARS] for at in range(0, len(text), SECTION_CHARS)]
    found: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": piece}} for piece in pieces if piece.strip()
    ]
    for at, row in enumerate(rows[:10]):
        for button in row:
            if not button.data or len(button.data) > DATA_CHARS:
                raise MessageRefused(f"a button needs data of at most {DATA_CHARS} characters, the most on Slack")
        buttons = [
            {
                "type": "button",
                "action_id": f"b{at}.{place}",
                "text": {"type": "plain_text", "text": each.label[:LABEL_CHARS] or "·"},
                "value": each.data,
            }
            for place, each in enumerate(row[:25])
        ]
        if buttons:
            found.append({"type": "actions", "elements": buttons})
    return found


def encode_params(params: Mapping[str, Any]) -> dict[str, str]:
    """The parameters as a form, which every method takes."""
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode() for name, value in params.items()
    }


def encode_emoji(emoji: str) -> str:
    if not (name := to_name(emoji)):
        raise MessageRefused(f"{emoji!r} has no name on Slack: use another emoji, or its name such as :tada:")
    return name


def check_id(text: str) -> str:
    if not _ID.match(text):
        raise MessageRefused(f"{text[:60]!r} is nobody on Slack: give channel:ID, user:ID or an id such as C0123ABCD")
    return text


def check_ts(text: str) -> str:
    if not _TS.match(text):
        raise MessageRefused(
            f"{text[:60]!r} is no message of Slack: it is named by its time, such as 1700000000.000100"
        )
    return text


def decode_receipt(answer: Mapping[str, Any], about: str | None = None) -> Receipt:
    ts = answer.get("ts")
    return Receipt(id=ts, timestamp=time_of(ts)) if isinstance(ts, str) else Receipt(id=about or "")


def next_page(answer: Mapping[str, Any]) -> str:
    """Where the next page of a list begins; empty at its end."""
    about = answer.get("response_metadata")
    return str(about.get("next_cursor") or "") if isinstance(about, Mapping) else ""


def failure(method: str, status: int, answer: Any, after: str = "") -> OpenClawError:
    """What Slack means when it does not do something; `after` is its header with the seconds to wait."""
    found = answer if isinstance(answer, Mapping) else {}
    error = str(found.get("error") or f"HTTP {status}")[:100]
    why = f"Slack answers {method} with {error}"
    if status == 429 or error in ("ratelimited", "rate_limited"):
        return TryLater(why, after=float(after) if re.fullmatch(r"[0-9]{1,6}", after) else 30.0)
    if status >= 500 or error in LATER:
        return TryLater(why)
    if error in DEAD or status in (401, 403):
        key = "appToken" if method == "apps.connections.open" else "botToken"
        return AccountClosed(f"{why}: set channels.slack.{key} to the one on the app's page at api.slack.com/apps")
    if error == "missing_scope":
        scope = str(found.get("needed"))[:100]
        why += f": add the scope {scope} on the app's page OAuth & Permissions, and install it again"
    elif error in ("not_in_channel", "channel_not_found"):
        why += ": invite the app to the channel with /invite"
    return SlackRefused(why, error)


class SlackRefused(MessageRefused):
    """A refusal with Slack's own word for it."""

    def __init__(self, message: str, error: str) -> None:
        super().__init__(message)
        self.error = error

    @property
    def is_done(self) -> bool:
        """There is nothing left to do."""
        return self.error in DONE
