"""Mails as our messages, and our messages as mails. Pure.

Whoever sends a mail writes its From: it is believed only where the mail server that received it says, in its own
`Authentication-Results`, that the domain of the From vouches for the mail. Answers to programs are never given.
"""

import base64
import binascii
import email.header
import email.utils
import hashlib
import quopri
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.message import EmailMessage, Message
from email.parser import BytesParser
from email.policy import SMTP, compat32

import msgspec
from msgspec import Struct, structs

from openclaw.channels.rich import render_html
from openclaw.core.channel import ChannelFacts, FileKind, Inbound, InboundFile, Outbound, Quote
from openclaw.core.errors import InvalidRequest
from openclaw.tools.web_readable import html_to_markdown

NAME = "email"
FACTS = ChannelFacts(
    limit=500_000, caption=500_000, media_bytes=20_000_000, files_together=20, idempotent=True, threads=True
)
OURS = "openclaw."
"""Our message ids begin with this."""
UNVERIFIED = "unverified:"
SUBJECT_CHARS = 200
MOST_PARTS = 200
MOST_REFERENCES = 20
MOST_NOTES = 200
"""So many of the last mails are kept in mind, for the subject and the thread of an answer."""
TEXT_CHARS = 100_000
_ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@([A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?)\Z")
_NAMED = re.compile(r'\A\s*(?:"((?:[^"\\]|\\.)*)"|([^<>"@,;()]*))\s*<([^<>]*)>\s*\Z')
_MESSAGE_ID = re.compile(r"<[^<>\s]{1,250}>")
_COMMENT = re.compile(r"\([^()]*\)")
_REPLY = re.compile(r"(?i)\A(?:(?:re|aw|sv|antw|fwd?|wg)\s*(?:\[\d+\])?:\s*)+")
_PROGRAMS = re.compile(r"(?i)\A(mailer-daemon|postmaster|(do-?)?not?-?reply|bounces?([+-].*)?|listserv|majordomo)@")


class MailNote(Struct, frozen=True, array_like=True):
    """What an answer to a mail needs to know of it."""

    subject: str
    references: str = ""


class MailCursor(Struct, frozen=True, kw_only=True):
    """Where to go on: the last mail that was read, and the last ones by their message ids."""

    validity: int = 0
    uid: int = 0
    notes: dict[str, MailNote] = {}

    def after(self, uid: int, found: "Mail | None" = None) -> "MailCursor":
        notes = dict(self.notes)
        if found is not None:
            notes[found.id] = MailNote(found.subject, " ".join(found.references))
        kept = dict(list(notes.items())[-MOST_NOTES:])
        return structs.replace(self, uid=max(uid, self.uid), notes=kept)


class Mail(Struct, frozen=True, kw_only=True):
    """One mail, as far as it matters to us."""

    id: str
    sender: str
    """The address of its From, in small letters."""
    sender_name: str = ""
    subject: str = ""
    text: str = ""
    files: tuple[InboundFile, ...] = ()
    references: tuple[str, ...] = ()
    """The ids of the mails before it, the oldest first."""
    timestamp: int = 0
    automatic: str = ""
    """Why it must not be answered, when a program wrote it."""
    verdicts: tuple[tuple[str, str], ...] = ()
    """The names of the servers that judged the sender, and their words, the last server first."""

    @property
    def domain(self) -> str:
        return self.sender.rpartition("@")[2]


def decode_cursor(text: str | None) -> MailCursor | None:
    try:
        return msgspec.json.decode(text or "", type=MailCursor)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


# Hearing.


def decode_mail(raw: bytes, name: str) -> Mail:
    """A mail; `name` stands for it where it has no id of its own. Raises `InvalidRequest`."""
    try:
        message = BytesParser(policy=compat32).parsebytes(raw)
        return _decode(message, name)
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError, AssertionError) as error:
        # The standard library's parser fails in many ways on what was made to break it.
        raise InvalidRequest(f"a mail that cannot be read: {error}") from error


