"""Tells hooks what happens: the right ones, in order, one after another; what goes wrong with one stays with it."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from msgspec import Struct

from openclaw.core.errors import OpenClawError
from openclaw.hooks.internal.events import HookEvent, HookFileAnswer, hears, then
from openclaw.hooks.internal.record import HookDirectory

log = logging.getLogger(__name__)

MOST_FAILURES = 3
"""After so many failures in a row a hook rests, so that one that hangs does not slow down every turn."""

Handle = Callable[[HookEvent], Awaitable[HookFileAnswer]]


class HookListener(Struct, frozen=True, kw_only=True):
    """A hook that runs, with what carries it out."""

    hook: HookDirectory
    handle: Handle
    objection: Callable[[], str] = lambda: ""
    """Why it must not run as it is now; asked before every run."""


class HookFileDispatcher:
    """The listeners in the order they were found."""

    def __init__(self, listeners: Sequence[HookListener], workspace_of: Callable[[str], str]) -> None:
        self._listeners = tuple(listeners)
        self._workspace_of = workspace_of
        self._failures: dict[str, int] = {}
        self._told: dict[str, str] = {}
        """What was said last of a hook that is held back: said once, not at every event."""

    def listening(self, event: HookEvent) -> list[HookListener]:
        """Who is told of `event`: those of its family first, then those who named it."""
        found = [(hears(each.hook.manifest.events, event), each) for each in self._listeners]
        mine = [(rank, each) for rank, each in found if rank and self._concerned(each.hook, event)]
        return [each for wanted in (1, 2) for rank, each in mine if rank == wanted]

    def _concerned(self, hook: HookDirectory, event: HookEvent) -> bool:
        """A workspace's hook hears of the agents that live there."""
        if not hook.workspace or not event.agent_id:
            return True
        return self._workspace_of(event.agent_id) == hook.workspace

    async def fire(self, event: HookEvent) -> HookFileAnswer:
        """Tells everyone concerned; what they say amounts to one answer."""
        messages: list[str] = []
        files = None
        async with aclosing(self.answers(event)) as answers:
            async for _, said in answers:
                messages += said.messages
                files = files if said.bootstrap_files is None else said.bootstrap_files
        return HookFileAnswer(messages=tuple(messages), bootstrap_files=files)

    async def answers(self, event: HookEvent) -> AsyncGenerator[tuple[str, HookFileAnswer]]:
        """Tells everyone concerned, one after another, each what the one before has changed; gives who said what."""
        for listener in self.listening(event):
            said = await self.tell(listener, event)
            if said is not None:
                event = then(event, said)
                yield listener.hook.name, said

    async def tell(self, listener: HookListener, event: HookEvent) -> HookFileAnswer | None:
        """One hook's answer; None when it is held back or failed, which the log says in one line."""
        name = listener.hook.name
        objection = listener.objection()
        if objection:
            self._failures.pop(name, None)  # whatever it becomes, it starts anew
        why = objection or self._resting(name)
        if why:
            if self._told.get(name) != why:
                log.warning("the hook %s is held back: %s", name, why)
            self._told[name] = why
            return None
        self._told.pop(name, None)
        try:
            said = await listener.handle(event)
        except OpenClawError as error:
            self._failures[name] = self._failures.get(name, 0) + 1
            log.warning("the hook %s failed on %s: %s", name, event.name, error.message)
            return None
        self._failures.pop(name, None)
        return said

    def _resting(self, name: str) -> str:
        if self._failures.get(name, 0) < MOST_FAILURES:
            return ""
        return f"it failed {MOST_FAILURES} times in a row; it is tried again when the gateway or its settings reload"
