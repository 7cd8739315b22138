"""Handles what was heard on channels: judges the sender, answers commands, starts runs.

The owner is trusted; text of anyone else is labelled as a stranger's for as long as it is stored. Nothing here waits
for an answer: a run carries the address it was asked from, and its end is put into the outbox.
"""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from openclaw.channels.access import Admit, AskToPair, Ignore, Verdict, judge, session_key_of, to_prompt_text
from openclaw.channels.inbox import event_id
from openclaw.channels.pairing import SenderPairing
from openclaw.channels.typing import TypingNotices
from openclaw.config.live import LiveConfig
from openclaw.core.channel import Inbound, Outbound
from openclaw.core.clock import Clock
from openclaw.core.commands import parse_command
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.keys import SessionKey
from openclaw.core.text import make_origin
from openclaw.runs.commands import SlashCommands
from openclaw.runs.outbox import FAILURE_REPLY, Outbox
from openclaw.runs.request import RunRequest
from openclaw.runs.rpc.chat import queue_rules
from openclaw.runs.worker import RunService
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.service import SessionService

log = logging.getLogger("openclaw.channels")

UNREAD = "[media unavailable: files that come over a channel cannot be opened yet]"


class InboundHandler:
    """Handles the messages of all channels."""

    def __init__(
        self,
        sessions: SessionService,
        lifecycle: SessionLifecycle,
        runs: RunService,
        outbox: Outbox,
        typing: TypingNotices,
        state_dir: Path,
        live: LiveConfig,
        commands: SlashCommands,
        clock: Clock,
    ) -> None:
        self._sessions = sessions
        self._lifecycle = lifecycle
        self._runs = runs
        self._outbox = outbox
        self._typing = typing
        self._state_dir = state_dir
        self._live = live
        self._commands = commands
        self._clock = clock
        self._senders: dict[str, SenderPairing] = {}

    async def handle(self, message: Inbound) -> None:
        """Does what `message` calls for; done again with the same message, it changes nothing."""
        try:
            verdict = self._judge(message)
        except OpenClawError as error:
            verdict = Ignore(error.message)
        match verdict:
            case Ignore(why):
                log.info("channel %s: a message was not heard: %s", message.channel, why)
            case AskToPair():
                await self._invite(message)
            case Admit(owner):
                await self._answer(message, owner)

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

    async def _invite(self, message: Inbound) -> None:
        """Sends an unknown sender a pairing code, once; the message is dropped."""
        asked = await asyncio.to_thread(self._people(message.channel).ask, message.sender, message.account)
        if asked is None:
            return
        command = f"openclaw pairing approve {message.channel} {asked.code}"
        log.info("channel %s: %s asks to be heard; to agree: %s", message.channel, message.sender, command)
        text = f"We have not met. To be heard here, ask my owner to run this within the hour:\n\n    {command}"
        await self._say(message, text, "pairing")

    async def _answer(self, message: Inbound, owner: bool) -> None:
        key = self._sessions.key(session_key_of(message, owner=owner, scope=self._live.config.session.dm_scope))
        if message.files:
            told = "\n".join(f"<media:{file.kind}> {file.name}".strip() for file in message.files)
            message = structs.replace(message, text=f"{message.text}\n{told}\n{UNREAD}".strip())
        text = to_prompt_text(message, owner=owner)
        if owner:  # commands are the owner's; a stranger's slash is a word like any other
            reply = await self._commands.answer(key, message.text, message.channel)
            if reply is not None:
                if reply.text.strip():
                    await self._say(message, reply.text, "command")
                if not reply.message:
                    return
                text = reply.message
        try:
            await self._run(message, key, text, owner=owner)
        except InvalidRequest as error:  # too many wait already
            await self._say(message, error.message if owner else FAILURE_REPLY, "failed")

    async def _run(self, message: Inbound, key: SessionKey, text: str, *, owner: bool) -> None:
        who = () if owner else (make_origin("stranger", f"{message.sender} on {message.channel}"),)
        turn = RunRequest(
            run_id=run_id_of(message),
            key=key,
            text=text,
            channel=message.channel,
            reply_to=message.origin,
            reply_to_id=message.id,
            origins=who,
        )
        submitted = await self._runs.submit(turn, rules=await queue_rules(self._lifecycle, key, "steer"))
        if submitted.status in ("started", "queued"):
            self._typing.follow(turn.run_id, message.origin)

    async def _say(self, message: Inbound, text: str, what: str) -> None:
        """Says something without a run; the same answer to the same message is one message."""
        said = Outbound(to=message.origin, text=text, reply_to=message.id)
        await self._outbox.put(said, name=f"{what}:{run_id_of(message)}")


def run_id_of(message: Inbound) -> str:
    """The platform may deliver a message again: the same one is the same run."""
    name = f"{message.channel}\0{message.account}\0{message.sender}\0{event_id(message)}"
    return f"channel-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:32]}"


def join_fragments(messages: Sequence[Inbound]) -> Inbound:
    """Messages that belong together, as one: a long text the platform has split, or the pictures of an album."""
    first = messages[0]
    return structs.replace(
        first,
        text="\n".join(each.text for each in messages if each.text),
        files=tuple(file for each in messages for file in each.files),
        mentioned=any(each.mentioned for each in messages),
    )