def _decode(message: "Message[str, str]", name: str) -> Mail:
    senders = message.get_all("From") or []
    if len(senders) != 1:
        raise InvalidRequest(f"a mail with {len(senders)} headers From")
    sender_name, sender = parse_address(str(senders[0]))
    found = _MESSAGE_ID.search(_header(message, "Message-ID"))
    references = _MESSAGE_ID.findall(_header(message, "References"))
    answered = _MESSAGE_ID.findall(_header(message, "In-Reply-To"))[:1]
    chain = list(dict.fromkeys([*references, *answered]))
    text, files = _content(message)
    if answered and is_ours(answered[0]):
        text = without_quote(text)
    text = f"{text}\n".partition("\n-- \n")[0].rstrip("\n")  # behind it stands a signature
    date = email.utils.parsedate_tz(_header(message, "Date"))
    return Mail(
        id=found[0] if found else name,
        sender=sender,
        sender_name=sender_name,
        subject=_line(_header(message, "Subject"))[:SUBJECT_CHARS],
        text=text[:TEXT_CHARS],
        files=files,
        references=(*chain[:1], *chain[1:][-MOST_REFERENCES:]),
        timestamp=_time(date) if date else 0,
        automatic=_automatic(message, sender),
        verdicts=tuple(parse_verdict(str(each)) for each in message.get_all("Authentication-Results") or ()),
    )


def _time(date: tuple[int, int, int, int, int, int, int, int, int, int | None]) -> int:
    try:
        return max(0, int(email.utils.mktime_tz(date) * 1000))
    except OverflowError:
        return 0


def _header(message: "Message[str, str]", name: str) -> str:
    """A header as people read it; empty when there is none."""
    value = message.get(name)
    if value is None:
        return ""
    try:
        return str(email.header.make_header(email.header.decode_header(str(value))))
    except (ValueError, LookupError, binascii.Error):
        return str(value)


def _line(text: str) -> str:
    return " ".join(text.split())


def parse_address(header: str) -> tuple[str, str]:
    """The name and the address of a From with exactly one; raises `InvalidRequest` for anything odd.

    The address is looked for before anything is decoded: what is encoded can only be the name.
    """
    header = " ".join(header.split())
    named = _NAMED.match(header)
    address = (named[3] if named else header).strip()
    if not _ADDRESS.match(address) or ".." in address:
        raise InvalidRequest(f"a mail whose From is not one plain address: {header[:120]!r}")
    name = (named[1] or named[2] or "") if named else ""
    try:
        name = str(email.header.make_header(email.header.decode_header(name)))
    except (ValueError, LookupError, binascii.Error):
        name = ""
    return _line(name)[:SUBJECT_CHARS], address.lower()


def _automatic(message: "Message[str, str]", sender: str) -> str:
    """Why a mail is a program's, whose mails are never answered; empty when a person may have written it."""
    submitted = _header(message, "Auto-Submitted").partition(";")[0].strip().lower()
    if submitted and submitted != "no":
        return f"Auto-Submitted: {submitted[:40]}"
    precedence = _header(message, "Precedence").strip().lower()
    if precedence in ("bulk", "junk", "list", "auto_reply"):
        return f"Precedence: {precedence}"
    for name in message:
        low = name.lower()
        if low.startswith("list-") or low in ("x-autoreply", "x-autorespond", "x-auto-response-suppress", "x-loop"):
            return f"it has the header {name[:40]}"
    if (message.get("Return-Path") or "").strip() == "<>":
        return "it has no sender to return to"
    if message.get_content_type() in ("multipart/report", "message/delivery-status"):
        return "it is a report of a mail server"
    return f"it is from {sender}" if _PROGRAMS.match(sender) else ""


def parse_verdict(header: str) -> tuple[str, str]:
    """Who says something of the sender, and what, without remarks."""
    text, before = " ".join(header.split()), ""
    while text != before:  # remarks may be inside each other
        text, before = _COMMENT.sub(" ", text), text
    name, _, rest = text.partition(";")
    return (name.split() or [""])[0].strip('"').lower(), rest.strip().lower()


def is_verified(mail: Mail, trusted: Sequence[str]) -> bool:
    """Whether a server whose word counts says that the domain of the From vouches for the mail.

    Servers put their word on top: what stands below the first one of a trusted name may be the sender's own.
    """
    for server, words in mail.verdicts:
        if _trusts(server, trusted):
            return _vouches(words, mail.domain)
    return False


