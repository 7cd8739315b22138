"""Messages on the channels of plugins: heard, judged, answered by a run, and the answer handed over.

Only the owner is heard, in direct messages: whoever `commands.ownerAllowFrom` names as `channel:sender`.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing
from typing import Any

from msgspec import Struct

from openclaw.core.channel import Channel
from openclaw.core.chat import Inbound, Outbound
from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError
from openclaw.gateway.commands import Commands
from openclaw.gateway.desk import Desk
from openclaw.turns.queue import QueueRules
from openclaw.turns.turn import Turn

log = logging.getLogger("openclaw.channels")

WAIT_SECONDS = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


class Admit(Struct, frozen=True):
    """The owner speaks."""


class Ignore(Struct, frozen=True):
    why: str


def judge(message: Inbound, owners: Collection[str]) -> Admit | Ignore:
    """Whether `message` may start a turn."""
    if message.group is not None:
        return Ignore("it was said in a group")
    if f"{message.channel}:{message.sender}" in owners:
        return Admit()
    return Ignore(f"to let {message.sender} in, add {message.channel}:{message.sender} to commands.ownerAllowFrom")


class Channelling:
    """Listens on every channel there is, for as long as it is there."""

    def __init__(
        self, desk: Desk, commands: Commands, channels: Callable[[], Mapping[str, Channel]], clock: Clock
    ) -> None:
        self._desk = desk
        self._commands = commands
        self._channels = channels
        self._clock = clock
        self._changed = asyncio.Event()
        self._listening: dict[str, tuple[Channel, asyncio.Task[None]]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    def changed(self) -> None:
        """A channel may have come or gone."""
        self._changed.set()

    async def keep(self) -> None:
        """Follows the channels until it is cancelled."""
        try:
            while True:
                self._changed.clear()
                await self._follow()
                await self._changed.wait()
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
        """One channel, taken up again when it fails. A bug in a channel ends here."""
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
        match judge(message, self._desk.app.config.commands.owner_allow_from):
            case Ignore(why):
                log.info("channel %s: a message was not heard: %s", channel.name, why)
            case Admit():
                task = asyncio.create_task(self._answer(channel, message), name=f"answer:{channel.name}")
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)

    async def _answer(self, channel: Channel, message: Inbound) -> None:
        try:
            for text in await self._texts(message):
                if text.strip():
                    await channel.send(Outbound(to=message.origin, text=text, reply_to=message.id))
        except OpenClawError as error:
            log.warning("channel %s: an answer was not handed over: %s", channel.name, error.message)
        # The channel is somebody else's code, and this message is not worth more than the others.
        except Exception:
            log.exception("channel %s failed to hand an answer over", channel.name)

    async def _texts(self, message: Inbound) -> tuple[str, ...]:
        """What is said in answer to a message."""
        own = self._desk.app.config.session.dm_scope == "main"
        key = self._desk.key("main" if own else f"{message.channel}:direct:{message.sender}")
        reply = await self._commands.answer(key, message.text)
        if reply is not None and not reply.message:
            return (reply.text,)
        said = (reply.text,) if reply is not None else ()
        # The peer may deliver a message again: the same id is the same run.
        mark = hashlib.sha256(
            f"{message.channel}\0{message.account}\0{message.sender}\0{message.id}".encode()
        ).hexdigest()
        turn = Turn(
            run_id=f"channel-{mark[:32]}",
            key=key,
            text=reply.message if reply is not None else message.text,
            channel=message.channel,
        )
        submitted = await self._desk.runs.submit(turn, rules=QueueRules())
        if submitted.status in ("in_flight", "ok", "error"):
            return ()
        while (outcome := await self._desk.runs.wait(turn.run_id, WAIT_SECONDS)) is None:
            pass
        if outcome.status == "error" and not outcome.texts:
            return (*said, f"That did not work: {outcome.error}")
        return (*said, *outcome.texts)


async def _ended(tasks: "list[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
