"""A mailbox: waits for mail over IMAP, answers over SMTP.

The folder is only read: nothing in it is marked, moved or deleted. One `run` is one connection.
"""

import asyncio
import logging
import smtplib
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable

import msgspec
from msgspec import structs

from openclaw.channels.accounts import AccountConfig, ChannelContext
from openclaw.channels.email import wire
from openclaw.channels.email.imap import Imap, ImapFolder, open_imap, tls_context
from openclaw.channels.email.settings import EmailSettings
from openclaw.channels.email.wire import Mail, MailCursor
from openclaw.channels.media.outbound import read_file
from openclaw.core.channel import (
    AccountClosed,
    AccountProbe,
    ChannelFacts,
    Inbound,
    InboundFile,
    MessageRefused,
    Outbound,
    Receipt,
    TakesEvents,
    TryLater,
    Unsure,
)
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest
from openclaw.core.secret import Secret

log = logging.getLogger("openclaw.channels")

IDLE_SECONDS = 540.0
"""A server may end a wait after half an hour, and a router forgets a silent connection sooner."""
SMTP_SECONDS = 60.0
RECENT_SECONDS = 2 * 86_400.0
"""When a server has numbered its mails anew, those of the last two days are looked at; known ones are passed over."""
PIECE = 750_000
HEAD_BYTES = 200_000
"""So much is read of a mail that is too large."""
MOST_FAILURES = 3
HOUR, MOST_AN_HOUR = 3600.0, 30
"""So many mails of one sender are heard in an hour: two programs that answer each other go on for ever."""


