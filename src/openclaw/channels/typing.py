"""Shows people that an answer is being written, for as long as a run they asked for lives."""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial

from openclaw.core.channel import Address, Platform, ShowsTyping
from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError
from openclaw.core.events import ModelCalled
from openclaw.process.tasks import wait_first
from openclaw.runs.events import RunEvent, RunPublisher, RunSettled

log = logging.getLogger("openclaw.channels")
NOTHING_TO_DO = 3_600.0


class TypingNotices:
    """Repeats the typing notice of every conversation that a run works for."""

    def __init__(self, platforms: Mapping[tuple[str, str], Platform], publisher: RunPublisher, clock: Clock) -> None:
        self._platforms = platforms
        self._publisher = publisher
        self._clock = clock
        self._working: dict[str, Address] = {}
        self._stirred = asyncio.Event()

    def follow(self, run_id: str, address: Address) -> None:
        """Shows that an answer to `address` is being written, from when a model is asked until the run has ended."""
        self._publisher.follow(run_id, partial(self._take, address))

    def _take(self, address: Address, event: RunEvent) -> None:
        match event.event:
            case ModelCalled() if event.run_id not in self._working:
                self._working[event.run_id] = address
                self._stirred.set()
            case RunSettled():
                self._working.pop(event.run_id, None)
            case _:
                pass

    async def keep(self) -> None:
        """Shows the notices until it is cancelled."""
        due: dict[Address, float] = {}
        while True:
            self._stirred.clear()
            now, wait = self._clock.now(), NOTHING_TO_DO
            working = set(self._working.values())
            due = {address: at for address, at in due.items() if address in working}
            for address in working:
                platform = self._platforms.get((address.channel, address.account))
                if platform is None or not platform.facts.typing_every or not isinstance(platform, ShowsTyping):
                    continue
                if due.get(address, 0.0) <= now:
                    await _show(platform, address)
                    due[address] = now + platform.facts.typing_every
                wait = min(wait, due[address] - now)
            await wait_first(self._stirred.wait(), self._clock.sleep(wait))


async def _show(platform: ShowsTyping, address: Address) -> None:
    try:
        await platform.typing(address)
    except OpenClawError as error:  # an answer is worth more than its announcement
        log.debug("channel %s: no typing notice: %s", address.channel, error.message)
