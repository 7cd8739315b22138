"""Sends what is in the outbox: one conversation at a time in order, at the platform's pace, until there is a receipt.

A message found `sending` without an answer was cut off: where the platform takes a name for a message it is sent again
under the same name; elsewhere it is sent again and counted as possibly doubled, or held for the operator. It is
`sending` only while a request is under way, so that what a kill leaves in doubt is as little as possible.
"""

import asyncio
import hashlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial

from msgspec import structs

from openclaw.channels.chunking import cut_to_fit, measure, split_paragraphs
from openclaw.channels.media.outbound import PUBLIC_MEDIA, OutgoingMedia, as_links, as_names
from openclaw.channels.media.voice import VoiceNotes
from openclaw.channels.settings import ChannelSettings, DeliverySettings
from openclaw.channels.streaming import ReplyStreams
from openclaw.core.channel import (
    Address,
    ChannelFacts,
    MeasuresText,
    MessageRefused,
    Outbound,
    PacesChats,
    Platform,
    TryLater,
    Unsure,
)
from openclaw.core.clock import Backoff, Clock, millis
from openclaw.core.errors import OpenClawError, StateError
from openclaw.core.settings import Fixed, Live
from openclaw.process.tasks import wait_first
from openclaw.runs.outbox import Outbox, OutboxEntry
from openclaw.tools.ask import without_list

log = logging.getLogger("openclaw.channels")

RETRIES = Backoff(1.0, 300.0)
MOST_ATTEMPTS = 600
"""About two days of a platform that cannot be reached; then the message is held for the operator, never dropped."""
MOST_DOUBLED = 5
"""So often a message is sent again that may have arrived; then it is held, lest a silent platform is flooded."""
LOOK_AGAIN = 30.0
"""Seconds after which the outbox is read again without being told: another process may have put something in."""
GRACE = 5.0
"""Seconds that a request under way has when we stop, because cutting it off leaves its message in doubt."""

Chat = tuple[str, str, str, str]
NO_SECTIONS: Fixed[Mapping[str, ChannelSettings]] = Fixed({})
_PLAIN = ChannelSettings()


