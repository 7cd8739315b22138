"""A Discord bot: hears over the gateway, resumes where it left off, and speaks over the REST API.

One `run` is one connection. The cursor holds the session to resume; where Discord has forgotten it, what was missed is
read from the history of the channels.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import msgspec
import websockets.asyncio.client
from msgspec import Struct, structs
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from openclaw.channels.accounts import AccountConfig, ChannelContext
from openclaw.channels.discord import wire
from openclaw.channels.discord.settings import DiscordSettings
from openclaw.channels.discord.wire import (
    DiscordCall,
    DiscordChannel,
    DiscordFrame,
    DiscordGuild,
    DiscordInteraction,
    DiscordMessage,
    DiscordPlace,
    DiscordReaction,
    DiscordReady,
    DiscordRefused,
)
from openclaw.channels.http import stream_file, translate_errors, unclear
from openclaw.channels.media.outbound import open_file
from openclaw.core.channel import (
    AccountClosed,
    AccountProbe,
    Address,
    ChannelFacts,
    Inbound,
    InboundFile,
    MessageRefused,
    Outbound,
    Receipt,
    TakesEvents,
    TryLater,
)
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest
from openclaw.core.secret import Secret
from openclaw.models.providers.http import certificates
from openclaw.version import __version__

log = logging.getLogger("openclaw.channels")

API_ROOT = "https://discord.com/api"
FILE_HOSTS = ("cdn.discordapp.com", "media.discordapp.net")
ANSWER_SECONDS = 30.0
HELLO_SECONDS = 30.0
FRAME_BYTES = 64_000_000
"""A server with many members is one frame."""
GUILD_SECONDS = 60.0
"""How long after the beginning the servers may come; one that is down does not."""
PAGE = 100
MOST_PAGES = 20
MOST_CHANNELS = 50
"""How many channels of a server are read back after a lost session, the liveliest first."""
MOST_DIRECTS = 200


class DiscordCursor(Struct, frozen=True, kw_only=True):
    """Where to go on: the session to resume, and the last message if it cannot be."""

    session: str = ""
    url: str = ""
    seq: int = 0
    newest: str = ""
    directs: dict[str, str] = {}
    """The conversations with single people, by person: Discord does not list them."""


class Discord:
    """One bot."""

    name = wire.NAME

    def __init__(
        self,
        token: Secret,
        clock: Clock,
        *,
        account: str = "default",
        settings: DiscordSettings,
        menu: Sequence[tuple[str, str]] = (),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`jitter` gives a number between 0 and 1, lest all bots come back at once after a failure of Discord's."""
        self.account = account
        self.jitter = jitter
        self._token = token
        self._clock = clock
        self._settings = settings
        self._root = f"{(settings.api_root or API_ROOT).rstrip('/')}/v10"
        self._menu = menu
        self.facts: ChannelFacts = structs.replace(wire.FACTS, media_bytes=settings.media_max_mb * 1_000_000)
        self._channels: dict[str, DiscordChannel] = {}
        self._guilds: dict[str, str] = {}
        """The names of the servers we are on."""
        self._directs: dict[str, str] = {}
        agent = f"DiscordBot (https://github.com/openclaw, {__version__})"
        self._http = httpx2.AsyncClient(verify=certificates(), timeout=ANSWER_SECONDS, headers={"user-agent": agent})

    # Hearing.

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        at = decode_cursor(cursor)
        self._directs = dict(at.directs)
        url = at.url if at.session else await self._gateway()
        session: _Session | None = None
        try:
            async with websockets.asyncio.client.connect(
                url if urlsplit(url).query else f"{url}{'' if urlsplit(url).path else '/'}?v=10&encoding=json",
                max_size=FRAME_BYTES,
                compression=None,
                ping_interval=None,
            ) as socket:
                session = _Session(self, socket, at, inbox)
                await session.keep()
        except ConnectionClosed as error:
            code = error.rcvd.code if error.rcvd is not None else 0
            if code in wire.FATAL_CLOSES:
                raise AccountClosed(wire.FATAL_CLOSES[code]) from error
            if code in wire.FORGOTTEN_CLOSES:
                await self.forget_session(inbox, session.at if session is not None else at)
            raise TryLater(f"Discord closed the connection ({code or 'cut'})") from error
        except (OSError, InvalidHandshake, InvalidURI, TimeoutError) as error:
            await self.forget_session(inbox, at)  # the address belongs to the session
            raise TryLater(f"Discord's gateway could not be reached: {type(error).__name__}") from error

    async def forget_session(self, inbox: TakesEvents, at: DiscordCursor) -> None:
        """The next connection begins a new session."""
        if at.session:
            await inbox.take([], _encode(structs.replace(at, session="", url="", seq=0)))

    async def _gateway(self) -> str:
        found = await self._ask(DiscordCall(method="GET", path="gateway/bot"))
        url = found.get("url") if isinstance(found, Mapping) else None
        if not isinstance(url, str) or (not url.startswith("wss://") and not self._settings.api_root):
            raise TryLater("Discord names no address for its gateway")
        return url

    def identify(self) -> dict[str, Any]:
        about = {"os": "linux", "browser": "openclaw", "device": "openclaw"}
        return {"token": self._token.reveal(), "intents": wire.INTENTS, "properties": about}

    def resume(self, at: DiscordCursor) -> dict[str, Any]:
        return {"token": self._token.reveal(), "session_id": at.session, "seq": at.seq}

    def new_cursor(self, at: DiscordCursor) -> DiscordCursor:
        """`at`, with the conversations we know of; without a newest message what is said from now on counts."""
        directs = dict(list(self._directs.items())[-MOST_DIRECTS:])
        now = str((millis(self._clock) - 1_420_070_400_000) << 22)
        return structs.replace(at, directs=directs, newest=at.newest or now)

    def learn(self, kind: str, data: Any) -> None:
        """Keeps what Discord tells about servers, channels and threads."""
        match kind:
            case "GUILD_CREATE":
                guild = wire.decode(data, DiscordGuild)
                self._guilds[guild.id] = guild.name
                for channel in (*guild.channels, *guild.threads):
                    self._channels[channel.id] = structs.replace(channel, guild_id=guild.id)
            case "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE":
                channel = wire.decode(data, DiscordChannel)
                self._channels[channel.id] = channel
            case "CHANNEL_DELETE" | "THREAD_DELETE":
                self._channels.pop(wire.decode(data, DiscordChannel).id, None)

    async def hear(self, kind: str, data: Any, me: str) -> Inbound | None:
        """What a dispatch says to us."""
        match kind:
            case "MESSAGE_CREATE" | "MESSAGE_UPDATE":
                said = wire.decode(data, DiscordMessage)
                place = await self._place(said.channel_id, said.guild_id)
                if kind == "MESSAGE_UPDATE":
                    return wire.decode_edit(said, place, me, self.account)
                found = wire.decode_message(said, place, me, self.account)
                if found is not None and place.group is None:
                    self._directs.pop(found.sender, None)
                    self._directs[found.sender] = said.channel_id
                return found
            case "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE":
                reaction = wire.decode(data, DiscordReaction)
                place = await self._place(reaction.channel_id, reaction.guild_id)
                removed = kind == "MESSAGE_REACTION_REMOVE"
                return wire.decode_reaction(reaction, place, me, self.account, removed=removed)
            case "INTERACTION_CREATE":
                asked = wire.decode(data, DiscordInteraction)
                place = await self._place(asked.channel_id, asked.guild_id)
                return wire.decode_interaction(asked, place, self.account)
            case _:
                return None

    async def _place(self, channel: str, guild: str | None) -> DiscordPlace:
        if guild is None:
            return DiscordPlace()
        known = await self._channel(channel)
        if known is not None and known.is_thread and known.parent_id:
            parent = await self._channel(known.parent_id)
            name = (parent.name if parent else None) or known.name
            return DiscordPlace(group=known.parent_id, group_name=name, space=guild, thread=channel)
        return DiscordPlace(group=channel, group_name=known.name if known else None, space=guild)

    async def _channel(self, name: str) -> DiscordChannel | None:
        if name not in self._channels:
            try:
                found = await self._ask(DiscordCall(method="GET", path=f"channels/{wire.check_id(name)}"))
            except MessageRefused:
                return None
            self._channels[name] = wire.decode(found, DiscordChannel)
        return self._channels[name]

    async def missed(self, channels: Sequence[DiscordChannel], since: str, me: str) -> list[Inbound]:
        """What was said in some channels after `since`."""
        lively = [each for each in channels if wire.newest(each.last_message_id, since) != since]
        lively.sort(key=lambda each: int(each.last_message_id or 0), reverse=True)
        if len(lively) > MOST_CHANNELS:
            log.warning("channel discord: %d channels are not read back", len(lively) - MOST_CHANNELS)
        found: list[Inbound] = []
        for channel in lively[:MOST_CHANNELS]:
            found += await self._missed_in(channel.id, channel.guild_id, since, me)
        return found

    async def missed_directs(self, since: str, me: str) -> list[Inbound]:
        found: list[Inbound] = []
        for channel in list(self._directs.values()):
            found += await self._missed_in(channel, None, since, me)
        return found

    async def _missed_in(self, channel: str, guild: str | None, since: str, me: str) -> list[Inbound]:
        found: list[Inbound] = []
        for _ in range(MOST_PAGES):
            path = f"channels/{wire.check_id(channel)}/messages?limit={PAGE}&after={wire.check_id(since)}"
            try:
                page = await self._ask(DiscordCall(method="GET", path=path))
            except MessageRefused as error:  # we may not read this one
                log.info("channel discord: %s cannot be read back: %s", channel, error.message)
                break
            said = wire.decode(page, tuple[DiscordMessage, ...])
            for each in sorted(said, key=lambda message: int(message.id)):
                data = {**structs.asdict(each), "guild_id": guild}
                if heard := await self.hear("MESSAGE_CREATE", msgspec.to_builtins(data), me):
                    found.append(heard)
            since = wire.newest(since, *(each.id for each in said))
            if len(said) < PAGE:
                break
        else:
            log.warning("channel discord: more was said in %s than can be read back", channel)
        return found

    async def show_menu(self, application: str) -> None:
        """Puts our commands into Discord's menu, unless they are there."""
        path = f"applications/{application}/commands"
        wanted = wire.encode_commands(self._menu) if self._settings.slash_commands else []
        try:
            there = await self._ask(DiscordCall(method="GET", path=path))
            shown = {each.get("name"): each.get("description") for each in there if isinstance(each, Mapping)}
            if shown != {each["name"]: each["description"] for each in wanted}:
                await self._ask(DiscordCall(method="PUT", path=path, body={"": wanted}))
        except MessageRefused as error:  # a conversation is worth more than its menu
            log.warning("channel discord: the menu of commands was refused: %s", error.message)

    # Speaking.

    async def send(self, message: Outbound) -> Receipt:
        channel = await self._target(message.to)
        if message.action == "react":
            return await self._react(channel, wire.check_id(message.about or ""), message.text)
        call = wire.encode_message(message, channel, suppress_embeds=self._settings.suppress_embeds)
        try:
            return wire.decode_receipt(await self._ask(call, sending=True), message.about)
        except DiscordRefused as error:
            if message.action == "delete" and error.is_gone:
                return Receipt(id=message.about or "")
            raise

    async def open_thread(self, to: Address, title: str) -> Address:
        call = wire.encode_thread(await self._target(to), title)
        made = wire.decode(await self._ask(call, sending=True), DiscordChannel)
        self._channels[made.id] = made
        return structs.replace(to, thread=made.id)

    async def _react(self, channel: str, about: str, emoji: str) -> Receipt:
        path = f"channels/{channel}/messages/{about}"
        if emoji:
            await self._ask(DiscordCall(method="PUT", path=f"{path}/reactions/{quote(emoji, safe='')}/@me"))
            return Receipt(id=about)
        found = await self._ask(DiscordCall(method="GET", path=path))
        shown = found.get("reactions") if isinstance(found, Mapping) else None
        for each in shown if isinstance(shown, list) else ():
            if each.get("me"):
                mark = each["emoji"]
                name = f"{mark['name']}:{mark['id']}" if mark.get("id") else str(mark["name"])
                await self._ask(DiscordCall(method="DELETE", path=f"{path}/reactions/{quote(name, safe=':')}/@me"))
        return Receipt(id=about)

    async def typing(self, to: Address) -> None:
        await self._ask(DiscordCall(method="POST", path=f"channels/{await self._target(to)}/typing"))

    async def answer_press(self, event: Inbound, text: str) -> None:
        """Answers a press, or a command of the menu, for the eyes of who asked."""
        said = {"type": 4, "data": {"content": text[: wire.MOST_CHARS], "flags": wire.EPHEMERAL}}
        answer = said if text else {"type": 6}
        try:
            await self._ask(DiscordCall(method="POST", path=f"interactions/{event.press}/callback", body=answer))
        except DiscordRefused as error:
            if not error.is_gone:
                raise

    async def _target(self, to: Address) -> str:
        """The channel that an address means: a thread, a channel, or the conversation with a person."""
        if to.thread:
            return wire.check_id(to.thread)
        kind, _, name = to.to.rpartition(":")
        name = wire.check_id(name)
        if kind not in ("", "channel", "user"):
            raise MessageRefused(f"{to.to!r} is nobody on Discord: give channel:ID, user:ID or an id")
        if kind != "user" and (kind or (name not in self._directs and await self._channel(name) is not None)):
            return name
        if name not in self._directs:
            opened = await self._ask(DiscordCall(method="POST", path="users/@me/channels", body={"recipient_id": name}))
            self._directs[name] = wire.decode(opened, DiscordChannel).id
        return self._directs[name]

    async def fetch(self, file: InboundFile) -> AsyncIterator[bytes]:
        parts = urlsplit(file.ref)
        ours = urlsplit(self._root)
        if (parts.scheme, parts.hostname in FILE_HOSTS) != ("https", True) and parts.netloc != ours.netloc:
            raise MessageRefused("the file is not on a server of Discord's")
        if file.size > self.facts.media_bytes:
            raise MessageRefused(f"it has {file.size:,} bytes; channels.discord.mediaMaxMb allows fewer")
        async with aclosing(stream_file(self._http, file.ref, "Discord", failure=wire.failure)) as pieces:
            async for piece in pieces:
                yield piece

    async def probe(self) -> AccountProbe:
        found = wire.decode(await self._ask(DiscordCall(method="GET", path="users/@me")), wire.DiscordUser)
        return AccountProbe(id=found.id, name=found.username)

    async def close(self) -> None:
        await self._http.aclose()

    async def _ask(self, call: DiscordCall, *, sending: bool = False) -> Any:
        url, headers = f"{self._root}/{call.path}", {"authorization": f"Bot {self._token.reveal()}"}
        body: Any = call.body.get("", call.body)
        with translate_errors("Discord", sending=sending):
            if call.file:
                with await asyncio.to_thread(open_file, call.file) as file:
                    parts = {"files[0]": (Path(call.file).name, file)}
                    form = {"payload_json": msgspec.json.encode(body).decode()}
                    answer = await self._http.post(url, data=form, files=parts, headers=headers)
            elif call.method in ("GET", "DELETE"):
                answer = await self._http.request(call.method, url, headers=headers)
            else:
                headers["content-type"] = "application/json"
                answer = await self._http.request(call.method, url, content=msgspec.json.encode(body), headers=headers)
        try:
            found = msgspec.json.decode(answer.content) if answer.content else {}
        except msgspec.DecodeError:
            found = None
        if answer.status_code >= 300:
            raise wire.failure(answer.status_code, found, answer.headers.get("retry-after", ""))
        if found is None:
            raise unclear("Discord answered with something that is no JSON", sending)
        return found


