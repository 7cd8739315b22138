"""Lines of IRC as our events, and our messages as lines. Pure.

Anybody can take a nick that is free. A sender is therefore known by the account the server vouches for, or else by
the whole `nick!user@host`.
"""

import base64
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from openclaw.channels.rich import RichText, parse_markdown
from openclaw.core.channel import AccountClosed, ChannelFacts, Inbound, MessageRefused, TryLater
from openclaw.core.errors import InvalidRequest, OpenClawError

NAME = "irc"
LINE_BYTES = 512
"""A whole line as people receive it, with who said it in front and the line's end."""
FACTS = ChannelFacts(limit=350, unit="bytes", overall=1.0)
WORST_HOST = 63
SPLIT_BYTES = 380
"""Clients cut a longer text: the rest may follow."""
CHANNELS = "#&+!"
TAG_BYTES = 8192
_TARGET = re.compile(r"[^\s,:\x00-\x20][^\s,\x00-\x1f]{0,199}\Z")
_COLOURS = re.compile(r"\x03(?:\d{1,2}(?:,\d{1,2})?)?|\x04(?:[0-9A-Fa-f]{6})?|[\x02\x0f\x11\x16\x1d\x1e\x1f]")
_CONTROL = re.compile(r"[\x00-\x01\x05-\x0e\x10\x12-\x15\x17-\x1c\x7f]")
_TAG_ESCAPES = {":": ";", "s": " ", "r": "\r", "n": "\n", "\\": "\\"}
_MARKS = {"bold": "\x02", "italic": "\x1d", "strike": "\x1e", "code": "\x11"}
REFUSALS = ("401", "403", "404", "405", "407", "411", "412", "413", "414", "477", "486", "489", "531")
"""Numbers by which a server says that a message goes nowhere."""
WAITS = ("263", "439")
FATAL = {
    "432": "the server does not allow this nick: set channels.irc.nick to another",
    "464": "the server does not accept the password: set channels.irc.serverPassword",
    "465": "the server has banned us",
    "902": "the account is locked",
    "904": "the server does not accept the password of the account: set channels.irc.password",
    "905": "the server does not accept the password of the account: set channels.irc.password",
}
NICK_TAKEN = ("433", "436", "437")


class IrcLine(Struct, frozen=True, kw_only=True):
    """One line."""

    command: str
    params: tuple[str, ...] = ()
    source: str = ""
    """Who says it: a server, or nick!user@host."""
    tags: Mapping[str, str] = {}

    @property
    def nick(self) -> str:
        return self.source.partition("!")[0]

    @property
    def last(self) -> str:
        return self.params[-1] if self.params else ""


def decode(raw: bytes) -> IrcLine:
    """A line; raises `InvalidRequest`."""
    text = raw.decode(errors="replace").rstrip("\r\n")
    tags: dict[str, str] = {}
    if text.startswith("@"):
        words, _, text = text[1:].partition(" ")
        for word in words.split(";"):
            name, _, value = word.partition("=")
            tags[name] = re.sub(r"\\(.?)", _unescaped, value)
    source = ""
    text = text.lstrip(" ")
    if text.startswith(":"):
        source, _, text = text[1:].partition(" ")
    text, colon, trailing = f" {text}".partition(" :")
    words_of = text.split(" ")
    parts = [word for word in words_of if word]
    if not parts or not re.fullmatch(r"[A-Za-z]+|\d{3}", parts[0]):
        raise InvalidRequest(f"not a line of IRC: {raw[:80]!r}")
    params = (*parts[1:], *([trailing] if colon else []))
    return IrcLine(command=parts[0].upper(), params=params, source=source, tags=tags)


def _unescaped(found: "re.Match[str]") -> str:
    return _TAG_ESCAPES.get(found[1], found[1])


def fold(name: str) -> str:
    """A nick or a channel as IRC compares them."""
    return name.lower().translate(str.maketrans("[]\\~", "{}|^"))


# Hearing.


def decode_message(line: IrcLine, me: str, name: str, account: str, now: int) -> Inbound | None:
    """What somebody said, under the name `name` unless the server gives one; None for notices and our own words."""
    if line.command != "PRIVMSG" or len(line.params) < 2 or "!" not in line.source or fold(line.nick) == fold(me):
        return None
    target, said = line.params[0], line.params[1]
    if said.startswith("\x01"):
        if not said.upper().startswith("\x01ACTION "):
            return None  # a question between programs
        said = f"* {line.nick} {said[8:]}"
    text = _CONTROL.sub("", _COLOURS.sub("", said)).strip()
    group = fold(target) if target[:1] in CHANNELS else None
    addressed = re.match(rf"{re.escape(me)}\s*[:,]\s*", text, re.IGNORECASE)
    mentioned = re.search(rf"(?<![\w-]){re.escape(me)}(?![\w-])", text, re.IGNORECASE) is not None
    return Inbound(
        id=line.tags.get("msgid") or name,
        channel=NAME,
        account=account,
        sender=line.tags.get("account") or line.source.lower(),
        sender_name=line.nick,
        sender_username=line.nick,
        text=text[addressed.end() :] if addressed else text,
        group=group,
        group_name=target if group else None,
        chat=None if group else line.nick,
        mentioned=mentioned,
        timestamp=now,
        split=len(said.encode()) >= SPLIT_BYTES,
    )


