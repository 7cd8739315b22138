"""Keeps every account connected, deals with what they hear, and sends what is in the outbox."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from openclaw.channels.accounts import (
    PROBE_SECONDS,
    AccountConfig,
    AccountName,
    ChannelContext,
    PluginChannel,
    configured_accounts,
    connect,
    probe_platform,
    sign_out_platform,
)
from openclaw.channels.delivery import Sender
from openclaw.channels.history import GroupHistory
from openclaw.channels.inbound import InboundHandler, join_fragments
from openclaw.channels.inbox import ChannelInbox, Conversation, RecordedChannelEvent
from openclaw.channels.media.outbound import FindFile, OutgoingMedia
from openclaw.channels.media.voice import VoiceNotes
from openclaw.channels.streaming import ReplyStreams
from openclaw.channels.typing import TypingNotices
from openclaw.config.live import LiveConfig
from openclaw.core.channel import (
    AccountClosed,
    AccountProbe,
    Channel,
    ChannelWebhook,
    ChannelWebhookAnswer,
    Inbound,
    Platform,
    TakesWebhooks,
    TryLater,
)
from openclaw.core.clock import Backoff, Clock, millis
from openclaw.core.errors import NotFound, OpenClawError, StateError, Unavailable
from openclaw.process.tasks import supervise, wait_first
from openclaw.protocol.events import EventBus
from openclaw.runs.outbox import Outbox
from openclaw.runs.settings import InboundSettings

log = logging.getLogger("openclaw.channels")

RECONNECTS = Backoff(1.0, 60.0)
LOOK_AGAIN = 30.0
LEASE_PAUSE = 2.0
"""Seconds between two looks at an account that another process speaks for."""
ALBUM_WAIT = 0.5
"""Seconds to wait for the rest of an album."""
SPLIT_WAIT = 1.5
"""Seconds to wait for the rest of a text that is as long as a message can be."""
MOST_FRAGMENTS = 12
MOST_FAILURES, MOST_WAITS = 4, 20
"""How often a message is tried that fails by a bug, and one that only has to wait; then it is dropped."""
FORGET_EVERY = 86_400.0


class AccountStatus(Struct, kw_only=True):
    """How an account is doing; changed by the manager only. Times are milliseconds, 0 is never."""

    channel: str
    account: str
    connected: bool = False
    closed: bool = False
    """It ended for good: a person has to act."""
    stopped: bool = False
    """A person has stopped it; it stays so until it is started, or configured differently."""
    leased: bool = True
    """False while another process speaks for it."""
    attempts: int = 0
    """How often the connection was made anew since it last stood."""
    last_connected_at: int = 0
    last_disconnect_at: int = 0
    last_inbound_at: int = 0
    last_error: str = ""
    node: str = ""
    """The gateway that speaks for it, where there are several."""


class _Account:
    """One account: what it was made from, how it is doing, and the task that keeps it. Its platform's inbox."""

    def __init__(self, manager: "ChannelManager", name: AccountName, source: Channel | AccountConfig) -> None:
        self._manager = manager
        self.name = name
        self.source = source
        self.status = AccountStatus(channel=name[0], account=name[1])
        self.task: asyncio.Task[None] | None = None

    def connected(self) -> None:
        status = self.status
        if not status.connected:
            log.info("channel %s: connected", ":".join(self.name))
            status.connected, status.attempts, status.last_error = True, 0, ""
            status.last_connected_at = self._manager.now()

    async def take(self, events: Sequence[Inbound], cursor: str | None) -> None:
        self.connected()
        if events:
            self.status.last_inbound_at = self._manager.now()
        await self._manager.take(self.name, events, cursor)

    def lost(self, why: str) -> None:
        self.status.connected, self.status.last_error = False, why
        self.status.last_disconnect_at = self._manager.now()


