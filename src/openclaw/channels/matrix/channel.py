"""A Matrix account: syncs and hands over what it hears with the place to go on from; joins rooms, sends, edits, reacts.

Rooms with end-to-end encryption cannot be read: that is said in them once, and nothing else is sent there.
"""

import asyncio
import hashlib
import logging
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct, structs

from openclaw.channels.access import EVERYBODY
from openclaw.channels.accounts import AccountConfig, ChannelContext
from openclaw.channels.matrix import wire
from openclaw.channels.matrix.client import ANSWER_SECONDS, MatrixClient, MatrixSession
from openclaw.channels.matrix.settings import MatrixSettings
from openclaw.channels.matrix.wire import Event, RoomInvite, RoomState, RoomUpdate, SyncAnswer
from openclaw.channels.pairing import SenderPairing
from openclaw.core.channel import (
    AccountProbe,
    Address,
    ChannelFacts,
    Inbound,
    InboundFile,
    MessageRefused,
    Outbound,
    Receipt,
    TakesEvents,
)
from openclaw.core.errors import OpenClawError
from openclaw.core.keys import peer_part
from openclaw.storage.atomic import JsonFile

log = logging.getLogger("openclaw.channels")

POLL_SECONDS = 30
SLACK_SECONDS = 15.0
"""How much later than promised an answer to a poll may come before the connection counts as dead."""
TYPING_MS = 15_000
PAGE_EVENTS = 100
MOST_PAGES = 50
"""How far a gap in a room is read back: 5,000 events."""
REMEMBERED_EVENTS = 2_000
ENCRYPTED_NOTICE = (
    "This room is encrypted, and I cannot read encrypted rooms. Please write to me in a room without encryption: "
    "make a new room, switch its encryption off before you create it, and invite me."
)


class SyncCursor(Struct, frozen=True, kw_only=True):
    """Where to go on, and what must not be forgotten on the way."""

    user: str = ""
    since: str = ""
    invites: tuple[RoomInvite, ...] = ()
    """Those that nobody has agreed to yet: the server does not repeat them."""
    told: tuple[str, ...] = ()
    """Encrypted rooms that were told."""