class Email:
    """One mailbox."""

    name = wire.NAME

    def __init__(self, password: Secret, clock: Clock, *, account: str = "default", settings: EmailSettings) -> None:
        self.account = account
        self._password = password
        self._clock = clock
        self._settings = settings
        self._address = (settings.address or "").lower()
        self._user = settings.user or settings.address or ""
        self._at = MailCursor()
        self._heard: dict[str, deque[float]] = {}
        self._failed = self._failures = 0
        """The mail that the server does not hand out, and how often it was asked for."""
        self.facts: ChannelFacts = structs.replace(wire.FACTS, media_bytes=settings.media_max_mb * 1_000_000)

    # Hearing.

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        self._at = wire.decode_cursor(cursor) or MailCursor()
        async with open_imap(self._settings.reads_from, self._user, self._password.reveal()) as imap:
            folder = await imap.open(self._settings.mailbox)
            if self._at.validity != folder.validity:
                await self._begin(imap, folder, inbox, new=cursor is None)
            inbox.connected()
            while True:
                # The last mail is found by every search for what follows it.
                for uid in await imap.search(f"UID {self._at.uid + 1}:*"):
                    if uid > self._at.uid:
                        await self._take(imap, uid, inbox)
                await imap.wait(IDLE_SECONDS if "IDLE" in imap.abilities else self._settings.poll_seconds)

    async def _begin(self, imap: Imap, folder: ImapFolder, inbox: TakesEvents, *, new: bool) -> None:
        """Mail that was there before us is not heard; after a new numbering that of the last days is."""
        recent = [] if new else await imap.search_since(self._clock.now() - RECENT_SECONDS)
        before = recent[0] - 1 if recent else folder.next_uid - 1
        self._at = structs.replace(self._at, validity=folder.validity, uid=before)
        await inbox.take([], msgspec.json.encode(self._at).decode())

    async def _take(self, imap: Imap, uid: int, inbox: TakesEvents) -> None:
        event = None
        try:
            mail = await self._read(imap, uid)
        except InvalidRequest as error:
            self._failures = self._failures + 1 if uid == self._failed else 1
            self._failed = uid
            if self._failures < MOST_FAILURES:
                raise TryLater(f"a mail was not handed out: {error.message}") from error
            log.error(
                "channel %s: a mail is passed over: the server does not hand it out: %s", self.name, error.message
            )
            mail = None
        if mail is not None:
            event = self._judge(mail, uid)
        following = self._at.after(uid, mail if event is not None else None)
        await inbox.take([event] if event is not None else [], msgspec.json.encode(following).decode())
        self._at = following

    async def _read(self, imap: Imap, uid: int) -> Mail | None:
        size, most = await imap.size(uid), self.facts.media_bytes * 3 // 2 + 1_000_000
        if size is None:
            return None  # deleted meanwhile
        raw = await imap.fetch(uid, count=HEAD_BYTES if size > most else 0)
        if raw is None:
            return None
        try:
            mail = wire.decode_mail(raw, f"<{self._at.validity}.{uid}@{self._settings.domain}>")
        except InvalidRequest as error:
            log.warning("channel %s: a mail is passed over: %s", self.name, error.message)
            return None
        if size > most:
            note = f"[media unavailable: the mail has {size:,} bytes; its end and its attachments were not read]"
            return structs.replace(mail, text=f"{mail.text}\n\n{note}", files=())
        return mail

    def _judge(self, mail: Mail, uid: int) -> Inbound | None:
        """The event, unless the mail must not be answered or its sender cannot be believed; then the log says why."""
        why, verified = mail.automatic, wire.is_verified(mail, self._settings.authserv_ids)
        if mail.sender == self._address:
            why = "it is our own"
        elif not why and not verified and self._settings.sender_auth.min == "verified":
            seen = ", ".join(dict.fromkeys(name for name, _ in mail.verdicts)) or "no server"
            known = ", ".join(self._settings.authserv_ids)
            why = (
                f"{known} does not verify the sender"
                if known
                else f"nobody is known who verifies senders: name your mail server in senderAuth.trustedAuthservIds "
                f"(this mail was judged by {seen})"
            )
        elif not why and self._is_flood(mail.sender):
            why = f"{MOST_AN_HOUR} mails of this sender were heard within an hour"
        if why:
            log.warning("channel %s: a mail from %s was not heard: %s", self.name, mail.sender, why)
            return None
        event = wire.to_inbound(mail, self.account, verified=verified)
        place = f"{self._at.validity}/{uid}"
        return structs.replace(event, files=tuple(structs.replace(f, ref=f"{place}/{f.ref}") for f in event.files))

    def _is_flood(self, sender: str) -> bool:
        now = self._clock.now()
        times = self._heard.setdefault(sender, deque())
        while times and times[0] < now - HOUR:
            times.popleft()
        if len(times) >= MOST_AN_HOUR:
            return True
        times.append(now)
        return False

    async def fetch(self, file: InboundFile) -> AsyncIterator[bytes]:
        validity, uid, section, coding = file.ref.split("/")
        async with open_imap(self._settings.reads_from, self._user, self._password.reveal()) as imap:
            folder = await imap.open(self._settings.mailbox)
            if folder.validity != int(validity):
                raise MessageRefused("the mail server has numbered its mails anew")
            reader, start = wire.PartReader(coding), 0
            while True:
                piece = await imap.fetch(int(uid), section, start, PIECE)
                if piece is None:
                    raise MessageRefused("the mail is gone")
                start, last = start + len(piece), len(piece) < PIECE
                try:
                    yield reader.feed(piece, last=last)
                except InvalidRequest as error:
                    raise MessageRefused(error.message) from error
                if last:
                    return

    # Speaking.

    async def send(self, message: Outbound) -> Receipt:
        try:
            wire.parse_address(message.to.to)
        except InvalidRequest as error:
            raise MessageRefused(f"{message.to.to!r} is no address") from error
        note = self._at.notes.get(message.reply_to or "")
        files = [await asyncio.to_thread(read_file, path) for path in message.media]
        mail = wire.encode_mail(message, files, sender=self._address, note=note, now=self._clock.now())
        await asyncio.to_thread(self._deliver, message.to.to, mail.as_bytes())
        return Receipt(id=str(mail["Message-ID"]))

    def _deliver(self, to: str, content: bytes) -> None:
        """Hands a mail to the server. Only once its content has left, nobody knows what became of it."""
        smtp = self._sign_in()
        try:
            for command in (lambda: smtp.mail(self._address), lambda: smtp.rcpt(to)):
                _check(*_before_content(command))
            try:
                _check(*smtp.data(content))
            except smtplib.SMTPDataError as error:
                _check(error.smtp_code, error.smtp_error)
            except (OSError, smtplib.SMTPException) as error:
                raise Unsure(f"the mail server did not answer: {type(error).__name__}") from error
        finally:
            smtp.close()

    def _sign_in(self) -> smtplib.SMTP:
        server = self._settings.sends_with
        host = server.host.strip("[]")
        try:
            smtp: smtplib.SMTP
            if server.tls:
                smtp = smtplib.SMTP_SSL(host, server.port, timeout=SMTP_SECONDS, context=tls_context())
            else:
                smtp = smtplib.SMTP(host, server.port, timeout=SMTP_SECONDS)
        except ssl.SSLCertVerificationError as error:
            raise AccountClosed(f"the certificate of {host} is not good: {error.verify_message}") from error
        except (OSError, smtplib.SMTPException) as error:
            raise TryLater(f"{host}:{server.port} could not be reached: {type(error).__name__}") from error
        try:
            if not (server.tls or server.is_here):
                smtp.starttls(context=tls_context())
            smtp.ehlo_or_helo_if_needed()
            if smtp.has_extn("auth"):
                smtp.login(self._user, self._password.reveal())
            elif not server.is_here:
                raise AccountClosed(f"{host} takes no password; give the server for sending mail (smtp)")
        except smtplib.SMTPAuthenticationError as error:
            smtp.close()
            raise AccountClosed(
                f"{host} does not accept the password of {self._user}: {_words(error.smtp_error)}"
            ) from None
        except smtplib.SMTPNotSupportedError as error:
            smtp.close()
            raise AccountClosed(f"{host} offers no TLS, and the password is not sent without it") from error
        except (OSError, smtplib.SMTPException) as error:
            smtp.close()
            raise TryLater(f"{host} did not let us sign in: {type(error).__name__}") from error
        return smtp

    async def probe(self) -> AccountProbe:
        async with open_imap(self._settings.reads_from, self._user, self._password.reveal()) as imap:
            await imap.open(self._settings.mailbox)
        smtp = await asyncio.to_thread(self._sign_in)
        smtp.close()
        return AccountProbe(id=self._address, name=self._address)

    async def close(self) -> None: ...


def _before_content(command: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
    try:
        return command()
    except (OSError, smtplib.SMTPException) as error:
        raise TryLater(f"the mail server did not answer: {type(error).__name__}") from error


def _check(code: int, said: bytes | str) -> None:
    """Raises what a server means when it does not take a mail: now, or ever."""
    if code < 400:
        return
    why = f"the mail server says {code}: {_words(said)}"
    if code < 500:
        raise TryLater(why, after=wire.retry_after(_words(said)))
    raise MessageRefused(why)


def _words(said: bytes | str) -> str:
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return " ".join(text.split())[:300]


def build(config: AccountConfig, context: ChannelContext) -> Email:
    assert isinstance(config.settings, EmailSettings)
    return Email(config.credential, context.clock, account=config.account, settings=config.settings)
