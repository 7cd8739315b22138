"""A nick on an IRC server: one connection that hears and speaks.

IRC confirms nothing by itself: behind every message goes a PING, and its answer says that the server has dealt with
what came before. What is said while we are not connected is not heard: the platform keeps nothing for us.
"""

import asyncio
import logging
import ssl
import uuid
from collections.abc import Sequence

from openclaw.channels.accounts import AccountConfig, ChannelContext
from openclaw.channels.irc import wire
from openclaw.channels.irc.settings import IrcSettings
from openclaw.channels.irc.wire import IrcLine
from openclaw.core.channel import (
    AccountClosed,
    AccountProbe,
    Inbound,
    MessageRefused,
    Outbound,
    Receipt,
    TakesEvents,
    TryLater,
    Unsure,
)
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.secret import Secret

log = logging.getLogger("openclaw.channels")

CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 120.0
"""After so much silence the server is asked whether it is still there."""
PACE_SECONDS = 1.0
"""Between two lines of one message: servers end connections that flood."""
CONFIRM_SECONDS = 60.0
WANTED = ("account-tag", "message-tags", "sasl")


class Irc:
    """One nick on one server."""

    name = wire.NAME
    facts = wire.FACTS

    def __init__(self, clock: Clock, *, account: str = "default", settings: IrcSettings) -> None:
        self.account = account
        self._clock = clock
        self._settings = settings
        self._link: _Link | None = None
        self._heard: list[Inbound] = []
        """What was heard and is not on record yet: nobody would say it again."""

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        link = await self._connect()
        try:
            for channel in self._settings.joins:
                link.write(f"JOIN {wire.check_target(channel)}")
            self._link = link
            inbox.connected()
            await self._hand_over(inbox)
            while True:
                line = await link.next_line()
                event = wire.decode_message(line, link.nick, uuid.uuid4().hex, self.account, millis(self._clock))
                if event is not None:
                    self._heard.append(event)
                    await self._hand_over(inbox)
        finally:
            self._link = None
            link.close()

    async def _hand_over(self, inbox: TakesEvents) -> None:
        while self._heard:
            await inbox.take(self._heard[:1], None)
            del self._heard[0]

    async def _connect(self) -> "_Link":
        where = self._settings.place
        context = ssl.create_default_context() if where.tls else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                streams = await asyncio.open_connection(
                    where.host.strip("[]"), where.port, ssl=context, limit=wire.TAG_BYTES + 2 * wire.LINE_BYTES
                )
        except ssl.SSLCertVerificationError as error:
            raise AccountClosed(f"the certificate of {where.host} is not good: {error.verify_message}") from error
        except (OSError, TimeoutError) as error:
            raise TryLater(f"{where.host}:{where.port} could not be reached: {type(error).__name__}") from error
        link = _Link(*streams, where.host)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await link.register(self._settings)
        except TimeoutError:
            link.close()
            raise TryLater(f"{where.host} did not let us in within {CONNECT_SECONDS:.0f} s") from None
        except BaseException:
            link.close()
            raise
        return link

    async def send(self, message: Outbound) -> Receipt:
        link = self._link
        if link is None:
            raise TryLater("IRC is not connected")
        target = wire.check_target(message.to.to)
        lines = wire.encode_text(message.text, wire.room_for(link.nick, link.user, link.host, target))
        if not lines:
            raise MessageRefused("there is nothing in it that IRC could show")
        await link.say(target, lines, self._clock)
        return Receipt(id=uuid.uuid4().hex)

    def length(self, text: str) -> int:
        return wire.length(text)

    async def probe(self) -> AccountProbe:
        link = await self._connect()
        link.write("QUIT")
        link.close()
        return AccountProbe(id=link.nick, name=f"{link.nick} on {self._settings.place.host}")

    async def close(self) -> None: ...