class Matrix:
    """One account."""

    name = wire.NAME

    def __init__(
        self, settings: MatrixSettings, stored: JsonFile[MatrixSession], knows: Callable[[str], bool], account: str
    ) -> None:
        """`knows` says whether a person is the owner or one of those who are let in."""
        self.account = account
        self._settings = settings
        self._knows = knows
        self._client = MatrixClient(settings, stored)
        self._limit = settings.media_max_mb * 1_000_000
        self.facts: ChannelFacts = structs.replace(wire.FACTS, media_bytes=self._limit)
        self._rooms: dict[str, RoomState] = {}
        self._events: OrderedDict[str, Event] = OrderedDict()
        """Those we heard last, to understand what edits, answers and reactions are about."""
        self._typing: set[str] = set()
        self._opening = asyncio.Lock()

    # Hearing.

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        me = (await self._client.sign_in()).user_id
        await self._ask_upload_limit()
        at = decode_cursor(cursor, me)
        inbox.connected()
        patience = 0  # at first nothing is waited for: invitations may be left from before
        while True:
            query = {"filter": msgspec.json.encode(wire.SYNC_FILTER).decode(), "set_presence": "offline"}
            query |= {"timeout": str(patience * 1000), **({"since": at.since} if at.since else {})}
            patience = POLL_SECONDS
            found = await self._client.ask("GET", "sync", query=query, seconds=POLL_SECONDS + SLACK_SECONDS)
            answer = wire.decode_sync(found)
            for room in answer.left:
                self._rooms.pop(room, None)
            if not at.since:
                # We begin now: what was said before is not answered any more. The place is on record before we join
                # any room, or a kill right after would make what is said there part of what was before.
                at = SyncCursor(user=me, since=answer.next_batch, invites=answer.invites)
                await inbox.take([], msgspec.json.encode(at).decode())
            events, told = [], list(at.told)
            for update in answer.rooms if at.since != answer.next_batch else ():
                heard, encrypted = await self._hear(update, at.since, me)
                events += heard
                if encrypted and update.room not in told:
                    await self._tell_encrypted(update.room)
                    told.append(update.room)
            invites = await self._consider(at.invites, answer, me)
            following = SyncCursor(user=me, since=answer.next_batch, invites=invites, told=tuple(told))
            if following != at:
                await inbox.take(events, msgspec.json.encode(following).decode())
                at = following
                await self._show_read(events)

    async def _hear(self, update: RoomUpdate, since: str, me: str) -> tuple[list[Inbound], bool]:
        """What was said in a room, and whether any of it was encrypted."""
        timeline = [*(await self._missed(update, since, me)), *update.timeline]
        room = await self._room(update.room)
        for event in update.state:
            room.apply(event)
        start = wire.heard_from(timeline, me) or 0
        found, encrypted = [], False
        for place, event in enumerate(timeline):
            if "state_key" in event:
                room.apply(event)
                continue
            self._remember(event)
            if place < start:
                continue
            encrypted = encrypted or event.get("type") == wire.ENCRYPTED
            about = wire.related_id(event)
            related = await self._event(update.room, about) if about else None
            threads = self._settings.thread_replies
            if heard := wire.decode_event(event, room, me, self.account, related=related, threads=threads):
                found.append(heard)
        return found, encrypted

    async def _missed(self, update: RoomUpdate, since: str, me: str) -> list[Event]:
        """What lies between the last answer and this one; in a new room, back to our invitation."""
        if not update.limited or not update.prev_batch:
            return []
        new = wire.heard_from(update.timeline, me) is not None
        if new and any(wire.membership_of(event, me) == "invite" for event in update.timeline):
            return []
        query = {"from": update.prev_batch, "dir": "b", "limit": str(PAGE_EVENTS), **({} if new else {"to": since})}
        found: list[Event] = []
        for _ in range(MOST_PAGES):
            page = await self._client.ask("GET", f"rooms/{_quote(update.room)}/messages", query=query)
            chunk = page.get("chunk")
            events = [each for each in chunk if isinstance(each, dict)] if isinstance(chunk, list) else []
            found += events
            end = wire.text_of(page, "end")
            if new and any(wire.membership_of(event, me) == "invite" for event in events):
                break
            if not end or end == query["from"] or not events:
                break
            query["from"] = end
        else:
            log.warning("channel matrix: more was said in %s than can be read back; the oldest is missed", update.room)
        return found[::-1]

    async def _consider(self, waiting: tuple[RoomInvite, ...], answer: SyncAnswer, me: str) -> tuple[RoomInvite, ...]:
        """Accepts invitations of those who may invite; gives those that still wait for somebody's word."""
        new = {invite.room: invite for invite in answer.invites}
        gone = {*answer.left, *(update.room for update in answer.rooms)}
        left = []
        for invite in (*(each for each in waiting if each.room not in new and each.room not in gone), *new.values()):
            if not self._may_invite(invite.sender):
                left.append(invite)
                if invite.room in new:
                    log.warning(
                        "channel matrix: %s invites us to %s, which is left alone. To agree, add matrix:%s to "
                        "commands.ownerAllowFrom or channels.matrix.allowFrom, or set its autoJoin to always",
                        *(invite.sender, invite.room, invite.sender),
                    )
            elif not await self._join(invite, me):
                left.append(invite)
        return tuple(left)

    def _may_invite(self, sender: str) -> bool:
        match self._settings.auto_join:
            case "always":
                return True
            case "off":
                return False
            case "allowlist":
                return self._knows(sender)

    async def _join(self, invite: RoomInvite, me: str) -> bool:
        """Whether the invitation is dealt with."""
        try:
            await self._client.ask("POST", f"join/{_quote(invite.room)}", {}, seconds=ANSWER_SECONDS * 2)
            log.info("channel matrix: joined %s, where %s invited us", invite.room, invite.sender)
            if invite.direct:
                await self._record_direct(me, invite.sender, invite.room)
        except MessageRefused as error:
            log.warning("channel matrix: the invitation to %s came to nothing: %s", invite.room, error.message)
        except OpenClawError as error:
            log.warning("channel matrix: the invitation to %s has to wait: %s", invite.room, error.message)
            return False
        return True

    async def _tell_encrypted(self, room: str) -> None:
        log.warning("channel matrix: %s is encrypted and cannot be read; people there are told so", room)
        name = f"encrypted-{hashlib.sha256(room.encode()).hexdigest()[:24]}"
        content = {"msgtype": "m.notice", "body": ENCRYPTED_NOTICE}
        try:
            await self._put(room, "m.room.message", name, content)
        except OpenClawError as error:
            log.warning("channel matrix: %s could not be told that it cannot be read: %s", room, error.message)

    async def _show_read(self, events: list[Inbound]) -> None:
        if not self._settings.read_receipts:
            return
        for room, event in {each.chat: each.id for each in events if each.kind == "message"}.items():
            try:
                await self._client.ask("POST", f"rooms/{_quote(room or '')}/receipt/m.read/{_quote(event)}", {})
            except OpenClawError as error:  # hearing is worth more than saying that we did
                log.debug("channel matrix: no read receipt: %s", error.message)

    async def _room(self, room: str) -> RoomState:
        """What we know of a room; asked for once."""
        if room not in self._rooms:
            state = RoomState(id=room)
            path = f"rooms/{_quote(room)}"
            for kind in ("m.room.encryption", "m.room.name", "m.room.canonical_alias"):
                content = await self._client.find(f"{path}/state/{kind}/")
                if content is not None:
                    state.apply({"type": kind, "content": content})
            joined = wire.object_of(await self._client.find(f"{path}/joined_members") or {}, "joined")
            for user in joined:
                state.members[user] = wire.text_of(wire.object_of(joined, user), "display_name")
            if not state.members:
                return state  # we are not in it: nothing to remember
            self._rooms[room] = state
        return self._rooms[room]

    async def _event(self, room: str, name: str) -> Event | None:
        if name not in self._events:
            found = await self._client.find(f"rooms/{_quote(room)}/event/{_quote(name)}")
            if found is None:
                return None
            self._remember(found)
        return self._events.get(name)

    def _remember(self, event: Event) -> None:
        self._events[wire.text_of(event, "event_id")] = event
        while len(self._events) > REMEMBERED_EVENTS:
            self._events.popitem(last=False)

    # Sending.

    async def send(self, message: Outbound) -> Receipt:
        room = await self._target(message.to.to)
        if (await self._room(room)).encrypted:
            raise MessageRefused(f"{room} is encrypted: nothing is sent there, because it could not be encrypted")
        key, about = message.key or uuid.uuid4().hex, message.about or ""
        match message.action:
            case "delete":
                receipt = await self._redact(room, about, key)
            case "react" if message.text:
                receipt = await self._react(room, about, message.text, key)
            case "react":
                receipt = await self._take_back(room, about, key)
            case "send" if message.media:
                content = await self._upload(message)
                receipt = await self._put(room, "m.room.message", key, content)
            case _:
                receipt = await self._put(room, "m.room.message", key, wire.encode_message(message))
        if room in self._typing and message.action == "send":
            self._typing.discard(room)
            await self._show_typing(room, {"typing": False})
        return receipt

    async def open_thread(self, to: Address, title: str) -> Address:
        """A thread hangs on the message that begins it."""
        if self._settings.thread_replies == "off":
            raise MessageRefused("channels.matrix.threadReplies is off")
        return structs.replace(to, thread=(await self.send(Outbound(to=to, text=title))).id)

    async def _put(self, room: str, kind: str, key: str, content: dict[str, Any]) -> Receipt:
        """Sends an event under the name `key`: the same name again is the same event."""
        path = f"rooms/{_quote(room)}/send/{kind}/{_quote(key)}"
        return Receipt(id=wire.text_of(await self._client.ask("PUT", path, content, sending=True), "event_id"))

    async def _redact(self, room: str, event: str, key: str) -> Receipt:
        path = f"rooms/{_quote(room)}/redact/{_quote(event)}/{_quote(key)}"
        return Receipt(id=wire.text_of(await self._client.ask("PUT", path, {}, sending=True), "event_id"))

    async def _react(self, room: str, about: str, emoji: str, key: str) -> Receipt:
        if any(each for each, shown in await self._reactions(room, about) if shown == emoji[:100]):
            return Receipt(id="")  # it is there already
        return await self._put(room, "m.reaction", key, wire.encode_reaction(about, emoji))

    async def _take_back(self, room: str, about: str, key: str) -> Receipt:
        receipt = Receipt(id="")
        for place, (event, _) in enumerate(await self._reactions(room, about)):
            receipt = await self._redact(room, event, f"{key}-{place}")
        return receipt

    async def _reactions(self, room: str, about: str) -> list[tuple[str, str]]:
        """Our own reactions to an event: their ids and what they show."""
        me = (await self._client.sign_in()).user_id
        path = f"rooms/{_quote(room)}/relations/{_quote(about)}/m.annotation/m.reaction"
        found = (await self._client.ask("GET", path, version="v1")).get("chunk")
        return [
            (wire.text_of(event, "event_id"), wire.text_of(wire.object_of(content, "m.relates_to"), "key"))
            for event in (found if isinstance(found, list) else ())
            if isinstance(event, dict) and event.get("sender") == me and (content := wire.object_of(event, "content"))
        ]

    async def _upload(self, message: Outbound) -> dict[str, Any]:
        file = Path(message.media[0])
        if not file.is_file():
            raise MessageRefused(f"there is no file {file}")
        size = file.stat().st_size
        if size > self.facts.media_bytes:
            raise MessageRefused(f"{file} is larger than {self.facts.media_bytes:,} bytes")
        url = await self._client.upload(file.name, wire.mime_of(file.name), size, _read(file))
        return wire.encode_file(message, file.name, url, size)

    async def typing(self, to: Address) -> None:
        room = await self._target(to.to)
        self._typing.add(room)
        await self._show_typing(room, {"typing": True, "timeout": TYPING_MS})

    async def _show_typing(self, room: str, notice: dict[str, Any]) -> None:
        me = (await self._client.sign_in()).user_id
        try:
            await self._client.ask("PUT", f"rooms/{_quote(room)}/typing/{_quote(me)}", notice)
        except OpenClawError as error:  # an answer is worth more than its announcement
            log.debug("channel matrix: no typing notice: %s", error.message)

    async def _target(self, to: str) -> str:
        """The room that an address means: a room's id, its alias, or a person we have a room with."""
        if to.startswith("!"):
            return to
        if to.startswith("#"):
            return wire.text_of(await self._client.ask("GET", f"directory/room/{_quote(to)}"), "room_id")
        if to.startswith("@") and ":" in to:
            async with self._opening:
                return await self._direct_room(to)
        raise MessageRefused(
            f"{to!r} is nobody on Matrix: give a room (!id or #alias:server) or a person (@name:server)"
        )

    async def _direct_room(self, user: str) -> str:
        """The room we have with a person; it is made when there is none."""
        me = (await self._client.sign_in()).user_id
        direct = await self._client.find(f"user/{_quote(me)}/account_data/m.direct") or {}
        known = direct.get(user)
        for room in [each for each in known if isinstance(each, str)] if isinstance(known, list) else ():
            state = await self._room(room)
            if me in state.members and state.is_direct() and not state.encrypted:
                return room
        made = {"is_direct": True, "preset": "trusted_private_chat", "invite": [user]}
        room = wire.text_of(await self._client.ask("POST", "createRoom", made), "room_id")
        await self._record_direct(me, user, room)
        return room

    async def _record_direct(self, me: str, user: str, room: str) -> None:
        path = f"user/{_quote(me)}/account_data/m.direct"
        direct = await self._client.find(path) or {}
        known = direct.get(user)
        rooms = [each for each in known if each != room] if isinstance(known, list) else []
        await self._client.ask("PUT", path, {**direct, user: [room, *rooms]})

    # The account.

    def fetch(self, file: InboundFile) -> AsyncIterator[bytes]:
        return self._client.download(file.ref, self._limit)

    async def probe(self) -> AccountProbe:
        await self._client.ask("GET", "account/whoami")
        me = (await self._client.sign_in()).user_id
        shown = await self._client.find(f"profile/{_quote(me)}/displayname") or {}
        return AccountProbe(id=me, name=wire.text_of(shown, "displayname"))

    async def logout(self) -> None:
        await self._client.sign_out()

    async def close(self) -> None:
        await self._client.close()

    async def _ask_upload_limit(self) -> None:
        limit = (await self._client.find("media/config", version="v1") or {}).get("m.upload.size")
        if isinstance(limit, int) and limit > 0:
            self.facts = structs.replace(wire.FACTS, media_bytes=min(self._limit, limit))


def decode_cursor(cursor: str | None, user: str) -> SyncCursor:
    """Where an account left off; another account's place is of no use."""
    try:
        found = msgspec.json.decode(cursor or "{}", type=SyncCursor)
    except msgspec.DecodeError:
        return SyncCursor(user=user)
    return found if found.user == user else SyncCursor(user=user)


def _quote(part: str) -> str:
    return quote(part, safe="")


async def _read(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as opened:
        while piece := await asyncio.to_thread(partial(opened.read, 1 << 18)):
            yield piece


def build(config: AccountConfig, context: ChannelContext) -> Matrix:
    settings = config.settings
    assert isinstance(settings, MatrixSettings)
    path = context.state_dir / "credentials" / "matrix" / f"{peer_part(config.account)}.json"
    stored = JsonFile(path, MatrixSession, "remove it to sign in again")
    pairing = SenderPairing(context.state_dir, config.channel, context.clock)

    def knows(sender: str) -> bool:
        names = {f"{config.channel}:{sender}", sender, EVERYBODY}
        known = (*context.commands.current.owner_allow_from, *map(str, settings.allow_from), *pairing.let_in())
        return not names.isdisjoint(known)

    return Matrix(settings, stored, knows, config.account)
