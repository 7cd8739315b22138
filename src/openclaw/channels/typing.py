"""Shows people that an answer is being written, for as long as a run they asked for lives."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct

from openclaw.agent.settings import AgentsSettings
from openclaw.core.channel import Address, Platform, ShowsTyping
from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError
from openclaw.core.events import ModelCalled
from openclaw.core.settings import Fixed, Live
from openclaw.process.tasks import wait_first
from openclaw.runs.events import RunAccepted, RunEvent, RunPublisher, RunResumed, RunSettled
from openclaw.runs.reply import TextShaped

log = logging.getLogger("openclaw.channels")
NOTHING_TO_DO = 3_600.0
STUCK_AFTER = 600.0
"""Seconds without any sign of life after which a run counts as stuck, and nobody is told that it writes."""
_AGENTS = Fixed(AgentsSettings())


class _Typing(Struct):
    """A run that works for a conversation."""

    to: Address
    heard_at: float
    shown: bool = False
    node: str = ""
    """Where it is, when that is another node."""
    follower: Callable[[RunEvent], None] | None = None


class TypingNotices:
    """Repeats the typing notice of every conversation that a run works for."""

    def __init__(
        self,
        platforms: Mapping[tuple[str, str], Platform],
        publisher: RunPublisher,
        clock: Clock,
        agents: Live[AgentsSettings] = _AGENTS,
    ) -> None:
        self._platforms = platforms
        self._publisher = publisher
        self._clock = clock
        self._agents = agents
        self._working: dict[str, _Typing] = {}
        self._stirred = asyncio.Event()
        publisher.subscribe_to_replies(self._begin)

    def _begin(self, told: RunEvent) -> None:
        """Shows that an answer is being written, until the run has ended: whoever holds the account, wherever it is."""
        event, mode = told.event, self._agents.current.defaults.typing_mode
        if mode == "never" or not isinstance(event, RunAccepted | RunResumed):
            return
        if event.request.reply_to is None or (isinstance(event, RunAccepted) and event.request.trigger != "user"):
            return  # nobody waits there
        self._forget(told.run_id)
        run = _Typing(event.request.reply_to, self._clock.now(), mode == "instant", told.node)
        run.follower = partial(self._take, run, ModelCalled if mode == "thinking" else TextShaped)
        self._publisher.follow(told.run_id, run.follower)
        self._working[told.run_id] = run
        self._stirred.set()

    def _forget(self, run_id: str) -> None:
        run = self._working.pop(run_id, None)
        if run is not None and run.follower is not None:
            self._publisher.unfollow(run_id, run.follower)

    def lose_node(self, node: str) -> None:
        """A node is not heard any more: its runs end without our knowing, or are taken up by another one."""
        for name in [name for name, run in self._working.items() if run.node == node]:
            self._forget(name)

    def wake(self) -> None:
        """An account was connected: somebody may be waiting there."""
        self._stirred.set()

    def _take(self, run: _Typing, begins: type, told: RunEvent) -> None:
        if isinstance(told.event, RunSettled):
            self._working.pop(told.run_id, None)
            return
        was_stuck = self._is_stuck(run)
        run.heard_at = self._clock.now()
        if was_stuck or (not run.shown and isinstance(told.event, begins)):
            run.shown = run.shown or isinstance(told.event, begins)
            self._stirred.set()

    def _is_stuck(self, run: _Typing) -> bool:
        return self._clock.now() - run.heard_at > STUCK_AFTER

    async def keep(self) -> None:
        """Shows the notices until it is cancelled."""
        due: dict[Address, float] = {}
        while True:
            self._stirred.clear()
            now, wait = self._clock.now(), NOTHING_TO_DO
            working = {run.to for run in self._working.values() if run.shown and not self._is_stuck(run)}
            due = {address: at for address, at in due.items() if address in working}
            for address in working:
                platform = self._platforms.get((address.channel, address.account))
                if platform is None or not platform.facts.typing_every or not isinstance(platform, ShowsTyping):
                    continue
                if due.get(address, 0.0) <= now:
                    await _show(platform, address)
                    every = self._agents.current.defaults.typing_interval_seconds
                    due[address] = now + (every or platform.facts.typing_every)
                wait = min(wait, due[address] - now)
            await wait_first(self._stirred.wait(), self._clock.sleep(wait))


async def _show(platform: ShowsTyping, address: Address) -> None:
    try:
        await platform.typing(address)
    except OpenClawError as error:  # an answer is worth more than its announcement
        log.debug("channel %s: no typing notice: %s", address.channel, error.message)