class _Link:
    """A connection to a server, from the first line on."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._server = host
        self.nick = ""
        self.user = "openclaw"
        self.host = ""
        """Our own host as others see it, once we know."""
        self._speaking = asyncio.Lock()
        self._closed = False
        self._pongs: dict[str, asyncio.Future[None]] = {}
        self._target = ""
        """To whom a message is being sent."""
        self._trouble: OpenClawError | None = None
        """Why it goes nowhere."""

    def write(self, line: str) -> None:
        self._writer.write(f"{line}\r\n".encode(errors="replace"))

    def close(self) -> None:
        self._closed = True
        for each in self._pongs.values():
            if not each.done():
                each.set_exception(Unsure("the connection to the server was lost"))
                each.exception()  # it may have no reader any more
        self._writer.close()

    async def register(self, settings: IrcSettings) -> None:
        """Signs in; returns when the server has welcomed us."""
        password, wanted = settings.password, str(settings.nick)
        self.write("CAP LS 302")
        if settings.server_password:
            self.write(f"PASS :{_word(settings.server_password)}")
        self.nick = wanted
        self.write(f"NICK {wanted}")
        self.write(f"USER {self.user} 0 * :OpenClaw")
        offered: set[str] = set()
        taken = 0
        while True:
            line = await self._read()
            match line.command:
                case "CAP" if line.params[1:2] == ("LS",):
                    offered |= {word.partition("=")[0] for word in line.last.split()}
                    if line.params[2:3] != ("*",):
                        self._ask_for(offered, settings)
                case "CAP" if line.params[1:2] == ("ACK",) and "sasl" in line.last.split() and password:
                    self.write("AUTHENTICATE PLAIN")
                case "CAP" if line.params[1:2] in (("ACK",), ("NAK",)):
                    self.write("CAP END")
                case "AUTHENTICATE" if line.params == ("+",) and password:
                    for each in wire.sasl_lines(settings.sasl_user or wanted, password.reveal()):
                        self.write(each)
                case "903":
                    self.write("CAP END")
                case "421" if line.params[1:2] == ("CAP",):
                    self._ask_for(set(), settings)
                case "001":
                    self.nick = line.params[0] if line.params else wanted
                    return
                case command if command in wire.NICK_TAKEN:
                    taken += 1
                    self.nick = f"{wanted[:28]}{taken}"
                    self.write(f"NICK {self.nick}")
                case command if command in wire.FATAL:
                    raise AccountClosed(f"{wire.FATAL[command]} ({line.last[:200]})")
                case _:
                    pass

    def _ask_for(self, offered: set[str], settings: IrcSettings) -> None:
        if settings.password and "sasl" not in offered:
            raise AccountClosed(f"{self._server} knows no SASL: take channels.irc.password out, or use serverPassword")
        wanted = [each for each in WANTED if each in offered and (each != "sasl" or settings.password)]
        self.write(f"CAP REQ :{' '.join(wanted)}" if wanted else "CAP END")

    async def next_line(self) -> IrcLine:
        """The next line that is not about the connection itself."""
        asked = False
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    line, asked = await self._read(), False
            except TimeoutError:
                if asked:
                    raise TryLater(f"{self._server} has fallen silent") from None
                asked = True
                self.write("PING :alive")
                continue
            match line.command:
                case "PONG" if line.last in self._pongs:
                    found = self._pongs.pop(line.last)
                    if not found.done():
                        found.set_result(None)
                case "NICK" if wire.fold(line.nick) == wire.fold(self.nick):
                    self.nick = line.last
                case "JOIN" if wire.fold(line.nick) == wire.fold(self.nick) and "@" in line.source:
                    user, _, self.host = line.source.partition("!")[2].partition("@")
                    self.user = user
                case "KICK" if len(line.params) > 1 and wire.fold(line.params[1]) == wire.fold(self.nick):
                    log.warning("channel irc: %s has thrown us out of %s", line.nick, line.params[0])
                case "471" | "473" | "474" | "475":
                    log.warning("channel irc: %s cannot be joined: %s", line.params[1:2], line.last[:200])
                case _:
                    self._trouble = self._trouble or wire.failure(line, self._target)
                    return line

    async def say(self, target: str, lines: Sequence[str], clock: Clock) -> None:
        """Returns when the server has dealt with all of it; raises what it complains about."""
        async with self._speaking:
            self._target, self._trouble = target, None
            for place, line in enumerate(lines):
                if place:
                    await clock.sleep(PACE_SECONDS)
                self.write(f"PRIVMSG {target} :{line}")
            try:
                await self._confirmed()
            finally:
                self._target = ""

    async def _confirmed(self) -> None:
        if self._closed:
            raise Unsure("the connection to the server was lost")
        name = uuid.uuid4().hex
        waiting = self._pongs[name] = asyncio.get_running_loop().create_future()
        self.write(f"PING :{name}")
        try:
            async with asyncio.timeout(CONFIRM_SECONDS):
                await waiting
        except TimeoutError:
            raise Unsure(f"{self._server} did not confirm the message") from None
        finally:
            self._pongs.pop(name, None)
        if self._trouble is not None:
            raise self._trouble

    async def _read(self) -> IrcLine:
        while True:
            try:
                raw = await self._reader.readuntil(b"\n")
                line = wire.decode(raw)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                raise TryLater(f"the connection to {self._server} was lost: {type(error).__name__}") from error
            except InvalidRequest:
                continue
            if line.command == "PING":
                self.write(f"PONG :{line.last}")
            elif line.command == "ERROR":
                raise wire.ended(line, self._server)
            else:
                return line


def _word(secret: Secret) -> str:
    return secret.reveal().replace("\r", "").replace("\n", "")


def build(config: AccountConfig, context: ChannelContext) -> Irc:
    assert isinstance(config.settings, IrcSettings)
    return Irc(context.clock, account=config.account, settings=config.settings)
