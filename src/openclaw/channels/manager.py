"""Listens on the channels that plugins bring, and answers each message in a task of its own."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openclaw.config.live import LiveConfig
from openclaw.core.channel import Channel, Inbound
from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError
from openclaw.core.settings import Live
from openclaw.protocol.events import EventBus
from openclaw.runs.commands import SlashCommands
from openclaw.runs.worker import RunService
from openclaw.sessions.service import SessionService
from openclaw.sessions.settings import SessionSettings

if TYPE_CHECKING:
    from openclaw.channels.inbound import InboundHandler

log = logging.getLogger("openclaw.channels")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


class ChannelManager:
    """Listens on every channel that is registered, for as long as it is."""

    def __init__(
        self,
        sessions: SessionService,
        runs: RunService,
        state_dir: Path,
        live: LiveConfig,
        session_settings: Live[SessionSettings],
        commands: SlashCommands,
        channels: Callable[[], Mapping[str, Channel]],
        bus: EventBus,
        clock: Clock,
    ) -> None:
        self._sessions = sessions
        self._runs = runs
        self._state_dir = state_dir
        self._live = live
        self._session_settings = session_settings
        self._commands = commands
        self._channels = channels
        self._bus = bus
        self._clock = clock
        self._listening: dict[str, tuple[Channel, asyncio.Task[None]]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._hearing: InboundHandler | None = None

    async def keep(self) -> None:
        """Starts and stops listeners as channels come and go, until it is cancelled."""
        try:
            # Listens before it looks: a plugin that starts in between is not missed.
            with self._bus.listening() as listener:
                await self._follow()
                async for notice in listener:
                    if notice.event == "plugins.changed" or listener.missed:
                        listener.missed = 0
                        await self._follow()
        finally:
            tasks = [*(task for _, task in self._listening.values()), *self._answering]
            self._listening.clear()
            await _ended(tasks)

    async def _follow(self) -> None:
        there = dict(self._channels())
        gone = [name for name, (channel, _) in self._listening.items() if there.get(name) is not channel]
        await _ended([self._listening.pop(name)[1] for name in gone])
        for name, channel in there.items():
            if name not in self._listening:
                task = asyncio.create_task(self._supervise(channel), name=f"channel:{name}")
                self._listening[name] = (channel, task)

    async def _supervise(self, channel: Channel) -> None:
        """Listens on one channel and reconnects with backoff when it fails. A bug in a channel stops here."""
        pause = FIRST_PAUSE
        while True:
            try:
                async with aclosing(channel.listen()) as heard:  # type: ignore[type-var]
                    async for message in heard:
                        pause = FIRST_PAUSE
                        self._hear(channel, message)
                log.info("channel %s has ended", channel.name)
            except OpenClawError as error:
                log.warning("channel %s: %s", channel.name, error.message)
            except Exception:
                log.exception("channel %s failed", channel.name)
            await self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _hear(self, channel: Channel, message: Inbound) -> None:
        # Imported with the first message: most gateways have no channel.
        from openclaw.channels.inbound import InboundHandler

        hearing = self._hearing = self._hearing or InboundHandler(
            self._sessions, self._runs, self._state_dir, self._live, self._session_settings, self._commands, self._clock
        )
        answer = hearing.answer(channel, message)
        if answer is not None:
            task = asyncio.create_task(self._finish(channel, answer), name=f"answer:{channel.name}")
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _finish(self, channel: Channel, answer: Awaitable[None]) -> None:
        try:
            await answer
        except OpenClawError as error:
            log.warning("channel %s: an answer was not handed over: %s", channel.name, error.message)
        # The channel is somebody else's code: its failure must not end the answers to other messages.
        except Exception:
            log.exception("channel %s failed to hand an answer over", channel.name)


async def _ended(tasks: "list[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
