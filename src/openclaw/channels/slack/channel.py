"""A Slack app: hears over Socket Mode or is called over HTTP, reads back what it missed, and speaks over the Web API.

An envelope is acknowledged when it is on record. Slack repeats one that was not, but only for some minutes: after a
lost connection the history of the conversations is read from where we were.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
import websockets.asyncio.client
from msgspec import Struct, structs
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from openclaw.channels.accounts import AccountConfig, ChannelContext
from openclaw.channels.http import translate_errors, unclear
from openclaw.channels.slack import wire
from openclaw.channels.slack.settings import SlackSettings
from openclaw.channels.slack.wire import (
    SlackCall,
    SlackConversation,
    SlackEnvelope,
    SlackIdentity,
    SlackMessage,
    SlackRefused,
)
from openclaw.core.channel import (
    AccountClosed,
    AccountProbe,
    Address,
    ChannelFacts,
    ChannelWebhook,
    ChannelWebhookAnswer,
    Inbound,
    InboundFile,
    MessageRefused,
    Outbound,
    Receipt,
    TakesEvents,
    TryLater,
)
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest
from openclaw.core.secret import Secret
from openclaw.models.providers.http import certificates

log = logging.getLogger("openclaw.channels")

API_ROOT = "https://slack.com/api"
ANSWER_SECONDS = 30.0
HELLO_SECONDS = 30.0
SILENT_SECONDS = 20.0
"""Seconds without an answer to a ping after which the connection counts as lost."""
LOOK_SECONDS = 300.0
"""How often Slack is asked whether our token still counts, while it calls us."""
FRAME_BYTES = 16_000_000
OVERLAP_SECONDS = 60
"""What is read back begins so much before the last message we heard: conversations do not arrive in one order."""
PAGE, MOST_PAGES = 200, 10
MOST_CONVERSATIONS = 100
MOST_WAITS = 5
"""How often a flood wait is sat through while history is read."""
MOST_THREADS, MOST_NAMES = 100, 2_000


class SlackCursor(Struct, frozen=True, kw_only=True):
    """Where to go on: the last message, and the threads in which something was said lately."""

    newest: str = ""
    threads: dict[str, str] = {}
    """The last message in each, by `CHANNEL:TS`."""


class Slack:
    """One app in one workspace."""

    name = wire.NAME

    def __init__(
        self,
        token: Secret,
        clock: Clock,
        *,
        account: str = "default",
        settings: SlackSettings,
        menu: Sequence[tuple[str, str]] = (),
        silent: float = SILENT_SECONDS,
    ) -> None:
        self.account = account
        self._token = token
        self._clock = clock
        self._settings = settings
        self._root = (settings.api_root or API_ROOT).rstrip("/")
        self._commands = frozenset(name for name, _ in menu)
        self._silent = silent
        self.facts: ChannelFacts = structs.replace(wire.FACTS, media_bytes=settings.media_max_mb * 1_000_000)
        self._me: SlackIdentity | None = None
        self._at: SlackCursor | None = None
        """None until what was missed is read: until then the cursor stays where it was."""
        self._names: dict[str, str] = {}
        self._rooms: dict[str, str] = {}
        self._directs: dict[str, str] = {}
        """The conversations with single people, by person."""
        self._http = httpx2.AsyncClient(verify=certificates(), timeout=ANSWER_SECONDS)

    # Hearing.

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        self._at = None
        self._me = await self._who()
        if self._settings.is_called:
            inbox.connected()
            await self._catch_up(cursor, inbox)
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                await self._who()
        url = await self._open_socket()
        try:
            async with websockets.asyncio.client.connect(
                url, max_size=FRAME_BYTES, compression=None, ping_interval=self._silent, ping_timeout=self._silent
            ) as socket:
                await self._listen(socket, cursor, inbox)
        except ConnectionClosed as error:
            raise TryLater(f"Slack closed the connection ({error.rcvd.code if error.rcvd else 'cut'})") from error
        except (OSError, InvalidHandshake, InvalidURI, TimeoutError) as error:
            raise TryLater(f"Slack's socket could not be reached: {type(error).__name__}") from error

    async def _open_socket(self) -> str:
        token = self._settings.app_token or Secret("")
        found = await self._ask(SlackCall(method="apps.connections.open"), token=token)
        url = found.get("url")
        if not isinstance(url, str) or not (self._settings.api_root or url.startswith("wss://")):
            raise TryLater("Slack names no address for its socket")
        return url

    async def _listen(self, socket: ClientConnection, cursor: str | None, inbox: TakesEvents) -> None:
        async with asyncio.timeout(HELLO_SECONDS):
            hello = wire.decode_envelope(await socket.recv())
        if hello.type != "hello":
            raise TryLater("Slack's socket did not say hello")
        inbox.connected()
        await self._catch_up(cursor, inbox)
        while True:
            try:
                envelope = wire.decode_envelope(await socket.recv())
            except InvalidRequest as error:
                log.warning("channel slack: a frame is passed over: %s", error.message)
                continue
            if envelope.type == "disconnect":
                if envelope.reason == "link_disabled":
                    raise AccountClosed("Socket Mode is switched off: switch it on on the app's page Socket Mode")
                raise TryLater("Slack asks us to connect anew", after=0.0)
            said = await self._take(envelope, inbox)
            if envelope.envelope_id:
                shown = {"payload": {"text": said}} if said and envelope.accepts_response_payload else {}
                await socket.send(msgspec.json.encode({"envelope_id": envelope.envelope_id, **shown}).decode())

    async def _take(self, envelope: SlackEnvelope, inbox: TakesEvents) -> str:
        """Puts what an envelope holds on record; gives what the one who chose a command is shown."""
        try:
            heard = await self._hear(envelope)
        except InvalidRequest as error:  # what one sender can shape must not keep the next from being heard
            log.warning("channel slack: an event is passed over: %s", error.message)
            return ""
        if heard is None:
            return ""
        await self._hand_over([heard], inbox)
        return heard.text if envelope.type == "slash_commands" else ""

    async def _hear(self, envelope: SlackEnvelope) -> Inbound | None:
        match envelope.type:
            case "interactive":
                return wire.decode_press(wire.decode(envelope.payload, wire.SlackInteraction), self.account)
            case "slash_commands":
                asked = wire.decode(envelope.payload, wire.SlackSlash)
                return wire.decode_slash(asked, self.account, self._settings.slash_command.name, self._commands)
            case "events_api":
                event = wire.decode(envelope.payload, wire.SlackCallback).event
            case _:
                return None
        match event.get("type"):
            case "message" | "app_mention":
                return await self._heard_message(wire.decode(event, SlackMessage))
            case "reaction_added" | "reaction_removed":
                reaction = wire.decode(event, wire.SlackReaction)
                removed = event.get("type") == "reaction_removed"
                return wire.decode_reaction(reaction, self._identity, self.account, removed=removed)
            case _:
                return None

    @property
    def _identity(self) -> SlackIdentity:
        assert self._me is not None
        return self._me

    async def _heard_message(self, said: SlackMessage) -> Inbound | None:
        """A message with the names of people and places, and in a thread that is new to us what it is about."""
        me, threads = self._identity, self._settings.reply_to_mode == "all"
        found = wire.decode_message(said, me, self.account, self._names, threads=threads)
        if found is None:
            return None
        await self._learn_names(wire.people_in(said))
        found = wire.decode_message(said, me, self.account, self._names, threads=threads)
        assert found is not None
        if found.group is None:
            self._directs[found.sender] = said.channel
        else:
            found = structs.replace(found, group_name=await self._room_name(found.group))
        known = self._at.threads if self._at is not None else {}
        if said.thread is not None and f"{said.channel}:{said.thread}" not in known:
            found = structs.replace(found, quote=await self._root_of(said.channel, said.thread))
        return found

    async def _root_of(self, channel: str, thread: str) -> Any:
        page = await self._read("conversations.replies", {"channel": channel, "ts": thread, "limit": "1"})
        root = next((each for each in page if each.ts == thread), None)
        return wire.decode_quote(root, self._identity, self._names) if root is not None else None

    async def _hand_over(self, events: Sequence[Inbound], inbox: TakesEvents) -> None:
        """Events go on record with the place to go on from; while history is read, that is where it was before."""
        if self._at is None:
            await inbox.take(events, None)
            return
        said = [each for each in events if each.kind == "message"]
        threads = dict(self._at.threads)
        for each in said:
            if each.thread:
                name = f"{each.group or self._directs.get(each.sender, '')}:{each.thread}"
                threads.pop(name, None)
                threads[name] = each.id
        after = SlackCursor(
            newest=wire.newest(self._at.newest, *(each.id for each in said)),
            threads=dict(list(threads.items())[-MOST_THREADS:]),
        )
        await inbox.take(events, msgspec.json.encode(after).decode())
        self._at = after

    # What was missed.

    async def _catch_up(self, cursor: str | None, inbox: TakesEvents) -> None:
        """Reads back what was said since `cursor`; without one, what is said from now on counts."""
        at = decode_cursor(cursor)
        missed = await self._missed(at) if at.newest else []
        self._at = at if at.newest else SlackCursor(newest=f"{int(self._clock.now())}.000000")
        await self._hand_over(missed, inbox)

    async def _missed(self, at: SlackCursor) -> list[Inbound]:
        since, found, waits = wire.before(at.newest, OVERLAP_SECONDS), list[SlackMessage](), 0
        places: list[tuple[str, str]] = [(each.id, "") for each in await self._conversations()]
        places += [(name.partition(":")[0], name.partition(":")[2]) for name in at.threads]
        while places:
            channel, thread = places.pop(0)
            try:
                said = await self._said_in(channel, thread, since)
            except MessageRefused as error:  # we may not read this one
                log.info("channel slack: %s cannot be read back: %s", channel, error.message)
                continue
            except TryLater as error:
                if error.after is None or waits == MOST_WAITS:
                    raise
                waits += 1
                places.insert(0, (channel, thread))
                await self._clock.sleep(error.after)
                continue
            found += said
            if not thread:
                began = [each.ts for each in said if each.latest_reply and f"{channel}:{each.ts}" not in at.threads]
                places += [(channel, ts) for ts in began]
        heard = {(each.channel, each.ts): await self._heard_message(each) for each in wire.in_order(found)}
        return [each for each in heard.values() if each is not None]

    async def _conversations(self) -> list[SlackConversation]:
        """Those that we are in."""
        params = {"types": wire.TYPES, "exclude_archived": "true", "limit": str(PAGE)}
        try:
            answer = await self._ask(SlackCall(method="users.conversations", params=params))
        except MessageRefused as error:
            log.warning("channel slack: what was missed cannot be read back: %s", error.message)
            return []
        found = wire.decode(answer.get("channels", []), list[SlackConversation])
        self._directs |= {each.user: each.id for each in found if each.is_im and each.user}
        self._rooms |= {each.id: each.name for each in found if each.name}
        if len(found) > MOST_CONVERSATIONS or wire.next_page(answer):
            log.warning("channel slack: only %d conversations are read back", MOST_CONVERSATIONS)
        return found[:MOST_CONVERSATIONS]

    async def _said_in(self, channel: str, thread: str, since: str) -> list[SlackMessage]:
        """The messages of a conversation or a thread since a time, the oldest first."""
        method = "conversations.replies" if thread else "conversations.history"
        params = {"channel": channel, "oldest": since, "limit": str(PAGE), **({"ts": thread} if thread else {})}
        found: list[SlackMessage] = []
        for _ in range(MOST_PAGES):
            answer = await self._ask(SlackCall(method=method, params=params))
            page = wire.decode(answer.get("messages", []), list[SlackMessage])
            # The message that began a thread comes along, however old it is.
            found += [structs.replace(each, channel=channel) for each in page if wire.newest(each.ts, since) != since]
            if not (following := wire.next_page(answer)):
                break
            params["cursor"] = following
        else:
            log.warning("channel slack: more was said in %s than can be read back", channel)
        return wire.in_order(found)

    async def _read(self, method: str, params: Mapping[str, str]) -> list[SlackMessage]:
        """Messages that are good to have."""
        try:
            answer = await self._ask(SlackCall(method=method, params=params))
            return wire.decode(answer.get("messages", []), list[SlackMessage])
        except (MessageRefused, TryLater, InvalidRequest) as error:
            log.info("channel slack: %s", error.message)
            return []

    async def _learn_names(self, people: set[str]) -> None:
        for person in people - self._names.keys():
            found = await self._look_up("users.info", {"user": person}, "user")
            profile = found.get("profile")
            shown = profile.get("display_name") if isinstance(profile, Mapping) else ""
            self._names[person] = str(shown or found.get("real_name") or found.get("name") or "")
            if len(self._names) > MOST_NAMES:
                self._names.pop(next(iter(self._names)))

    async def _room_name(self, channel: str) -> str | None:
        if channel not in self._rooms:
            found = await self._look_up("conversations.info", {"channel": channel}, "channel")
            self._rooms[channel] = str(found.get("name") or "")
        return self._rooms[channel] or None

    async def _look_up(self, method: str, params: Mapping[str, str], key: str) -> Mapping[str, Any]:
        """Something that is good to know: without it people and places go by their ids."""
        try:
            found = (await self._ask(SlackCall(method=method, params=params))).get(key)
        except (MessageRefused, TryLater) as error:
            log.info("channel slack: %s", error.message)
            found = None
        return found if isinstance(found, Mapping) else {}

    # Being called.

    @property
    def webhook_path(self) -> str:
        if not self._settings.is_called:
            return ""
        usual = "/slack/events" if self.account == "default" else f"/slack/events/{self.account}"
        return self._settings.webhook_path or usual

    async def take_webhook(self, call: ChannelWebhook, inbox: TakesEvents) -> ChannelWebhookAnswer:
        secret = self._settings.signing_secret or Secret("")
        if call.method != "POST":
            return ChannelWebhookAnswer(status=405)
        if not wire.is_signed(secret.reveal(), call.headers, call.body, self._clock.now()):
            return ChannelWebhookAnswer(status=401)
        try:
            envelope = wire.decode_call(call.headers.get("content-type", ""), call.body)
            if envelope.type == "events_api":
                callback = wire.decode(envelope.payload, wire.SlackCallback)
                if callback.type == "url_verification":
                    return ChannelWebhookAnswer(text=callback.challenge)
            if self._me is None:
                return ChannelWebhookAnswer(status=503)  # Slack calls again
            if (team := wire.team_of(envelope)) and self._me.team_id not in ("", team):
                return ChannelWebhookAnswer(status=401)  # an app in several workspaces is several accounts
        except InvalidRequest:
            return ChannelWebhookAnswer(status=400)
        return ChannelWebhookAnswer(text=await self._take(envelope, inbox))

    # Speaking.

    async def send(self, message: Outbound) -> Receipt:
        channel = await self._target(message.to)
        if message.action == "react":
            return await self._react(channel, wire.check_ts(message.about or ""), message.text)
        call = wire.encode_message(message, channel, unfurl=self._settings.unfurl_links)
        if call.file:
            return await self._upload(call)
        try:
            return wire.decode_receipt(await self._ask(call, sending=True), message.about)
        except SlackRefused as error:
            if message.action == "delete" and error.is_done:
                return Receipt(id=message.about or "")
            raise

    async def open_thread(self, to: Address, title: str) -> Address:
        """A thread hangs on the message that begins it."""
        return structs.replace(to, thread=(await self.send(Outbound(to=to, text=title))).id)

    def length(self, text: str) -> int:
        return len(wire.encode_text(text))

    async def _react(self, channel: str, about: str, emoji: str) -> Receipt:
        where = {"channel": channel, "timestamp": about}
        names = [wire.encode_emoji(emoji)] if emoji else await self._own_reactions(where)
        method = "reactions.add" if emoji else "reactions.remove"
        for name in names:
            try:
                await self._ask(SlackCall(method=method, params={**where, "name": name}))
            except SlackRefused as error:
                if not error.is_done:
                    raise
        return Receipt(id=about)

    async def _own_reactions(self, where: Mapping[str, str]) -> list[str]:
        me = (self._me or await self._who()).user_id
        found = await self._ask(SlackCall(method="reactions.get", params={**where, "full": "true"}))
        message = found.get("message")
        shown = message.get("reactions") if isinstance(message, Mapping) else None
        return [str(each.get("name")) for each in shown or () if me in (each.get("users") or ())]

    async def _upload(self, call: SlackCall) -> Receipt:
        """A file goes to an address that Slack names for it, and is then shown in the conversation."""
        path = Path(call.file)
        try:
            size = path.stat().st_size
            with await asyncio.to_thread(path.open, "rb") as file:
                params = {"filename": path.name, "length": str(size)}
                found = await self._ask(SlackCall(method="files.getUploadURLExternal", params=params))
                name, url = str(found.get("file_id") or ""), str(found.get("upload_url") or "")
                self._check_address(url)
                answer = await self._http.post(url, files={"file": (path.name, file)})
        except OSError as error:
            raise MessageRefused(f"{call.file} cannot be read: {error.strerror}") from error
        except httpx2.HTTPError as error:
            raise TryLater(f"Slack did not take the file: {type(error).__name__}") from None
        if answer.status_code != 200:
            raise wire.failure("the upload", answer.status_code, None, answer.headers.get("retry-after", ""))
        await self._ask(wire.encode_upload(call, name, path.name), sending=True)
        return Receipt(id=name)

    async def typing(self, to: Address) -> None:
        """Slack shows apps as busy only in threads."""
        if to.thread:
            where = {"channel_id": await self._target(to), "thread_ts": wire.check_ts(to.thread)}
            await self._ask(SlackCall(method="assistant.threads.setStatus", params={**where, "status": "is typing…"}))

    async def answer_press(self, event: Inbound, text: str) -> None:
        """Answers a press for the eyes of who pressed."""
        channel, _, thread = event.press.partition(":")
        if text and channel:
            where = {"channel": wire.check_id(channel), "user": wire.check_id(event.sender)}
            where |= {"thread_ts": thread} if thread else {}
            await self._ask(SlackCall(method="chat.postEphemeral", params={**where, "text": wire.encode_text(text)}))

    async def _target(self, to: Address) -> str:
        """The channel that an address means, which for a person is the conversation with them."""
        kind, _, name = to.to.removeprefix("slack:").rpartition(":")
        if kind not in ("", "channel", "user"):
            raise MessageRefused(f"{to.to!r} is nobody on Slack: give channel:ID, user:ID or an id")
        name = wire.check_id(name)
        if name[0] not in "UW":
            return name
        if name not in self._directs:
            opened = await self._ask(SlackCall(method="conversations.open", params={"users": name}))
            self._directs[name] = wire.decode(opened.get("channel"), SlackConversation).id
        return self._directs[name]

    async def fetch(self, file: InboundFile) -> AsyncIterator[bytes]:
        ref = file.ref
        if ref.startswith("file:"):  # shared from another workspace: its address has to be asked for
            found = await self._ask(SlackCall(method="files.info", params={"file": ref.removeprefix("file:")}))
            about = wire.decode(found.get("file"), wire.SlackFile)
            ref = about.url_private_download or about.url_private
        self._check_address(ref)
        if file.size > self.facts.media_bytes:
            raise MessageRefused(f"it has {file.size:,} bytes; channels.slack.mediaMaxMb allows fewer")
        headers = {"authorization": f"Bearer {self._token.reveal()}"}
        try:
            async with self._http.stream("GET", ref, headers=headers) as answer:
                if answer.status_code != 200:
                    raise wire.failure("for the file", answer.status_code, None)
                if "text/html" in answer.headers.get("content-type", "") and file.mime != "text/html":
                    raise MessageRefused("Slack shows a page to sign in: the app needs the scope files:read")
                async for piece in answer.aiter_bytes():
                    yield piece
        except httpx2.HTTPError as error:
            raise TryLater(f"Slack did not hand out the file: {type(error).__name__}") from None

    def _check_address(self, url: str) -> None:
        """Our token and files go to Slack's servers only."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "https" and (host == "slack.com" or host.endswith(".slack.com")):
            return
        if not self._settings.api_root or parts.netloc != urlsplit(self._root).netloc:
            raise MessageRefused("the address of the file is not on a server of Slack's")

    async def probe(self) -> AccountProbe:
        me = await self._who()
        if not self._settings.is_called:
            await self._open_socket()  # the other token is tried, too
        return AccountProbe(id=me.user_id, name=me.user)

    async def _who(self) -> SlackIdentity:
        return wire.decode(await self._ask(SlackCall(method="auth.test")), SlackIdentity)

    async def close(self) -> None:
        await self._http.aclose()

    async def _ask(self, call: SlackCall, *, token: Secret | None = None, sending: bool = False) -> Mapping[str, Any]:
        url, headers = f"{self._root}/{call.method}", {"authorization": f"Bearer {(token or self._token).reveal()}"}
        with translate_errors("Slack", call.method, sending=sending):
            answer = await self._http.post(url, data=wire.encode_params(call.params), headers=headers)
        try:
            found = wire.decode_json(answer.content)
        except InvalidRequest:
            found = None
        if answer.status_code >= 300 or (isinstance(found, Mapping) and found.get("ok") is not True):
            raise wire.failure(call.method, answer.status_code, found, answer.headers.get("retry-after", ""))
        if not isinstance(found, Mapping):
            raise unclear(f"Slack answered {call.method} with something that is no JSON", sending)
        return found


def decode_cursor(cursor: str | None) -> SlackCursor:
    try:
        return msgspec.json.decode(cursor or "{}", type=SlackCursor)
    except msgspec.DecodeError:
        return SlackCursor()


def build(config: AccountConfig, context: ChannelContext) -> Slack:
    assert isinstance(config.settings, SlackSettings)
    return Slack(config.credential, context.clock, account=config.account, settings=config.settings, menu=context.menu)