class Sender:
    """Delivers the outbox through the accounts that are connected."""

    def __init__(
        self,
        outbox: Outbox,
        platforms: Mapping[tuple[str, str], Platform],
        clock: Clock,
        settings: Live[DeliverySettings],
        media: OutgoingMedia = PUBLIC_MEDIA,
        jitter: Callable[[], float] = random.random,
        previews: ReplyStreams | None = None,
        channels: Live[Mapping[str, ChannelSettings]] = NO_SECTIONS,
        voices: VoiceNotes | None = None,
    ) -> None:
        self._outbox = outbox
        self._previews = previews
        self._voices = voices
        self._platforms = platforms
        """The accounts that are connected now, by channel and account."""
        self._clock = clock
        self._settings = settings
        self._channels = channels
        self._media = media
        self._jitter = jitter
        self._busy: dict[Chat, asyncio.Task[None]] = {}
        self._requests: set[Chat] = set()
        """The conversations with a request under way."""
        self._free_at: dict[tuple[str, ...], float] = {}
        """When the next message may leave, by chat and by account."""
        self._stirred = asyncio.Event()
        self._looked_at = 0.0
        """When we last looked for what processes that are gone were sending."""

    async def keep(self) -> None:
        """Sends whatever is due, until it is cancelled; conversations do not wait for each other."""
        try:
            async with self._outbox.changes() as changes:
                hearing = asyncio.create_task(self._hear(changes), name="outbox:changes")
                try:
                    while True:
                        self._stirred.clear()
                        if self._clock.now() >= self._looked_at + LOOK_AGAIN:
                            self._looked_at = self._clock.now()
                            await self._outbox.take_over()
                        seconds = await self._start_due()
                        await wait_first(self._stirred.wait(), self._clock.sleep(seconds))
                finally:
                    hearing.cancel()
                    await asyncio.gather(hearing, return_exceptions=True)
        finally:
            await self._stop(list(self._busy))

    def wake(self) -> None:
        """An account was connected: what waits for it may be due, and what its last process was sending is in doubt."""
        self._looked_at = 0.0
        self._stirred.set()

    async def let_go(self, name: tuple[str, str]) -> None:
        """Ends what is being sent through an account that is about to be closed."""
        await self._stop([chat for chat in self._busy if chat[:2] == name])

    async def _stop(self, chats: Sequence[Chat]) -> None:
        tasks = {chat: self._busy[chat] for chat in chats}
        for chat, task in tasks.items():
            if chat not in self._requests:
                task.cancel()
        if tasks:
            await wait_first(asyncio.wait(list(tasks.values())), self._clock.sleep(GRACE))
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _hear(self, changes: AsyncIterator[str]) -> None:
        async for name in changes:
            if not name:  # a name says that a message has changed, which is our own doing
                self._stirred.set()

    async def _start_due(self) -> float:
        """Begins work on conversations that have something due; gives the seconds until the next one has."""
        now, soonest = millis(self._clock), LOOK_AGAIN
        for entry in await self._outbox.first_waiting(list(self._platforms)):
            chat = _chat(entry.message.to)
            if chat in self._busy or chat[:2] not in self._platforms:
                continue
            if entry.state == "sending":
                if self._outbox.is_mine(entry):  # its end could not be written down, or was after we read
                    await self._outbox.doubt(entry, "its receipt could not be recorded")
                    self._stirred.set()
                continue
            if entry.next_at > now:
                soonest = min(soonest, (entry.next_at - now) / 1000)
                continue
            task = self._busy[chat] = asyncio.create_task(self._deliver(entry), name=f"send:{':'.join(chat)}")
            task.add_done_callback(partial(self._ended, chat))
        return soonest

    def _ended(self, chat: Chat, task: "asyncio.Task[None]") -> None:
        del self._busy[chat]
        if not task.cancelled() and task.exception() is not None:
            # The database failed: nothing of it could be written down. The next look finds it as it is.
            log.error("channel %s: the outbox failed", chat[0], exc_info=task.exception())
            return
        self._stirred.set()

    async def _deliver(self, entry: OutboxEntry) -> None:
        """Works on a message until it arrived or has to wait; whatever happens to it is written down."""
        platform = self._platforms.get((entry.message.to.channel, entry.message.to.account))
        if platform is None:
            return
        try:
            await self._send(entry, platform)
        except TryLater as error:
            await self._later(entry, error.message, error.after)
        except Unsure as error:
            await self._doubt(entry, error.message)
        except MessageRefused as error:
            log.error("channel %s: a message to %s was refused: %s", *_names(entry), error.message)
            await self._outbox.refuse(entry, error.message)
        except StateError:
            raise
        except OpenClawError as error:
            await self._later(entry, error.message, None)
        # The platform's code may be a plugin's: its bug ends neither this conversation nor the others.
        except Exception:
            log.exception("channel %s: a message to %s could not be sent", *_names(entry))
            await self._doubt(entry, "the channel failed; the log has the details")

    async def _send(self, entry: OutboxEntry, platform: Platform) -> None:
        if entry.run_id:
            entry = structs.replace(entry, message=as_links(entry.message))
        if entry.message.media and not platform.facts.media_bytes:
            entry = structs.replace(entry, message=as_names(entry.message))
        if entry.run_id and entry.message.media and entry.pieces is None:
            # On record before it leaves: after a restart its text is cut as it was.
            settled = await self._media.of_answer(entry.message, entry.session_key, platform.facts.media_bytes)
            entry = await self._outbox.change(entry, settled)
        if entry.message.buttons:
            entry = structs.replace(entry, message=fit_buttons(entry.message, platform.facts))
        facts, message, chat = platform.facts, entry.message, _chat(entry.message.to)
        between = platform.seconds_between(message.to) if isinstance(platform, PacesChats) else facts.per_chat
        if entry.run_id and self._previews is not None:
            await self._previews.settled(entry.run_id, message.to)
        # Where a preview stands, the answer is put in its place, which may be done twice; so may whatever is not sent.
        preview = await self._outbox.preview_of(entry)
        repeatable = facts.idempotent or message.action != "send" or preview is not None
        if entry.state == "unsure" and not repeatable:
            if self._settings.current.unsure == "hold" or entry.doubled >= MOST_DOUBLED:
                log.error("channel %s: a message to %s is held, because %s", *_names(entry), entry.error)
                await self._outbox.hold(entry, entry.error)
                return
            log.warning("channel %s: a message to %s may arrive twice, because %s", *_names(entry), entry.error)
            await self._outbox.count_doubled(entry)
        if message.action not in facts.actions:
            raise MessageRefused(f"{platform.name} cannot {message.action} messages")
        if entry.pieces is None and message.voice and not message.media and facts.voice and self._voices is not None:
            # On record before it leaves: the same file goes after a restart.
            message = await self._voices.voiced(message, entry.id)
            entry = await self._outbox.change(entry, message)
        if entry.pieces is None:
            length = platform.length if isinstance(platform, MeasuresText) else partial(measure, unit=facts.unit)
            section = self._channels.current.get(message.to.channel, _PLAIN).of(message.to.account)
            parts = split_paragraphs(message.text) if section.streaming.chunk_mode == "newline" else [message.text]
            limit = section.limit(facts.limit)
            pieces = [piece for part in parts for piece in cut_to_fit(part, limit, facts.unit, length)] or [""]
            # What takes the place of a preview is no caption; the empty piece says so after a restart, too.
            entry = structs.replace(entry, pieces=(*pieces, *([""] if preview and message.media else [])))
        steps, receipts = steps_of(entry, facts, preview), list(entry.receipts)
        if preview is not None and "delete" in facts.actions and all(step.about != preview for step in steps):
            # Only files take its place.
            gone = Outbound(to=message.to, text="", action="delete", about=preview)
            await self._outbox.put(gone, f"{entry.id}:preview")
        if len(receipts) >= len(steps):  # everything is there, only that was not on record
            await self._outbox.arrived(entry, receipts, last=True)
        while len(receipts) < len(steps):
            # A file is there before it is the message's turn, so that nothing counts as sending meanwhile.
            async with self._media.opened(steps[len(receipts)], facts.media_bytes) as step:
                if message.pause and not receipts:
                    await self._clock.sleep(message.pause)
                if step.action != "react":  # an acknowledgement must not delay the answer
                    await self._pace(chat, between, facts.overall)
                if not await self._outbox.begin(entry):
                    return
                entry = structs.replace(entry, attempts=entry.attempts + 1)
                self._requests.add(chat)
                try:
                    receipts.append(await platform.send(step))
                    await self._outbox.arrived(entry, receipts, last=len(receipts) == len(steps))
                except MessageRefused:
                    if preview is None or receipts:
                        raise
                    # Somebody has deleted the preview: the answer is a message of its own.
                    await self._outbox.forget_preview(entry.run_id, message.to)
                    raise TryLater("its preview is gone", after=0.0) from None
                finally:
                    self._requests.discard(chat)

    async def _pace(self, chat: Chat, between: float, overall: float) -> None:
        """Waits until the chat and the account may send again."""
        now = self._clock.now()
        start = max(now, self._free_at.get(chat[:3], 0.0), self._free_at.get(chat[:2], 0.0))
        self._free_at[chat[:3]], self._free_at[chat[:2]] = start + between, start + overall
        if len(self._free_at) > 10_000:
            self._free_at = {name: at for name, at in self._free_at.items() if at > now}
        if start > now:
            await self._clock.sleep(start - now)

    async def _doubt(self, entry: OutboxEntry, why: str) -> None:
        """It left, and no answer came: it is looked at again after a pause that grows."""
        entry = await self._outbox.get(entry.id)
        await self._outbox.doubt(entry, why, millis(self._clock) + round(self._pause(entry) * 1000))

    async def _later(self, entry: OutboxEntry, why: str, after: float | None) -> None:
        entry = await self._outbox.get(entry.id)
        if entry.attempts - len(entry.receipts) >= MOST_ATTEMPTS:
            log.error("channel %s: a message to %s is held after many attempts: %s", *_names(entry), why)
            await self._outbox.hold(entry, f"held after {MOST_ATTEMPTS} attempts: {why}")
            return
        wait = self._pause(entry) if after is None else after
        log.warning("channel %s: a message to %s waits %.0f s: %s", *_names(entry), wait, why)
        chat = _chat(entry.message.to)[:3]
        self._free_at[chat] = max(self._free_at.get(chat, 0.0), self._clock.now() + wait)
        await self._outbox.postpone(entry, millis(self._clock) + round(wait * 1000), why)

    def _pause(self, entry: OutboxEntry) -> float:
        return RETRIES.after(entry.attempts - len(entry.receipts), self._jitter())