def _trusts(server: str, trusted: Sequence[str]) -> bool:
    return any(
        server.endswith(each[1:]) if each.startswith("*.") else server == each for each in map(str.lower, trusted)
    )


def _vouches(words: str, domain: str) -> bool:
    results: list[tuple[str, str, Mapping[str, str]]] = []
    for part in words.split(";"):
        pairs = [word.partition("=")[::2] for word in part.split() if "=" in word]
        if pairs:
            results.append((pairs[0][0], pairs[0][1], dict(pairs[1:])))
    dmarc = [(result, said.get("header.from", domain)) for method, result, said in results if method == "dmarc"]
    if dmarc and any(result not in ("none", "bestguesspass") for result, _ in dmarc):
        return all(result == "pass" and of == domain for result, of in dmarc)
    signers = [
        said.get("header.d") or said.get("header.i", "").rpartition("@")[2]
        for method, result, said in results
        if method == "dkim" and result == "pass"
    ]
    # A domain speaks for those below it, never for those above.
    return any("." in signer and (domain == signer or domain.endswith(f".{signer}")) for signer in signers)


def to_inbound(mail: Mail, account: str, *, verified: bool) -> Inbound:
    answered = mail.references[-1] if mail.references else ""
    text = mail.text
    # A command stands alone, and in an answer to us the subject is our own.
    if mail.subject and not text.startswith("/") and not (answered and is_ours(answered)):
        text = f"Subject: {mail.subject}\n\n{text}".strip()
    return Inbound(
        id=mail.id,
        channel=NAME,
        account=account,
        sender=mail.sender if verified else f"{UNVERIFIED}{mail.sender}",
        sender_name=mail.sender_name or None,
        chat=mail.sender,
        thread=mail.references[0] if mail.references else mail.id,
        text=text,
        timestamp=mail.timestamp,
        files=mail.files,
        quote=Quote(id=answered, ours=is_ours(answered)) if answered else None,
        forwarded=mail.subject.lower().startswith(("fwd:", "fw:", "wg:")),
    )


def is_ours(message_id: str) -> bool:
    return message_id.startswith(f"<{OURS}")


def without_quote(text: str) -> str:
    """A text without what it quotes at its end: of our own words there is a record."""
    lines = text.split("\n")
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith(">")):
        lines.pop()
    # Only behind a line that says who wrote it; somebody may quote to the end and mean it.
    if not lines or not lines[-1].rstrip().endswith(":"):
        return text
    return "\n".join(lines[:-1]).strip() or text


class _Part(Struct, frozen=True):
    section: str
    """What IMAP calls it."""
    kind: str
    name: str
    attached: bool
    message: "Message[str, str]"


def _parts(message: "Message[str, str]", section: str = "") -> Iterator[_Part]:
    content = message.get_payload()
    if message.get_content_maintype() == "multipart" and isinstance(content, list):
        for number, child in enumerate(content, 1):
            if isinstance(child, Message):
                yield from _parts(child, f"{section}.{number}" if section else str(number))
        return
    name = _line(_decoded_name(message))
    attached = message.get_content_disposition() == "attachment"
    yield _Part(section or "1", message.get_content_type(), name, attached, message)


def _decoded_name(message: "Message[str, str]") -> str:
    name = message.get_filename() or ""
    try:
        return str(email.header.make_header(email.header.decode_header(name)))
    except (ValueError, LookupError, binascii.Error):
        return name


def _content(message: "Message[str, str]") -> tuple[str, tuple[InboundFile, ...]]:
    plain: list[str] = []
    pages: list[str] = []
    files: list[InboundFile] = []
    for number, part in enumerate(_parts(message)):
        if number >= MOST_PARTS:
            break
        if part.kind == "text/plain" and not part.attached and not part.name:
            plain.append(_text(part.message))
        elif part.kind == "text/html" and not part.attached and not part.name:
            pages.append(_text(part.message))
        elif part.kind not in ("application/pgp-signature", "application/pkcs7-signature"):
            files.append(_file(part))
    text = "\n".join(plain).strip() or "\n".join(html_to_markdown(each) for each in pages).strip()
    return text.replace("\r\n", "\n"), tuple(files)


