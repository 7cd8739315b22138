"""Handles a message from a channel: judges the sender, starts a run, and sends the answer back.

The owner is trusted; text of anyone else is labelled as a stranger's for as long as it is stored.
"""

import asyncio
import hashlib
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from openclaw.channels.access import Admit, AskToPair, Ignore, Verdict, judge, session_key_of, to_prompt_text
from openclaw.channels.pairing import SenderPairing
from openclaw.config.live import LiveConfig
from openclaw.core.channel import Channel, Inbound, Outbound
from openclaw.core.clock import Clock
from openclaw.core.commands import parse_command
from openclaw.core.errors import OpenClawError
from openclaw.core.keys import SessionKey
from openclaw.core.text import make_origin
from openclaw.runs.commands import SlashCommands
from openclaw.runs.queue import QueueRules
from openclaw.runs.request import RunRequest
from openclaw.runs.worker import RunService
from openclaw.sessions.service import SessionService

log = logging.getLogger("openclaw.channels")

WAIT_SECONDS = 60.0
FAILURE_REPLY = "Sorry, that did not work."
"""What others than the owner are told of a failure; the reason is for the owner only."""


class InboundHandler:
    """Handles the messages of all channels."""

    def __init__(
        self,
        sessions: SessionService,
        runs: RunService,
        state_dir: Path,
        live: LiveConfig,
        commands: SlashCommands,
        clock: Clock,
    ) -> None:
        self._sessions = sessions
        self._runs = runs
        self._state_dir = state_dir
        self._live = live
        self._commands = commands
        self._clock = clock
        self._senders: dict[str, SenderPairing] = {}

    def answer(self, channel: Channel, message: Inbound) -> Coroutine[Any, Any, None] | None:
        """The work that `message` calls for; None when it is ignored."""
        try:
            verdict = self._judge(message)
        except OpenClawError as error:
            verdict = Ignore(error.message)
        match verdict:
            case Ignore(why):
                log.info("channel %s: a message was not heard: %s", channel.name, why)
                return None
            case AskToPair():
                return self._invite(channel, message)
            case Admit(owner):
                return self._reply(channel, message, owner)

    def _judge(self, message: Inbound) -> Verdict:
        config = self._live.config
        settings = config.channels.get(message.channel)
        pairs = settings is not None and settings.dm_policy == "pairing" and message.group is None
        return judge(
            message,
            settings,
            config.commands.owner_allow_from,
            self._people(message.channel).let_in() if pairs else (),
            command=parse_command(message.text) is not None,
        )

    def _people(self, channel: str) -> SenderPairing:
        if channel not in self._senders:
            self._senders[channel] = SenderPairing(self._state_dir, channel, self._clock)
        return self._senders[channel]

    async def _invite(self, channel: Channel, message: Inbound) -> None:
        """Sends an unknown sender a pairing code, once; the message is dropped."""
        asked = await asyncio.to_thread(self._people(channel.name).ask, message.sender, message.account)
        if asked is None:
            return
        command = f"openclaw pairing approve {channel.name} {asked.code}"
        log.info("channel %s: %s asks to be heard; to agree: %s", channel.name, message.sender, command)
        text = f"We have not met. To be heard here, ask my owner to run this within the hour:\n\n    {command}"
        await channel.send(Outbound(to=message.origin, text=text, reply_to=message.id))

    async def _reply(self, channel: Channel, message: Inbound, owner: bool) -> None:
        key = self._sessions.key(session_key_of(message, owner=owner, scope=self._live.config.session.dm_scope))
        # Commands are the owner's; a stranger's slash is a word like any other.
        reply = await self._commands.answer(key, message.text) if owner else None
        texts = () if reply is None else (reply.text,)
        text = to_prompt_text(message, owner=owner) if reply is None else reply.message
        if reply is None or text:
            texts = (*texts, *await self._run(message, key, text, owner=owner))
        for text in texts:
            if text.strip():
                await channel.send(Outbound(to=message.origin, text=text, reply_to=message.id))

    async def _run(self, message: Inbound, key: SessionKey, text: str, *, owner: bool) -> tuple[str, ...]:
        """Runs `text` in the session; gives the answer's texts."""
        # The platform may redeliver a message: the same id is the same run.
        mark = hashlib.sha256(
            f"{message.channel}\0{message.account}\0{message.sender}\0{message.id}".encode(errors="surrogatepass")
        ).hexdigest()
        who = () if owner else (make_origin("stranger", f"{message.sender} on {message.channel}"),)
        turn = RunRequest(
            run_id=f"channel-{mark[:32]}",
            key=key,
            text=text,
            channel=message.channel,
            reply_to=message.origin,
            origins=who,
        )
        submitted = await self._runs.submit(turn, rules=QueueRules())
        if submitted.status in ("in_flight", "ok", "error"):
            return ()
        while (outcome := await self._runs.wait(turn.run_id, WAIT_SECONDS)) is None:
            pass
        if outcome.status == "error" and not outcome.texts:
            return (f"That did not work: {outcome.error}" if owner else FAILURE_REPLY,)
        return outcome.texts