class ChannelManager:
    """Runs every account that is there, for as long as it is."""

    def __init__(
        self,
        inbox: ChannelInbox,
        outbox: Outbox,
        history: GroupHistory,
        handler: InboundHandler,
        typing: TypingNotices,
        streams: ReplyStreams,
        platforms: dict[AccountName, Platform],
        accounts: dict[AccountName, Platform],
        plugin_channels: Callable[[], Mapping[str, Channel]],
        bus: EventBus,
        clock: Clock,
        live: LiveConfig,
        state_dir: Path,
        menu: Callable[[], Sequence[tuple[str, str]]] = tuple,
        voices: VoiceNotes | None = None,
        find_file: FindFile | None = None,
    ) -> None:
        """`menu` gives the names and descriptions of what can be typed, for platforms with a menu."""
        self._inbox = inbox
        self._outbox = outbox
        self._history = history
        self._handler = handler
        self._plugin_channels = plugin_channels
        self._bus = bus
        self._live = live
        self._state_dir = state_dir
        self._menu = menu
        self._clock = clock
        self.platforms = platforms
        """The accounts we speak for now; the sender and the typing notices look here too."""
        self.accounts = accounts
        """All that could be connected, also those another process speaks for; the `message` tool looks here."""
        self._accounts: dict[AccountName, _Account] = {}
        media, sections = OutgoingMedia(live.tools, find_file), live.channels
        self._sender = Sender(
            outbox, self.platforms, clock, live.delivery, media, previews=streams, channels=sections, voices=voices
        )
        self._typing = typing
        self._streams = streams
        self._stirred = asyncio.Event()
        self._changing = asyncio.Lock()
        """Held while accounts start and stop."""
        self._handling: dict[Conversation, asyncio.Event] = {}
        """The conversations that are worked on; the event says that something was added."""

    def now(self) -> int:
        return millis(self._clock)

    def statuses(self) -> list[AccountStatus]:
        return [account.status for account in self._accounts.values()]

    def held(self) -> list[AccountStatus]:
        """How those are doing that we speak for."""
        return [account.status for name, account in self._accounts.items() if name in self.platforms]

    async def start(self, name: AccountName) -> None:
        """Connects an account anew, also one that was stopped or has ended."""
        async with self._changing:
            source = self._find(name).source
            await self._stop(name)
            self._start(name, source)

    async def stop(self, name: AccountName) -> None:
        """Disconnects an account until it is started again; what waits for it stays in the outbox."""
        async with self._changing:
            account = self._find(name)
            if account.task is not None:
                await _end([account.task])
            account.task = None
            account.lost("it was stopped")
            account.status.stopped = True

    def _find(self, name: AccountName) -> "_Account":
        if name in self._accounts:
            return self._accounts[name]
        known = ", ".join(":".join(each) for each in self._accounts) or "none"
        raise NotFound(f"no account {':'.join(name)} is configured and enabled; there is {known}")

    async def keep(self) -> None:
        """Starts and stops accounts as they come and go, until it is cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(supervise(self._forget_old, "old messages", self._clock), name="old messages")
                group.create_task(supervise(self._sender.keep, "outbox", self._clock), name="outbox")
                group.create_task(supervise(self._handle_all, "channel inbox", self._clock), name="channel-inbox")
                group.create_task(supervise(self._typing.keep, "typing notices", self._clock), name="typing")
                group.create_task(supervise(self._streams.keep, "answers as they come", self._clock), name="streams")
                with self._bus.listening(only=["plugins.changed", "config.changed"]) as changes:
                    while True:
                        await self._follow()
                        await changes.some(most=100)
        finally:
            await _end([account.task for account in self._accounts.values() if account.task])
            self._accounts.clear()

    async def _forget_old(self) -> None:
        while True:
            await self._inbox.forget_old()
            await self._outbox.forget_old()
            await self._history.forget_old()
            await self._clock.sleep(FORGET_EVERY)

    async def _follow(self) -> None:
        """Makes the accounts that run those that are configured, and those that plugins bring."""
        async with self._changing:
            await self._reconcile()

    async def _reconcile(self) -> None:
        there: dict[AccountName, Channel | AccountConfig] = {
            (name, "default"): channel for name, channel in self._plugin_channels().items()
        }
        there |= configured_accounts(self._live.current.config.channels, self._live.current.variables)
        for name in [name for name, account in self._accounts.items() if there.get(name) != account.source]:
            await self._stop(name)
        for name, source in there.items():
            if name not in self._accounts:
                self._start(name, source)

    def _start(self, name: AccountName, source: Channel | AccountConfig) -> None:
        account = self._accounts[name] = _Account(self, name, source)
        called = f"channel {':'.join(name)}"
        account.task = asyncio.create_task(supervise(partial(self._run, account), called, self._clock), name=called)

    async def _stop(self, name: AccountName) -> None:
        account = self._accounts.pop(name)
        if account.task is not None:
            await _end([account.task])

    async def _run(self, account: _Account) -> None:
        """Speaks for one account, once no other process does, for as long as it can. A bug in a channel stops here."""
        platform: Platform | None = None
        try:
            source = account.source
            platform = self._connect(source) if isinstance(source, AccountConfig) else PluginChannel(source)
            self.accounts[account.name] = platform
            while not await self._inbox.lease(*account.name):
                account.status.leased = False
                await self._clock.sleep(LEASE_PAUSE)
            account.status.leased = True
            self.platforms[account.name] = platform
            self._sender.wake()
            self._stirred.set()
            self._streams.wake()
            self._typing.wake()
            await self._keep_connected(account, platform)
        except AccountClosed as error:
            log.error("channel %s: %s", ":".join(account.name), error.message)
            account.lost(error.message)
            account.status.closed = True
        finally:
            self.platforms.pop(account.name, None)
            self.accounts.pop(account.name, None)
            if platform is not None:
                await self._sender.let_go(account.name)
                await platform.close()
            await self._inbox.release(*account.name)

    async def probe(self, config: AccountConfig, seconds: float = PROBE_SECONDS) -> AccountProbe | None:
        """Asks a platform who an account is, without listening to it; None when it cannot be asked."""
        platform = self._connect(config)
        try:
            return await probe_platform(platform, seconds)
        finally:
            await platform.close()

    async def sign_out(self, name: AccountName, config: AccountConfig | None) -> bool:
        """Makes the credential of an account worthless there, connected or not; false where that cannot be done."""
        if name in self.platforms or config is None:
            return await sign_out_platform(self.platforms.get(name))
        platform = self._connect(config)
        try:
            return await sign_out_platform(platform)
        finally:
            await platform.close()

    def _connect(self, config: AccountConfig) -> Platform:
        context = ChannelContext(
            state_dir=self._state_dir, commands=self._live.commands, clock=self._clock, menu=self._menu()
        )
        return connect(config, context)

    async def _keep_connected(self, account: _Account, platform: Platform) -> None:
        """Connects again and again, with growing pauses, until the account is closed."""
        name, failures = ":".join(account.name), 1
        while True:
            began, asked = self._clock.now(), 0.0
            try:
                await platform.run(await self._inbox.cursor(*account.name), account)
                log.info("channel %s has ended", name)
                account.lost("it has ended")
            except AccountClosed:
                raise
            except OpenClawError as error:
                log.warning("channel %s: %s", name, error.message)
                account.lost(error.message)
                asked = (error.after or 0.0) if isinstance(error, TryLater) else 0.0
            except Exception:
                log.exception("channel %s failed", name)
                account.lost("it failed; the log has the details")
            account.status.attempts += 1
            failures = 1 if self._clock.now() - began > RECONNECTS.longest else failures + 1
            await self._clock.sleep(max(RECONNECTS.after(failures), asked))

    async def take(self, name: AccountName, events: Sequence[Inbound], cursor: str | None) -> None:
        """Puts what an account heard on record; returns when it is safe."""
        # An account speaks for itself only, whatever its platform writes into an event.
        own = [structs.replace(event, channel=name[0], account=name[1]) for event in events]
        debounce = debounce_of(self._live.config.messages.inbound, name[0])
        waits = [(event, wait_for_more(event, debounce)) for event in own]
        await self._inbox.take(*name, waits, cursor)
        self._stirred.set()

    def lose_node(self, node: str) -> None:
        """Another node is not heard any more: its answers are shown when they are complete."""
        self._typing.lose_node(node)
        self._streams.lose_node(node)

    def webhook_paths(self) -> set[str]:
        """Where platforms may call the accounts that are connected."""
        return {each.webhook_path for each in self.platforms.values() if isinstance(each, TakesWebhooks)}

    def has_webhook(self, path: str) -> bool:
        return path in self.webhook_paths()

    async def take_webhook(self, path: str, call: ChannelWebhook) -> ChannelWebhookAnswer:
        """Hands a platform's call to the account it is meant for; gives the answer, once it is on record."""
        answer = ChannelWebhookAnswer(status=404)
        for name, platform in list(self.platforms.items()):
            if isinstance(platform, TakesWebhooks) and platform.webhook_path == path:
                answer = await platform.take_webhook(call, self._accounts[name])
                if answer.status != 401:  # accounts that share a path are told apart by their secrets
                    break
        return answer

    # Dealing with what was heard.

    async def _handle_all(self) -> None:
        """Deals with every event of our accounts, in order within a conversation; conversations do not wait for others.

        Another process may speak for an account: what it heard is left to it.
        """
        tasks: set[asyncio.Task[None]] = set()
        try:
            while True:
                self._stirred.clear()
                for chat in await self._inbox.conversations(list(self.platforms)):
                    if chat in self._handling:
                        self._handling[chat].set()
                        continue
                    self._handling[chat] = asyncio.Event()
                    task = asyncio.create_task(self._handle_chat(chat), name=f"heard:{':'.join(chat)}")
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                await wait_first(self._stirred.wait(), self._clock.sleep(LOOK_AGAIN))
        finally:
            await _end(list(tasks))

    async def _handle_chat(self, chat: Conversation) -> None:
        """Deals with the events of one conversation, as long as there are any."""
        added = self._handling[chat]
        try:
            while chat[:2] in self.platforms:
                added.clear()
                events = await self._inbox.first_waiting(chat)
                if not events and not added.is_set():
                    return
                group = _together(events, debounce_of(self._live.config.messages.inbound, chat[0]))
                wait = max((each.due_at for each in group), default=0) - millis(self._clock)
                if wait > 0:
                    await wait_first(added.wait(), self._clock.sleep(wait / 1000))
                elif group:
                    await self._handle(group)
        except StateError as error:
            log.error("channel %s: the inbox failed: %s", chat[0], error.message)
        finally:
            del self._handling[chat]

    async def _handle(self, group: Sequence[RecordedChannelEvent]) -> None:
        """Deals with events that belong together. What fails is tried again, not for ever: others wait behind."""
        channel, failures, waits = group[0].event.channel, 0, 0
        while failures < MOST_FAILURES and waits < MOST_WAITS:
            try:
                await self._handler.handle(join_fragments([each.event for each in group]))
                break
            except (Unavailable, StateError) as error:  # the gateway stops, or the disk is full: not its own fault
                waits += 1
                log.warning("channel %s: a message waits: %s", channel, error.message)
            except OpenClawError as error:
                failures += 1
                log.warning("channel %s: a message could not be dealt with: %s", channel, error.message)
            except Exception:
                failures += 1
                log.exception("channel %s: a message could not be dealt with", channel)
            await self._clock.sleep(RECONNECTS.after(failures + waits))
        else:
            log.error("channel %s: a message was dropped: it failed %d times", channel, failures + waits)
        await self._inbox.done(group)