def _text(part: "Message[str, str]") -> str:
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes):
        return ""
    try:
        return content.decode(part.get_content_charset() or "utf-8", errors="replace")
    except LookupError:
        return content.decode("utf-8", errors="replace")


def _file(part: _Part) -> InboundFile:
    kinds: dict[str, FileKind] = {"image": "image", "audio": "audio", "video": "video"}
    coding = str(part.message.get("Content-Transfer-Encoding") or "").strip().lower()
    content = part.message.get_payload()
    size = len(content) if isinstance(content, str) else 0
    name = part.name or ("mail.eml" if part.kind == "message/rfc822" else "")
    return InboundFile(
        kind=kinds.get(part.kind.partition("/")[0], "document"),
        name=name[:255],
        ref=f"{part.section}/{coding if coding in ('base64', 'quoted-printable') else 'plain'}",
        mime=part.kind[:255],
        size=size * 3 // 4 if coding == "base64" else size,
    )


class PartReader:
    """Decodes a part of a mail piece by piece."""

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._rest = b""

    def feed(self, piece: bytes, *, last: bool = False) -> bytes:
        if self._coding == "plain":
            return piece
        piece = self._rest + piece
        if self._coding == "base64":
            piece = bytes(each for each in piece if chr(each).isalnum() or each in b"+/=")
            cut = len(piece) if last else len(piece) // 4 * 4
            whole, self._rest = piece[:cut], piece[cut:]
            try:
                return base64.b64decode(whole + b"=" * (-len(whole) % 4))
            except (ValueError, binascii.Error):
                raise InvalidRequest("the attachment is damaged") from None
        cut = len(piece) if last else piece.rfind(b"\n") + 1
        whole, self._rest = piece[:cut], piece[cut:]
        return quopri.decodestring(whole)


# Speaking.


def message_id(key: str, domain: str) -> str:
    """The id of a mail that goes out: sent again, it has the same one."""
    return f"<{OURS}{key}@{domain}>"


def encode_mail(
    message: Outbound,
    files: Iterable[tuple[str, str, bytes]],
    *,
    sender: str,
    note: MailNote | None,
    now: float,
) -> EmailMessage:
    """A mail; `files` are names, types and contents; `note` is about the mail that is answered."""
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = message.to.to
    mail["Subject"] = _subject(message, note)
    mail["Date"] = email.utils.formatdate(now)
    mail["Message-ID"] = message_id(message.key or _digest(message.text), sender.rpartition("@")[2])
    before = [
        each for each in (*(note.references.split() if note else ()), message.to.thread, message.reply_to) if each
    ]
    chain = [each for each in dict.fromkeys(before) if _MESSAGE_ID.fullmatch(each)]
    if chain:
        mail["In-Reply-To"] = chain[-1]
        mail["References"] = " ".join([*chain[:1], *chain[1:][-MOST_REFERENCES:]])
    # Programs that answer by themselves leave such mails alone.
    mail["Auto-Submitted"] = "auto-replied" if chain else "auto-generated"
    text = message.text.replace("\r\n", "\n")
    mail.set_content(text, cte="quoted-printable")
    mail.add_alternative(render_html(text), subtype="html", cte="quoted-printable")
    for name, mime, content in files:
        kind, _, rest = mime.partition("/")
        mail.add_attachment(content, maintype=kind, subtype=rest, filename=_line(name))
    return mail


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]


def _subject(message: Outbound, note: MailNote | None) -> str:
    if note is not None:
        return _printable(f"Re: {_REPLY.sub('', note.subject) or 'your mail'}")
    first = next((line for line in message.text.splitlines() if line.strip()), "")
    line = _line(re.sub(r"[*_`#>|]", "", first))
    if message.reply_to:
        return "Re: your mail"
    return _printable(f"{line[:77]}…" if len(line) > 78 else line) or "A message"


def _printable(text: str) -> str:
    return "".join(char for char in _line(text) if char.isprintable())[:SUBJECT_CHARS]


def retry_after(text: str) -> float | None:
    """The seconds that a mail server asks to wait, when it says so in words: try again in 300 seconds."""
    found = re.search(r"(?i)\b(\d{1,5})\s*(s|sec|second|m|min|minute)s?\b", text)
    if found is None:
        return None
    return float(found[1]) * (60 if found[2].lower().startswith("m") else 1)
