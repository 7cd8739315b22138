"""Sends what is in the outbox: one conversation at a time in order, at the platform's pace, until there is a receipt.

A message found `sending` without an answer was cut off: where the platform takes a name for a message it is sent again
under the same name; elsewhere it is sent once more and counted as possibly doubled, or held for the operator.
"""

import asyncio
import hashlib
import logging
import random
from collections.abc import Callable, Mapping
from functools import partial

from msgspec import structs

from openclaw.channels.chunking import cut_text
from openclaw.channels.settings import DeliverySettings
from openclaw.core.channel import Address, MessageRefused, Outbound, Platform, TryLater, Unsure
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OpenClawError
from openclaw.core.settings import Live
from openclaw.process.tasks import wait_first
from openclaw.runs.outbox import Outbox, OutboxEntry

log = logging.getLogger("openclaw.channels")

FIRST_RETRY, LONGEST_RETRY = 1.0, 300.0
MOST_ATTEMPTS = 60
"""About four hours of a platform that says it cannot take a message now."""
LOOK_AGAIN = 30.0
"""Seconds after which the outbox is read again without being told: another process may have put something in."""

Chat = tuple[str, str, str, str]


class Sender:
    """Delivers the outbox through the accounts that are connected."""

    def __init__(
        self,
        outbox: Outbox,
        platforms: Mapping[tuple[str, str], Platform],
        clock: Clock,
        settings: Live[DeliverySettings],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._outbox = outbox
        self._platforms = platforms
        """The accounts that are connected now, by channel and account."""
        self._clock = clock
        self._settings = settings
        self._jitter = jitter
        self._busy: dict[Chat, asyncio.Task[None]] = {}
        self._free_at: dict[Chat | tuple[str, str], float] = {}
        """When the next message may leave, by conversation and by account."""
        self._stirred = asyncio.Event()

    async def keep(self) -> None:
        """Sends whatever is due, until it is cancelled; conversations do not wait for each other."""
        try:
            async with self._outbox.changes() as changes:
                hearing = asyncio.create_task(self._hear(changes), name="outbox:changes")
                try:
                    while True:
                        self._stirred.clear()
                        await self._outbox.take_over()
                        seconds = await self._start_due()
                        await wait_first(self._stirred.wait(), self._clock.sleep(seconds))
                finally:
                    hearing.cancel()
                    await asyncio.gather(hearing, return_exceptions=True)
        finally:
            tasks = list(self._busy.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """An account was connected: what waits for it may be due."""
        self._stirred.set()

    async def _hear(self, changes: object) -> None:
        async for _ in changes:  # type: ignore[attr-defined]
            self._stirred.set()

    async def _start_due(self) -> float:
        """Begins work on conversations that have something due; gives the seconds until the next one has."""
        now, soonest, seen = millis(self._clock), LOOK_AGAIN, set[Chat]()
        for entry in await self._outbox.waiting():
            chat = _chat(entry.message.to)
            if chat in seen:
                continue  # the messages of a conversation leave in order
            seen.add(chat)
            if chat in self._busy or entry.state == "sending" or chat[:2] not in self._platforms:
                continue
            if entry.next_at > now:
                soonest = min(soonest, (entry.next_at - now) / 1000)
                continue
            task = self._busy[chat] = asyncio.create_task(self._deliver(entry), name=f"send:{':'.join(chat)}")
            task.add_done_callback(partial(self._ended, chat))
        return soonest

    def _ended(self, chat: Chat, _: "asyncio.Task[None]") -> None:
        del self._busy[chat]
        self._stirred.set()

    async def _deliver(self, entry: OutboxEntry) -> None:
        """One attempt at a message; whatever happens to it is written down."""
        platform = self._platforms.get((entry.message.to.channel, entry.message.to.account))
        if platform is None:
            return
        try:
            await self._send(entry, platform)
        except TryLater as error:
            await self._later(entry, error.message, error.after)
        except Unsure as error:
            await self._outbox.doubt(await self._outbox.get(entry.id), error.message)
        except MessageRefused as error:
            log.error("channel %s: a message to %s was refused: %s", *_names(entry), error.message)
            await self._outbox.refuse(entry, error.message)
        except OpenClawError as error:
            await self._later(entry, error.message, None)
        # The platform's code may be a plugin's: its bug ends neither this conversation nor the others.
        except Exception:
            log.exception("channel %s: a message to %s could not be sent", *_names(entry))
            await self._later(entry, "the channel failed; the log has the details", None)

    async def _send(self, entry: OutboxEntry, platform: Platform) -> None:
        facts, message = platform.facts, entry.message
        if entry.state == "unsure" and not facts.idempotent:
            if self._settings.current.unsure == "hold":
                log.error("channel %s: a message to %s is held, because %s", *_names(entry), entry.error)
                await self._outbox.hold(entry, entry.error)
                return
            log.warning("channel %s: a message to %s may arrive twice, because %s", *_names(entry), entry.error)
            await self._outbox.count_doubled(entry)
        pieces = entry.pieces
        if pieces is None:
            pieces = tuple(cut_text(message.text, facts.limit, facts.unit)) or ("",)
        if not await self._outbox.begin(entry, pieces):
            return
        entry = structs.replace(entry, pieces=pieces)
        receipts = list(entry.receipts)
        while len(receipts) < len(pieces):
            place = len(receipts)
            try:
                await self._pace(entry, platform)
            except asyncio.CancelledError:
                await self._outbox.postpone(entry, millis(self._clock), "the gateway was stopped")
                raise
            receipts.append(await platform.send(self._piece(message, pieces, place, entry.id)))
            await self._outbox.arrived(entry, receipts, last=len(receipts) == len(pieces))
            entry = structs.replace(entry, receipts=tuple(receipts))

    def _piece(self, message: Outbound, pieces: tuple[str, ...], place: int, name: str) -> Outbound:
        key = hashlib.sha256(f"{name}\0{place}".encode()).hexdigest()[:32]
        return structs.replace(
            message,
            text=pieces[place],
            media=message.media if place == len(pieces) - 1 else (),
            reply_to=message.reply_to if place == 0 else None,
            key=key,
        )

    async def _pace(self, entry: OutboxEntry, platform: Platform) -> None:
        """Waits until the conversation and the account may send again."""
        chat, facts = _chat(entry.message.to), platform.facts
        now = self._clock.now()
        start = max(now, self._free_at.get(chat, 0.0), self._free_at.get(chat[:2], 0.0))
        self._free_at[chat], self._free_at[chat[:2]] = start + facts.per_chat, start + facts.overall
        if len(self._free_at) > 10_000:
            self._free_at = {name: at for name, at in self._free_at.items() if at > now}
        if start > now:
            await self._clock.sleep(start - now)

    async def _later(self, entry: OutboxEntry, why: str, after: float | None) -> None:
        if entry.attempts + 1 >= MOST_ATTEMPTS:
            log.error("channel %s: a message to %s is given up: %s", *_names(entry), why)
            await self._outbox.refuse(entry, f"given up after {MOST_ATTEMPTS} attempts: {why}")
            return
        wait = after
        if wait is None:
            wait = min(LONGEST_RETRY, FIRST_RETRY * 2**entry.attempts) * (0.75 + self._jitter() / 2)
        log.warning("channel %s: a message to %s waits %.0f s: %s", *_names(entry), wait, why)
        chat = _chat(entry.message.to)
        self._free_at[chat] = max(self._free_at.get(chat, 0.0), self._clock.now() + wait)
        await self._outbox.postpone(await self._outbox.get(entry.id), millis(self._clock) + round(wait * 1000), why)


def _chat(address: Address) -> Chat:
    return (address.channel, address.account, address.to, address.thread or "")


def _names(entry: OutboxEntry) -> tuple[str, str]:
    return entry.message.to.channel, entry.message.to.to