def steps_of(entry: OutboxEntry, facts: ChannelFacts, preview: str | None = None) -> list[Outbound]:
    """The messages that one message takes on its platform: the pieces of its text, then its files.

    A short text is the caption of the first file. With a `preview` the first piece takes its place.
    """
    message, pieces = entry.message, entry.pieces or ("",)
    if message.action in ("react", "delete"):
        return [message]
    media, together = message.media if facts.media_bytes else (), facts.files_together
    captioned = len(pieces) == 1 and media and measure(pieces[0], facts.unit) <= facts.caption
    texts = [] if captioned else [piece for piece in pieces if piece.strip() or not media]
    plain = structs.replace(message, text="", action="send", about=None, buttons=(), media=(), reply_to=None, pause=0.0)
    steps = [structs.replace(plain, text=text) for text in texts]
    steps += [
        structs.replace(
            plain, text=pieces[0] if captioned and place == 0 else "", media=media[place : place + together]
        )
        for place in range(0, len(media), together)
    ]
    if message.action == "edit" or (preview is not None and texts):
        steps[0] = structs.replace(steps[0], action="edit", about=message.about or preview)
    else:
        steps[0] = structs.replace(steps[0], reply_to=message.reply_to)
    last = max(len(texts) - 1, 0)
    steps[last] = structs.replace(steps[last], buttons=message.buttons)
    return [structs.replace(step, key=_key(entry.id, place)) for place, step in enumerate(steps)]


def fit_buttons(message: Outbound, facts: ChannelFacts) -> Outbound:
    """A list of what the buttons say is for platforms without buttons; elsewhere they say it themselves."""
    if not facts.buttons:
        return structs.replace(message, buttons=())
    labels = [button.label for row in message.buttons for button in row]
    return structs.replace(message, text=without_list(message.text, labels))


def _key(name: str, place: int) -> str:
    return hashlib.sha256(f"{name}\0{place}".encode()).hexdigest()[:32]


def _chat(address: Address) -> Chat:
    return (address.channel, address.account, address.to, address.thread or "")


def _names(entry: OutboxEntry) -> tuple[str, str]:
    return entry.message.to.channel, entry.message.to.to
