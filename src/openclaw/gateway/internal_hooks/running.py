"""The hooks of a running assistant: chosen once, told of what happens, and kept from doing harm.

Nothing is looked for, imported or built while the settings want no hook.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing, asynccontextmanager
from datetime import tzinfo
from typing import TYPE_CHECKING

from openclaw.config.load import LoadedConfig
from openclaw.core.clock import Clock
from openclaw.turns.guarding import supervise_once

if TYPE_CHECKING:
    from openclaw.gateway.internal_hooks.building import Own
    from openclaw.gateway.surroundings import Environment
    from openclaw.hooks.internal.dispatch import HookFileDispatcher, HookListener
    from openclaw.hooks.internal.events import HookEvent, HookFileAnswer

log = logging.getLogger(__name__)

MOST_WAITING = 500


class HookFiles:
    """Use `serving()` for events that nobody waits for; those that are waited for work without it."""

    def __init__(self, loaded: LoadedConfig, surroundings: Environment, clock: Clock, zone: tzinfo) -> None:
        self._loaded = loaded
        self._surroundings = surroundings
        self._clock = clock
        self._zone = zone
        self._enrolled: dict[str, Own] = {}
        self._built: HookFileDispatcher | None = None
        self._building = asyncio.Lock()
        self._group: asyncio.TaskGroup | None = None
        self._lanes: dict[str, asyncio.Queue[tuple[HookFileDispatcher, HookListener, HookEvent]]] = {}
        """What each hook has yet to hear."""
        self._workers: set[asyncio.Task[None]] = set()
        self.resting = False
        """In safe mode nobody is told anything."""

    def enroll(self, name: str, handler: Own) -> None:
        """Adds the handler of a bundled hook that only a running gateway can carry out."""
        self._enrolled[name] = handler
        self._built = None

    def reload(self, loaded: LoadedConfig) -> None:
        """From the next event on other settings hold."""
        self._loaded = loaded
        self._built = None

    @property
    def on(self) -> bool:
        """Whether there may be anyone to tell; while there is not, nobody need describe what happened."""
        return not self.resting and self._loaded.config.hooks.internal.wanted

    async def fire(self, event: HookEvent) -> HookFileAnswer:
        """Tells everyone concerned, and waits for what they say."""
        from openclaw.hooks.internal.events import NOTHING

        return await (await self._dispatcher()).fire(event) if self.on else NOTHING

    async def answers(self, event: HookEvent) -> AsyncGenerator[tuple[str, HookFileAnswer]]:
        """The same, with the name of each hook and what it said."""
        if self.on:
            async with aclosing((await self._dispatcher()).answers(event)) as answers:
                async for each in answers:
                    yield each

    async def listening(self, event: HookEvent) -> bool:
        return self.on and bool((await self._dispatcher()).listening(event))

    def tell(self, event: HookEvent) -> None:
        """Tells everyone concerned, each in its own time; nobody waits."""
        if self.on and self._group is not None:
            self._start(self._spread(event), f"the event {event.name}")

    async def _spread(self, event: HookEvent) -> None:
        dispatcher = await self._dispatcher()
        for listener in dispatcher.listening(event):
            lane = self._lane(listener.hook.name)
            if lane.full():
                log.warning("the hook %s is too slow: it is not told of %s", listener.hook.name, event.name)
            else:
                lane.put_nowait((dispatcher, listener, event))

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[HookFiles]:
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                yield self
            finally:
                self._group = None
                self._lanes.clear()
                for task in self._workers:
                    task.cancel()

    async def settle(self, event: HookEvent, seconds: float) -> None:
        """One of the last events of a life: what still waits is told first, all within `seconds`."""
        if not self.on:
            return
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(lane.join() for name, lane in self._lanes.items() if name not in self._enrolled))
                await self.fire(event)
        except TimeoutError:
            log.warning("hooks were not done with %s after %g s", event.name, seconds)

    def _lane(self, name: str) -> asyncio.Queue[tuple[HookFileDispatcher, HookListener, HookEvent]]:
        """A hook hears of things in the order they happened, whatever its neighbours do."""
        if name not in self._lanes:
            self._lanes[name] = asyncio.Queue(MOST_WAITING)
            self._start(self._work(self._lanes[name]), f"the hook {name}")
        return self._lanes[name]

    async def _work(self, lane: asyncio.Queue[tuple[HookFileDispatcher, HookListener, HookEvent]]) -> None:
        while True:
            dispatcher, listener, event = await lane.get()
            try:
                await dispatcher.tell(listener, event)
            finally:
                lane.task_done()

    def _start(self, work: Awaitable[None], what: str) -> None:
        if self._group is None:
            raise RuntimeError("nobody is told outside serving()")
        task = self._group.create_task(supervise_once(work, what), name=what)
        self._workers.add(task)
        task.add_done_callback(self._workers.discard)

    async def _dispatcher(self) -> HookFileDispatcher:
        # The lock is fair: what happens while hooks are looked for is told in the order it happened.
        async with self._building:
            if self._built is None:
                from openclaw.gateway.internal_hooks.building import build

                self._built = await asyncio.to_thread(
                    build, self._loaded, self._surroundings, self._clock, self._zone, dict(self._enrolled)
                )
            return self._built
