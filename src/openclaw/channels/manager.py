"""Keeps every account connected, deals with what they hear, and sends what is in the outbox."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openclaw.channels.accounts import AccountConfig, configured_accounts, connect
from openclaw.channels.delivery import Sender
from openclaw.channels.inbound import InboundHandler, join_fragments
from openclaw.channels.inbox import ChannelInbox, RecordedChannelEvent, chat_of
from openclaw.channels.plugin_channel import PluginChannel
from openclaw.channels.typing import TypingNotices
from openclaw.config.live import LiveConfig
from openclaw.core.channel import AccountClosed, Channel, Inbound, Platform
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OpenClawError
from openclaw.process.tasks import supervise, wait_first
from openclaw.protocol.events import EventBus
from openclaw.runs.outbox import Outbox

log = logging.getLogger("openclaw.channels")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
LOOK_AGAIN = 30.0
ALBUM_WAIT = 0.5
"""Seconds to wait for the rest of an album."""

AccountName = tuple[str, str]


class _Taker:
    """Puts what one account hears on record."""

    def __init__(self, manager: "ChannelManager", platform: Platform) -> None:
        self._manager = manager
        self._platform = platform

    async def take(self, events: Sequence[Inbound], cursor: str | None) -> None:
        await self._manager.take(self._platform, events, cursor)


class ChannelManager:
    """Runs every account that is there, for as long as it is."""

    def __init__(
        self,
        inbox: ChannelInbox,
        outbox: Outbox,
        handler: InboundHandler,
        typing: TypingNotices,
        platforms: dict[AccountName, Platform],
        plugin_channels: Callable[[], Mapping[str, Channel]],
        bus: EventBus,
        clock: Clock,
        live: LiveConfig,
    ) -> None:
        self._inbox = inbox
        self._outbox = outbox
        self._handler = handler
        self._plugin_channels = plugin_channels
        self._bus = bus
        self._live = live
        self._clock = clock
        self.platforms = platforms
        """The accounts that are connected now; the sender and the typing notices look here too."""
        self._tasks: dict[AccountName, asyncio.Task[None]] = {}
        self._sources: dict[AccountName, Channel | AccountConfig] = {}
        """What each account was made from: when that changes, it is made anew."""
        self._sender = Sender(outbox, self.platforms, clock, live.delivery)
        self._typing = typing
        self._stirred = asyncio.Event()

    async def keep(self) -> None:
        """Starts and stops accounts as they come and go, until it is cancelled."""
        await self._inbox.forget_old()
        await self._outbox.forget_old()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(supervise(self._sender.keep, "outbox", self._clock), name="outbox")
                group.create_task(supervise(self._handle_all, "channel inbox", self._clock), name="channel-inbox")
                group.create_task(supervise(self._typing.keep, "typing notices", self._clock), name="typing")
                with self._bus.listening(only=["plugins.changed", "config.changed"]) as changes:
                    while True:
                        await self._follow()
                        await changes.some(most=100)
        finally:
            await _end(list(self._tasks.values()))
            for platform in self.platforms.values():
                await platform.close()
            for kept in (self._tasks, self._sources, self.platforms):
                kept.clear()

    async def _follow(self) -> None:
        """Makes the accounts that run those that are configured, and those that plugins bring."""
        there: dict[AccountName, Channel | AccountConfig] = {
            (name, "default"): channel for name, channel in self._plugin_channels().items()
        }
        try:
            there |= configured_accounts(self._live.current.config.channels, self._live.current.variables)
        except OpenClawError as error:
            log.error("%s", error.message)
        for name in [name for name, source in self._sources.items() if there.get(name) != source]:
            del self._sources[name]
            platform = self.platforms.pop(name)
            await _end([self._tasks.pop(name)])
            await platform.close()
        for name, source in there.items():
            if name not in self.platforms:
                self._sources[name] = source
                platform = connect(source) if isinstance(source, AccountConfig) else PluginChannel(source)
                self.platforms[name] = platform
                self._tasks[name] = asyncio.create_task(self._run(platform), name=f"channel:{':'.join(name)}")
                self._sender.wake()

    async def _run(self, platform: Platform) -> None:
        """Keeps one account connected, with growing pauses between attempts. A bug in a channel stops here."""
        name, pause = (platform.name, platform.account), FIRST_PAUSE
        while True:
            began = self._clock.now()
            try:
                cursor = await self._inbox.cursor(*name)
                await platform.run(cursor, _Taker(self, platform))
                log.info("channel %s has ended", platform.name)
            except AccountClosed as error:
                log.error("channel %s: %s", platform.name, error.message)
                return
            except OpenClawError as error:
                log.warning("channel %s: %s", platform.name, error.message)
            except Exception:
                log.exception("channel %s failed", platform.name)
            pause = FIRST_PAUSE if self._clock.now() - began > LONGEST_PAUSE else min(2 * pause, LONGEST_PAUSE)
            await self._clock.sleep(pause)

    async def take(self, platform: Platform, events: Sequence[Inbound], cursor: str | None) -> None:
        """Puts what an account heard on record; returns when it is safe."""
        waits = [(event, ALBUM_WAIT if event.album else 0.0) for event in events]
        await self._inbox.take(platform.name, platform.account, waits, cursor)
        self._stirred.set()

    # Dealing with what was heard.

    async def _handle_all(self) -> None:
        """Deals with every event on record, in order within a conversation; conversations do not wait for others."""
        busy: dict[tuple[str, str, str], asyncio.Task[None]] = {}
        try:
            while True:
                self._stirred.clear()
                wait = LOOK_AGAIN
                now = millis(self._clock)
                chats: dict[tuple[str, str, str], list[RecordedChannelEvent]] = defaultdict(list)
                for each in await self._inbox.waiting():
                    chats[each.event.channel, each.event.account, chat_of(each.event)].append(each)
                for chat, events in chats.items():
                    if chat in busy and not busy[chat].done():
                        continue
                    group = _together(events)
                    due = max(each.due_at for each in group)
                    if due > now:
                        wait = min(wait, (due - now) / 1000)
                        continue
                    busy[chat] = asyncio.create_task(self._handle(group), name=f"heard:{':'.join(chat)}")
                    busy[chat].add_done_callback(self._stir)
                await wait_first(self._stirred.wait(), self._clock.sleep(wait))
        finally:
            await _end(list(busy.values()))

    async def _handle(self, group: Sequence[RecordedChannelEvent]) -> None:
        try:
            await self._handler.handle(join_fragments([each.event for each in group]))
        except OpenClawError as error:
            log.warning("channel %s: a message could not be dealt with: %s", group[0].event.channel, error.message)
        # One message must not keep the others of its conversation waiting for ever.
        except Exception:
            log.exception("channel %s: a message could not be dealt with", group[0].event.channel)
        await self._inbox.done(group)

    def _stir(self, _: "asyncio.Task[None]") -> None:
        self._stirred.set()


def _together(events: Sequence[RecordedChannelEvent]) -> list[RecordedChannelEvent]:
    """The first event of a conversation, with those of the same album and sender."""
    first = events[0].event
    if first.album is None:
        return [events[0]]
    return [each for each in events if (each.event.album, each.event.sender) == (first.album, first.sender)]


async def _end(tasks: "Sequence[asyncio.Future[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
