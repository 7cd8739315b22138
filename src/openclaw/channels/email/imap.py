"""A connection to a mailbox: the few commands of IMAP4rev1 that reading needs, and IDLE."""

import asyncio
import base64
import contextlib
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache

from msgspec import Struct

from openclaw.channels.email.settings import MailServer
from openclaw.core.channel import AccountClosed, TryLater
from openclaw.core.errors import InvalidRequest

ANSWER_SECONDS = 60.0
LINE_BYTES = 1_000_000
LITERAL_BYTES = 64_000_000
_LITERAL = re.compile(rb"\{(\d{1,10})\+?\}\r\n\Z")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class ImapResponse(Struct, frozen=True):
    """One response of the server: its words, and the literals that stood between them."""

    text: str
    literals: tuple[bytes, ...] = ()

    def number(self, name: str) -> int | None:
        """The number behind a name, such as of UID or UIDVALIDITY."""
        found = re.search(rf"\b{re.escape(name)} (\d{{1,10}})\b", self.text, re.IGNORECASE)
        return int(found[1]) if found else None


class ImapFolder(Struct, frozen=True):
    """A folder as it was when it was opened."""

    validity: int
    """Changes when the server has numbered its mails anew."""
    next_uid: int


class Imap:
    """A signed-in connection with one folder open; made by `open_imap`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host
        self._number = 0
        self._changed = False
        """The server has told of mail since it was last asked."""
        self.abilities: set[str] = set()

    async def greet(self) -> None:
        greeting = await self._response()
        if not greeting.text.upper().startswith(("* OK", "* PREAUTH")):
            raise TryLater(f"{self._host} does not take connections now: {greeting.text[:200]}")

    async def start_tls(self, context: ssl.SSLContext) -> None:
        await self.command("STARTTLS")
        await self._writer.start_tls(context, server_hostname=self._host, ssl_handshake_timeout=ANSWER_SECONDS)

    async def learn_abilities(self) -> None:
        for each in await self.command("CAPABILITY"):
            if each.text.upper().startswith("* CAPABILITY "):
                self.abilities = set(each.text.upper().split()[2:])

    async def login(self, user: str, password: str) -> None:
        """Raises `AccountClosed` when the password is wrong."""
        await self.learn_abilities()
        try:
            if "AUTH=PLAIN" in self.abilities:
                plain = base64.b64encode(f"\0{user}\0{password}".encode()).decode()
                await self.command("AUTHENTICATE PLAIN", more=plain)
            else:
                await self.command(f"LOGIN {quote(user)} {quote(password)}")
        except InvalidRequest as error:
            if "[UNAVAILABLE]" in error.message or "[INUSE]" in error.message:
                raise TryLater(error.message) from error
            raise AccountClosed(
                f"{self._host} does not accept the password of {user}: {error.message} "
                "(many providers want an app password)"
            ) from error
        await self.learn_abilities()

    async def open(self, mailbox: str) -> ImapFolder:
        """Opens a folder without changing anything in it; a new mail stays unread."""
        try:
            told = await self.command(f"EXAMINE {quote(mailbox)}")
        except InvalidRequest as error:
            raise AccountClosed(f"the folder {mailbox} cannot be opened: {error.message}") from error
        validity = next((found for each in told if (found := each.number("UIDVALIDITY")) is not None), 0)
        following = next((found for each in told if (found := each.number("UIDNEXT")) is not None), None)
        if following is None:
            everything = await self.search("ALL")
            following = max(everything, default=0) + 1
        return ImapFolder(validity, following)

    async def search(self, what: str) -> list[int]:
        """The numbers of the mails that match, in order."""
        self._changed = False
        told = await self.command(f"UID SEARCH {what}")
        words = [each.text.split()[2:] for each in told if each.text.upper().startswith("* SEARCH")]
        return sorted({int(word) for line in words for word in line if word.isdecimal()})

    async def search_since(self, seconds: float) -> list[int]:
        """The mails that came on the day of this time or later."""
        day = datetime.fromtimestamp(seconds, UTC)
        return await self.search(f"SINCE {day.day}-{_MONTHS[day.month - 1]}-{day.year}")

    async def size(self, uid: int) -> int | None:
        """The bytes of a mail; None when it is gone."""
        told = await self.command(f"UID FETCH {uid} (UID RFC822.SIZE)")
        return next((each.number("RFC822.SIZE") for each in told if each.number("UID") == uid), None)

    async def fetch(self, uid: int, section: str = "", start: int = 0, count: int = 0) -> bytes | None:
        """A mail or a part of it, all or `count` bytes; None when it is gone."""
        part = f"<{start}.{count}>" if count else ""
        told = await self.command(f"UID FETCH {uid} (UID BODY.PEEK[{section}]{part})")
        for each in told:
            if each.number("UID") == uid:
                return each.literals[0] if each.literals else _quoted_body(each.text)
        return None

    async def wait(self, seconds: float) -> None:
        """Returns when the server tells of new mail, or after so many seconds."""
        if self._changed:
            return
        if "IDLE" not in self.abilities:
            await asyncio.sleep(seconds)
            await self.command("NOOP")
            return
        tag = self._send("IDLE")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._changed:
                    response = await self._response(None)
                    if response.text.startswith(f"{tag} "):
                        raise TryLater(f"{self._host} ended the wait for mail: {response.text[:200]}")
        self._writer.write(b"DONE\r\n")
        await self._until(tag)

    async def logout(self) -> None:
        await self.command("LOGOUT")

    async def command(self, text: str, more: str = "") -> list[ImapResponse]:
        """What the server says to a command; `more` follows when it asks for it. Raises `InvalidRequest` for a no."""
        tag = self._send(text)
        return await self._until(tag, more)

    def _send(self, text: str) -> str:
        self._number += 1
        tag = f"a{self._number}"
        self._writer.write(f"{tag} {text}\r\n".encode())
        return tag

    async def _until(self, tag: str, more: str = "") -> list[ImapResponse]:
        found: list[ImapResponse] = []
        while True:
            response = await self._response()
            if response.text.startswith("+") and more:
                self._writer.write(f"{more}\r\n".encode())
                more = ""
            elif response.text.startswith(f"{tag} "):
                found.append(response)
                _, status, *words = response.text.split(" ", 2)
                if status.upper() != "OK":
                    raise InvalidRequest(" ".join(words)[:300] or status)
                return found
            else:
                found.append(response)

    async def _response(self, seconds: float | None = ANSWER_SECONDS) -> ImapResponse:
        try:
            async with asyncio.timeout(seconds):
                words, literals = [], []
                while True:
                    line = await self._reader.readuntil(b"\n")
                    found = _LITERAL.search(line)
                    words.append((line[: found.start()] if found else line).decode(errors="replace"))
                    if found is None:
                        break
                    if int(found[1]) > LITERAL_BYTES:
                        raise TryLater(f"{self._host} sends {int(found[1]):,} bytes at once")
                    literals.append(await self._reader.readexactly(int(found[1])))
        except TimeoutError:
            raise TryLater(f"{self._host} has not answered within {seconds:.0f} s") from None
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise TryLater(f"the connection to {self._host} was lost: {type(error).__name__}") from error
        text = "".join(words).strip()
        if text.upper().startswith("* BYE"):
            raise TryLater(f"{self._host} closes the connection: {text[6:200]}")
        self._changed = self._changed or bool(re.match(r"\* \d+ (EXISTS|RECENT)\b", text, re.IGNORECASE))
        return ImapResponse(text, tuple(literals))


def quote(text: str) -> str:
    """A string of a command; what would end the line cannot be in it."""
    clean = text.replace("\r", "").replace("\n", "").replace("\0", "")
    escaped = clean.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _quoted_body(text: str) -> bytes:
    """A short part may come as a quoted string."""
    found = re.search(r'BODY\[[^\]]*\](?:<\d+>)? "((?:[^"\\]|\\.)*)"', text)
    return re.sub(r"\\(.)", r"\1", found[1]).encode() if found else b""


@cache
def tls_context() -> ssl.SSLContext:
    """One for all mailboxes: the list of authorities in it is a megabyte."""
    return ssl.create_default_context()


@asynccontextmanager
async def open_imap(server: MailServer, user: str, password: str) -> AsyncIterator[Imap]:
    """A connection that is signed in; raises `TryLater` or `AccountClosed`."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(
                server.host.strip("[]"), server.port, ssl=tls_context() if server.tls else None, limit=LINE_BYTES
            )
    except ssl.SSLCertVerificationError as error:
        raise AccountClosed(f"the certificate of {server.host} is not good: {error.verify_message}") from error
    except (OSError, TimeoutError) as error:
        raise TryLater(f"{server.host}:{server.port} could not be reached: {type(error).__name__}") from error
    try:
        imap = Imap(reader, writer, server.host)
        await imap.greet()
        if not (server.tls or server.is_here):
            await imap.learn_abilities()
            if "STARTTLS" not in imap.abilities:
                raise AccountClosed(f"{server.host} offers no TLS, and the password is not sent without it")
            await _start_tls(imap)
        await imap.login(user, password)
        yield imap
        with contextlib.suppress(TryLater):
            await imap.logout()
    finally:
        writer.transport.abort()


async def _start_tls(imap: Imap) -> None:
    try:
        await imap.start_tls(tls_context())
    except ssl.SSLCertVerificationError as error:
        raise AccountClosed(f"the certificate of the mail server is not good: {error.verify_message}") from error
    except OSError as error:
        raise TryLater(f"the mail server does not encrypt: {type(error).__name__}") from error