def debounce_of(settings: InboundSettings, channel: str) -> float:
    return settings.by_channel.get(channel, settings.debounce_ms) / 1000


def wait_for_more(event: Inbound, debounce: float = 0.0) -> float:
    """The seconds after which an event is dealt with: what belongs to it may follow."""
    if event.album:
        return ALBUM_WAIT
    if event.split:
        return SPLIT_WAIT
    # A command and a file are complete, and so is what is not said.
    return debounce if event.kind == "message" and not event.files and not event.text.startswith("/") else 0.0


def _together(events: Sequence[RecordedChannelEvent], debounce: float = 0.0) -> list[RecordedChannelEvent]:
    """The first event of a conversation, with those that belong to it: an album, or the parts of a text."""
    if not events:
        return []
    first = events[0].event
    if first.album is not None:
        return [each for each in events if (each.event.album, each.event.sender) == (first.album, first.sender)]
    found = [events[0]]
    for each in events[1:MOST_FRAGMENTS]:
        last, event = found[-1].event, each.event
        joins = last.split or (debounce > 0 and wait_for_more(last, debounce) > 0)
        fits = (event.sender, event.kind, event.album) == (first.sender, "message", None) and not event.files
        if not (joins and fits and last.kind == "message") or event.text.startswith("/"):
            break
        found.append(each)
    return found


async def _end(tasks: "Sequence[asyncio.Future[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