class _Session:
    """One connection to the gateway: says who we are, keeps the heart beating, hands over what is heard."""

    def __init__(self, bot: Discord, socket: ClientConnection, at: DiscordCursor, inbox: TakesEvents) -> None:
        self._bot = bot
        self._socket = socket
        self.at = at
        self._inbox = inbox
        self._seq = at.seq
        self._me = ""
        self._pending: set[str] = set()
        """Servers whose history was not looked at yet; until then the cursor stays where it was."""
        self._session = at
        self._patience = 0.0
        """When servers that have not come by then are not waited for any more."""

    async def keep(self) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(HELLO_SECONDS):
            hello = wire.decode_frame(await self._socket.recv())
        every = self._interval(hello)
        beat, answered = loop.time() + every * self._bot.jitter(), True
        if self.at.session:
            await self._send(6, self._bot.resume(self.at))
        else:
            await self._send(2, self._bot.identify())
        while True:
            try:
                async with asyncio.timeout_at(beat):
                    frame = wire.decode_frame(await self._socket.recv())
            except TimeoutError:
                if not answered:
                    raise TryLater("Discord has gone silent") from None
                beat, answered = loop.time() + every, False
                await self._send(1, self._seq or None)
                continue
            self._seq = frame.s if frame.s is not None else self._seq
            match frame.op:
                case 0:
                    await self._dispatch(frame)
                case 1:
                    await self._send(1, self._seq or None)
                case 7:
                    raise TryLater("Discord asks us to connect anew", after=0.0)
                case 9:
                    if frame.d is not True:
                        await self._bot.forget_session(self._inbox, self.at)
                    raise TryLater("Discord has forgotten the session", after=1.0 + 4.0 * self._bot.jitter())
                case 11:
                    answered = True

    def _interval(self, hello: DiscordFrame) -> float:
        found = hello.d.get("heartbeat_interval") if hello.op == 10 and isinstance(hello.d, Mapping) else None
        if not isinstance(found, int | float) or not 0 < found < 3_600_000:
            raise TryLater("Discord's gateway did not say hello")
        return found / 1000

    async def _send(self, op: int, data: Any) -> None:
        await self._socket.send(msgspec.json.encode({"op": op, "d": data}).decode())

    async def _dispatch(self, frame: DiscordFrame) -> None:
        kind = frame.t or ""
        try:
            self._bot.learn(kind, frame.d)
            match kind:
                case "READY":
                    await self._begin(wire.decode(frame.d, DiscordReady))
                case "RESUMED":
                    self._inbox.connected()
                case "GUILD_CREATE" if self._pending:
                    guild = wire.decode(frame.d, DiscordGuild)
                    if guild.id in self._pending:
                        channels = [
                            structs.replace(each, guild_id=guild.id) for each in (*guild.channels, *guild.threads)
                        ]
                        await self._take(await self._bot.missed(channels, self.at.newest, self._me))
                        self._pending.discard(guild.id)
                        await self._take([])
                case _:
                    heard = await self._bot.hear(kind, frame.d, await self._who())
                    if heard is not None:
                        await self._take([heard])
                        if kind == "INTERACTION_CREATE" and heard.kind == "message":
                            asked = wire.decode(frame.d, DiscordInteraction)
                            press = structs.replace(heard, press=f"{asked.id}/{asked.token}")
                            await self._bot.answer_press(press, heard.text)
        except InvalidRequest as error:  # what one sender can shape must not keep the next from being heard
            log.warning("channel discord: an event is passed over: %s", error.message)

    async def _who(self) -> str:
        if not self._me:
            self._me = (await self._bot.probe()).id  # a resumed session does not say it
        return self._me

    async def _begin(self, ready: DiscordReady) -> None:
        self._me = ready.user.id
        self._inbox.connected()
        self._session = structs.replace(self.at, session=ready.session_id, url=ready.resume_gateway_url)
        missed = self.at.newest
        self._pending = {guild.id for guild in ready.guilds} if missed else set()
        self._patience = asyncio.get_running_loop().time() + GUILD_SECONDS
        if missed:
            await self._take(await self._bot.missed_directs(missed, self._me))
        await self._take([])
        if ready.application.id:
            await self._bot.show_menu(ready.application.id)

    async def _take(self, events: Sequence[Inbound]) -> None:
        """Hands events over, with the place to go on from; while history is read, that is where it was before."""
        if self._pending and asyncio.get_running_loop().time() > self._patience:
            log.warning("channel discord: %d servers did not come; they are not read back", len(self._pending))
            self._pending.clear()
        if self._pending:
            if events:
                await self._inbox.take(events, None)
            return
        newest = wire.newest(self.at.newest, *(each.id for each in events if each.kind == "message"))
        session = structs.replace(self._session, seq=self._seq, newest=newest)
        self.at = self._bot.new_cursor(session if session.url else structs.replace(session, session="", seq=0))
        await self._inbox.take(events, _encode(self.at))


def decode_cursor(cursor: str | None) -> DiscordCursor:
    try:
        return msgspec.json.decode(cursor or "{}", type=DiscordCursor)
    except msgspec.DecodeError:
        return DiscordCursor()


def _encode(cursor: DiscordCursor) -> str:
    return msgspec.json.encode(cursor).decode()


def build(config: AccountConfig, context: ChannelContext) -> Discord:
    assert isinstance(config.settings, DiscordSettings)
    return Discord(
        config.credential, context.clock, account=config.account, settings=config.settings, menu=context.menu
    )