# Speaking.


def check_target(text: str) -> str:
    """A channel or a nick that may stand in a line; of nick!user@host the nick."""
    nick = text.partition("!")[0] if text[:1] not in CHANNELS else text
    if not _TARGET.match(nick):
        raise MessageRefused(f"{text!r} is no nick and no channel of IRC")
    return nick


def room_for(nick: str, user: str, host: str, target: str) -> int:
    """The bytes of text that fit into one line to `target`, as people receive it."""
    front = f":{nick}!{user}@{host or 'h' * WORST_HOST} PRIVMSG {target} :"
    return max(64, LINE_BYTES - 2 - len(front.encode()))


def encode_text(markdown: str, room: int) -> list[str]:
    """The lines that a text becomes, none with more than `room` bytes."""
    styled = _styled(parse_markdown(markdown))
    return [piece for line in styled.split("\n") if line.strip() for piece in cut_bytes(_clean(line), room)]


def length(markdown: str) -> int:
    return len(_styled(parse_markdown(markdown)).encode(errors="replace"))


def _clean(line: str) -> str:
    """Nothing that would end a line or begin another command."""
    return re.sub(r"[\x00\x01\r\n]", "", line.encode(errors="replace").decode()).rstrip()


def cut_bytes(text: str, room: int) -> Iterator[str]:
    """Pieces of at most `room` bytes: between words where there are any, never inside a character."""
    raw = text.encode()
    while len(raw) > room:
        cut = raw.rfind(b" ", room // 2, room + 1)
        if cut < 0:
            cut = room
            while cut > 1 and (raw[cut] & 0xC0) == 0x80:
                cut -= 1
        yield raw[:cut].decode(errors="replace")
        raw = raw[cut:].lstrip(b" ")
    if raw:
        yield raw.decode(errors="replace")


def _styled(rich: RichText) -> str:
    text = rich.text
    marks: dict[int, str] = {}
    for span in rich.spans:
        if span.style == "link" and span.extra and span.extra.removeprefix("mailto:") != text[span.start : span.end]:
            marks[span.end] = marks.get(span.end, "") + f" ({span.extra})"
        mark = _MARKS.get(span.style, "")
        if not mark:
            continue
        at = span.start
        for line in text[span.start : span.end].split("\n"):  # a style ends with its line
            if line.strip():
                marks[at] = marks.get(at, "") + mark
                marks[at + len(line)] = mark + marks.get(at + len(line), "")
            at += len(line) + 1
    return "".join(marks.get(place, "") + text[place : place + 1] for place in range(len(text) + 1))


def sasl_lines(user: str, password: str) -> list[str]:
    """The answer of SASL PLAIN, in pieces of 400 characters."""
    answer = base64.b64encode(f"{user}\0{user}\0{password}".encode()).decode()
    pieces = [answer[start : start + 400] for start in range(0, len(answer), 400)]
    return [f"AUTHENTICATE {piece}" for piece in (*pieces, *(["+"] if len(pieces[-1]) == 400 else []))]


def ended(line: IrcLine, server: str) -> OpenClawError:
    """Why a server ends the connection; a wrong password or a ban does not get better by itself."""
    why = f"{server} closes the connection: {line.last[:200]}"
    if re.search(r"(?i)password|access denied|\b[kgz]-?lined?\b|banned", line.last):
        return AccountClosed(f"{why} (channels.irc.serverPassword is the password of the server)")
    return TryLater(why)


def failure(line: IrcLine, target: str) -> OpenClawError | None:
    """What a server means that does not deliver a message to `target`; None when the line says nothing of the kind."""
    why = f"IRC: {' '.join(line.params[1:])} ({line.command})"[:300]
    if line.command in WAITS:
        found = re.search(r"(\d{1,5})\s*sec", line.last)
        return TryLater(why, after=float(found[1]) if found else None)
    about = fold(line.params[1]) if len(line.params) > 1 else ""
    return MessageRefused(why) if line.command in REFUSALS and target and about == fold(target) else None
