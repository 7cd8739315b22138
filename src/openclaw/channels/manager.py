"""Listens on the channels that plugins bring, and answers each message in a task of its own."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from openclaw.channels.inbound import InboundHandler
from openclaw.core.channel import Channel
from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError
from openclaw.protocol.events import EventBus

log = logging.getLogger("openclaw.channels")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


class ChannelManager:
    """Listens on every channel that is registered, for as long as it is."""

    def __init__(
        self, handler: InboundHandler, channels: Callable[[], Mapping[str, Channel]], bus: EventBus, clock: Clock
    ) -> None:
        self._handler = handler
        self._channels = channels
        self._bus = bus
        self._clock = clock
        self._listening: dict[str, tuple[Channel, asyncio.Task[None]]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    async def keep(self) -> None:
        """Starts and stops listeners as channels come and go, until it is cancelled."""
        try:
            with self._bus.listening(only=["plugins.changed"]) as changes:
                while True:
                    await self._follow()
                    await changes.some(most=100)
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
                        answer = self._handler.answer(channel, message)
                        if answer is not None:
                            task = asyncio.create_task(self._finish(channel, answer), name=f"answer:{channel.name}")
                            self._answering.add(task)
                            task.add_done_callback(self._answering.discard)
                log.info("channel %s has ended", channel.name)
            except OpenClawError as error:
                log.warning("channel %s: %s", channel.name, error.message)
            except Exception:
                log.exception("channel %s failed", channel.name)
            await self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

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
